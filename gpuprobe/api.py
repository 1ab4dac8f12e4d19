"""What the library does: each function returns a value, prints nothing and never exits."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from datetime import timedelta
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from gpuprobe.clock_joining import Clocks, parse_time, parse_timezone
from gpuprobe.diagnosis import Diagnosis, Input, Kind, NotChecked
from gpuprobe.errors import InputUnreadableError, UsageError
from gpuprobe.events import Event
from gpuprobe.hosts import group_by_host
from gpuprobe.identity import PciAddress
from gpuprobe.options import Options, Progress
from gpuprobe.selection import in_boot, select
from gpuprobe.sources import machine
from gpuprobe.sources.ingest import Ingest, Reading
from gpuprobe.sources.inputs import open_inputs
from gpuprobe.sources.raw_input import RawInput, UnreadableInput
from gpuprobe.sources.scan import scan
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import diagnose as judge

AROUND = timedelta(minutes=10)
"""How much of the units' journal is read before and after an incident."""

_GRAVITY = {Kind.DEVICE_LEFT_BUS: 0, Kind.CANNOT_TELL: 2, Kind.NO_FAULT: 3}


def diagnose(
    *paths: str | Path,
    options: Options | None = None,
    stdin: BinaryIO | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Diagnosis:
    """Judge saved logs.

    Args:
        paths: Files, folders, archives; `-` reads `stdin`. None: this machine's own journal, all
            boots that are kept, of which the newest with an incident is judged.
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
    names = list(dict.fromkeys(str(path) for path in paths))
    given = open_inputs(names, stdin=stdin) if names else ()
    here = machine.kernel_inputs() if options.with_machine or not paths else ()
    readings, unreadable = read(chain(given, here), options, progress=progress)
    if not readings:
        raise _nothing_read(unreadable, names)
    if paths:
        return diagnose_readings(readings, options, unreadable=unreadable)
    return _newest_incident(readings, unreadable, options)


def _nothing_read(unreadable: Sequence[Input], names: Sequence[str]) -> InputUnreadableError:
    said = "; ".join(f"{item.path}: {' '.join(item.notes)}" for item in unreadable[:3])
    hint = "Give a log file, a folder, an archive, or - for standard input."
    if len(unreadable) > 3:
        said += f"; and {len(unreadable) - 3} more"
    if not names:
        return InputUnreadableError(
            f"this machine's own logs could not be read: {said or 'they are empty'}", hint=hint
        )
    return InputUnreadableError(said or f"{', '.join(names)}: there is no file in it", hint=hint)


def _newest_incident(
    readings: list[Reading], unreadable: list[Input], options: Options
) -> Diagnosis:
    """The newest boot of this machine that holds a fault, with its units' lines around it."""
    timeline = join_readings(readings, options)[0]
    boots = list(dict.fromkeys(timeline.boot_of(event) for event in timeline.events))
    if options.boot is not None or not boots:
        return diagnose_readings(readings, options, unreadable=unreadable)
    faults = {
        boot: diagnosis
        for boot in boots
        if (diagnosis := judge(in_boot(timeline, boot))).answer is not Kind.NO_FAULT
    }
    chosen = next((boot for boot in reversed(boots) if boot in faults), boots[-1])
    options = replace(options, boot=chosen)
    note = f"took boot {chosen}, the newest of {len(boots)} that holds an incident"
    if chosen not in faults:
        note = f"none of the {len(boots)} boots that are kept holds an incident"
    elif len(faults) > 1:
        note += f"; {len(faults) - 1} older ones hold one too: choose with --boot"
    at = faults[chosen].verdicts[0].at if chosen in faults else None
    if at is not None:
        around = machine.unit_inputs(at - AROUND, at + AROUND)
        more, missing = read(around, replace(options, boot=None), first=len(readings))
        readings, unreadable = [*readings, *more], [*unreadable, *missing]
    found = diagnose_readings(readings, options, unreadable=unreadable)
    first, *rest = found.inputs
    return replace(found, inputs=(replace(first, notes=(*first.notes, note)), *rest))


def timelines(
    *paths: str | Path, options: Options | None = None, stdin: BinaryIO | None = None
) -> list[Timeline]:
    """What saved logs say, in order, before anything is judged.

    Args:
        paths: As for `diagnose`, at least one.
        options: How to read them.
        stdin: What `-` reads.

    Returns:
        One timeline a host; `Timeline.to_frame` gives its events as a pandas frame.

    Raises:
        InputUnreadableError: None of the inputs could be read.
        UsageError: An option names no time, zone or address.
    """
    options = options or Options()
    names = list(dict.fromkeys(str(path) for path in paths))
    readings, unreadable = read(open_inputs(names, stdin=stdin), options)
    if not readings:
        raise _nothing_read(unreadable, names)
    return join_readings(readings, options)


def diagnose_text(text: str, *, options: Options | None = None) -> Diagnosis:
    """Judge a text in memory; its lines are cited as input `-`."""
    return diagnose("-", options=options, stdin=io.BytesIO(text.encode("utf-8", "surrogateescape")))


def read(
    raw_inputs: Iterable[RawInput | UnreadableInput],
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
        What was read, and the inputs that could not be, each with a note that says why.
    """
    readings: list[Reading] = []
    unreadable: list[Input] = []
    passed_over: list[Input] = []
    for order, raw in enumerate(raw_inputs, start=first):
        if isinstance(raw, UnreadableInput):
            note = f"{raw.reason}. {raw.hint}".strip()
            left_out = Input(raw.path, "text", None, 0, (note,))
            (passed_over if raw.expected else unreadable).append(left_out)
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
    # Pictures and programs in a folder are nothing to speak of, unless there is nothing else.
    return readings, unreadable if readings else [*unreadable, *passed_over]


def join_readings(readings: Sequence[Reading], options: Options) -> list[Timeline]:
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
    if options.device is not None:
        _must_be_named(options.device, events)
    return found


def _must_be_named(device: PciAddress, events: Sequence[Event]) -> None:
    named = {event.device.slot for event in events if event.device is not None}
    if device.slot not in named:
        known = ", ".join(str(address) for address in sorted(named)[:8]) or "no device"
        raise UsageError(f"no line of the inputs names {device}", hint=f"They name {known}.")


def diagnose_readings(
    readings: Sequence[Reading], options: Options, *, unreadable: Sequence[Input] = ()
) -> Diagnosis:
    """Judge what was read: the gravest host first, the others whole beside it."""
    diagnoses = [judge(timeline) for timeline in join_readings(readings, options)]
    diagnoses.sort(key=lambda diagnosis: (_GRAVITY.get(diagnosis.answer, 1), diagnosis.host or ""))
    first, *others = diagnoses
    unseen = [
        NotChecked(item.path, " ".join(item.notes), "give it again when it can be read")
        for item in unreadable
    ]
    verdict = first.verdicts[0]
    rows = (*verdict.not_checked, *unseen, *_of_no_host(diagnoses))
    return replace(
        first,
        verdicts=(replace(verdict, not_checked=rows), *first.verdicts[1:]),
        inputs=(*first.inputs, *unreadable),
        other_hosts=tuple(others),
    )


def _of_no_host(diagnoses: Sequence[Diagnosis]) -> list[NotChecked]:
    """A row for inputs that name no machine, where several machines are among the inputs."""
    named = sorted(diagnosis.host for diagnosis in diagnoses if diagnosis.host is not None)
    loose = [item.path for found in diagnoses if found.host is None for item in found.inputs]
    if len(named) < 2 or not loose:
        return []
    shown = ", ".join(loose[:3]) + (f" and {len(loose) - 3} more" if len(loose) > 3 else "")
    return [
        NotChecked(
            what=f"which machine {shown} belongs to",
            why=f"it names none, and {' and '.join(named[:4])} are known: it was joined to none",
            how=f"--host {named[0]}",
        )
    ]
