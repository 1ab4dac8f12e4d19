"""What the ZIP holds beside the report's forms: lines round each proof, telemetry at full rate."""

from __future__ import annotations

import csv
import io
from collections import defaultdict
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from pathlib import Path
from typing import Any, Final

from gpuprobe.diagnosis import Evidence, Role
from gpuprobe.recording import schema
from gpuprobe.recording.opening import opened
from gpuprobe.recording.rows import to_ns
from gpuprobe.recording.tables import Tables
from gpuprobe.report.gathering import Gathered, sampled_in_logs
from gpuprobe.report.sample_buckets import COLUMNS, bucket, minute_edges
from gpuprobe.sources.files.inputs import open_inputs
from gpuprobe.sources.files.raw_input import RawInput
from gpuprobe.sources.files.unpack import peek
from gpuprobe.sources.lines import Lines, sniff_encoding, strip_controls

AROUND_LINES: Final = 10
MOST_QUOTED: Final = 60
MOST_LINES: Final = 5000
LINE_LENGTH: Final = 2000

BEFORE: Final = timedelta(minutes=10)
AFTER: Final = timedelta(minutes=5)
MOST_MOMENTS: Final = 20
"""Events round which telemetry is written at its full rate, at most."""

_ORDER: Final = (Role.PROOF, Role.PRECURSOR, Role.SUPPORT, Role.CONSEQUENCE)


# --- excerpts --------------------------------------------------------------------------------


def excerpts(gathered: Gathered) -> list[tuple[str, list[str]]]:
    """Input and the lines round what is cited of it, `12> ` before a cited one; not redacted."""
    wanted: dict[str, set[int]] = defaultdict(set)
    for item in _cited(gathered):
        if item.line is not None:
            wanted[item.input].add(item.line)
    found = []
    for raw in open_inputs([path for path in gathered.paths if path != "-"]):
        if isinstance(raw, RawInput) and raw.path in wanted and raw.format != "report":
            found.append((raw.path, _lines_of(raw, wanted[raw.path])))
    for shown, path in gathered.recordings:
        rows = {_row(item.ref) for item in _cited(gathered) if item.input == shown}
        rows.discard(None)
        if rows:
            found.append((shown, _rows_of(shown, path, {row for row in rows if row is not None})))
    return found


def _cited(gathered: Gathered) -> list[Evidence]:
    """What the verdicts cite, proofs first."""
    evidence = [item for one in gathered.report.diagnosis.verdicts for item in one.evidence]
    chosen = [item for role in _ORDER for item in evidence if item.role is role]
    return chosen[:MOST_QUOTED]


def _row(ref: str | None) -> int | None:
    table, _, number = (ref or "").partition(":")
    return int(number) if table == "events" and number.isdecimal() else None


def _lines_of(raw: RawInput, cited: set[int]) -> list[str]:
    near = {line + gap for line in cited for gap in range(-AROUND_LINES, AROUND_LINES + 1)}
    last = max(near)
    head, blocks = peek(raw.blocks(), 1 << 16)
    found: list[str] = []
    before = 0
    for number, text in Lines(blocks, encoding=sniff_encoding(head)):
        if number > last or len(found) >= MOST_LINES:
            break
        # A very long line comes in pieces, of which the first is shown.
        if number in near and number != before:
            if before and number > before + 1:
                found.append("…")
            mark = ">" if number in cited else " "
            found.append(f"{number}{mark} {strip_controls(text)[:LINE_LENGTH]}")
            before = number
    return found


def _rows_of(shown: str, path: Path, cited: set[int]) -> list[str]:
    """Rows of a recording's events round those that are cited."""
    found: list[str] = []
    with opened(path) as recording:
        tables = Tables(recording, shown)
        done = 0
        for row in sorted(cited):
            first, last = max(done + 1, row - AROUND_LINES), row + AROUND_LINES
            names = ("id", "at", "kind", "device", "input", "text")
            for number, at, kind, device, source, text in tables.scan("events", names, first, last):
                when = _iso(at) if isinstance(at, int) else ""
                mark = ">" if number in cited else " "
                line = f"{number}{mark} {when} [{kind}] {device or '-'} | {source} | {text}"
                found.append(strip_controls(line)[:LINE_LENGTH])
                done = number
            if len(found) >= MOST_LINES:
                break
    return found


