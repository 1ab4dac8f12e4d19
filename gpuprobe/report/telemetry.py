"""Telemetry of a report: read from recordings by SQLite, bucket by bucket, whatever their length.

A day at 10 Hz is nearly a million samples a GPU. A plot has room for two thousand buckets: half of
them over all that was sampled, half over the minutes around the incident. Each keeps its smallest
and largest value, so that no spike is lost.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprobe.diagnosis import Diagnosis
from gpuprobe.recording import schema
from gpuprobe.recording.opening import opened
from gpuprobe.recording.rows import LARGEST, to_ns
from gpuprobe.recording.tables import Tables
from gpuprobe.report import side_tables
from gpuprobe.report.sample_buckets import (
    AFTER,
    BEFORE,
    COLUMNS,
    FIELDS,
    SPREAD,
    buckets,
    edges_of,
    shares,
)
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

MARKS: Final = 24
LABEL_LENGTH: Final = 60

PAUSE_INTERVALS: Final = 5.0
PAUSE_S: Final = 1.0
"""Intervals, and seconds, from which on a stretch without samples is told of."""


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
    interval_s = _interval_s(devices[0].samples)
    return Telemetry(
        devices=devices,
        marks=tuple(_marks(diagnosis)),
        begin=begin,
        end=end,
        focus=focus,
        samples=int(sum(one.samples["count"].sum() for one in devices)),
        interval_s=None if interval_s is None else float(f"{interval_s:.2g}"),
        pauses=tuple(_pauses(devices[0].samples, interval_s)),
    )


def _interval_s(samples: pd.DataFrame) -> float | None:
    """Usual time between two samples, by the buckets and by how many samples each has."""
    steps = samples["at"].diff().dt.total_seconds()
    # A bucket's begin is its first sample, so that the next one begins `count` samples later.
    spans = (steps / samples["count"].shift()).iloc[1:]
    usual = float(spans.median()) if len(spans) else math.nan
    return None if math.isnan(usual) or usual <= 0 else usual


def _pauses(samples: pd.DataFrame, interval_s: float | None) -> Iterator[tuple[datetime, float]]:
    """Stretches of a recording without samples, where they are longer than a bucket."""
    if interval_s is None:
        return
    begins = samples["at"] + samples["width_s"].map(lambda width: timedelta(seconds=width))
    lengths = (samples["at"].shift(-1) - begins).dt.total_seconds()
    same = samples["run"] == samples["run"].shift(-1)
    long = same & (lengths > max(PAUSE_INTERVALS * interval_s, PAUSE_S))
    for at, length in zip(begins[long], lengths[long], strict=True):
        yield at.to_pydatetime(), float(length)


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
    if not last or last >= LARGEST:
        return
    edges = list(edges_of(tables, last, share, at))
    for row, length_s in buckets(tables, edges, list(devices), last):
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


def _last(tables: Tables, number: int, at: datetime | None) -> dict[str, float]:
    """The last sample of a device, before the incident where there is one."""
    limit = LARGEST if at is None else to_ns(at)
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
        for name in SPREAD:
            values += _spread([getattr(sample, name) for _, sample in bucket])
        masks = [s.clocks_event_reasons for _, s in bucket if s.clocks_event_reasons is not None]
        values += shares([(mask, 1) for mask in masks])
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
        reasons=_reasons(samples),
    )


def _frame(rows: Sequence[tuple[Any, ...]], names: Sequence[str]) -> pd.DataFrame:
    from gpuprobe.recording.frames import FLOAT, TEXT, TIME, WHOLE, frame

    kinds = {"at": TIME, "run": WHOLE, "count": WHOLE, "name": TEXT, "value": WHOLE, "rise": WHOLE}
    made = frame(rows, {name: kinds.get(name, FLOAT) for name in names})
    return made.sort_values("at", kind="stable", ignore_index=True)


def _reasons(samples: pd.DataFrame) -> dict[str, float]:
    """Share of all samples that had each reason, the most frequent first."""
    found: dict[str, float] = {}
    for bit, name in REASON_BITS.items():
        shares = samples[f"reason_{bit:#x}"]
        known = shares.notna()
        if known.any():
            counts = samples["count"].astype("float64")[known]
            found[name] = float((shares[known] * counts).sum() / counts.sum())
    return dict(sorted(found.items(), key=lambda item: -item[1]))


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
