"""A scan of caches in machine-readable form, `gpuprobe.jitcache/1` (`jitcache.schema.json`)."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any, TextIO

from gpuprobe import __version__
from gpuprobe.jitcache.base import Place
from gpuprobe.jitcache.quarantine import Moved
from gpuprobe.jitcache.report import CacheFinding, ScanReport

SCHEMA_ID = "gpuprobe.jitcache/1"


class JitcacheJsonReporter:
    """Writes one JSON document, indented, keys in the order of the schema."""

    def render(self, report: ScanReport, out: TextIO) -> None:
        """Write `report` to `out`, ending with a newline."""
        out.write(json.dumps(to_dict(report), ensure_ascii=False, indent=2) + "\n")

    def render_moved(self, moved: Iterable[Moved], dry_run: bool, out: TextIO) -> None:
        """Write what a repair did."""
        document = {
            "schema": SCHEMA_ID,
            "tool": {"name": "gpuprobe", "version": __version__},
            "dry_run": dry_run,
            "moved": [_moved(item) for item in moved],
        }
        out.write(json.dumps(document, ensure_ascii=False, indent=2) + "\n")


def to_dict(report: ScanReport) -> dict[str, Any]:
    """Return the document as plain values."""
    return {
        "schema": SCHEMA_ID,
        "tool": {"name": "gpuprobe", "version": __version__},
        "exit_code": report.exit_code,
        "checked": report.checked,
        "complete": report.complete,
        "took_s": round(report.took_s, 3),
        "bad": [_finding(item) for item in report.bad],
        "suspicious": [_finding(item) for item in report.suspicious],
        "unreadable": [
            {"path": _text(item.path), "why": _plain(item.why)} for item in report.unreadable
        ],
        "caches": [_place(place) for place in report.places],
        "absent": [_place(place) for place in report.absent],
        "architectures": list(report.architectures),
        "notes": list(report.notes),
    }


def _finding(item: CacheFinding) -> dict[str, Any]:
    return {
        "path": _text(item.path),
        "entry": _plain(item.key),
        "cache": item.cache,
        "why": _plain(item.why),
        "harm": item.harm.value,
        "size": item.size,
        "expected_size": item.expected,
        "mtime": item.mtime.isoformat() if item.mtime else None,
        "kernel": _plain(item.kernel) or None,
        "moves": _text(item.entry_path),
    }


def _place(place: Place) -> dict[str, Any]:
    return {"cache": place.cache or None, "path": _text(place.path), "by": place.by}


def _moved(item: Moved) -> dict[str, Any]:
    return {
        "entry": _text(item.entry),
        "to": None if item.to is None else _text(item.to),
        "why": _plain(item.why),
        "problem": _plain(item.problem) or None,
        "skipped": item.skipped,
    }


def _text(path: Path) -> str:
    return _plain(str(path))


def _plain(text: str) -> str:
    r"""Bytes of a name that are no UTF-8 are written as `\xff`."""
    return text.encode("utf-8", "surrogateescape").decode("utf-8", "backslashreplace")
