"""Lines that arrive one by one, read as saved ones are: same framings, same wording, same windows.

A message can span lines (an AER report, an out-of-memory dump), so a line is read a moment after
it came: when nothing followed for `QUIET_S`, or after `HOLD_S` in a flood.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from gpuprobe.events import Event
from gpuprobe.sources.ingest import Ingest
from gpuprobe.sources.program_words import second_hand
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.scanning.needles import OneByOne
from gpuprobe.sources.scanning.repeats import REPEATS_KEPT, Collector

QUIET_S = 0.02
HOLD_S = 0.06
"""Longest time from a line's arrival to its event."""

SHAPE_WINDOW_S = 60.0
"""Within this time `REPEATS_KEPT` events of one shape are given one by one."""

COUNTED_EVERY_S = 1.0
"""How often those beyond are given, counted into one."""

KNOWN_LIMIT = 256
"""Different messages remembered; one that gave the same `REPEATS_KEPT` times is read no more."""

_CONTEXT = Window.REACH + 1


class LineReader:
    """Reads records into events, each `HOLD_S` after its arrival at the latest.

    Times are seconds of `time.monotonic()`, given by the caller.

    Args:
        path: `origin.input` of the events.
        order: The source's number, which breaks ties between equal times.
        known_format: The framing of all records; None where each may have its own.
        printed: A program printed the lines: those of the kernel's log are second-hand.
    """

    def __init__(
        self, path: str, order: int, known_format: str | None = None, *, printed: bool = False
    ) -> None:
        self._matcher = OneByOne()
        self._ingest = Ingest(path, order, known_format, self._matcher)
        self._records: list[Record] = []
        self._arrived: list[float] = []
        self._done = 0
        self._throttle = Throttle()
        self._known: dict[str, _Message] = {}
        self._path = path
        self._order = order
        self._printed = printed

    def add(self, records: Iterable[Record], now: float) -> None:
        """Take records that arrived now."""
        for record in records:
            self._records.append(record)
            self._arrived.append(now)

    def due_s(self, now: float) -> float | None:
        """Seconds until `read` has something to do; None while nothing waits."""
        if self._done == len(self._records):
            return COUNTED_EVERY_S if self._throttle.holds else None
        quiet = self._arrived[-1] + QUIET_S
        return max(0.0, min(quiet, self._arrived[self._done] + HOLD_S) - now)

    def read(self, now: float, *, end: bool = False) -> Iterator[Event]:
        """Events of the records that waited long enough; of all that wait at the `end`."""
        stop = self._done
        if end or (self._arrived and now - self._arrived[-1] >= QUIET_S):
            stop = len(self._records)
        while stop < len(self._records) and now - self._arrived[stop] >= HOLD_S:
            stop += 1
        for index in range(self._done, stop):
            for shape, event in self._find(index):
                yield from self._throttle.take(shape, event, now)
        self._done = stop
        self._forget()
        yield from self._throttle.held(now, end=end)

    def _find(self, index: int) -> Sequence[tuple[object, Event]]:
        record = self._records[index]
        if not self._matcher.present(record.message):
            return ()
        known = self._known.get(record.message)
        if known is not None and known.times >= REPEATS_KEPT:
            base = Window((record,), 0, record.message, self._path, self._order).base()
            again = {"origin": base["origin"], "stamp": base["stamp"], "count": 1, "last": None}
            return [(shape, dataclasses.replace(event, **again)) for shape, event in known.found]
        found = [
            (Collector.shape(pattern_id, event), event)
            for pattern_id, event in self._ingest.find(self._records, index)
        ]
        if self._printed:
            found = [(key, second_hand(event, kernel=record.kernel)) for key, event in found]
        if known is None or [s for s, _ in known.found] != [s for s, _ in found]:
            if len(self._known) >= KNOWN_LIMIT:
                self._known.clear()
            known = self._known[record.message] = _Message()
        known.times += 1
        known.found = found
        return found

    def _forget(self) -> None:
        drop = self._done - _CONTEXT
        if drop > 256:
            del self._records[:drop]
            del self._arrived[:drop]
            self._done -= drop


@dataclass(slots=True)
class _Message:
    """A message that came `times` times in the same words, and gave the same each time."""

    times: int = 0
    found: Sequence[tuple[object, Event]] = ()


@dataclass(slots=True)
class _Shape:
    since: float
    given: int = 0
    waiting: Event | None = None


class Throttle:
    """Gives the first events of a shape at once, and later ones counted into one a second.

    A link that reports an error a thousand times a second would otherwise bury all else.
    """

    def __init__(self) -> None:
        self._shapes: dict[object, _Shape] = {}
        self._given_at = 0.0

    @property
    def holds(self) -> bool:
        """True while counted events wait."""
        return any(shape.waiting is not None for shape in self._shapes.values())

    def take(self, key: object, event: Event, now: float) -> Iterator[Event]:
        """The event, or nothing yet where there were many of its shape."""
        shape = self._shapes.get(key)
        if shape is None or (shape.waiting is None and now - shape.since > SHAPE_WINDOW_S):
            shape = self._shapes[key] = _Shape(now)
        if shape.given < REPEATS_KEPT:
            shape.given += 1
            yield event
            return
        first = shape.waiting
        shape.waiting = (
            event
            if first is None
            else dataclasses.replace(first, count=first.count + event.count, last=event.origin)
        )

    def held(self, now: float, *, end: bool = False) -> Iterator[Event]:
        """Counted events, once a second."""
        if not end and now - self._given_at < COUNTED_EVERY_S:
            return
        self._given_at = now
        for shape in self._shapes.values():
            if shape.waiting is not None:
                yield shape.waiting
                shape.waiting = None
        if len(self._shapes) > 1024:
            fresh = {k: s for k, s in self._shapes.items() if now - s.since <= SHAPE_WINDOW_S}
            self._shapes = fresh
