"""What the library does: each function returns a value, prints nothing and never exits."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from gpuprobe.clocks import Clocks, parse_time, parse_timezone
from gpuprobe.diagnosis import Diagnosis, Input, Kind
from gpuprobe.errors import InputUnreadableError
from gpuprobe.events import Event
from gpuprobe.hosts import group_by_host
from gpuprobe.options import Options, Progress
from gpuprobe.selection import select
from gpuprobe.sources.ingest import Ingest, Reading
from gpuprobe.sources.inputs import UnreadableInput, open_inputs
from gpuprobe.sources.scan import scan
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import diagnose as judge

_GRAVITY = {Kind.DEVICE_LEFT_BUS: 0, Kind.CANNOT_TELL: 2, Kind.NO_FAULT: 3}


def diagnose(
    *paths: str | Path,
    options: Options | None = None,
    stdin: BinaryIO | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Diagnosis:
    """Judge saved logs.

    Args:
        paths: Files, folders, archives; `-` reads `stdin`.
        options: How to read them.
        stdin: What `-` reads.
        progress: Called now and then with how far the reading has come.

    Returns:
        One diagnosis: the gravest host's, with the others under `other_hosts`.

    Raises:
        InputUnreadableError: None of the inputs could be read.
        UsageError: An option names no time, zone or address.
    """
    options = options or Options()
    readings, unreadable = read(paths, options, stdin=stdin, progress=progress)
    if not readings:
        first = unreadable[0] if unreadable else None
        raise InputUnreadableError(
            f"{first.path}: {first.notes[0]}" if first else "no input was given",
            hint="Give a log file, a folder, an archive, or - for standard input.",
        )
    return diagnose_readings(readings, options, unreadable=unreadable)


def diagnose_text(text: str, *, options: Options | None = None) -> Diagnosis:
    """Judge a text in memory; its lines are cited as input `-`."""
    return diagnose("-", options=options, stdin=io.BytesIO(text.encode("utf-8", "surrogateescape")))


def read(
    paths: Sequence[str | Path],
    options: Options,
    *,
    stdin: BinaryIO | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[list[Reading], list[Input]]:
    """Read inputs into events.

    Returns:
        What was read, and the inputs that could not be, each with a note that says why.
    """
    readings: list[Reading] = []
    unreadable: list[Input] = []
    for order, raw in enumerate(open_inputs([str(path) for path in paths], stdin=stdin)):
        if isinstance(raw, UnreadableInput):
            note = f"{raw.reason}. {raw.hint}".strip()
            unreadable.append(Input(raw.path, "text", None, 0, (note,)))
            continue
        scanned = scan(raw, prefilter=options.prefilter, progress=progress)
        readings.append(Ingest(raw.path, order).read(scanned, raw.notes))
    return readings, unreadable


def timelines(readings: Sequence[Reading], options: Options) -> list[Timeline]:
    """One timeline a host, with the clocks of its inputs joined."""
    events: list[Event] = [event for reading in readings for event in reading.events]
    inputs = {reading.input.path: reading.input for reading in readings}
    groups = group_by_host(events, list(inputs), host=options.host)
    zone = parse_timezone(options.timezone) if options.timezone else None
    boot_time = parse_time(options.boot_time, zone) if options.boot_time else None
    found = []
    for group in groups:
        clocks = Clocks(zone=zone, boot_time=boot_time)
        pairs = [pair for reading in readings for pair in reading.paired]
        clocks.learn(pairs, group.events)
        timeline = Timeline(
            events=group.events,
            inputs=[inputs[path] for path in group.paths],
            host=group.name,
            program_text=frozenset(r.input.path for r in readings if r.program_text),
            clocks=clocks,
        )
        timeline = select(timeline, options)
        timeline.inputs = [
            replace(item, boots=timeline.boots_in(item.path)) for item in timeline.inputs
        ]
        found.append(timeline)
    return found


def diagnose_readings(
    readings: Sequence[Reading], options: Options, *, unreadable: Sequence[Input] = ()
) -> Diagnosis:
    """Judge what was read: the gravest host first, the others whole beside it."""
    diagnoses = [judge(timeline) for timeline in timelines(readings, options)]
    diagnoses.sort(key=lambda diagnosis: (_GRAVITY.get(diagnosis.answer, 1), diagnosis.host or ""))
    first, *others = diagnoses
    return replace(
        first, inputs=(*first.inputs, *unreadable), other_hosts=tuple(others)
    )
