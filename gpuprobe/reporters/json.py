"""The machine-readable form, `gpuprobe.diagnosis/1`, described by `diagnosis.schema.json`."""

from __future__ import annotations

from datetime import datetime
from typing import Any, TextIO

from gpuprobe import __version__
from gpuprobe.diagnosis import Cause, CauseEntry, Device, Diagnosis, Evidence, Input, Verdict
from gpuprobe.reporters.plain import write_json

SCHEMA_ID = "gpuprobe.diagnosis/1"


class JsonReporter:
    """Writes one JSON document, indented, UTF-8, keys in the contract's order."""

    def render(self, diagnosis: Diagnosis, out: TextIO) -> None:
        """See `Reporter.render`."""
        write_json(to_dict(diagnosis), out, _plain)


def to_dict(diagnosis: Diagnosis) -> dict[str, Any]:
    """Return the document as plain values."""
    return {
        "schema": SCHEMA_ID,
        "tool": {"name": "gpuprobe", "version": __version__},
        **_host(diagnosis),
    }


def _host(diagnosis: Diagnosis) -> dict[str, Any]:
    document: dict[str, Any] = {
        "host": diagnosis.host,
        "answer": diagnosis.answer.value,
        "verdicts": [_verdict(verdict) for verdict in diagnosis.verdicts],
        "inputs": [_input(item) for item in diagnosis.inputs],
    }
    if diagnosis.other_hosts:
        document["other_hosts"] = [to_dict(other) for other in diagnosis.other_hosts]
    return document


def _verdict(verdict: Verdict) -> dict[str, Any]:
    return {
        "kind": verdict.kind.value,
        "certainty": verdict.certainty.value if verdict.certainty else None,
        "summary": verdict.summary,
        "device": _device(verdict.device),
        "other_devices": [str(address) for address in verdict.other_devices],
        "at": _time(verdict.at),
        "at_raw": verdict.at_raw,
        "xids": list(verdict.xids),
        "evidence": [_evidence(item) for item in verdict.evidence],
        "ruled_out": [
            {"kind": row.kind, "why": row.why, "figures": row.figures} for row in verdict.ruled_out
        ],
        "not_checked": [
            {"what": row.what, "why": row.why, "how": row.how} for row in verdict.not_checked
        ],
        "causes": [_cause(cause) for cause in verdict.causes],
        "next_steps": [
            {
                "class": step.type,
                "text": step.text,
                "command": step.command,
                "undo": step.undo,
                "cost": step.cost,
                "when": step.when,
                "source": step.source,
            }
            for step in verdict.next_steps
        ],
    }


def _device(device: Device | None) -> dict[str, Any] | None:
    if device is None:
        return None
    return {
        "pci": None if device.pci is None else str(device.pci),
        "uuid": device.uuid,
        "name": device.name,
        "index": device.index,
    }


def _evidence(evidence: Evidence) -> dict[str, Any]:
    item: dict[str, Any] = {
        "role": evidence.role.value,
        "text": evidence.text,
        "input": evidence.input,
        "line": evidence.line,
        "at": _time(evidence.at),
        "count": evidence.count,
        "at_raw": evidence.at_raw,
    }
    if evidence.ref is not None:
        item["ref"] = evidence.ref
    if evidence.says:
        item["says"] = evidence.says
    return item


def _cause(cause: Cause) -> dict[str, Any]:
    def entries(rows: tuple[CauseEntry, ...]) -> list[dict[str, str]]:
        return [{"rule": row.rule, "text": row.text, "weight": row.weight} for row in rows]

    return {
        "cause": cause.cause,
        "score": cause.score,
        "for": entries(cause.pro),
        "against": entries(cause.against),
        "not_seen": entries(cause.not_seen),
    }


def _input(item: Input) -> dict[str, Any]:
    return {
        "path": item.path,
        "format": item.format,
        "lines": item.lines,
        "boots": item.boots,
        "notes": list(item.notes),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()


def _plain(value: object) -> Any:
    """Figures may hold times, addresses and sets; JSON has none of them."""
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, set | frozenset):
        return sorted(value, key=str)
    return str(value)
