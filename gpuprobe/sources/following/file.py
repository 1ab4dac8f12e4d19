"""A log file as it grows, through rotation by renaming and by copying and cutting.

Looked at ten times a second; a file on NFS shows no change to inotify. Permissions: the file's.
A pipe is refused: reading it would take the lines away from whoever they are for.
"""

from __future__ import annotations

import os
import stat
import threading
import time
from pathlib import Path
from typing import Final

from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.following.base import Follower
from gpuprobe.sources.output import Line
from gpuprobe.sources.threaded import Turn

LOOK_S: Final = 0.1

LEAVE_S: Final = 5.0
"""How long an old file is read on beside a new one that is empty."""

_BLOCK: Final = 1 << 20
_COUNTED: Final = 1 << 30
"""Bytes in which lines are counted before the first that is followed; then they count from 1."""


class FileFollower(Follower):
    """Follows a file.

    Args:
        path: The file; it may appear later.
        order: See `ThreadedSource`.
        from_start: Give what is in it already; those lines are dated by their own words.
        wake: See `Follower`.
    """

    def __init__(
        self,
        path: Path,
        order: int = 0,
        *,
        from_start: bool = False,
        wake: threading.Event | None = None,
    ) -> None:
        super().__init__(str(path), order, wake=wake)
        self.path = path
        self._from_start = from_start
        self._open: int | None = None
        self._aside_since: float | None = None

    def available(self) -> Availability:
        """Whether it can be read; a file that is not there yet is waited for."""
        try:
            mode = self.path.stat().st_mode
        except FileNotFoundError:
            return Known(f"{self.path}, when it appears")
        except OSError as error:
            return Unavailable(
                Reason.FAILED, f"{self.path}: {error.strerror}", "Is the path right?"
            )
        if stat.S_ISDIR(mode):
            return Unavailable(
                Reason.NOT_SUPPORTED, f"{self.path} is a folder", "Name the log file in it."
            )
        if not stat.S_ISREG(mode):
            return Unavailable(
                Reason.NOT_SUPPORTED,
                f"{self.path} is no regular file; reading it would take lines from others",
                "Let the program write to a file (`| tee FILE`), or start it with `gpuprobe run`.",
            )
        if not os.access(self.path, os.R_OK):
            return Unavailable(
                Reason.NOT_PERMITTED,
                f"{self.path} may not be read",
                "Run it with sudo, or join the group that may read the file.",
            )
        return Known(str(self.path))

    def _run(self, turn: Turn) -> None:
        if not self._begins(turn):
            return
        if not self.path.exists():
            self._miss(turn, "it is not there yet; it is waited for")
        try:
            self._begin(turn)
            while not turn.over:
                self._look(turn)
                due = self._reader.due_s(time.monotonic())
                turn.wait(LOOK_S if due is None else min(due, LOOK_S))
                self._give(turn, self._reader.read(time.monotonic()))
            self._end(turn)
        finally:
            self._close()

    def _begin(self, turn: Turn) -> None:
        """Open what is there, at its end or with all that is in it."""
        if not self._reopen():
            return
        assert self._open is not None
        size, done, lines = os.fstat(self._open).st_size, 0, 0
        rest = b""
        while done < size and not turn.over:
            block = os.read(self._open, min(_BLOCK, size - done))
            if not block:
                break
            done += len(block)
            if self._from_start:
                *complete, rest = (rest + block).split(b"\n")
                found = self._reader.add([Line(text) for text in complete], time.monotonic())
                self._give(turn, found)
            elif size > _COUNTED:
                os.lseek(self._open, 0, os.SEEK_END)
                break
            else:
                lines += block.count(b"\n")
        if rest:
            self._give(turn, self._reader.feed(rest, time.monotonic()))
        if not self._from_start:
            self._reader.start_at(lines + 1)

    def _look(self, turn: Turn) -> None:
        """Read what was written; go on in the new file where the old one was put aside."""
        if self._open is None:
            if self._reopen():
                self._found(turn)
                self._read(turn)
            return
        self._read(turn)
        found = os.fstat(self._open)
        if found.st_size < os.lseek(self._open, 0, os.SEEK_CUR):
            self._give(turn, self._reader.restart(time.monotonic()))
            os.lseek(self._open, 0, os.SEEK_SET)
            self._read(turn)
            return
        try:
            there = self.path.stat()
        except OSError:
            return  # put aside, and no new one yet: the old one may still be written
        if (there.st_dev, there.st_ino) == (found.st_dev, found.st_ino):
            self._aside_since = None
            return
        # A rotation makes the new file before the program leaves the old one.
        here = time.monotonic()
        self._aside_since = self._aside_since or here
        if there.st_size or here - self._aside_since > LEAVE_S:
            self._read(turn)
            self._give(turn, self._reader.restart(here))
            self._close()
            self._aside_since = None
            if self._reopen():
                self._read(turn)

    def _read(self, turn: Turn) -> None:
        while self._open is not None and not turn.over:
            data = os.read(self._open, _BLOCK)
            if not data:
                return
            self._give(turn, self._reader.feed(data, time.monotonic()))

    def _reopen(self) -> bool:
        if isinstance(self.available(), Unavailable):
            return False
        try:
            self._open = os.open(self.path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        except OSError:
            return False
        return True

    def _close(self) -> None:
        if self._open is not None:
            os.close(self._open)
            self._open = None
