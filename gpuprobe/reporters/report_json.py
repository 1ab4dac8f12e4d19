"""The report for machines, `gpuprobe.report/1`: the diagnosis, the figures, what is judged again.

What a person reads is indented; `saved`, the events, stands one a line at the end.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any, TextIO

from gpuprobe import __version__
from gpuprobe.report.contents import Report
from gpuprobe.report.saved import SCHEMA_ID
from gpuprobe.report.telemetry_types import DeviceTelemetry, Telemetry
from gpuprobe.reporters.json import to_dict


class ReportJson:
    """Writes a report as one JSON document."""

    def render(self, report: Report, out: TextIO) -> None:
        """Write the report."""
        head = json.dumps(document(report), ensure_ascii=False, indent=2, default=_plain)
        # Lone surrogates have no UTF-8 form; they become the replacement character.
        out.write(head.encode("utf-8", "replace").decode("utf-8").removesuffix("\n}"))
        out.write(f',\n  "saved": {_saved(report.saved)}\n}}\n')


def document(report: Report) -> dict[str, Any]:
    """The document but for `saved`; the schema's name comes first, for it marks the file."""
    return {
        "schema": SCHEMA_ID,
        "tool": {"name": "gpuprobe", "version": __version__},
        "made": report.made,
        "audience": report.audience,
        "redacted": report.replaced,
        "maintainer": list(report.maintainer),
        "facts": [
            {"label": fact.label, "value": fact.value, "source": fact.source}
            for fact in report.facts
        ],
        "incident": [
            {
                "at": _time(line.at),
                "at_raw": line.at_raw,
                "offset_s": line.offset_s,
                "side": line.side,
                "text": line.text,
                "input": line.input,
                "line": line.line,
                "ref": line.ref,
                "role": line.role,
                "count": line.count,
                **({"folded": list(line.folded)} if line.folded else {}),
            }
            for line in report.incident
        ],
        "incident_note": report.incident_note,
        "telemetry": None if report.telemetry is None else _telemetry(report.telemetry),
        "questions": [{"ask": one.ask, "answer": one.answer} for one in report.questions],
        "diagnosis": to_dict(report.diagnosis),
    }


def _telemetry(telemetry: Telemetry) -> dict[str, Any]:
    return {
        "begin": _time(telemetry.begin),
        "end": _time(telemetry.end),
        "samples": telemetry.samples,
        "interval_s": telemetry.interval_s,
        "pauses": [{"at": _time(at), "length_s": length} for at, length in telemetry.pauses],
        "devices": [_device(device) for device in telemetry.devices],
    }


def _device(device: DeviceTelemetry) -> dict[str, Any]:
    return {
        "device": device.device,
        "name": device.name,
        "slowdown_c": device.slowdown_c,
        "clock_event_reasons": dict(device.reasons),
        "figures": [
            {
                "name": figure.name,
                "unit": figure.unit,
                "low": figure.low,
                "mean": figure.mean,
                "high": figure.high,
                "last": figure.last,
            }
            for figure in device.figures
        ],
    }


def _saved(saved: dict[str, Any]) -> str:
    """Compact, an event a line, ASCII alone, so that any text survives."""
    inputs = []
    for item in saved.get("inputs", ()):
        head = {key: value for key, value in item.items() if key != "events"}
        events = ",\n".join(_compact(event) for event in item["events"])
        inputs.append(f'{_compact(head)[:-1]},"events":[\n{events}\n]}}')
    unread = (_compact(item) for item in saved.get("unread", ()))
    return '{"inputs": [' + ",\n".join(inputs) + '],\n"unread": [' + ",\n".join(unread) + "]}"


def _compact(value: Any) -> str:
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.astimezone(UTC).isoformat()


def _plain(value: object) -> Any:
    """Figures may hold times, addresses and sets; JSON has none of them."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)
