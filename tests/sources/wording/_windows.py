"""Windows and events from plain lines, for the tests of wording families."""

from __future__ import annotations

from gpuprobe.events import Event
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.wording.base import Family


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
