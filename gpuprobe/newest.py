"""The newest incident of this machine: in which boot, and what else there is about it."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta

from gpuprobe.diagnosis import Diagnosis, Input, Kind
from gpuprobe.errors import UsageError
from gpuprobe.joining import join_readings, read
from gpuprobe.options import Options
from gpuprobe.recording import own
from gpuprobe.selection import in_boot
from gpuprobe.sources.files import machine
from gpuprobe.sources.files.raw_input import RecordingInput
from gpuprobe.sources.ingest import Reading
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import diagnose as judge

AROUND = timedelta(minutes=10)
"""How much of the units' journal is read before and after an incident."""


@dataclass(frozen=True, slots=True)
class Incident:
    """What to judge.

    Attributes:
        boot: The boot, as `Options.boot` takes it, or None for all of them.
        readings: What there is beside the kernel's log: recordings, and units' lines around it.
        unreadable: Inputs that could not be read.
        notes: Why this boot, in words.
    """

    boot: str | None
    readings: Sequence[Reading] = ()
    unreadable: Sequence[Input] = ()
    notes: Sequence[str] = field(default=())


def newest_incident(readings: Sequence[Reading], options: Options) -> Incident | None:
    """Find it among the boots of the kernel's log and among the recordings.

    Args:
        readings: The kernel's log, if any of it could be read.
        options: How it was read; a boot that they name is kept to.

    Returns:
        None where there is neither a log nor a recording.
    """
    recordings = own.heads()
    if not readings and not recordings:
        return None
    _name_this_boot(readings, recordings)
    timeline = _kernels_word(readings, options)
    boots = _in_order(timeline) if timeline is not None else []
    if options.boot is not None:
        meant = _meant(options.boot, boots)
        heads = own.of_boot(recordings, meant)
        more, missing = _read_recordings(heads, options, first=len(readings))
        return Incident(meant, more, missing) if readings or more else None
    faults = _faults(timeline, boots) if timeline is not None else {}
    chosen = next((boot for boot in reversed(boots) if boot in faults), None)
    at = faults[chosen].verdicts[0].at if chosen is not None else None
    recorded = own.newest_fault(recordings)
    if recorded is not None and (chosen is None or _is_later(recorded, at, chosen, boots)):
        chosen, at = recorded.boot or chosen, recorded.fault_at
    notes = [_why(chosen, boots, faults)] if boots else []
    boot = chosen or (boots[-1] if boots else None)
    heads = own.around(recordings, at, boot or "") if at else own.of_boot(recordings, boot)[-1:]
    more, missing = _read_recordings(heads, options, first=len(readings))
    if at is not None:
        units = machine.unit_inputs(at - AROUND, at + AROUND)
        lines, unread = read(units, replace(options, boot=None), first=len(readings) + len(heads))
        more, missing = [*more, *lines], [*missing, *unread]
    if not readings and not more:
        return None
    known = {event.boot for reading in (*readings, *more) for event in reading.events}
    return Incident(boot if boot in known or boot in boots else None, more, missing, notes)


def recordings_around(
    at: datetime | None, *, first: int, options: Options
) -> tuple[list[Reading], list[Input]]:
    """Read this machine's recordings of a time, or the newest one where it is not known.

    Args:
        at: The time.
        first: Number of the first input.
        options: How to read.
    """
    recordings = own.heads()
    heads = own.around(recordings, at) if at is not None else recordings[-1:]
    return _read_recordings(heads, options, first=first)


def _read_recordings(
    heads: Sequence[own.Head], options: Options, *, first: int
) -> tuple[list[Reading], list[Input]]:
    raw = [RecordingInput(str(head.path), head.path) for head in heads]
    return read(raw, replace(options, boot=None), first=first)


def _kernels_word(readings: Sequence[Reading], options: Options) -> Timeline | None:
    """What the kernel's log says, or None where there is none, or none about `--device`."""
    if not readings:
        return None
    try:
        return join_readings(readings, replace(options, boot=None))[0]
    except UsageError:
        # A recording may know what the log does not name; where it does not, this is said later.
        return None


def _meant(wanted: str, boots: Sequence[str]) -> str:
    """The boot that `--boot` names: an id or its beginning, or 0 for the last, -1 before it."""
    with suppress(ValueError, IndexError):
        return boots[int(wanted) - 1] if len(wanted) < 8 and int(wanted) <= 0 else wanted
    return wanted


def _name_this_boot(readings: Sequence[Reading], recordings: Sequence[own.Head]) -> None:
    """Give what the kernel's own buffer holds the boot that recordings know it by."""
    this = machine.boot_id()
    if not any(head.boot == this for head in recordings):
        return
    for reading in readings:
        if reading.input.format == "kmsg":
            for event in reading.events:
                vars(event)["boot"] = event.boot or this


def _in_order(timeline: Timeline) -> list[str]:
    return list(dict.fromkeys(timeline.boot_of(event) for event in timeline.events))


def _faults(timeline: Timeline, boots: Sequence[str]) -> dict[str, Diagnosis]:
    return {
        boot: diagnosis
        for boot in boots
        if (diagnosis := judge(in_boot(timeline, boot))).answer is not Kind.NO_FAULT
    }


def _is_later(head: own.Head, at: datetime | None, boot: str, boots: Sequence[str]) -> bool:
    """Whether a recording's fault came after the one in the kernel's log."""
    if at is not None and head.fault_at is not None:
        return head.fault_at > at
    # A fault of the log without a date: its boot has to decide.
    return head.boot not in boots or boots.index(head.boot) > boots.index(boot)


def _why(chosen: str | None, boots: Sequence[str], faults: dict[str, Diagnosis]) -> str:
    if chosen is None:
        if len(boots) == 1:
            return "the one boot that is kept holds no incident"
        return f"none of the {len(boots)} boots that are kept holds an incident"
    if chosen not in boots:
        return f"the newest incident is in boot {chosen}, of which the journal keeps nothing"
    older = len(faults.keys() - {chosen})
    if len(boots) == 1:
        return f"took boot {chosen}, the one that is kept"
    note = f"took boot {chosen}, the newest of {len(boots)} that holds an incident"
    more = "1 older one holds" if older == 1 else f"{older} older ones hold"
    return note + (f"; {more} one too: choose with --boot" if older else "")
