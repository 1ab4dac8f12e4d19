"""Telemetry of a report: read from recordings by SQLite, bucket by bucket, whatever their length.

A day at 10 Hz is nearly a million samples a GPU. A plot has room for two thousand buckets: half of
them over all that was sampled, half over the minutes around the incident. Each keeps its smallest
and largest value, so that no spike is lost.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprobe.diagnosis import Diagnosis
from gpuprobe.recording import schema
from gpuprobe.recording.opening import opened
from gpuprobe.recording.rows import to_ns
from gpuprobe.recording.tables import Tables
from gpuprobe.report import side_tables
from gpuprobe.report.telemetry_types import (
    MOST_BUCKETS,
    REASON_BITS,
    DeviceTelemetry,
    Figure,
    Mark,
    Telemetry,
)

if TYPE_CHECKING:
    import pandas as pd

    from gpuprobe.events import GpuSampled

BEFORE: Final = timedelta(minutes=10)
AFTER: Final = timedelta(minutes=1)
"""What lies around the incident and gets narrow buckets."""

MOST_MINUTES: Final = 60 * 24 * 60
MARKS: Final = 24
LABEL_LENGTH: Final = 60

FIELDS: Final = (
    ("power_w", "Power draw", "W", 1.0),
    ("limit_w", "Power limit", "W", 1.0),
    ("temp_c", "Core temperature", "C", 1.0),
    ("memory_temp_c", "Memory temperature", "C", 1.0),
    ("sm_clock_mhz", "SM clock", "MHz", 1.0),
    ("mem_clock_mhz", "Memory clock", "MHz", 1.0),
    ("util_percent", "Utilisation", "%", 1.0),
    ("link_gen", "Link generation", "", 1.0),
    ("link_width", "Link width", "lanes", 1.0),
    ("memory_used_bytes", "Memory used", "GiB", 2.0**-30),
    ("rx_bytes_per_s", "PCIe to the GPU", "MB/s", 1e-6),
    ("tx_bytes_per_s", "PCIe from the GPU", "MB/s", 1e-6),
)
"""Field, label, unit of the table of figures, and the factor that gives it."""

_SPREAD: Final = tuple(name for name, *_ in FIELDS)
_MEANS: Final = tuple(name for name in _SPREAD if name not in ("limit_w", "link_gen", "link_width"))
"""Fields of which a mean is made; of the others, which seldom change, the largest stands for it."""

_BITS: Final = tuple(REASON_BITS)
_VALUES: Final = tuple(
    [f"{name}_{made}" for name in _SPREAD for made in ("min", "mean", "max")]
    + [f"reason_{bit:#x}" for bit in _BITS]
)
COLUMNS: Final = ("at", "width_s", "run", "count", *_VALUES)

# Each of these costs 0.2 s in a recording of a week, so that none is made that nobody looks at.
_AGGREGATES: Final = ", ".join(
    f"min({name}), {'avg' if name in _MEANS else 'max'}({name}), max({name})" for name in _SPREAD
)

LONG: Final = 500_000
"""Samples from which on a recording is read in two halves at once."""

FEW_DEVICES: Final = 3
"""Up to so many GPUs, reading a bucket once a GPU is faster than letting SQLite sort it."""


@dataclass(slots=True)
class Rows:
    """What was read of one device, before it is made a frame."""

    samples: list[tuple[Any, ...]] = field(default_factory=list)
    transients: list[tuple[Any, ...]] = field(default_factory=list)
    counters: list[tuple[Any, ...]] = field(default_factory=list)
    links: list[tuple[Any, ...]] = field(default_factory=list)
    last: dict[str, float] = field(default_factory=dict)


def telemetry(
    recordings: Sequence[tuple[str, Path]],
    sampled: Mapping[str, Sequence[tuple[datetime, GpuSampled]]],
    diagnosis: Diagnosis,
    slowdown_c: Mapping[str, float],
) -> Telemetry | None:
    """The readings of every GPU, or None where there are none.

    Args:
        recordings: As shown, and the file.
        sampled: Samples of logs by device, with their times.
        diagnosis: What was found; its first verdict says where to look closely.
        slowdown_c: Device to the temperature at which it slows down.

    Raises:
        RecordingError: A recording cannot be read.
    """
    verdict = diagnosis.verdicts[0]
    own = str(verdict.device.pci) if verdict.device and verdict.device.pci else ""
    found: dict[str, Rows] = defaultdict(Rows)
    names: dict[str, str] = {}
    for run, (shown, path) in enumerate(recordings):
        with opened(path) as recording:
            tables = Tables(recording, shown)
            share = MOST_BUCKETS // max(1, len(recordings))
            _read(tables, run, share, verdict.at, found)
            for pci, name in recording.rows("SELECT pci, name FROM devices", table="devices"):
                if isinstance(pci, str) and isinstance(name, str):
                    names[pci] = name
    for device, samples in sampled.items():
        _from_log(samples, len(recordings), verdict.at, found[device])
    if not any(rows.samples for rows in found.values()):
        return None
    if own and verdict.device and verdict.device.name:
        names.setdefault(own, verdict.device.name)
    devices = tuple(
        _device(device, rows, names.get(device), slowdown_c.get(device))
        for device, rows in sorted(found.items(), key=lambda item: (item[0] != own, item[0]))
        if rows.samples
    )
    return _whole(devices, diagnosis)


def _whole(devices: tuple[DeviceTelemetry, ...], diagnosis: Diagnosis) -> Telemetry:
    begin = min(one.samples["at"].iloc[0] for one in devices).to_pydatetime()
    end = max(
        one.samples["at"].iloc[-1].to_pydatetime()
        + timedelta(seconds=float(one.samples["width_s"].iloc[-1]))
        for one in devices
    )
    at = diagnosis.verdicts[0].at
    focus = None
    if at is not None and begin - AFTER <= at <= end + AFTER:
        focus = (max(begin, at - BEFORE), min(max(end, at), at + AFTER))
    first = devices[0].samples
    narrow = first[first["count"] > 0]
    spans = (narrow["width_s"] / narrow["count"]).median() if len(narrow) else math.nan
    return Telemetry(
        devices=devices,
        marks=tuple(_marks(diagnosis)),
        begin=begin,
        end=end,
        focus=focus,
        samples=int(sum(one.samples["count"].sum() for one in devices)),
        interval_s=None if math.isnan(spans) or not spans else float(f"{spans:.2g}"),
    )


def _marks(diagnosis: Diagnosis) -> Iterator[Mark]:
    """Moments of the verdicts, in order of time; what follows from them last, if there is room."""
    order = ("proof", "precursor", "support", "consequence", "context")
    seen: set[tuple[datetime, str]] = set()
    found: list[tuple[int, Mark]] = []
    for verdict in diagnosis.verdicts[:5]:
        device = str(verdict.device.pci) if verdict.device and verdict.device.pci else None
        for evidence in verdict.evidence:
            if evidence.at is None:
                continue
            label = (evidence.says or evidence.text)[:LABEL_LENGTH]
            key = (evidence.at.replace(microsecond=0), label)
            if key not in seen:
                seen.add(key)
                mark = Mark(evidence.at.astimezone(UTC), label, evidence.role.value, device)
                found.append((order.index(evidence.role.value), mark))
    found.sort(key=lambda item: item[0])
    yield from sorted((mark for _, mark in found[:MARKS]), key=lambda mark: mark.at)


# --- from a recording ------------------------------------------------------------------------


def _read(
    tables: Tables, run: int, share: int, at: datetime | None, found: dict[str, Rows]
) -> None:
    last = tables.last_id("samples")
    devices = {number: str(address) for number, address in tables.devices.items()}
    if not last or last >= side_tables.LARGEST:
        return
    edges = list(_edges(tables, last, share, at))
    for row, length_s in _buckets(tables, edges, list(devices), last):
        device, count, begin_at, end_at, *values = row
        if device not in devices or not isinstance(begin_at, int):
            continue
        width = max((end_at - begin_at) / 1e9, length_s if count > 1 else 0.0)
        found[devices[device]].samples.append((begin_at, width, run, count, *values))
    bounds = [begin for _, begin in edges]
    for number, device in devices.items():
        rows = found[device]
        rows.last = _last(tables, number, at) or rows.last
        rows.transients += side_tables.transients(tables, number, run, bounds)
    for device, counted in side_tables.counters(tables, run, devices).items():
        found[device].counters += counted
    for device, states in side_tables.links(tables, run).items():
        found[device].links += states


_Bucket = tuple[tuple[Any, ...], float]


def _buckets(
    tables: Tables, edges: Sequence[tuple[int, float]], devices: Sequence[int], last: int
) -> list[_Bucket]:
    """Rows of `bucket` with the length of each in seconds, in order.

    SQLite works outside of Python's lock, so the second half of a long recording is read beside
    the first, on a connection of its own.
    """
    recording = tables.recording
    pairs = list(pairwise(edges))
    if last < LONG or recording.live:
        return _in_turn(tables, pairs, devices)
    middle = next((n for n, (edge, _) in enumerate(pairs) if edge[0] > last // 2), 0)

    def second() -> list[_Bucket]:
        with opened(recording.path) as own:
            return _in_turn(Tables(own, ""), pairs[middle:], devices)

    with ThreadPoolExecutor(1) as pool:
        later = pool.submit(second)
        return [*_in_turn(tables, pairs[:middle], devices), *later.result()]


def _in_turn(
    tables: Tables,
    pairs: Sequence[tuple[tuple[int, float], tuple[int, float]]],
    devices: Sequence[int],
) -> list[_Bucket]:
    return [
        (row, end - begin)
        for (first, begin), (stop, end) in pairs
        for row in bucket(tables, first, stop - 1, devices)
    ]


def _edges(
    tables: Tables, last: int, share: int, at: datetime | None
) -> Iterator[tuple[int, float]]:
    """First id and moment, by the clock that nobody sets, of each bucket; the last one ends it."""
    begin = _moment(tables, 1, "ASC")
    end = _moment(tables, last, "DESC")
    if begin is None or end is None:
        return
    (first_s, _), (last_s, last_ns) = begin, end
    # Half of the buckets lie around the incident, where the recording reaches it.
    inner: tuple[float, float] | None = None
    if at is not None:
        root_s = last_s - (last_ns - to_ns(at)) / 1e9
        low = max(first_s, root_s - BEFORE.total_seconds())
        high = min(last_s, root_s + AFTER.total_seconds())
        if low < high and high - low < last_s - first_s:
            inner = (low, high)
    count = max(2, share)
    if inner is None:
        moments = _steps(first_s, last_s, count - 1)
    else:
        low, high = inner
        half = count // 2 - 2
        outside = (last_s - first_s) - (high - low)
        before = round(half * (low - first_s) / outside)
        moments = [
            *_steps(first_s, low, before),
            *_steps(low, high, half),
            *_steps(high, last_s, half - before),
        ]
    reached = 0
    for moment in moments:
        number = tables.first_id_at("samples", "monotonic_s", moment)
        if number > reached:
            yield number, moment
            reached = number
    yield last + 1, last_s


def _steps(begin: float, end: float, count: int) -> list[float]:
    """Begins of `count` equal stretches; at least one where there is a stretch at all."""
    if end <= begin:
        return [begin]
    return [begin + (end - begin) * one / max(1, count) for one in range(max(1, count))]


def _moment(tables: Tables, number: int, order: str) -> tuple[float, int] | None:
    sign = ">=" if order == "ASC" else "<="
    query = (
        "SELECT monotonic_s, at FROM samples "  # noqa: S608 - our own words
        f"WHERE id {sign} ? AND monotonic_s IS NOT NULL ORDER BY id {order} LIMIT 1"
    )
    for second, at in tables.recording.rows(query, (number,), table="samples"):
        if isinstance(second, int | float) and isinstance(at, int):
            return second, at
    return None


def bucket(
    tables: Tables, first: int, last: int, devices: Sequence[int]
) -> Iterator[tuple[Any, ...]]:
    """A row a device: its number, how many samples, first and last time, then `_VALUES`."""
    few = len(devices) <= FEW_DEVICES
    span, end = "WHERE id BETWEEN ? AND ?", "AND device = ?" if few else "GROUP BY device"
    query = (
        f"SELECT device, count(*), min(at), max(at), {_AGGREGATES} "  # noqa: S608 - our own
        f"FROM samples {span} {end}"
    )
    masks = (
        "SELECT device, clocks_event_reasons, count(*) "  # noqa: S608 - our own words
        f"FROM samples {span} AND clocks_event_reasons IS NOT NULL "
        "GROUP BY device, clocks_event_reasons"
    )
    seen: dict[Any, list[tuple[int, int]]] = defaultdict(list)
    for device, mask, count in tables.recording.rows(masks, (first, last), table="samples"):
        if isinstance(mask, int):
            seen[device].append((mask, count))
    for values in [(first, last, one) for one in devices] if few else [(first, last)]:
        for row in tables.recording.rows(query, values, table="samples"):
            yield (*row, *_shares(seen[row[0]]))


def _shares(masks: Sequence[tuple[int, int]]) -> list[float | None]:
    """Of each bit the share of the samples that have it; a mean of a mask means nothing."""
    whole = sum(count for _, count in masks)
    if not whole:
        return [None] * len(_BITS)
    return [sum(count for mask, count in masks if mask & bit) / whole for bit in _BITS]


def minute_edges(tables: Tables) -> list[tuple[int, float]]:
    """First id and moment of each minute, and the end, by the clock that nobody sets."""
    last = tables.last_id("samples")
    if not last or last >= side_tables.LARGEST:
        return []
    begin, end = _moment(tables, 1, "ASC"), _moment(tables, last, "DESC")
    if begin is None or end is None:
        return []
    count = max(1, math.ceil((end[0] - begin[0]) / 60.0))
    found: list[tuple[int, float]] = []
    for minute in range(min(count, MOST_MINUTES)):
        moment = begin[0] + 60.0 * minute
        number = tables.first_id_at("samples", "monotonic_s", moment)
        if not found or number > found[-1][0]:
            found.append((number, moment))
    return [*found, (last + 1, end[0])]


def _last(tables: Tables, number: int, at: datetime | None) -> dict[str, float]:
    """The last sample of a device, before the incident where there is one."""
    limit = side_tables.LARGEST if at is None else to_ns(at)
    names = ", ".join(schema.SAMPLE_COLUMNS)
    query = (
        f"SELECT {names} FROM samples WHERE device = ? AND at <= ? "  # noqa: S608 - our own
        "ORDER BY id DESC LIMIT 1"
    )
    for row in tables.recording.rows(query, (number, limit), table="samples"):
        return {
            name: value
            for name, value in zip(schema.SAMPLE_COLUMNS, row, strict=True)
            if isinstance(value, int | float)
        }
    return {}


# --- from a log ------------------------------------------------------------------------------


def _from_log(
    samples: Sequence[tuple[datetime, GpuSampled]], run: int, at: datetime | None, rows: Rows
) -> None:
    """Buckets of samples that a tool printed; a log's samples are few."""
    if not samples:
        return
    begin, end = to_ns(samples[0][0]), to_ns(samples[-1][0])
    width = max(1, (end - begin) // (MOST_BUCKETS // 2 or 1) + 1)
    grouped: dict[int, list[tuple[int, GpuSampled]]] = defaultdict(list)
    for moment, sample in samples:
        ns = to_ns(moment)
        grouped[(ns - begin) // width].append((ns, sample))
        if at is None or moment <= at:
            known = {name: getattr(sample, name) for name in schema.SAMPLE_COLUMNS}
            rows.last = {name: value for name, value in known.items() if value is not None}
    for _, bucket in sorted(grouped.items()):
        values: list[float | None] = []
        for name in _SPREAD:
            values += _spread([getattr(sample, name) for _, sample in bucket])
        masks = [s.clocks_event_reasons for _, s in bucket if s.clocks_event_reasons is not None]
        values += _shares([(mask, 1) for mask in masks])
        span = (bucket[-1][0] - bucket[0][0]) / 1e9
        rows.samples.append((bucket[0][0], span, run, len(bucket), *values))


def _spread(values: Iterable[float | None]) -> tuple[float | None, float | None, float | None]:
    known = [value for value in values if value is not None]
    if not known:
        return None, None, None
    return min(known), sum(known) / len(known), max(known)


# --- frames ----------------------------------------------------------------------------------


def _device(device: str, rows: Rows, name: str | None, slowdown_c: float | None) -> DeviceTelemetry:
    samples = _frame(rows.samples, COLUMNS)
    power = ("at", "width_s", "run", "power_w_min", "power_w_mean", "power_w_max")
    return DeviceTelemetry(
        device=device,
        name=name,
        figures=tuple(_figures(samples, rows.last)),
        samples=samples,
        transients=_frame(rows.transients, power),
        counters=_frame(rows.counters, ("at", "run", "name", "value", "rise")),
        links=_frame(rows.links, ("at", "run", "speed_gts", "width")),
        slowdown_c=slowdown_c,
    )


def _frame(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> pd.DataFrame:
    from gpuprobe.recording.frames import FLOAT, TEXT, TIME, WHOLE, frame

    kinds = {"at": TIME, "run": WHOLE, "count": WHOLE, "name": TEXT, "value": WHOLE, "rise": WHOLE}
    made = frame(rows, {name: kinds.get(name, FLOAT) for name in names})
    return made.sort_values("at", kind="stable", ignore_index=True)


def _figures(samples: pd.DataFrame, last: Mapping[str, float]) -> Iterator[Figure]:
    for name, label, unit, factor in FIELDS:
        mean = samples[f"{name}_mean"]
        known = mean.notna()
        if not known.any():
            continue
        weights = samples["count"].astype("float64")[known]
        end = last.get(name)
        yield Figure(
            name=name,
            label=label,
            unit=unit,
            low=float(samples[f"{name}_min"].min()) * factor,
            mean=float((mean[known] * weights).sum() / weights.sum()) * factor,
            high=float(samples[f"{name}_max"].max()) * factor,
            last=None if end is None else end * factor,
        )
