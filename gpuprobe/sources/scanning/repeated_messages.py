"""Messages that came often and gave the same each time, where a line's bytes never repeat.

A journal's entry has a cursor and counters of its own, so that its line is new each time, and
what it says may stand in several lines. What is compared is the record that framing made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gpuprobe.events import Event
from gpuprobe.sources.record import Record
from gpuprobe.sources.scanning.repeats import (
    BOOT_MARKS,
    LENGTH_LIMIT,
    REPEATS_KEPT,
    WATCHED_LIMIT,
    Collector,
    Effect,
    effect_of,
    origin_of,
)


@dataclass(slots=True)
class _Message:
    effect: Effect
    times: int = 0
    uncounted: int = 0
    last: Record | None = None


class RepeatedMessages:
    """After `REPEATS_KEPT` times a message is counted with what it gave, without a second look."""

    def __init__(self, collector: Collector, path: str, order: int) -> None:
        self._collector = collector
        self._path = path
        self._order = order
        self._messages: dict[object, _Message] = {}

    def take(self, record: Record) -> bool:
        """Count a record if its message is known; False if it has to be read."""
        message = self._messages.get(_said(record))
        if message is None or message.times <= REPEATS_KEPT:
            return False
        message.uncounted += 1
        message.last = record
        return True

    def learn(self, record: Record, found: Sequence[tuple[object, Event]]) -> None:
        """See what a record gave that had to be read.

        Args:
            record: The only one of its line.
            found: Its events with their shapes.
        """
        if len(record.message) > LENGTH_LIMIT:
            return
        effect = effect_of(found, origin_of(record, self._path, self._order))
        if effect is None:
            return
        said = _said(record)
        message = self._messages.get(said)
        if message is None or message.effect != effect:
            if len(self._messages) >= WATCHED_LIMIT:
                self.forget()
            message = self._messages[said] = _Message(effect)
        message.times += 1

    def pass_mark(self, record: Record) -> None:
        """Forget what is known where a boot ends."""
        if any(mark in record.raw for mark in BOOT_MARKS):
            self.forget()

    def forget(self) -> None:
        """Let the collector know of what was counted, and begin anew."""
        for message in self._messages.values():
            if message.last is not None:
                origin = origin_of(message.last, self._path, self._order)
                for shape, each in message.effect:
                    self._collector.count(shape, message.uncounted * each, origin)
        self._messages.clear()


def _said(record: Record) -> object:
    """All of a record but where and when it was."""
    return (
        record.message,
        record.host,
        record.machine_id,
        record.boot_id,
        record.source,
        record.pid,
        record.kernel,
        record.framing,
        record.quoted,
    )
