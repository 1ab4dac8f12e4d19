"""A history of boots as a table, or as JSON (`gpuprobe.history/1`, `history.schema.json`)."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Any, TextIO

from gpuprobe import __version__
from gpuprobe.boot_history import BootRow, End, History
from gpuprobe.diagnosis import Verdict
from gpuprobe.reporters.plain import COLUMNS, count, printable, wrap, write_json

SCHEMA_ID = "gpuprobe.history/1"
FAULTS_SHOWN = 4
"""Faults of one boot that the table names; the JSON holds all."""

HEAD = "BOOT      BEGAN (UTC)       LENGTH    END       LOST  HUNG  RESET"


class HistoryTextReporter:
    """Writes a row a boot, oldest first, with its faults and changes below it.

    Args:
        columns: Width of the lines that explain; the table itself has a fixed one.
    """

    def __init__(self, *, columns: int = COLUMNS) -> None:
        self.columns = columns

    def render(self, history: History, out: TextIO) -> None:
        """Write `history` to `out`, ending with a newline."""
        out.writelines(f"{line}\n" for line in self._lines(history))

    def _lines(self, history: History) -> Iterator[str]:
        if history.rows:
            yield HEAD
        for row in history.rows:
            yield _row(row)
            for text in _below(row):
                first, *rest = wrap(printable(text), self.columns - 12)
                yield f"          {first}"
                yield from (f"            {line}" for line in rest)
        if history.rows:
            yield ""
            yield from wrap(_summary(history), self.columns)
        for note in history.notes:
            yield from wrap(f"not checked: {printable(note)}", self.columns)


def _row(row: BootRow) -> str:
    began = f"{row.began:%Y-%m-%d %H:%M}" if row.began else "unknown"
    numbers = f"{row.losses or '-':>4}  {row.hangs or '-':>4}  {row.resets or '-':>5}"
    return (
        f"{printable(row.boot_id)[:8]:<8}  {began:<16}  {spell_length(row.length):<8}  "
        f"{row.end.value:<8}  {numbers}"
    )


def spell_length(length: timedelta | None) -> str:
    """`3d 4h`, `2h 05m`, `7m`, `12s`."""
    if length is None:
        return "unknown"
    seconds = max(0, int(length.total_seconds()))
    days, hours, minutes = seconds // 86_400, seconds // 3_600 % 24, seconds // 60 % 60
    if days:
        return f"{days}d {hours}h"
    if hours:
        return f"{hours}h {minutes:02}m"
    return f"{minutes}m" if minutes else f"{seconds}s"


def _below(row: BootRow) -> Iterator[str]:
    for verdict in row.faults[:FAULTS_SHOWN]:
        yield f"{verdict.kind.value}: {verdict.summary}"
    if len(row.faults) > FAULTS_SHOWN:
        yield f"and {len(row.faults) - FAULTS_SHOWN} more faults (--format json has all)"
    if row.signs and row.end is not End.SHUTDOWN:
        yield f"the next boot found: {', '.join(row.signs)}"
    if row.changed:
        yield f"changed: {'; '.join(row.changed)}"


def _summary(history: History) -> str:
    losses = sum(row.losses for row in history.rows)
    abrupt = sum(row.end in (End.UNCLEAN, End.CUT_OFF) for row in history.rows)
    hangs = sum(row.hangs for row in history.rows)
    parts = [
        count(len(history.rows), "boot") + " kept",
        count(losses, "loss") if losses == 1 else f"{losses} losses",
        count(hangs, "hang"),
        f"{abrupt} ended without a shutdown",
    ]
    return ", ".join(parts) + "."


class HistoryJsonReporter:
    """Writes one JSON document, indented, keys in the order of the schema."""

    def render(self, history: History, out: TextIO) -> None:
        """Write `history` to `out`, ending with a newline."""
        write_json(to_dict(history), out)


def to_dict(history: History) -> dict[str, Any]:
    """Return the document as plain values."""
    return {
        "schema": SCHEMA_ID,
        "tool": {"name": "gpuprobe", "version": __version__},
        "answer": history.answer,
        "exit_code": history.exit_code,
        "boots": [_boot(row) for row in history.rows],
        "notes": list(history.notes),
    }


def _boot(row: BootRow) -> dict[str, Any]:
    return {
        "boot_id": row.boot_id,
        "began": _time(row.began),
        "ended": _time(row.ended),
        "length_s": None if row.length is None else row.length.total_seconds(),
        "end": row.end.value,
        "losses": row.losses,
        "hangs": row.hangs,
        "resets": row.resets,
        "faults": [_fault(verdict) for verdict in row.faults],
        "changed": list(row.changed),
        "signs": list(row.signs),
    }


def _fault(verdict: Verdict) -> dict[str, Any]:
    pci = verdict.device.pci if verdict.device else None
    return {
        "kind": verdict.kind.value,
        "certainty": verdict.certainty.value if verdict.certainty else None,
        "summary": verdict.summary,
        "pci": None if pci is None else str(pci),
        "at": _time(verdict.at),
        "xids": list(verdict.xids),
    }


def _time(at: datetime | None) -> str | None:
    return None if at is None else at.isoformat()
