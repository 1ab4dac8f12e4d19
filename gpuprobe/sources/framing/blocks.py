"""Journal formats whose entries span lines: `-o export` and `-o json-pretty`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.json_lines import journal_record, load_object

ENTRY_LINES = 2_000
"""Lines that one entry may have; what is longer is given up as text."""

_FIELD = regex(r"(?P<key>_{0,2}[A-Z][A-Z0-9_]{0,63})=(?P<value>.*)", re.DOTALL)
_MESSAGE = regex(r"\s*MESSAGE=")
_PRETTY_MESSAGE = regex(r'\s*"MESSAGE" : ')

Numbered = tuple[int, str]
Entry = tuple[int, str, Peeled]
"""Line number and text of the line with the message, and what the entry says."""


def export_entries(lines: Iterable[Numbered]) -> Iterator[Entry | Numbered]:
    """Entries of `journalctl -o export`; lines that belong to none come back as they are.

    A field with unprintable bytes has its name alone on a line, and its value, behind eight bytes
    of length, on the next; such a value is taken up to the next line that is a field.
    """
    entry: list[Numbered] = []
    for line in lines:
        if line[1].strip() and len(entry) < ENTRY_LINES:
            entry.append(line)
            continue
        yield from _export_entry(entry)
        entry = [line] if line[1].strip() else []
    yield from _export_entry(entry)


def _export_entry(entry: list[Numbered]) -> Iterator[Entry | Numbered]:
    fields: dict[str, str] = {}
    where: Numbered | None = None
    binary = ""
    for number, text in entry:
        match = _FIELD.match(text)
        if match is not None:
            binary = ""
            fields.setdefault(match["key"], match["value"])
            if match["key"] == "MESSAGE":
                where = (number, text)
        elif binary:
            fields[binary] = f"{fields[binary]}\n{text}" if binary in fields else text.lstrip()
            if binary == "MESSAGE" and where is None:
                where = (number, text)
        elif re.fullmatch(r"_{0,2}[A-Z][A-Z0-9_]{0,63}", text):
            binary = text
    peeled = None
    if where is not None and ("__CURSOR" in fields or "__REALTIME_TIMESTAMP" in fields):
        peeled = journal_record(fields, "journal-export")
    if peeled is None or where is None:
        yield from entry
    else:
        yield (*where, peeled)


def pretty_entries(lines: Iterable[Numbered]) -> Iterator[Entry | Numbered]:
    """Entries of `journalctl -o json-pretty`; other lines come back as they are."""
    entry: list[Numbered] = []
    for line in lines:
        text = line[1].strip()
        if entry:
            entry.append(line)
            if text == "}" or len(entry) >= ENTRY_LINES:
                yield from _pretty_entry(entry)
                entry = []
        elif text == "{":
            entry = [line]
        else:
            yield line
    yield from _pretty_entry(entry)


def _pretty_entry(entry: list[Numbered]) -> Iterator[Entry | Numbered]:
    fields = load_object("".join(text for _, text in entry)) if entry else None
    peeled = journal_record(fields, "journal-json") if fields else None
    if peeled is None:
        yield from entry
        return
    where = next((line for line in entry if _PRETTY_MESSAGE.match(line[1])), entry[0])
    yield (*where, peeled)


def _message_field(text: str) -> Peeled | None:
    match = _MESSAGE.match(text)
    return match and Peeled(text[match.end() :], "journal-export")


FRAMINGS = (Framing("journal-export", "M", _message_field, outermost=True),)
"""For a `MESSAGE=` line whose entry is not at hand."""
