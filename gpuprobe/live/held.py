"""Processes that the kernel holds: state D, in which no signal is taken, SIGKILL included."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Final

PROC: Final = Path("/proc")

UNBROKEN_S: Final = 5.0
"""A thread in state D for so long without a break hangs: reads from a disk do not take that."""

LOOK_S: Final = 0.5
"""How far two looks at all threads of an engine are apart."""


def held_in_kernel(pids: Iterable[int], proc: Path = PROC) -> tuple[int, str] | None:
    """The first of these processes with a thread in state D, and where it waits, or "".

    Only the other threads of its process may have ended.
    """
    for pid, task in _threads(pids, proc):
        return pid, _where(task)
    return None


class Held:
    """Looks again and again for a thread that stays in state D.

    Args:
        proc: Where /proc is.
    """

    def __init__(self, proc: Path = PROC) -> None:
        self._proc = proc
        self._since: dict[tuple[Path, str], float] = {}
        self._next = 0.0

    def look(self, pids: Iterable[int], here: float) -> tuple[int, str] | None:
        """The first process with a thread in state D for `UNBROKEN_S`, and where it waits, or "".

        Args:
            pids: The engine's processes.
            here: Now, seconds of `time.monotonic()`.
        """
        if here < self._next:
            return None
        self._next = here + LOOK_S
        before, self._since = self._since, {}
        for pid, task in _threads(pids, self._proc):
            # A thread that ran in between waits for something else.
            thread = (task, _switches(task))
            self._since[thread] = before.get(thread, here)
            if here - self._since[thread] >= UNBROKEN_S:
                return pid, _where(task)
        return None


def _threads(pids: Iterable[int], proc: Path) -> Iterator[tuple[int, Path]]:
    """Threads in state D."""
    for pid in sorted(pids):
        with contextlib.suppress(OSError, IndexError):
            for task in (proc / str(pid) / "task").iterdir():
                if (task / "stat").read_text().rpartition(")")[2].split()[0] == "D":
                    yield pid, task


def _switches(task: Path) -> str:
    """How often a thread was switched to another, as /proc has it; "" where that is not told."""
    with contextlib.suppress(OSError):
        lines = (task / "status").read_text().splitlines()
        return " ".join(line for line in lines if "ctxt_switches" in line)
    return ""


def _where(task: Path) -> str:
    with contextlib.suppress(OSError):
        return (task / "wchan").read_text().strip().removeprefix("0")
    return ""
