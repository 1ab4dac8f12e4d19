"""What a process and all below it take, from /proc: processor time and memory."""

from __future__ import annotations

import os
from contextlib import suppress
from pathlib import Path

_PARENT, _FIRST_TIME = 4 - 3, 14 - 3
"""Places in /proc/PID/stat, counted behind the command's name."""


def tree(root: int) -> list[int]:
    """The process and all its descendants, also those in sessions of their own."""
    children: dict[int, list[int]] = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit() and (fields := _stat(int(folder.name))):
            children.setdefault(int(fields[_PARENT]), []).append(int(folder.name))
    found = [root]
    for pid in found:
        found.extend(children.get(pid, ()))
    return found


def cpu_s(root: int) -> float:
    """Processor seconds, user and system, that the tree took so far.

    Children that ended and were waited for count with their parent, so the difference of two
    readings is right also when processes came and went in between.
    """
    ticks = 0
    for pid in tree(root):
        if fields := _stat(pid):
            ticks += sum(int(field) for field in fields[_FIRST_TIME : _FIRST_TIME + 4])
    return ticks / os.sysconf("SC_CLK_TCK")


def pss_mib(root: int) -> float | None:
    """Proportional set size of the whole tree, MiB; None where the kernel does not tell it."""
    total = 0
    told = False
    for pid in tree(root):
        for name in ("smaps_rollup", "smaps"):
            with suppress(OSError):
                kib = _pss_kib(Path(f"/proc/{pid}/{name}"))
                total += kib
                told = told or kib > 0
                break
    return total / 1024 if told else None


def _pss_kib(file: Path) -> int:
    lines = file.read_text(encoding="ascii", errors="replace").splitlines()
    return sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def _stat(pid: int) -> list[str]:
    with suppress(OSError):
        text = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
        return text.rpartition(") ")[2].split()
    return []
