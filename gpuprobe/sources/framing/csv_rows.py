"""Rows of a log store's CSV export: the time, and the cell that holds the line.

Kibana, Splunk, Datadog, CloudWatch, Grafana and Azure write one row a line, each with columns of
its own and most of them newest first; so the cells are told apart by what is in them.
"""

from __future__ import annotations

import csv

from gpuprobe.clock import Stamp
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import (
    ISO,
    OFFSET,
    clock_stamp,
    epoch_stamp,
    iso_stamp,
    month_number,
)

_EPOCH = r"\d{10}(?:\d{3}){0,3}"
_QUOTED = regex(r'"(?:[^"]|"")*",[^\s,]')
_BARE = regex(rf"(?:{_EPOCH}|\d{{4}}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d{{1,9}})? ?{OFFSET}),\S")
"""A count or a time with its zone: without one, a logger's decimals stand behind the comma."""

_ISO_CELL = regex(rf"{ISO}\Z")
_EPOCH_CELL = regex(rf"{_EPOCH}\Z")
_KIBANA_CELL = regex(
    r"(?P<month>\w{3,9}) (?P<day>\d{1,2}), (?P<year>\d{4}) @ (?P<clock>\d\d:\d\d:\d\d(?:\.\d+)?)\Z"
)


def _time(cell: str) -> Stamp | None:
    """The time that a cell is as a whole, or None."""
    if _ISO_CELL.match(cell):
        return iso_stamp(cell)
    if _EPOCH_CELL.match(cell):
        return epoch_stamp(cell, int(cell) / 10 ** (len(cell) - 10), cell[10:] or None)
    if (match := _KIBANA_CELL.match(cell)) and (month := month_number(match["month"])):
        return clock_stamp(cell, month, int(match["day"]), match["clock"], year=int(match["year"]))
    return None


def _peel(text: str) -> Peeled | None:
    if not (_QUOTED.match(text) or _BARE.match(text)):
        return None
    try:
        cells = next(csv.reader([text]), [])
    except csv.Error:  # a cell longer than the module takes
        return None
    when = next((cell for cell in cells if _time(cell)), None)
    if when is None:
        return None
    words = [cell for cell in cells if " " in cell.strip() and cell != when]
    # Labels stand beside the line as an object; a line that is one stands alone.
    lines = [cell for cell in words if not cell.startswith("{")] or words
    if not lines:
        return None
    kernel = "kernel" in cells
    return Peeled(
        " ".join(lines),
        "csv",
        _time(when),
        source="kernel" if kernel else None,
        kernel=kernel,
    )


FRAMINGS = (Framing("csv", '"0123456789', _peel, outermost=True),)
