"""What the front keeps to start an engine a second time. Standard library alone."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path


class Kept:
    """Standard input and output and the working folder, as this process was given them.

    Attributes:
        numbers: The descriptors that hold them; none of them is passed on.
    """

    def __init__(self) -> None:
        folder = -1
        with contextlib.suppress(OSError):
            folder = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        self._folder = folder
        self._streams = (os.dup(0), os.dup(1))
        self.numbers = (*self._streams, *((folder,) if folder >= 0 else ()))

    def put_back(self) -> None:
        """Have them in their places again."""
        for number, kept in enumerate(self._streams):
            os.dup2(kept, number)
        if self._folder >= 0:
            with contextlib.suppress(OSError):
                os.fchdir(self._folder)


def end_leftovers(session: int, number: int) -> None:
    """Send a signal to what an engine left behind: it may hold the GPU's memory, or a port.

    Args:
        session: The relay's session, in which the engine was started. The relay is spared, as it
            may still carry output.
        number: The signal.
    """
    for pid in list(_members(session)):
        with contextlib.suppress(OSError):
            os.kill(pid, number)


def _members(session: int) -> Iterator[int]:
    if session <= 0:
        return
    for name in os.listdir("/proc"):  # noqa: PTH208 - as cheap as it gets
        if not name.isdecimal() or int(name) == session:
            continue
        with contextlib.suppress(OSError, ValueError):
            if os.getsid(int(name)) != session:
                continue
            state = Path("/proc", name, "stat").read_bytes().rpartition(b") ")[2][:1]
            if state not in b"ZX":
                yield int(name)
