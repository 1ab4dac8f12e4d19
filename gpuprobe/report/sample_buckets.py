"""Samples of a recording in buckets, made by SQLite: few rows, however long the recording is."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from itertools import pairwise
from typing import Any, Final

from gpuprobe.recording.opening import opened
from gpuprobe.recording.rows import LARGEST, to_ns
from gpuprobe.recording.tables import Tables
from gpuprobe.report.telemetry_types import REASON_BITS

BEFORE: Final = timedelta(minutes=10)
AFTER: Final = timedelta(minutes=1)
"""What lies around the incident and gets narrow buckets."""

MOST_MINUTES: Final = 60 * 24 * 60
"""Of a recording of two months."""

FIELDS: Final = (
    ("power_w", "Power draw", "W", 1.0),
    ("limit_w", "Power limit", "W", 1.0),
    ("temp_c", "Core temperature", "°C", 1.0),
    ("memory_temp_c", "Memory temperature", "°C", 1.0),
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

SPREAD: Final = tuple(name for name, *_ in FIELDS)
_MEANS: Final = tuple(name for name in SPREAD if name not in ("limit_w", "link_gen", "link_width"))
"""Fields of which a mean is made; of the others, which seldom change, the largest stands for it."""

_BITS: Final = tuple(REASON_BITS)
_VALUES: Final = tuple(
    [f"{name}_{made}" for name in SPREAD for made in ("min", "mean", "max")]
    + [f"reason_{bit:#x}" for bit in _BITS]
)
COLUMNS: Final = ("at", "width_s", "run", "count", *_VALUES)

# Each of these costs 0.2 s in a recording of a week, so that none is made that nobody looks at.
_AGGREGATES: Final = ", ".join(
    f"min({name}), {'avg' if name in _MEANS else 'max'}({name}), max({name})" for name in SPREAD
)

LONG: Final = 500_000
"""Samples from which on a recording is read in two halves at once."""

FEW_DEVICES: Final = 3
"""Up to so many GPUs, reading a bucket once a GPU is faster than letting SQLite sort it."""

_Bucket = tuple[tuple[Any, ...], float]


def buckets(
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


def edges_of(
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
            yield (*row, *shares(seen[row[0]]))


def shares(masks: Sequence[tuple[int, int]]) -> list[float | None]:
    """Of each bit the share of the samples that have it; a mean of a mask means nothing."""
    whole = sum(count for _, count in masks)
    if not whole:
        return [None] * len(_BITS)
    return [sum(count for mask, count in masks if mask & bit) / whole for bit in _BITS]


def minute_edges(tables: Tables) -> list[tuple[int, float]]:
    """First id and moment of each minute, and the end, by the clock that nobody sets."""
    last = tables.last_id("samples")
    if not last or last >= LARGEST:
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
