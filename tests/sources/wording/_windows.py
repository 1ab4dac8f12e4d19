"""Windows and events from plain lines, for the tests of wording families."""

from __future__ import annotations

from gpuprobe.events import Event
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.wording.base import Family, Pattern


def records_of(text: str, *, framing: str = "dmesg") -> list[Record]:
    """One record a line, as the framing of a dmesg file gives them."""
    return [
        Record(message=line, line=number, raw=line, framing=framing)
        for number, line in enumerate(text.split("\n"), 1)
    ]


def windows_of(text: str, *, framing: str = "dmesg") -> list[Window]:
    """A window on each line of `text`."""
    records = records_of(text, framing=framing)
    return [
        Window(records, index, record.message, "kern.log") for index, record in enumerate(records)
    ]


def events_of(family: Family, text: str, *, framing: str = "dmesg") -> list[Event]:
    """All events that `family` reads from the lines of `text`."""
    windows = windows_of(text, framing=framing)
    return [event for window in windows for _, _, event in family.read(window)]


def events_of_one_record(family: Family, text: str) -> list[Event]:
    """All events from `text` as one record with line breaks in it, as /dev/kmsg gives it."""
    record = Record(message=text, line=1, raw=text, framing="kmsg", kernel=True)
    return [event for _, _, event in family.read(Window([record], 0, text, "kmsg"))]


def windows(block: str) -> list[Window]:
    """A window on each line of `block`, then on all of them joined, as ingest tries them."""
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
