"""What waits to be written: bounded, so that a disk that stalls costs samples and no memory.

Samples are thinned, every second one goes; of a program's output the oldest goes. What happened
is kept. Each loss is counted, and becomes a row of `gaps`.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Final

from gpuprobe.events import Event, OutputWritten
from gpuprobe.live.window import is_sample
from gpuprobe.recording.rows import Row, when

STALLED: Final = "the disk did not keep up"


@dataclass(frozen=True, slots=True)
class Room:
    """How much may wait.

    Attributes:
        samples: Samples, of all devices. events: Everything else but output.
        output_bytes: Characters of a program's output.
    """

    samples: int = 6000
    events: int = 100_000
    output_bytes: int = 4 << 20


class Pending:
    """Events that wait. Its owner holds a lock around every call."""

    def __init__(self, room: Room) -> None:
        self._room = room
        self._samples: list[Event] = []
        self._output: deque[tuple[int, Event]] = deque()
        self._output_size = 0
        self._events: list[Event] = []
        self._gaps: dict[str, list[int]] = {}

    def add(self, event: Event) -> None:
        """Take an event; something older may go for it."""
        if isinstance(event, OutputWritten):
            size = sum(len(text) + 16 for _, text in event.lines)
            self._output.append((size, event))
            self._output_size += size
            while self._output_size > self._room.output_bytes and len(self._output) > 1:
                gone, old = self._output.popleft()
                self._output_size -= gone
                self._lost("output", old, gone)
        elif is_sample(event):
            self._samples.append(event)
            if len(self._samples) > self._room.samples:
                for old in self._samples[1::2]:
                    self._lost("samples", old, 1)
                del self._samples[1::2]
        elif len(self._events) < self._room.events:
            self._events.append(event)
        else:
            self._lost("events", event, 1)

    def _lost(self, what: str, event: Event, count: int) -> None:
        at = when(event) or 0
        gap = self._gaps.setdefault(what, [at, at, 0])
        gap[0], gap[1] = min(gap[0], at), max(gap[1], at)
        gap[2] += count

    def take(self) -> tuple[list[Event], list[Row]]:
        """Everything that waits, and the gaps in it; nothing waits any more."""
        events = [*self._events, *self._samples, *(event for _, event in self._output)]
        gaps: list[Row] = [
            ("gaps", (*gap[:2], what, gap[2], STALLED)) for what, gap in self._gaps.items()
        ]
        self._events, self._samples, self._gaps = [], [], {}
        self._output.clear()
        self._output_size = 0
        return events, gaps

    def __len__(self) -> int:
        return len(self._events) + len(self._samples) + len(self._output)