# --- telemetry -------------------------------------------------------------------------------

_FULL: Final = ("at", "monotonic_s", *schema.SAMPLE_COLUMNS)


def tables(gathered: Gathered) -> Iterator[tuple[str, tuple[str, ...], list[tuple[Any, ...]]]]:
    """Name, columns and rows: each device at full rate round the events, and minute by minute."""
    moments = _moments(gathered)
    full: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    minutes: dict[str, list[tuple[Any, ...]]] = defaultdict(list)
    for shown, path in gathered.recordings:
        with opened(path) as recording:
            found = Tables(recording, shown)
            devices = {number: str(address) for number, address in found.devices.items()}
            for device, row in _full_rate(found, devices, moments):
                full[device].append(row)
            for (first, begin), (stop, end) in pairwise(minute_edges(found)):
                for number, count, at, _, *values in bucket(found, first, stop - 1, list(devices)):
                    if number in devices and isinstance(at, int):
                        minutes[devices[number]].append((_iso(at), end - begin, count, *values))
    for device, samples in sampled_in_logs(gathered).items():
        for moment, sample in samples:
            values = [getattr(sample, name) for name in schema.SAMPLE_COLUMNS]
            full[device].append((moment.astimezone(UTC).isoformat(), None, *values))
    names = tuple(name for name in COLUMNS if name != "run")
    for device in sorted({*full, *minutes}):
        plain = device.replace(":", "-")
        if full[device]:
            yield f"{plain}-full", _FULL, full[device]
        if minutes[device]:
            yield f"{plain}-minutes", names, minutes[device]


def _moments(gathered: Gathered) -> list[datetime]:
    found = [one.at for one in gathered.report.diagnosis.verdicts if one.at is not None]
    found += [item.at for item in _cited(gathered) if item.at is not None]
    kept: list[datetime] = []
    for moment in found:
        if all(abs(moment - other) > AFTER for other in kept):
            kept.append(moment)
    return sorted(kept[:MOST_MOMENTS])


def _full_rate(
    found: Tables, devices: dict[int, str], moments: Sequence[datetime]
) -> Iterator[tuple[str, tuple[Any, ...]]]:
    """Every sample round the moments, once; without a moment, those of the last minutes."""
    names = ("id", "at", "monotonic_s", "device", *schema.SAMPLE_COLUMNS)
    last = found.last_id("samples")
    spans = [(to_ns(moment - BEFORE), to_ns(moment + AFTER)) for moment in moments]
    if not spans:
        ends = [at for _, at in found.scan("samples", ("id", "at"), last) if isinstance(at, int)]
        spans = [(ends[-1] - round(BEFORE.total_seconds() * 1e9), ends[-1])] if ends else []
    done = 0
    for begin, end in spans:
        first = max(done + 1, found.first_id_at("samples", "at", begin))
        stop = found.first_id_at("samples", "at", end + 1)
        for number, at, monotonic, device, *values in found.scan("samples", names, first, stop):
            if device in devices and isinstance(at, int) and at <= end:
                yield devices[device], (_iso(at), monotonic, *values)
                done = number


def to_csv(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> bytes:
    """Rows as CSV; what was not read is empty."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow(names)
    writer.writerows(rows)
    return out.getvalue().encode()


def to_parquet(names: Sequence[str], rows: Sequence[tuple[Any, ...]]) -> bytes | None:
    """Rows as Parquet, or None where pyarrow is not installed."""
    try:
        import pyarrow as pa
        import pyarrow.parquet as pq
    except ImportError:
        return None
    import pandas as pd

    frame = pd.DataFrame(rows, columns=list(names))
    frame["at"] = pd.to_datetime(frame["at"], utc=True, format="ISO8601")
    for name in frame.columns[1:]:
        frame[name] = pd.to_numeric(frame[name], errors="coerce")
    out = io.BytesIO()
    pq.write_table(pa.Table.from_pandas(frame, preserve_index=False), out)
    return out.getvalue()


def _iso(at: int) -> str:
    try:
        moment = datetime.fromtimestamp(at // 10**9, UTC)
    except (ValueError, OverflowError, OSError):
        return ""
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{at % 10**9 // 1000:06d}+00:00"
