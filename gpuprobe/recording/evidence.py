"""What a recording says, for the rules: everything that happened, and the samples that matter.

A week at 10 Hz has six million samples. Around each fault, and at the end, they are read as a
live session keeps them: all for two minutes, one a second for ten minutes before that. Elsewhere
the highest power and the highest temperature of each minute (or longer) are read. So memory does
not grow with the length of a recording.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from itertools import product
from pathlib import Path
from typing import Final

from gpuprobe.diagnosis import Input
from gpuprobe.events import CountersSampled, Event, GpuSampled, HostSampled
from gpuprobe.identity import PciAddress
from gpuprobe.live.window import KEEP_S, THIN_S
from gpuprobe.recording import schema
from gpuprobe.recording.faults import is_fault
from gpuprobe.recording.opening import Opened, opened
from gpuprobe.recording.rows import to_ns
from gpuprobe.recording.tables import Tables
from gpuprobe.sources.ingest import Reading

FORMAT: Final = "recording"

AFTER_S: Final = 30.0
"""Seconds of samples behind a fault that are read all."""

MOMENTS: Final = 60
"""Faults around which samples are read closely: the first half of so many, and the last half."""

BUCKETS: Final = 2000
"""Spans of a recording of which the extremes are read, at most."""

BUCKET_S: Final = 60.0

KEPT: Final = 500
"""Events of one kind and device that are kept, the first and the last."""

KINDS: Final = 400
"""Kinds of events of one device that are told apart."""


@dataclass(slots=True)
class _Kept:
    """The first and the last events of one kind."""

    first: list[tuple[int, bool, Event]] = field(default_factory=list)
    last: deque[tuple[int, bool, Event]] = field(default_factory=lambda: deque(maxlen=KEPT))
    seen: int = 0

    def add(self, item: tuple[int, bool, Event]) -> None:
        self.seen += 1
        if len(self.first) < KEPT:
            self.first.append(item)
        else:
            self.last.append(item)

    @property
    def left_out(self) -> int:
        return self.seen - len(self.first) - len(self.last)


def read(path: Path, shown: str, order: int) -> Reading:
    """Read a recording as `diagnose` reads a log.

    Args:
        path: Where it lies.
        shown: What evidence names as its input.
        order: Number of the input, for the order of events.

    Raises:
        RecordingError: It cannot be read at all.
    """
    with opened(path) as recording:
        tables = Tables(recording, shown)
        happened = list(_happened(tables))
        found = [*happened, *_samples(tables, happened), *_counters(tables)]
        found.sort(key=lambda item: item[0])
        events = _placed(found, recording, order)
        _note_sources(recording)
        return Reading(
            input=Input(
                shown,
                FORMAT,
                None,
                notes=tuple(recording.notes),
                in_part="events" in recording.damaged,
            ),
            events=events,
            recording=recording.meta.get("id", ""),
            continues=recording.meta.get("continues", ""),
            repeated=_repeated(found, events, recording),
            about=dict(recording.meta),
            broken_off=not recording.live and "ended" not in recording.meta,
        )


def _happened(tables: Tables) -> Iterator[tuple[int, bool, Event]]:
    """What happened, with the time of the row before where an event has none of its own."""
    kinds: dict[tuple[str, PciAddress | None], _Kept] = {}
    last = 0
    for at, again, event in tables.events():
        last = at if at is not None else last
        key = (type(event).__name__, event.device if len(kinds) < KINDS else None)
        kinds.setdefault(key, _Kept()).add((last, again, event))
    for (kind, _), kept in kinds.items():
        if kept.left_out and kind != HostSampled.__name__:
            tables.recording.note(
                f"{kept.seen} events {kind}: the first and the last {KEPT} were read"
            )
        yield from kept.first
        yield from kept.last


def _samples(
    tables: Tables, happened: Iterable[tuple[int, bool, Event]]
) -> Iterator[tuple[int, bool, Event]]:
    last = tables.last_id("samples")
    if not last:
        return
    spans = list(_spans(tables, happened))
    taken: set[int] = set()
    for begin, end in spans:
        thin: dict[tuple[PciAddress | None, int], tuple[int, GpuSampled]] = {}
        full_from = end - (KEEP_S + AFTER_S)
        first = tables.first_id_at("samples", "monotonic_s", begin)
        stop = tables.first_id_at("samples", "monotonic_s", end)
        for at, sample in tables.samples(first, stop):
            number = int((sample.origin.ref or ":0").rpartition(":")[2])
            if number in taken:
                continue
            second = _seconds(sample)
            if second >= full_from:
                taken.add(number)
                yield at, False, sample
            else:
                # One a second: the one with the highest draw, so that no maximum is lost.
                key = (sample.device, int(second))
                before = thin.get(key)
                if before is None or (sample.power_w or 0) > (before[1].power_w or 0):
                    thin[key] = (at, sample)
        yield from ((at, False, sample) for at, sample in thin.values())
        begin_power = tables.first_id_at("power_samples", "monotonic_s", full_from)
        stop_power = tables.first_id_at("power_samples", "monotonic_s", end)
        for at, drawn in tables.power(begin_power, stop_power):
            yield at, False, drawn
    yield from _extremes(tables, last, spans)


def _spans(
    tables: Tables, happened: Iterable[tuple[int, bool, Event]]
) -> Iterator[tuple[float, float]]:
    """From when to when samples are read closely, on the clock that nobody sets; none overlaps."""
    moments = sorted(
        event.stamp.monotonic_s
        for _, _, event in happened
        if is_fault(event) and event.stamp is not None and event.stamp.monotonic_s is not None
    )
    ends = [_seconds(sample) for _, sample in tables.samples(tables.last_id("samples"))][-1:]
    if len(moments) > MOMENTS:
        moments = [*moments[: MOMENTS // 2], *moments[-MOMENTS // 2 :]]
    until: float | None = None
    for moment in [*moments, *ends]:
        begin, end = moment - KEEP_S - THIN_S, moment + AFTER_S
        if until is not None and end <= until + AFTER_S:
            continue
        yield (begin if until is None else max(begin, min(until, moment - KEEP_S))), end
        until = end


def _extremes(
    tables: Tables, last: int, spans: list[tuple[float, float]]
) -> Iterator[tuple[int, bool, Event]]:
    """The samples with the highest power and the highest temperature of each stretch."""
    times = [
        at
        for _, at in tables.recording.rows(
            "SELECT id, monotonic_s FROM samples WHERE id IN "
            "((SELECT min(id) FROM samples), (SELECT max(id) FROM samples))",
            table="samples",
        )
        if isinstance(at, int | float)
    ]
    if len(times) < 2 or times[-1] - times[0] < BUCKET_S:
        return
    width = max(BUCKET_S, (times[-1] - times[0]) / BUCKETS)
    per_bucket = max(1, int(last * width / (times[-1] - times[0])))
    names = ", ".join(("id", "at", "monotonic_s", "device", *schema.SAMPLE_COLUMNS))
    for first in range(1, last + 1, per_bucket):
        for column, device in product(("power_w", "temp_c"), tables.devices):
            # SQLite gives the other columns of the row in which the maximum stands. One device at
            # a time: grouping would sort all rows, which takes five times as long.
            query = (
                f"SELECT {names}, max({column}) FROM samples "  # noqa: S608 - our own names
                "WHERE id BETWEEN ? AND ? AND device = ?"
            )
            values = (first, first + per_bucket - 1, device)
            for row in tables.recording.rows(query, values, table="samples"):
                sample = tables.sample(row[:-1])
                if sample is None:
                    continue
                at = _seconds(sample)
                if not any(begin <= at <= end for begin, end in spans):
                    yield row[1], False, sample


def _counters(tables: Tables) -> Iterator[tuple[int, bool, Event]]:
    """Readings of counters that changed: the first of each device, and the last ones."""
    kept: dict[tuple[PciAddress | None, bool], _Kept] = {}
    for at, reading in tables.counters():
        aer = any(name.startswith("aer_") for name, _ in reading.counters)
        kept.setdefault((reading.device, aer), _Kept()).add((at, False, reading))
    for one in kept.values():
        yield from one.first
        yield from one.last


def _placed(found: list[tuple[int, bool, Event]], recording: Opened, order: int) -> list[Event]:
    """The events in their order, with the machine and the boot that the recording names."""
    boot = recording.meta.get("boot-id", "").replace("-", "") or None
    host = recording.meta.get("hostname") or None
    for number, (_, _, event) in enumerate(found, start=1):
        values = vars(event)
        origin = event.origin
        values["origin"] = type(origin)(
            origin.input, None, origin.text, origin.ref, (order, number)
        )
        values["boot"] = event.boot or boot
        values["host"] = event.host or host
    return [event for _, _, event in found]


def _repeated(
    found: list[tuple[int, bool, Event]], events: list[Event], recording: Opened
) -> frozenset[int]:
    """Events, by `id`, that the file before this one has too."""
    if not recording.meta.get("continues"):
        return frozenset()
    try:
        started = to_ns(datetime.fromisoformat(recording.meta["started"]))
    except (KeyError, ValueError, TypeError):
        started = 0
    return frozenset(
        id(event)
        for (at, again, _), event in zip(found, events, strict=True)
        if again or (isinstance(event, GpuSampled | CountersSampled) and at < started)
    )


def _note_sources(recording: Opened) -> None:
    """Say which sources could not be used when it was recorded."""
    for key, value in recording.meta.items():
        if key.startswith("source:") and value.startswith("unavailable"):
            recording.note(f"{key.removeprefix('source:')} was not recorded: {value}"[:300])


def _seconds(event: Event) -> float:
    stamp = event.stamp
    return (stamp.monotonic_s or 0.0) if stamp is not None else 0.0


def without_repeats(readings: Iterable[Reading]) -> None:
    """Leave out what two files of one long recording both hold."""
    readings = list(readings)
    given = {reading.recording for reading in readings if reading.recording}
    for reading in readings:
        if reading.continues in given and reading.repeated:
            reading.events = [one for one in reading.events if id(one) not in reading.repeated]
