"""A check in machine-readable form, `gpuprobe.check/1`, described by `check.schema.json`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TextIO

from gpuprobe import __version__
from gpuprobe.checks.base import CheckFinding
from gpuprobe.checks.report import CheckedGpu, CheckReport
from gpuprobe.reporters.plain import write_json

SCHEMA_ID = "gpuprobe.check/1"


class CheckJsonReporter:
    """Writes one JSON document, indented, keys in the order of the schema."""

    def render(self, report: CheckReport, out: TextIO) -> None:
        """Write `report` to `out`, ending with a newline."""
        write_json(to_dict(report), out, str)


def to_dict(report: CheckReport) -> dict[str, Any]:
    """Return the document as plain values."""
    return {
        "schema": SCHEMA_ID,
        "tool": {"name": "gpuprobe", "version": __version__},
        "answer": report.answer,
        "exit_code": report.exit_code,
        "took_s": round(report.took_s, 3),
        "gpus": [_gpu(gpu) for gpu in report.gpus],
        "findings": [_finding(finding) for finding in report.findings],
    }


def _gpu(gpu: CheckedGpu) -> dict[str, Any]:
    return {
        "pci": str(gpu.pci),
        "name": gpu.name,
        "uuid": gpu.uuid,
        "driver": gpu.driver,
        "looked_at": gpu.looked_at,
    }


def _finding(finding: CheckFinding) -> dict[str, Any]:
    figures: Mapping[str, Any] = finding.figures
    return {
        "check": finding.check,
        "what": finding.what,
        "status": finding.status.value,
        "subject": None if finding.subject is None else str(finding.subject),
        "text": finding.text,
        "figures": dict(figures),
        "how": finding.how or None,
        "kind": None if finding.kind is None else str(finding.kind),
        "at": finding.at or None,
    }
