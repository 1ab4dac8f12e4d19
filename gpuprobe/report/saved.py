"""What a report keeps so that it can be judged again, by newer rules too: its events.

They are kept as a recording keeps them, so `gpuprobe diagnose report.json` sees what was seen when
it was made, less what was redacted. A report may come from anybody: sizes are limited, and what is
not what it should be is left out with a note.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any, Final

from gpuprobe.clock import Stamp
from gpuprobe.clock_joining import PairedStamps
from gpuprobe.diagnosis import Input
from gpuprobe.errors import InputUnreadableError
from gpuprobe.events import (
    CountersSampled,
    Event,
    GpuSampled,
    HostSampled,
    LinkStateReported,
    Origin,
    PowerSampled,
)
from gpuprobe.options import Options
from gpuprobe.recording.codec import CodecError, decode, decode_stamp, encode, encode_stamp
from gpuprobe.recording.rows import is_moment
from gpuprobe.sources.files.raw_input import RawInput
from gpuprobe.sources.ingest import Reading
from gpuprobe.sources.lines import strip_controls
from gpuprobe.timeline import Timeline

SCHEMA_ID: Final = "gpuprobe.report/1"

LARGEST: Final = 64 << 20
"""Bytes of a report that are read at most."""

MOST_EVENTS: Final = 20_000
MOST_SAMPLES: Final = 20_000
"""How many of each are kept; of samples those nearest to the fault."""

MOST_INPUTS: Final = 1000
TEXT_LENGTH: Final = 500
PATH_LENGTH: Final = 1000
LARGEST_NUMBER: Final = 2**53

SAMPLES: Final = (CountersSampled, GpuSampled, HostSampled, PowerSampled, LinkStateReported)
_FORMAT: Final = re.compile(r"[a-z][a-z0-9-]{0,40}")


# --- writing ---------------------------------------------------------------------------------


def save(
    readings: Sequence[Reading],
    timelines: Sequence[Timeline],
    options: Options,
    about: Mapping[str, Mapping[str, str]],
    at: datetime | None,
    unread: Sequence[Input] = (),
) -> dict[str, Any]:
    """Everything that judging again needs, as JSON holds it; nothing is redacted.

    Args:
        readings: What was read.
        timelines: The same, selected by the options and on joined clocks.
        options: How it was read: what they chose and placed stays chosen and placed.
        about: Input to what a recording says of itself.
        at: When the fault was, so that the samples round it are kept.
        unread: What could not be read, or not to its end.
    """
    of = {id(event): timeline for timeline in timelines for event in timeline.events}
    events = [event for reading in readings for event in reading.events if id(event) in of]
    kept = _kept(events, of, at)
    placed = options.timezone is not None or options.boot_time is not None
    return {
        "inputs": [
            {
                "path": reading.input.path,
                "format": reading.input.format,
                "lines": reading.input.lines,
                "notes": list(reading.input.notes),
                "in_part": reading.input.in_part,
                "broken_off": reading.broken_off,
                "program_text": reading.program_text,
                "recording": reading.recording,
                "continues": reading.continues,
                "about": dict(about.get(reading.input.path, {})),
                "paired": [
                    [pair.host, [encode_stamp(stamp) for stamp in pair.stamps]]
                    for pair in reading.paired
                ],
                "events": [
                    [type(event).__name__, _encoded(event, of[id(event)], placed, options)]
                    for event in reading.events
                    if id(event) in kept
                ],
            }
            for reading in readings
        ],
        "unread": [
            {"path": item.path, "notes": list(item.notes), "in_part": item.in_part}
            for item in unread
        ],
    }


def _kept(
    events: Sequence[Event], of: Mapping[int, Timeline], at: datetime | None
) -> frozenset[int]:
    samples = [event for event in events if isinstance(event, SAMPLES)]
    others = [event for event in events if not isinstance(event, SAMPLES)]
    if len(samples) > MOST_SAMPLES:
        samples.sort(key=lambda event: _distance(of[id(event)].at(event), at))
        samples = samples[:MOST_SAMPLES]
    if len(others) > MOST_EVENTS:
        others = [*others[: MOST_EVENTS // 2], *others[-MOST_EVENTS // 2 :]]
    return frozenset(id(event) for event in (*samples, *others))


def _distance(moment: datetime | None, at: datetime | None) -> float:
    if moment is None:
        return float("inf")
    # Without a fault the newest are worth most.
    return -moment.timestamp() if at is None else abs((moment - at).total_seconds())


def _encoded(event: Event, timeline: Timeline, placed: bool, options: Options) -> dict[str, Any]:
    found = encode(event)
    stamp = event.stamp
    if placed and stamp is not None and not stamp.is_absolute:
        wall = timeline.at(event)
        if wall is not None:
            known = Stamp(stamp.raw, stamp.monotonic_s, wall, True, stamp.resolution_s)
            found["stamp"] = encode_stamp(known)
    if options.host is not None and event.host is None and timeline.host is not None:
        found["host"] = timeline.host
    return found


# --- reading ---------------------------------------------------------------------------------


def read(raw: RawInput, order: int) -> tuple[list[Reading], list[Input]]:
    """What a saved report was made from, as if its inputs were read again.

    Args:
        raw: The report's JSON.
        order: Number of the input, for the order of events.

    Returns:
        What was read then, and the inputs that could not be, or not to their end.

    Raises:
        InputUnreadableError: It is too long, or no report.
    """
    document = load(_bytes(raw), raw.path)
    saved = document.get("saved")
    saved = saved if isinstance(saved, dict) else {}
    inputs = saved.get("inputs")
    if not isinstance(inputs, list) or not inputs:
        raise InputUnreadableError(
            f"{raw.path} keeps nothing that could be judged again",
            hint="Give the logs that it was made from.",
        )
    readings: list[Reading] = []
    number = 0
    for item in inputs[:MOST_INPUTS]:
        if isinstance(item, dict):
            reading = _reading(item, raw.path, order, number)
            number += len(reading.events)
            readings.append(reading)
    unread = _list(saved, "unread")[:MOST_INPUTS]
    return readings, [_unread(item, raw.path) for item in unread if isinstance(item, dict)]


def _unread(item: dict[str, Any], shown: str) -> Input:
    path, notes = _path(item, shown), tuple(_notes(item))
    return Input(path, "text", None, 0, notes, in_part=item.get("in_part") is True)


def _bytes(raw: RawInput) -> bytes:
    parts: list[bytes] = []
    size = 0
    for block in raw.blocks():
        size += len(block)
        if size > LARGEST:
            raise InputUnreadableError(
                f"{raw.path} is longer than the {LARGEST >> 20} MiB of a report",
                hint="Give the logs that it was made from.",
            )
        parts.append(block)
    return b"".join(parts)


def load(data: bytes, shown: str) -> dict[str, Any]:
    """A report's document.

    Raises:
        InputUnreadableError: It is none, or of a newer schema.
    """
    try:
        document = json.loads(data.decode("utf-8", "replace"))
    except (ValueError, RecursionError) as error:
        raise InputUnreadableError(
            f"{shown} is no whole report: {str(error)[:100]}", hint="Copy or download it again."
        ) from error
    schema = document.get("schema") if isinstance(document, dict) else None
    if schema != SCHEMA_ID:
        raise InputUnreadableError(
            f"{shown} is of schema {str(schema)[:40]}, and this gpuprobe reads {SCHEMA_ID}",
            hint="Update gpuprobe.",
        )
    assert isinstance(document, dict)
    return document


def _reading(item: dict[str, Any], shown: str, order: int, number: int) -> Reading:
    path, notes = _path(item, shown), _notes(item)
    events: list[Event] = []
    unknown = 0
    listed = _list(item, "events")
    for entry in listed[: MOST_EVENTS + MOST_SAMPLES]:
        event = _event(entry, path, (order, number + len(events)))
        if event is None:
            unknown += 1
        else:
            events.append(event)
    if unknown:
        notes.append(f"{unknown} of {len(listed)} events were left out: none that is known here")
    lines = item.get("lines")
    form = item.get("format")
    fits = isinstance(form, str) and _FORMAT.fullmatch(form)
    whole = isinstance(lines, int) and 0 <= lines <= LARGEST_NUMBER
    about = item.get("about")
    return Reading(
        input=Input(
            path=path,
            format=form if fits and form in _formats() else "text",
            lines=lines if whole else None,
            notes=tuple(notes),
            in_part=item.get("in_part") is True,
        ),
        events=events,
        paired=list(_pairs(_list(item, "paired")[:1000], path)),
        program_text=item.get("program_text") is True,
        recording=_text(item.get("recording"), TEXT_LENGTH),
        continues=_text(item.get("continues"), TEXT_LENGTH),
        about=_texts(about) if isinstance(about, dict) else {},
        broken_off=item.get("broken_off") is True,
    )


def _path(item: dict[str, Any], shown: str) -> str:
    return f"{shown}!{_text(item.get('path'), PATH_LENGTH) or 'unnamed'}"


def _notes(item: dict[str, Any]) -> list[str]:
    return [_text(note, TEXT_LENGTH) for note in _list(item, "notes")[:50]]


def _formats() -> frozenset[str]:
    """The closed list of what an input can be, as the schema of a diagnosis has it."""
    from importlib.resources import files

    text = files("gpuprobe.reporters").joinpath("diagnosis.schema.json").read_text("utf-8")
    found = json.loads(text)["$defs"]["input"]["properties"]["format"]["enum"]
    return frozenset(found)


def _event(entry: Any, path: str, order: tuple[int, int]) -> Event | None:
    match entry:
        case [str(kind), dict(fields)]:
            pass
        case _:
            return None
    try:
        event = decode(kind, fields)
    except (CodecError, ValueError, TypeError, OverflowError, RecursionError):
        return None
    if not all(_plain(value) for value in vars(event).values()) or event.count < 1:
        return None
    if event.stamp is not None and not is_moment(event.stamp.wall, event.stamp.monotonic_s):
        return None
    last = event.last
    return replace(
        event,
        origin=_origin(event.origin, path, order),
        last=None if last is None else _origin(last, path, order),
    )


def _origin(origin: Origin, path: str, order: tuple[int, int]) -> Origin:
    line = origin.line if origin.line is not None and 0 < origin.line <= LARGEST_NUMBER else None
    ref = None if origin.ref is None else _text(origin.ref, TEXT_LENGTH)
    return Origin(path, line, _text(origin.text, TEXT_LENGTH), ref, order)


def _plain(value: Any) -> bool:
    """Whether a field's value has a size and a range that an event's own can have."""
    if isinstance(value, bool) or value is None:
        return True
    if isinstance(value, int | float):
        return value == value and abs(value) <= 2.0**64
    if isinstance(value, str):
        return len(value) <= 4096
    if isinstance(value, tuple):
        return len(value) <= 100_000 and all(_plain(one) for one in value)
    return True


def _pairs(found: Iterable[Any], path: str) -> Iterable[PairedStamps]:
    for one in found:
        match one:
            case [host, list(stamps)] if isinstance(host, str | None) and len(stamps) > 1:
                try:
                    read = tuple(decode_stamp(stamp) for stamp in stamps[:4])
                except (CodecError, ValueError, OverflowError):
                    continue
                if not all(is_moment(stamp.wall, stamp.monotonic_s) for stamp in read):
                    continue
                yield PairedStamps(path, host, read)


def _list(item: dict[str, Any], name: str) -> list[Any]:
    found = item.get(name)
    return found if isinstance(found, list) else []


def _texts(found: dict[Any, Any]) -> dict[str, str]:
    items = list(found.items())[:500]
    return {_text(key, 200): _text(value, 4096) for key, value in items if isinstance(value, str)}


def _text(value: Any, length: int) -> str:
    return strip_controls(value)[:length] if isinstance(value, str) else ""
