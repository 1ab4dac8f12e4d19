"""What is found out about an engine beside its output, as a source like the others."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from itertools import count
from typing import Any, Final

from gpuprobe.clock import now
from gpuprobe.events import Event, Origin
from gpuprobe.reading import Known
from gpuprobe.sources.base import Availability
from gpuprobe.sources.record import EVIDENCE_LIMIT

NAME: Final = "run"


class EngineNotes:
    """A source for what is found out about the engine itself; see `sources.base.Source`."""

    name = NAME

    def __init__(self, order: int, wake: threading.Event | None = None) -> None:
        self._order = order
        self._numbers = count(1)
        self._events: queue.SimpleQueue[Event] = queue.SimpleQueue()
        self._wake = wake or threading.Event()

    def available(self) -> Availability:
        """Always."""
        return Known("here")

    def start(self) -> None:
        """Nothing to begin."""

    def stop(self) -> None:
        """Nothing to let go of."""

    def poll(self) -> Iterator[Event]:
        """See `Source.poll`."""
        while True:
            try:
                yield self._events.get_nowait()
            except queue.Empty:
                return

    def add(self, event: Event) -> None:
        """Add an event that has an input of its own."""
        self._events.put(event)
        self._wake.set()

    def put(self, kind: type[Event], text: str, ref: str | None = None, **values: Any) -> None:
        """Add an event of this moment."""
        order = (self._order, next(self._numbers))
        origin = Origin(NAME, None, text[:EVIDENCE_LIMIT], ref, order)
        self._events.put(kind(origin=origin, stamp=now(), **values))
        self._wake.set()
