"""Tables that the plots draw: columns of plain numbers, rounded, and few enough for a page.

A table is a dict of columns of equal length. Moments are whole milliseconds since 1970. Each
bucket keeps its smallest and its largest value, however few buckets remain.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from gpuprobe.report.telemetry_types import REASON_BITS, DeviceTelemetry
from gpuprobe.reporters.plain import cut, printable

if TYPE_CHECKING:
    import pandas as pd

Table = dict[str, list[Any]]


@dataclass(frozen=True, slots=True)
class Column:
    """A field of the samples as it is plotted.

    Attributes:
        field: As in `gpuprobe.events.GpuSampled`. name: In the table, with the unit of the plot.
        factor: From the field's unit to the plot's. digits: Decimals that are kept.
    """

    field: str
    name: str
    factor: float = 1.0
    digits: int = 0


COLUMNS: Final = (
    Column("power_w", "power_w", digits=1),
    Column("limit_w", "limit_w", digits=1),
    Column("temp_c", "temp_c", digits=1),
    Column("memory_temp_c", "memory_temp_c", digits=1),
    Column("sm_clock_mhz", "sm_clock_mhz"),
    Column("mem_clock_mhz", "mem_clock_mhz"),
    Column("link_gen", "link_gen", digits=1),
    Column("link_width", "link_width", digits=1),
    Column("rx_bytes_per_s", "rx_mb_per_s", 1e-6, 1),
    Column("tx_bytes_per_s", "tx_mb_per_s", 1e-6, 1),
    Column("memory_used_bytes", "memory_used_gib", 2.0**-30, 2),
    Column("memory_total_bytes", "memory_total_gib", 2.0**-30, 2),
    Column("util_percent", "util_percent"),
)

GENERATION: Final = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""GT/s a lane to the generation of PCIe (base specification)."""

_GAP: Final = 5.0
"""A line breaks where nothing was read for this many times the usual distance."""


def samples(device: DeviceTelemetry, most: int) -> Table:
    """The samples in at most `most` buckets.

    Returns:
        `at`, `until`, and for each field that was read `NAME_min`, `NAME_mean`, `NAME_max` (None
        where it was not) and `NAME_part`: the stretch without a gap that the bucket is in, from
        1; negative where it is alone there and so makes no line.
    """
    frame = thinned(device.samples, most)
    begin_ms = _milliseconds(frame)
    table: Table = {"at": begin_ms, "until": _until(frame, begin_ms)}
    for column in COLUMNS:
        names = [f"{column.field}_{made}" for made in ("min", "mean", "max")]
        if names[0] not in frame or not frame[names[0]].notna().any():
            continue
        for made, name in zip(("min", "mean", "max"), names, strict=True):
            table[f"{column.name}_{made}"] = _numbers(frame[name], column.factor, column.digits)
        table[f"{column.name}_part"] = _parts(frame, table[f"{column.name}_min"])
    return table


def transients(device: DeviceTelemetry, most: int) -> Table:
    """The driver's own power samples: `at`, `until`, `power_w_min` and so on, as in `samples`."""
    frame = thinned(device.transients, most)
    if not len(frame):
        return {}
    begin_ms = _milliseconds(frame)
    table: Table = {"at": begin_ms, "until": _until(frame, begin_ms)}
    for made in ("min", "mean", "max"):
        table[f"power_w_{made}"] = _numbers(frame[f"power_w_{made}"], 1.0, 1)
    table["power_w_part"] = _parts(frame, table["power_w_min"])
    return table


def reasons(device: DeviceTelemetry, most: int) -> Table:
    """Stretches in which clocks were held: `at`, `until`, `reason`, `share` (0 to 1), `alarm`."""
    frame = thinned(device.samples, most)
    begin_ms = _milliseconds(frame)
    until = _until(frame, begin_ms)
    breaks = _breaks(begin_ms, until)
    table: Table = {"at": [], "until": [], "reason": [], "share": [], "alarm": []}
    for bit, words in REASON_BITS.items():
        name = f"reason_{bit:#x}"
        if name not in frame or bit in _QUIET:
            continue
        for first, last, share in _stretches(_levels(frame[name]), breaks):
            table["at"].append(begin_ms[first])
            table["until"].append(max(until[last], begin_ms[first] + 1))
            table["reason"].append(words)
            table["share"].append(share)
            table["alarm"].append(bit in _ALARMING)
    return table if table["at"] else {}


_NAME_COLUMNS: Final = 40
"""Columns of a counter's name in a legend, at most."""

_QUIET: Final = frozenset({0x2, 0x10, 0x100})
"""Settings of somebody, which say nothing of the card's state."""

_ALARMING: Final = frozenset({0x8, 0x40, 0x80})
"""What the hardware does to save itself."""


def counters(device: DeviceTelemetry, most_names: int) -> tuple[Table, int]:
    """Rises of the counters that rose most, and how many names are left out.

    Returns:
        `at`, `run`, `name`, `rise`.
    """
    frame = device.counters
    if not len(frame):
        return {}, 0
    highest = frame.groupby("name")["rise"].max().sort_values(ascending=False, kind="stable")
    kept = list(highest.index[:most_names])
    frame = frame[frame["name"].isin(kept)]
    table: Table = {
        "at": _milliseconds(frame),
        "run": [int(run) for run in frame["run"]],
        "name": [cut(printable(str(name)), _NAME_COLUMNS) for name in frame["name"]],
        "rise": [int(rise) for rise in frame["rise"]],
    }
    return table, len(highest) - len(kept)


