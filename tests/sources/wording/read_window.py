"""Reads made-up lines with one family, as the ingest would, without framings."""

from __future__ import annotations

from gpuprobe.events import Event
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.wording.base import Family, Pattern


def windows(block: str) -> list[Window]:
    """A window on each line of `block`, then on the line joined with the next ones."""
    records = [Record(line, number, line) for number, line in enumerate(block.split("\n"), 1)]
    found = [Window(records, i, record.message, "x.log") for i, record in enumerate(records)]
    if len(records) > 1:
        found.append(Window(records, 0, " ".join(r.message.strip() for r in records), "x.log"))
    return found


def read(family: Family, block: str) -> list[Event]:
    """The events of the first window that gives any."""
    for window in windows(block):
        if events := [event for _, _, event in family.read(window)]:
            return events
    return []


def read_lines(family: Family, block: str) -> list[Event]:
    """The events of all lines, none joined."""
    lines = len(block.split("\n"))
    return [event for window in windows(block)[:lines] for _, _, event in family.read(window)]


def reads(pattern: Pattern, block: str) -> bool:
    """True if this pattern alone gives an event somewhere in the block."""
    alone = Family("alone", (pattern,))
    return any(list(alone.read(window)) for window in windows(block))
