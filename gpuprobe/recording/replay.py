"""A recording as a live source: the same events at the pace at which they came, or faster."""

from __future__ import annotations

import heapq
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from operator import itemgetter
from pathlib import Path

from gpuprobe.events import Event
from gpuprobe.reading import Known
from gpuprobe.recording.opening import opened
from gpuprobe.recording.tables import Tables
from gpuprobe.sources.base import Availability

LONGEST_PAUSE_S = 2.0
"""A longer pause in a recording is passed over."""


class ReplaySource:
    """Gives a recording's events one after the other.

    Args:
        path: The recording.
        speed: How many recorded seconds pass in one.

    Attributes:
        name: `recording`. over: Everything was given.

    Raises:
        RecordingError: It cannot be read.
    """

    name = "recording"

    def __init__(self, path: Path, *, speed: float = 1.0) -> None:
        self.path = path
        self.over = False
        self._speed = speed
        self._open = ExitStack()
        self._recording = self._open.enter_context(opened(path))
        self._events = _in_order(Tables(self._recording, str(path)))
        self._next: tuple[int, Event] | None = None
        self._at: float | None = None
        self._looked = 0.0

    def available(self) -> Availability:
        """See `Source.available`."""
        return Known(str(self.path))

    def start(self) -> None:
        """See `Source.start`."""
        self._looked = time.monotonic()

    def poll(self) -> Iterable[Event]:
        """See `Source.poll`."""
        now = time.monotonic()
        passed, self._looked = (now - self._looked) * self._speed, now
        if self.over or not self._advance():
            return ()
        assert self._next is not None
        if self._at is None:
            self._at = self._next[0] / 1e9
        self._at += passed
        if self._next[0] / 1e9 - self._at > LONGEST_PAUSE_S:
            self._at = self._next[0] / 1e9
        found = []
        while self._next is not None and self._next[0] / 1e9 <= self._at:
            found.append(self._next[1])
            self._next = None
            self._advance()
        return found

    def _advance(self) -> bool:
        """Make sure that `_next` is the next event; False where there is none."""
        if self._next is None:
            self._recording.renew()
            self._next = next(self._events, None)
            self.over = self._next is None
        return not self.over

    def stop(self) -> None:
        """See `Source.stop`."""
        self.over = True
        # A generator that is in the middle of a query holds the file.
        self._events = iter(())
        self._open.close()


def _in_order(tables: Tables) -> Iterator[tuple[int, Event]]:
    """All events by time; the tables are read side by side, a row at a time."""
    parts = (_happened(tables), tables.samples(), tables.power(), tables.counters())
    yield from heapq.merge(*parts, key=itemgetter(0))


def _happened(tables: Tables) -> Iterator[tuple[int, Event]]:
    last = 0
    waiting: list[Event] = []
    for at, _, event in tables.events():
        if at is None and not last:
            waiting.append(event)
            continue
        last = max(last, at if at is not None else last)
        yield from ((last, one) for one in waiting)
        waiting = []
        yield last, event
    yield from ((last, one) for one in waiting)