def links(device: DeviceTelemetry) -> Table:
    """States of the link as sysfs shows it: `at`, `run`, `link_gen`, `link_width`.

    A width that no link has (63 is what a lost device reads as) is left out.
    """
    frame = device.links
    if not len(frame):
        return {}
    return {
        "at": _milliseconds(frame),
        "run": [int(run) for run in frame["run"]],
        "link_gen": [GENERATION.get(float(speed)) for speed in frame["speed_gts"]],
        "link_width": [int(lanes) if 1 <= lanes <= 32 else None for lanes in frame["width"]],
    }


def thinned(frame: pd.DataFrame, most: int) -> pd.DataFrame:
    """Join neighbouring buckets until at most about `most` are left; each run for itself."""
    import numpy as np

    if len(frame) <= most:
        return frame
    grouped = frame.assign(group=np.arange(len(frame)) * most // len(frame))
    end = grouped["at"] + _seconds(grouped["width_s"])
    how = {name: _joined(name) for name in frame.columns if name not in ("run", "width_s")}
    made = grouped.assign(end=end).groupby(["run", "group"], sort=False, as_index=False)
    joined = made.agg({**how, "end": "max"})
    joined["width_s"] = (joined["end"] - joined["at"]).dt.total_seconds()
    return joined.drop(columns=["group", "end"]).sort_values("at", kind="stable", ignore_index=True)


def _joined(name: str) -> str:
    if name == "at" or name.endswith("_min"):
        return "min"
    if name.endswith("_max") or name.startswith("reason_"):
        return "max"
    return "sum" if name == "count" else "mean"


def _seconds(widths: pd.Series[float]) -> Any:
    import pandas as pd

    return pd.to_timedelta(widths.fillna(0.0), unit="s")


def _milliseconds(frame: pd.DataFrame) -> list[int]:
    moments = frame["at"].astype("datetime64[ns, UTC]").astype("int64")
    return [int(moment) // 1_000_000 for moment in moments]


def _until(frame: pd.DataFrame, begin_ms: list[int]) -> list[int]:
    """Ends of the buckets; a hair's breadth at least, so that each can be pointed at."""
    widths = [0.0 if math.isnan(width) else width for width in frame["width_s"].astype(float)]
    ends = [at + int(width * 1000) for at, width in zip(begin_ms, widths, strict=True)]
    following = [*begin_ms[1:], ends[-1] if ends else 0]
    usual = _median([after - at for at, after in zip(begin_ms, following, strict=True)][:-1])
    # A bucket of one sample has no width: it lasts until the next, unless that is far.
    return [
        max(end, min(after, at + max(usual, 1) * 3), at + 1)
        for at, end, after in zip(begin_ms, ends, following, strict=True)
    ]


def _numbers(values: pd.Series[float], factor: float, digits: int) -> list[float | int | None]:
    made: list[float | int | None] = []
    for value in values.astype("float64"):
        if not math.isfinite(value):
            made.append(None)
            continue
        rounded = round(value * factor, digits)
        made.append(int(rounded) if rounded == int(rounded) else rounded)
    return made


def _parts(frame: pd.DataFrame, known: list[Any]) -> list[int | None]:
    """For each bucket the stretch without a gap it lies in, negative where it is alone."""
    places = [index for index, value in enumerate(known) if value is not None]
    at_s = [moment / 1000 for moment in _milliseconds(frame)]
    width_s = [0.0 if math.isnan(width) else float(width) for width in frame["width_s"]]
    runs = [int(run) for run in frame["run"]]
    gaps = [at_s[after] - at_s[one] for one, after in pairwise(places)]
    usual = _median(gaps)
    stretches: list[list[int]] = []
    for index in places:
        before = stretches[-1][-1] if stretches else None
        if before is not None and runs[before] == runs[index]:
            room = _GAP * max(width_s[before], width_s[index], usual)
            if at_s[index] - at_s[before] <= room:
                stretches[-1].append(index)
                continue
        stretches.append([index])
    parts: list[int | None] = [None] * len(known)
    for number, stretch in enumerate(stretches, start=1):
        for index in stretch:
            parts[index] = number if len(stretch) > 1 else -number
    return parts


def _median(values: list[Any]) -> Any:
    return sorted(values)[len(values) // 2] if values else 0


def _levels(shares: pd.Series[float]) -> list[float]:
    """Shares in four steps, so that like neighbours join; never 0 where there was any."""
    return [
        0.0 if not share > 0 else max(0.25, math.ceil(share * 4) / 4)
        for share in shares.astype("float64")
    ]


def _breaks(begin_ms: list[int], until: list[int]) -> set[int]:
    """Places of the buckets behind which nothing was read for a while."""
    usual = max(1, _median([after - one for one, after in pairwise(begin_ms)]))
    pairs = enumerate(zip(until, begin_ms[1:], strict=False))
    return {index for index, (end, following) in pairs if following - end > 3 * usual}


def _stretches(levels: list[float], breaks: set[int]) -> Iterator[tuple[int, int, float]]:
    """First and last place of each stretch of one level above 0, and the level."""
    first = 0
    for index, level in enumerate(levels):
        going_on = index + 1 < len(levels) and index not in breaks
        if going_on and levels[index + 1] == level:
            continue
        if level:
            yield first, index, level
        first = index + 1
