"""Reading the tables of a recording row by row, whatever state its pages are in."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from datetime import timedelta
from typing import Any, Final

from gpuprobe.clock import Stamp
from gpuprobe.events import CountersSampled, Event, GpuSampled, PowerSampled
from gpuprobe.identity import PciAddress
from gpuprobe.recording import schema
from gpuprobe.recording.codec import CodecError, NewerError, decode
from gpuprobe.recording.opening import DAMAGED, Opened
from gpuprobe.recording.rows import EPOCH, LARGEST, is_moment, more_of, origin_of, unpack, words_of

_SKIPS: Final = 48
"""Pieces of damage in one table that are stepped over, each step twice as far as the last."""

_EVENT: Final = ("id", "at", "kind", "device", "input", "line", "text", "more", "repeated")


class Tables:
    """The rows of an open recording as events.

    Args:
        recording: The open recording.
        path: What the events' origins say they stand in.
    """

    def __init__(self, recording: Opened, path: str) -> None:
        self.recording = recording
        self._path = path
        self._unknown: dict[str, int] = {}
        self.devices = self._read_devices()

    def _read_devices(self) -> dict[int, PciAddress]:
        found = {}
        for number, text in self.scan("devices", ("id", "pci")):
            address = PciAddress.try_parse(text) if isinstance(text, str) else None
            if address is not None:
                found[number] = address
        return found

    # --- rows -------------------------------------------------------------------------------

    def scan(
        self, table: str, names: tuple[str, ...], first: int = 0, last: int = LARGEST
    ) -> Iterator[tuple[Any, ...]]:
        """Rows in order of their ids, `first` to `last`; damaged pages are stepped over.

        Args:
            table: Its name.
            names: Columns, `id` the first.
            first: Smallest id.
            last: Largest id.
        """
        for rows in self.lists(table, names, first, last, at_once=1):
            yield from rows

    def lists(
        self,
        table: str,
        names: tuple[str, ...],
        first: int = 0,
        last: int = LARGEST,
        *,
        at_once: int,
    ) -> Iterator[list[tuple[Any, ...]]]:
        """As `scan`, in lists of at most `at_once` rows, each of which may have 16 MiB."""
        query = (
            f"SELECT {', '.join(names)} FROM {table} "  # noqa: S608 - our own names
            "WHERE id BETWEEN ? AND ? ORDER BY id"
        )
        step = 1
        for _ in range(_SKIPS):
            found = self.recording.lists(query, (first, last), table=table, at_once=at_once)
            for read in found:
                rows = [row for row in read if isinstance(row[0], int)]
                if rows:
                    first, step = rows[-1][0] + 1, 1
                    yield rows
            first, step = first + step, step * 2
            if table not in self.recording.failed or first > last:
                return

    def last_id(self, table: str) -> int:
        """The largest id, or 0."""
        try:
            row = self.recording.connection.execute(
                f"SELECT max(id) FROM {table}"  # noqa: S608 - our own names
            ).fetchone()
        except DAMAGED:
            return LARGEST
        return row[0] if row is not None and isinstance(row[0], int) else 0

    def first_id_at(self, table: str, column: str, value: float) -> int:
        """The smallest id from which on `column` is at least `value`; rows lie in order of time."""
        low, high = 1, self.last_id(table) + 1
        if high > LARGEST:
            return 1
        while low < high:
            middle = (low + high) // 2
            try:
                row = self.recording.connection.execute(
                    f"SELECT id, {column} FROM {table} "  # noqa: S608 - our own names
                    "WHERE id >= ? ORDER BY id LIMIT 1",
                    (middle,),
                ).fetchone()
            except DAMAGED:
                return low
            if row is None or not isinstance(row[1], int | float) or row[1] >= value:
                high = middle
            else:
                low = row[0] + 1
        return low

    # --- events -----------------------------------------------------------------------------

    def events(self) -> Iterator[tuple[int | None, bool, Event]]:
        """Rows of `events`: time in ns, whether the file before has it too, and the event."""
        for number, at, kind, device, path, line, text, more, again in self.scan("events", _EVENT):
            try:
                fields = more_of((device, path, line, text), json.loads(more))
                event = decode(kind, fields)
                stamp = event.stamp
                if stamp is not None and not is_moment(stamp.wall, stamp.monotonic_s):
                    raise CodecError("its time is none")
            except NewerError:
                self._unknown[str(kind)[:40]] = self._unknown.get(str(kind)[:40], 0) + 1
                continue
            except (CodecError, ValueError, TypeError, AttributeError, RecursionError):
                self.recording.damaged.add("events")
                self.recording.note("an event that is damaged was left out")
                continue
            origin = origin_of(self._path, "events", number, event.origin.text)
            vars(event)["origin"] = origin
            yield at if isinstance(at, int) else None, bool(again), event
        for kind, count in self._unknown.items():
            times = "once" if count == 1 else f"{count} times"
            self.recording.note(
                f"an event that this version does not know was left out: {kind}, {times}"
            )

    def samples(self, first: int = 0, last: int = LARGEST) -> Iterator[tuple[int, GpuSampled]]:
        """Rows of `samples`: time in ns, and the sample."""
        names = ("id", "at", "monotonic_s", "device", *schema.SAMPLE_COLUMNS)
        for row in self.scan("samples", names, first, last):
            event = self.sample(row)
            if event is not None:
                yield row[1], event

    def sample(self, row: tuple[Any, ...]) -> GpuSampled | None:
        """A sample from its row, or None where the row is not what it should be."""
        number, at, monotonic, device, *values = row
        base = self._base(at, monotonic, device)
        if base is None:
            return None
        known: dict[str, Any] = {}
        for name, value in zip(schema.SAMPLE_COLUMNS, values, strict=True):
            if value is None:
                continue
            if not isinstance(value, int | float) or not math.isfinite(value):
                return None
            if name in schema.WHOLE and value != int(value):
                return None
            known[name] = int(value) if name in schema.WHOLE else value
        event = GpuSampled(origin=origin_of(self._path, "samples", number, ""), **base, **known)
        vars(event)["origin"] = origin_of(self._path, "samples", number, words_of(event))
        return event

    def power(self, first: int = 0, last: int = LARGEST) -> Iterator[tuple[int, PowerSampled]]:
        """Rows of `power_samples`: time in ns, and the samples."""
        names = ("id", "at", "monotonic_s", "device", "packed")
        for number, at, monotonic, device, packed in self.scan("power_samples", names, first, last):
            base = self._base(at, monotonic, device)
            try:
                samples = unpack(packed)
            except (ValueError, TypeError):
                self.recording.note("part of its table power_samples is damaged and was left out")
                continue
            if base is None or not samples:
                continue
            text = f"{len(samples)} power samples of the driver"
            origin = origin_of(self._path, "power_samples", number, text)
            yield at, PowerSampled(origin=origin, **base, samples=samples)

    def counters(self) -> Iterator[tuple[int, CountersSampled]]:
        """Readings of `counters`: what changed at one moment, and at the end the last of all."""
        names = ("id", "at", "monotonic_s", "device", "input", "name", "value")
        key: tuple[Any, ...] | None = None
        changed: dict[str, int] = {}
        whole: dict[tuple[Any, Any], dict[str, int]] = {}
        number = 0
        for row, at, monotonic, device, path, name, value in self.scan("counters", names):
            if not isinstance(name, str) or not isinstance(value, int):
                continue
            if key is not None and key != (at, monotonic, device, path):
                yield from self._counted(number, key, changed)
                changed = {}
            if len(whole) < 1000:
                whole.setdefault((device, path), {})[name] = value
            key, number, changed[name] = (at, monotonic, device, path), row, value
        if key is not None:
            yield from self._counted(number, key, changed)
        query = "SELECT device, input, at, monotonic_s FROM read_until"
        for device, path, at, monotonic in self.recording.rows(query, table="read_until"):
            if found := whole.get((device, path)):
                yield from self._counted(number, (at, monotonic, device, path), found)

    def _counted(
        self, number: int, key: tuple[Any, ...], found: dict[str, int]
    ) -> Iterator[tuple[int, CountersSampled]]:
        at, monotonic, device, path = key
        base = self._base(at, monotonic, device, str(path))
        if base is not None:
            origin = origin_of(self._path, "counters", number, f"{len(found)} counters")
            yield at, CountersSampled(origin=origin, **base, counters=tuple(found.items()))

    def _base(
        self, at: Any, monotonic: Any, device: Any, source: str = "nvml"
    ) -> dict[str, Any] | None:
        """What every reading has, or None where a column is not what it should be."""
        if not isinstance(at, int) or not isinstance(monotonic, int | float | None):
            return None
        if not isinstance(device, int) or device not in self.devices:
            return None
        try:
            wall = EPOCH + timedelta(microseconds=at // 1000)
        except OverflowError:
            return None
        if not is_moment(wall, monotonic):
            return None
        stamp = Stamp(wall.isoformat(), monotonic, wall, True, 0.001)
        return {"stamp": stamp, "device": self.devices[device], "source": source}
