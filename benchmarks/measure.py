"""Running a command, and reading what it and its children took."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

POLL_S = 0.02
"""How often memory is looked at."""


@dataclass(slots=True)
class Command:
    """A command and its runs.

    Attributes:
        name: As the table shows it.
        arguments: The program and its arguments.
        ok: Exit codes that are no failure.
        wall_s: Seconds of each run.
        cpu_s: Processor seconds of each run, children included.
        peak_mib: Largest resident memory of any run, all its processes together, MiB.
    """

    name: str
    arguments: Sequence[str]
    ok: tuple[int, ...] = (0,)
    wall_s: list[float] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)
    peak_mib: float = 0.0

    @property
    def seconds(self) -> float:
        """Median of the runs' wall time."""
        return statistics.median(self.wall_s)

    @property
    def cpu(self) -> float:
        """Median of the runs' processor time."""
        return statistics.median(self.cpu_s)

    def run(self) -> None:
        """Run once.

        Raises:
            RuntimeError: It failed.
        """
        before = os.times()
        begin = time.perf_counter()
        process = subprocess.Popen(
            self.arguments, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, env=_environment()
        )
        watch = _Watch(process.pid)
        watch.start()
        _, said = process.communicate()
        self.wall_s.append(time.perf_counter() - begin)
        watch.join()
        after = os.times()
        self.cpu_s.append(
            after.children_user
            - before.children_user
            + after.children_system
            - before.children_system
        )
        self.peak_mib = max(self.peak_mib, watch.peak_kib / 1024)
        if process.returncode not in self.ok:
            raise RuntimeError(f"{self.name}: {said.decode(errors='replace')[-500:]}")


def interleave(commands: Sequence[Command], rounds: int) -> None:
    """Run the commands in turn, so that a busy moment meets all of them."""
    for _ in range(rounds):
        for command in commands:
            command.run()


def gpuprobe(*arguments: str) -> list[str]:
    """The arguments that run this project's command line."""
    return [sys.executable, "-m", "gpuprobe", *arguments]


class _Watch(threading.Thread):
    """Looks at the memory of a process and of those below it until it ends."""

    def __init__(self, pid: int) -> None:
        super().__init__(daemon=True)
        self._pid = pid
        self.peak_kib = 0

    def run(self) -> None:
        while resident := sum(_resident_kib(pid) for pid in _tree(self._pid)):
            self.peak_kib = max(self.peak_kib, resident)
            time.sleep(POLL_S)


def _tree(pid: int) -> list[int]:
    found = [pid]
    for parent in found:
        with suppress(OSError):
            for task in Path(f"/proc/{parent}/task").iterdir():
                found.extend(int(child) for child in (task / "children").read_text().split())
    return found


def _resident_kib(pid: int) -> int:
    with suppress(OSError):
        for line in Path(f"/proc/{pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1])
    return 0


def _environment() -> dict[str, str]:
    # Start-up is measured as users have it: with compiled modules kept.
    return {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
