"""From raw inputs to timelines: read each, then join their clocks and hosts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Final

from gpuprobe.clock_joining import Clocks, parse_timezone
from gpuprobe.diagnosis import Input
from gpuprobe.errors import InputUnreadableError, UsageError
from gpuprobe.events import Event, is_evidence
from gpuprobe.hosts import group_by_host
from gpuprobe.identity import PciAddress
from gpuprobe.options import Options, Progress
from gpuprobe.same_lines import find_doubles
from gpuprobe.selection import left_out, select
from gpuprobe.sources.files.raw_input import Input as RawOrRecording
from gpuprobe.sources.files.raw_input import RawInput, RecordingInput, UnreadableInput
from gpuprobe.sources.ingest import Ingest, Reading
from gpuprobe.sources.scanning.scan import scan
from gpuprobe.spoken_times import parse_time
from gpuprobe.timeline import Timeline

OWN: Final = "report"
"""Format of an input that gpuprobe wrote and that is not read."""

BEHIND_LOGS: Final = 1_000_000
"""Added to the number of an input that is a recording: of one moment, a log's own line is told
before what a recorder read."""


def read(
    raw_inputs: Iterable[RawOrRecording],
    options: Options,
    *,
    first: int = 0,
    progress: Callable[[Progress], None] | None = None,
) -> tuple[list[Reading], list[Input]]:
    """Read inputs into events.

    Args:
        raw_inputs: What to read, in order.
        options: How to read it.
        first: Number of the first input, for the order of events.
        progress: Called now and then with how far the reading has come.

    Returns:
        What was read, and the inputs that were not, each with a note that says why; of format
        `report` what gpuprobe wrote itself, which nobody misses.
    """
    readings: list[Reading] = []
    unreadable: list[Input] = []
    passed_over: list[Input] = []
    own: list[Input] = []
    kept: dict[str, list[Reading]] = {}
    for order, raw in enumerate(raw_inputs, start=first):
        if isinstance(raw, UnreadableInput):
            note = f"{raw.reason}. {raw.hint}".strip()
            left_out = Input(raw.path, "text", None, 0, (note,), in_part=raw.in_part)
            (passed_over if raw.expected else unreadable).append(left_out)
            if raw.own:
                own.append(Input(raw.path, OWN, None, 0, (f"{raw.reason}: no evidence",)))
            continue
        if isinstance(raw, RecordingInput):
            _read_recording(raw, order, readings, unreadable)
            continue
        if raw.format == "report":
            before = len(readings)
            _read_report(raw, order, readings, unreadable)
            if raw.looked_up:
                kept[raw.path] = readings[before:]
            continue
        try:
            scanned = scan(raw, prefilter=options.prefilter, progress=progress)
            reading = Ingest(raw.path, order, raw.format).read(scanned, raw.notes)
        except InputUnreadableError as error:
            unreadable.append(Input(raw.path, "text", None, 0, (str(error), error.hint)))
            continue
        if reading.input.lines == 0:
            notes = reading.input.notes or ("it is empty.",)
            unreadable.append(replace(reading.input, boots=0, notes=notes))
            continue
        readings.append(reading)
    if any(reading.continues for reading in readings):
        from gpuprobe.recording.evidence import without_repeats

        without_repeats(readings)
    readings = _without_told(readings, kept, unreadable)
    # Pictures and programs in a folder are nothing to speak of, unless there is nothing else.
    return readings, [*unreadable, *(own if readings else passed_over)]


def _read_recording(
    raw: RecordingInput, order: int, readings: list[Reading], unreadable: list[Input]
) -> None:
    from gpuprobe.recording.evidence import read as read_recording

    try:
        readings.append(read_recording(raw.file, raw.path, BEHIND_LOGS + order))
    except InputUnreadableError as error:
        # The path stands before it already, and may be that of a copy.
        why = str(error).removeprefix(str(raw.file))
        why = f"it{why}" if why.startswith(" ") else why.lstrip(": ")
        unreadable.append(Input(raw.path, "recording", None, 0, (f"{why}.", error.hint)))


def _read_report(
    raw: RawInput, order: int, readings: list[Reading], unreadable: list[Input]
) -> None:
    from gpuprobe.report.saved import read as read_report

    try:
        told, unread = read_report(raw, order)
    except InputUnreadableError as error:
        # The path stands before it already.
        why = str(error).removeprefix(f"{raw.path} ")
        unreadable.append(Input(raw.path, "text", None, 0, (f"it {why}.", error.hint)))
        return
    readings.extend(told)
    unreadable.extend(unread)


def _without_told(
    readings: list[Reading], kept: dict[str, list[Reading]], left_out: list[Input]
) -> list[Reading]:
    """The readings without reports that lie beside the logs which they tell of, which is noted.

    Args:
        readings: All of them.
        kept: Path of a report that nobody named to what it keeps; its host is a pseudonym, which
            would be a second machine here.
        left_out: Gets an entry for each that is left out, in place of what it says was unread.
    """
    of_reports = {id(reading) for told in kept.values() for reading in told}
    logs = [reading for reading in readings if id(reading) not in of_reports]
    names = {_name(reading) for reading in logs}
    failed = any(_failed(reading) for reading in logs)
    gone: set[int] = set()
    for path, told in kept.items():
        same = names.issuperset(_name(reading) for reading in told)
        if logs and (failed or same or not any(_failed(reading) for reading in told)):
            gone.update(id(reading) for reading in told)
            left_out[:] = [item for item in left_out if not item.path.startswith(f"{path}!")]
            note = "a report, beside logs: no evidence. Name it alone to have it judged."
            left_out.append(Input(path, OWN, None, 0, (note,)))
    return [reading for reading in readings if id(reading) not in gone]


def _failed(reading: Reading) -> bool:
    return any(is_evidence(event) for event in reading.events)


def _name(reading: Reading) -> str:
    """The last part of an input's path, be it in an archive, a folder or a report."""
    return PurePosixPath(reading.input.path.rpartition("!")[2]).name


