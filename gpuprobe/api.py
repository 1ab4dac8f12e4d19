"""What the library does: each function returns a value, prints nothing and never exits."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO, Final

from gpuprobe.diagnosis import Diagnosis, Input, Kind, NotChecked
from gpuprobe.errors import InputUnreadableError
from gpuprobe.joining import OWN, join_readings, read
from gpuprobe.options import Options, Progress
from gpuprobe.sources.files.inputs import open_inputs
from gpuprobe.sources.ingest import Reading
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import diagnose as judge

if TYPE_CHECKING:
    from gpuprobe.boot_history import History
    from gpuprobe.checks.gather import Readers
    from gpuprobe.checks.report import CheckReport
    from gpuprobe.checks.scene import Requirements
    from gpuprobe.identity import PciAddress
    from gpuprobe.recording.reader import Recording
    from gpuprobe.sources.files.raw_input import Input as RawOrRecording

_AGAIN: Final = "give it again when it can be read"

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
            boots that are kept, and its recordings, of which the newest incident is judged.
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
    here: Iterable[RawOrRecording] = ()
    if options.with_machine or not paths:
        from gpuprobe.sources.files import machine  # saved logs need nothing of it

        here = machine.kernel_inputs()
    readings, unreadable = read(chain(given, here), options, progress=progress)
    if paths and not readings:
        raise nothing_read(unreadable, names)
    if options.jit_caches:
        from gpuprobe.jitcache.found import read_caches

        readings += read_caches(options.jit_caches, first=len(readings))
    if paths and options.with_machine:
        return _with_recordings(readings, unreadable, options)
    if paths:
        return diagnose_readings(readings, options, unreadable=unreadable)
    from gpuprobe.newest import newest_incident  # saved logs need no SQLite

    found = newest_incident(readings, options)
    if found is None:
        raise nothing_read(unreadable, names)
    diagnosis = diagnose_readings(
        [*readings, *found.readings],
        replace(options, boot=found.boot),
        unreadable=[*unreadable, *found.unreadable],
    )
    first, *rest = diagnosis.inputs
    noted = replace(first, notes=(*first.notes, *found.notes))
    return replace(diagnosis, inputs=(noted, *rest))


def _with_recordings(
    readings: list[Reading], unreadable: list[Input], options: Options
) -> Diagnosis:
    """Given logs and this machine's, with the recordings of the time that they are about."""
    from gpuprobe.newest import recordings_around

    found = diagnose_readings(readings, options, unreadable=unreadable)
    more, missing = recordings_around(found.verdicts[0].at, first=len(readings), options=options)
    given = {reading.recording for reading in readings if reading.recording}
    more = [reading for reading in more if reading.recording not in given]
    if not more:
        return found
    return diagnose_readings([*readings, *more], options, unreadable=[*unreadable, *missing])


def nothing_read(unreadable: Sequence[Input], names: Sequence[str]) -> InputUnreadableError:
    """The error for inputs of which none could be read, to be raised."""
    said = "; ".join(f"{item.path}: {' '.join(item.notes)}" for item in unreadable[:3])
    hint = "Give a log file, a folder, an archive, or - for standard input."
    if len(unreadable) > 3:
        said += f"; and {len(unreadable) - 3} more"
    if not names:
        return InputUnreadableError(
            f"this machine's own logs could not be read: {said or 'they are empty'}", hint=hint
        )
    return InputUnreadableError(said or f"{', '.join(names)}: there is no file in it", hint=hint)


def check(
    *,
    under_load_s: float = 0.0,
    needs: Requirements | None = None,
    device: PciAddress | None = None,
    nvml: bool = True,
    deadline_s: float | None = None,
    readers: Readers | None = None,
) -> CheckReport:
    """Look whether this machine is fit to run, and whether the next loss would be provable.

    Takes at most `deadline_s` (by default such that all is done in five seconds) and
    `under_load_s`, whatever the driver does; what did not answer is listed as not checked.

    Args:
        under_load_s: Seconds to sample while your own load runs; only then is a link's
            generation judged.
        needs: What the work needs of each GPU's link.
        device: Only this GPU.
        nvml: False leaves NVML alone.
        deadline_s: Seconds for reading everything but the samples under load.
        readers: How the machine is read; this machine by default.
    """
    from gpuprobe.checks.examine import examine

    return examine(
        under_load_s=under_load_s,
        needs=needs,
        device=device,
        nvml=nvml,
        deadline_s=deadline_s,
        readers=readers,
    )


def history(
    *, last: int | None = None, progress: Callable[[int, int], None] | None = None
) -> History:
    """Every boot that this machine's journal keeps: what failed in it and how it ended.

    Where no journal may be read, the kernel's own buffer gives the row of this boot.

    Args:
        last: Only the newest so many boots.
        progress: Called before each boot with how many are read, and of how many.
    """
    from gpuprobe.boot_history import read_history

    return read_history(last=last, progress=progress)


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
        raise nothing_read(unreadable, names)
    return join_readings(readings, options)


def load(path: str | Path) -> Recording:
    """Open a recording, also one that is still being written; it is never changed.

    Args:
        path: The file; its `-wal` is looked for beside it.

    Returns:
        Its tables as pandas frames, and what it says of itself. Close it, or use `with`.

    Raises:
        RecordingError: It is no recording, is of a newer schema, or cannot be read.
    """
    from gpuprobe.recording.reader import Recording

    return Recording(path)


def diagnose_text(text: str, *, options: Options | None = None) -> Diagnosis:
    """Judge a text in memory; its lines are cited as input `-`."""
    return diagnose("-", options=options, stdin=io.BytesIO(text.encode("utf-8", "surrogateescape")))


def diagnose_readings(
    readings: Sequence[Reading], options: Options, *, unreadable: Sequence[Input] = ()
) -> Diagnosis:
    """Judge what was read: the gravest host first, the others whole beside it."""
    diagnoses = [
        _with_unseen(judge(timeline), timeline, readings)
        for timeline in join_readings(readings, options)
    ]
    diagnoses.sort(key=lambda diagnosis: (_GRAVITY.get(diagnosis.answer, 1), diagnosis.host or ""))
    first, *others = diagnoses
    unseen = [
        NotChecked(item.path, " ".join(item.notes), "" if _is_here(item) else _AGAIN)
        for item in unreadable
        if item.format != OWN
    ]
    verdict = first.verdicts[0]
    rows = (*verdict.not_checked, *unseen, *_of_no_host(diagnoses))
    found = replace(
        first,
        verdicts=(replace(verdict, not_checked=rows), *first.verdicts[1:]),
        inputs=(*first.inputs, *unreadable),
        other_hosts=tuple(others),
    )
    if unreadable:
        from gpuprobe.recording.doubt import without_the_rest

        found = without_the_rest(found, unreadable)
    return found


def _is_here(item: Input) -> bool:
    """Whether it is this machine's own log, which nobody gave: its notes say what would open it."""
    return item.path.startswith("journal:")


def _with_unseen(found: Diagnosis, timeline: Timeline, readings: Sequence[Reading]) -> Diagnosis:
    """The diagnosis with a row for each source that its recordings lacked, as a live one has."""
    if not any(reading.about or reading.input.in_part for reading in readings):
        return found
    from gpuprobe.recording.doubt import doubted
    from gpuprobe.recording.unseen import rows_of

    unseen = rows_of(timeline, readings)
    told = {row.what for row in unseen}
    first, *rest = found.verdicts
    kept = [row for row in first.not_checked if row.what not in told]
    found = replace(found, verdicts=(replace(first, not_checked=(*unseen, *kept)), *rest))
    return doubted(found, readings)


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
