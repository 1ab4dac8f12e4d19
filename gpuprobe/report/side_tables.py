"""What a recording holds beside its samples: the driver's power samples, counters, links."""

from __future__ import annotations

import json
import struct
import zlib
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any, Final

from gpuprobe.recording.rows import LARGEST, unpack
from gpuprobe.recording.tables import Tables
from gpuprobe.report.telemetry_types import MOST_BUCKETS

__all__ = ["LARGEST", "counters", "links", "transients"]

NO_ERRORS: Final = frozenset({"pcie_l0_to_recovery", "recovery_action"})
"""A link that wakes goes through recovery, and an action is no count."""

_HEAD: Final = struct.Struct("<qI")


def transients(
    tables: Tables, device: int, run: int, bounds: Sequence[float]
) -> list[tuple[Any, ...]]:
    """Buckets of the driver's own power samples: `at`, `width_s`, `run`, min, mean, max in W.

    Args:
        tables: The recording.
        device: Its number there.
        run: Which recording it is.
        bounds: Begins of the buckets, by the clock that nobody sets.
    """
    import numpy as np

    found: list[tuple[Any, ...]] = []
    bucket, begin, end, low, high, total, count = -1, 0, 0, 0.0, 0.0, 0.0, 0

    def close() -> None:
        if count:
            found.append((begin, (end - begin) / 1e9, run, low, total / count, high))

    names = ("id", "at", "monotonic_s", "device", "packed")
    for _, at, second, number, packed in tables.scan("power_samples", names):
        if number != device or not isinstance(at, int) or not isinstance(packed, bytes):
            continue
        try:
            data = zlib.decompressobj().decompress(packed, 1 << 20)
            first_us, size = _HEAD.unpack_from(data)
        except (zlib.error, struct.error):
            continue
        if not size or len(data) != _HEAD.size + 8 * size:
            continue
        watts = np.frombuffer(data, "<u4", size, _HEAD.size + 4 * size) / 1e3
        place = bisect_right(bounds, second) if isinstance(second, int | float) else bucket
        moment = min(max(first_us, 0), LARGEST // 1000) * 1000
        if place != bucket:
            close()
            bucket, begin, low, high, total, count = place, moment, watts[0], watts[0], 0.0, 0
        low, high = min(low, float(watts.min())), max(high, float(watts.max()))
        total, count, end = total + float(watts.sum()), count + int(size), max(at, begin)
    close()
    return found


def drawn(tables: Tables, device: int, first: int, last: int) -> list[tuple[float, float]]:
    """The driver's power samples of some rows as they are: seconds since 1970, watts."""
    found: list[tuple[float, float]] = []
    names = ("id", "device", "packed")
    for _, number, packed in tables.scan("power_samples", names, first, last):
        if number == device and isinstance(packed, bytes):
            try:
                found += unpack(packed)
            except ValueError:
                continue
    return found


def counters(
    tables: Tables, run: int, devices: Mapping[int, str]
) -> dict[str, list[tuple[Any, ...]]]:
    """Device to the rises of its counters: `at`, `run`, `name`, `value`, `rise`."""
    first: dict[tuple[int, str, str], int] = {}
    last: dict[tuple[int, str, str], int] = {}
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    names = ("id", "at", "device", "input", "name", "value")
    for _, at, device, source, name, value in tables.scan("counters", names):
        plain = isinstance(at, int) and isinstance(value, int) and isinstance(name, str)
        if not plain or device not in devices or not _counts_errors(name):
            continue
        key = (device, str(source), name)
        if key not in first:
            first[key] = last[key] = value
        elif value != last[key]:
            rows = found[devices[device]]
            if last[key] == first[key]:
                # Where it stood before it rose, so that a step is a step.
                rows.append((at, run, name, last[key], 0))
            last[key] = value
            rows.append((at, run, name, value, value - first[key]))
    return {device: _thinned(rows) for device, rows in found.items()}


def _counts_errors(name: str) -> bool:
    """Whether a counter's rise is worth a plot: bytes, and time held back, have panels already."""
    return not name.endswith(("_bytes", "_ns")) and name not in NO_ERRORS


def links(tables: Tables, run: int) -> dict[str, list[tuple[Any, ...]]]:
    """Device to the states of its link when they changed: `at`, `run`, `speed_gts`, `width`."""
    found: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    query = "SELECT at, device, more FROM events WHERE kind = 'LinkStateReported' ORDER BY id"
    for at, device, text in tables.recording.rows(query, table="events"):
        try:
            more = json.loads(text)
            state = (more.get("speed_gts"), more.get("width"))
        except (ValueError, TypeError, AttributeError, RecursionError):
            continue
        fits = all(isinstance(one, int | float) for one in state)
        if not isinstance(at, int) or not isinstance(device, str) or not fits:
            continue
        rows = found[device]
        if not rows or rows[-1][2:] != state:
            rows.append((at, run, *state))
    return {device: _thinned(rows) for device, rows in found.items()}


def _thinned(rows: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """At most so many rows, evenly; the first and the last stay."""
    if len(rows) <= MOST_BUCKETS:
        return rows
    step = len(rows) / (MOST_BUCKETS - 1)
    return [rows[int(number * step)] for number in range(MOST_BUCKETS - 1)] + rows[-1:]