def join_readings(readings: Sequence[Reading], options: Options) -> list[Timeline]:
    """One timeline a host, with the clocks of its inputs joined."""
    ordered = sorted(readings, key=lambda reading: bool(reading.recording))
    events: list[Event] = [event for reading in ordered for event in reading.events]
    inputs = {reading.input.path: reading.input for reading in readings}
    doubles, shared = find_doubles(readings)
    groups = group_by_host(events, list(inputs), host=options.host)
    zone = parse_timezone(options.timezone) if options.timezone else None
    boot_time = parse_time(options.boot_time, zone) if options.boot_time else None
    found = []
    for group in groups:
        clocks = Clocks(zone=zone, boot_time=boot_time)
        pairs = [*shared, *(pair for reading in readings for pair in reading.paired)]
        clocks.learn(pairs, group.events)
        timeline = Timeline(
            events=[event for event in group.events if id(event) not in doubles],
            inputs=[inputs[path] for path in group.paths],
            host=group.name,
            program_text=frozenset(r.input.path for r in readings if r.program_text),
            clocks=clocks,
        )
        chosen = select(timeline, options)
        told = left_out(timeline, chosen)
        timeline = chosen
        timeline.inputs = [
            replace(
                item,
                boots=timeline.boots_in(item.path),
                notes=(*item.notes, *told.get(item.path, ())),
            )
            for item in timeline.inputs
        ]
        found.append(timeline)
    if options.device is not None:
        _must_be_named(options.device, events)
    return found


def _must_be_named(device: PciAddress, events: Sequence[Event]) -> None:
    named = {event.device.slot for event in events if event.device is not None}
    if device.slot not in named:
        known = ", ".join(str(address) for address in sorted(named)[:8]) or "no device"
        raise UsageError(f"no line of the inputs names {device}", hint=f"They name {known}.")
