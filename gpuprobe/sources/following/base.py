"""What the sources have in common that follow a program which somebody else started.

They read, and do nothing to it: no signal, no ptrace, nothing written.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import threading
import time
from abc import ABC
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final

from gpuprobe.clock import Stamp
from gpuprobe.events import EngineChanged, Event, OutputWritten
from gpuprobe.reading import Unavailable
from gpuprobe.sources.output import OutputReader
from gpuprobe.sources.threaded import ThreadedSource, Turn
from gpuprobe.sources.wording.crash_signals import NUMBERS

AGAIN_S: Final = 2.0
"""Pause before something that ended or is not there is looked for again."""

ABRUPT: Final = {number: name for number, name in NUMBERS.items() if name != "SIGKILL"}
"""Signals that nobody sends on purpose, by number."""

_READ: Final = 1 << 18


class Follower(ThreadedSource, ABC):
    """A source that gives a program's output, and that it started and stopped.

    Args:
        name: `origin.input` of what it finds: a path, `unit NAME`, `container NAME`.
        order: See `ThreadedSource`.
        wake: Set when something arrived that is more than output.
    """

    def __init__(self, name: str, order: int = 0, *, wake: threading.Event | None = None) -> None:
        super().__init__(order)
        self.name = name
        self._wake = wake
        self._reader = OutputReader(name, order)
        self._missing = False

    def place(self, order: int) -> None:
        """Give it its number, before it is started."""
        self.order = order
        self._reader = OutputReader(self.name, order)

    def _begins(self, turn: Turn, words: str = "following {}") -> bool:
        """Whether it can be followed, which is told, with the reason where it cannot."""
        access = self.available()
        if isinstance(access, Unavailable):
            turn.put(self._changed("unavailable", f"{access.detail}. {access.hint}"))
            return False
        turn.put(self._changed("started", words.format(access.value)))
        return True

    def _miss(self, turn: Turn, text: str) -> None:
        """Tell why there is nothing to follow for now."""
        self._missing = True
        turn.put(self._changed("gap", text))

    def _found(self, turn: Turn) -> None:
        """What was missing is there; that is told as well."""
        if self._missing:
            self._missing = False
            turn.put(self._changed("started", "it can be followed now"))

    def _give(self, turn: Turn, events: Iterable[Event]) -> None:
        for event in events:
            turn.put(event)
            if self._wake is not None and not isinstance(event, OutputWritten):
                self._wake.set()

    def _life(self, turn: Turn, what: str, text: str, *, who: str, code: int | None = None) -> None:
        """Tell a change of the program's life, behind all that it wrote before."""
        if what == "started":
            self._give(turn, self._reader.restart(time.monotonic()))
        event = EngineChanged(**self._base(text), what=what, who=who, code=code)
        self._give(turn, [event])

    def _end(self, turn: Turn) -> None:
        self._give(turn, self._reader.read(time.monotonic(), end=True))

    def _follow_command(
        self, turn: Turn, argv: Sequence[str], take: Callable[[list[bytes]], Iterable[Event]]
    ) -> int | None:
        """Read the lines of a command until it ends or the turn is over.

        Returns:
            Its exit code, or None when it was ended.
        """
        process = subprocess.Popen(  # noqa: S603 - fixed programs, no shell
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=plain_environment(),
            start_new_session=True,  # a key pressed at the terminal is not for it
        )
        assert process.stdout is not None
        descriptor, rest, ended = process.stdout.fileno(), b"", False
        os.set_blocking(descriptor, False)
        try:
            while not turn.over and not ended:
                if turn.wait(self._reader.due_s(time.monotonic()), descriptor):
                    with contextlib.suppress(BlockingIOError):
                        data = os.read(descriptor, _READ)
                        ended = not data
                        *lines, rest = (rest + data).split(b"\n")
                        self._give(turn, take([*lines, rest] if ended and rest else lines))
                        rest = rest[-_READ:]
                self._give(turn, self._reader.read(time.monotonic()))
        finally:
            process.stdout.close()
            if not ended:
                process.terminate()
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(0.5)
        return process.returncode if ended else None


def plain_environment() -> Mapping[str, str]:
    """The environment for a program whose output is parsed."""
    return {**os.environ, "LC_ALL": "C"}


def find_program(*names: str) -> str | None:
    """The first of the programs that is on the path."""
    return next((found for name in names if (found := shutil.which(name))), None)


def arrived(stamp: Stamp | None) -> Stamp | None:
    """A stamp by a log's clock, with this moment by the clock that nobody sets."""
    if stamp is None:
        return None
    return Stamp(stamp.raw, time.monotonic(), stamp.wall, stamp.year_known, stamp.resolution_s)
