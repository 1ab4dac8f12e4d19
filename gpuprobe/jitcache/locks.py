"""Which living process holds a file open, asked of /proc alone."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

_WRITES = os.O_WRONLY | os.O_RDWR


@dataclass(slots=True)
class Holders:
    """Who has files open.

    Attributes:
        holding: Device and inode to a process that has it open.
        writing: The same, open for writing.
        all_seen: Whether every process could be asked; a foreign one's files cannot be seen.
    """

    holding: dict[tuple[int, int], int] = field(default_factory=dict)
    writing: dict[tuple[int, int], int] = field(default_factory=dict)
    all_seen: bool = True


def holders(names: Iterable[str], proc: Path = Path("/proc")) -> Holders:
    """Processes that have files of these names open.

    The name is compared first: a look at a file behind a dead network mount would never return.
    """
    wanted = frozenset(os.fsencode(name) for name in names)
    found = Holders()
    try:
        pids = [name for name in os.listdir(proc) if name.isdigit()]  # noqa: PTH208
    except OSError:
        return Holders(all_seen=False)
    own = str(os.getpid())
    for pid in pids:
        if pid != own:
            _of(os.fsencode(proc / pid), int(pid), wanted, found)
    return found


def _of(process: bytes, pid: int, wanted: frozenset[bytes], found: Holders) -> None:
    try:
        fds = os.listdir(process + b"/fd")  # noqa: PTH208
    except FileNotFoundError:
        return
    except OSError:
        found.all_seen = False
        return
    for fd in fds:
        path = process + b"/fd/" + fd
        try:
            target = os.readlink(path)  # noqa: PTH115
            if target.rpartition(b"/")[2] not in wanted:
                continue
            seen = os.stat(path)  # noqa: PTH116
            flags = _flags(process + b"/fdinfo/" + fd)
        except OSError:
            continue
        found.holding[seen.st_dev, seen.st_ino] = pid
        if flags & _WRITES:
            found.writing[seen.st_dev, seen.st_ino] = pid


def _flags(path: bytes) -> int:
    with open(path, "rb") as file:  # noqa: PTH123
        for line in file:
            if line.startswith(b"flags:"):
                return int(line.split()[1], 8)
    return 0


def boot_time(proc: Path = Path("/proc")) -> float | None:
    """When this machine booted, seconds since the epoch; None where it is not told."""
    try:
        lines = (proc / "stat").read_text("ascii", "replace").splitlines()
        return float(next(line.split()[1] for line in lines if line.startswith("btime ")))
    except (OSError, StopIteration, ValueError, IndexError):
        return None
