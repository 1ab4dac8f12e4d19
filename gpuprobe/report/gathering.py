"""From inputs to a report: read, judged, and everything round the verdict collected."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import BinaryIO, Final

from gpuprobe.api import diagnose_readings, nothing_read
from gpuprobe.diagnosis import Diagnosis, Input, Kind, NextStep, Verdict
from gpuprobe.events import GpuSampled, ThermalReported
from gpuprobe.joining import OWN, join_readings, read
from gpuprobe.options import Options, Progress
from gpuprobe.recording.opening import opened
from gpuprobe.report.comparing import Run
from gpuprobe.report.contents import Audience, Report
from gpuprobe.report.engine_facts import argv_of, environment
from gpuprobe.report.facts import facts
from gpuprobe.report.incident import incident
from gpuprobe.report.questions import maintainer, questions
from gpuprobe.report.saved import save
from gpuprobe.report.telemetry import telemetry
from gpuprobe.sources.files.inputs import open_inputs
from gpuprobe.sources.files.raw_input import Input as RawOrRecording
from gpuprobe.sources.files.raw_input import RecordingInput
from gpuprobe.sources.ingest import Reading
from gpuprobe.timeline import Timeline

BUG_REPORT: Final = NextStep(
    type="read",
    text="Make NVIDIA's bug report in safe mode before the power is cut, and attach it: what the "
    "card says of itself is gone after that.",
    command="sudo nvidia-bug-report.sh --safe-mode",
    cost="A minute. It may freeze a machine with a failing card: save logs and recording first.",
    when="The machine still runs.",
    source="NVIDIA/open-gpu-kernel-modules, issue template",
)

_DEVICE_KINDS: Final = frozenset(
    {
        Kind.DEVICE_LEFT_BUS,
        Kind.PCIE_LINK_ERRORS,
        Kind.GPU_FIRMWARE_HANG,
        Kind.GPU_HANG,
        Kind.GPU_MEMORY_ERROR,
        Kind.NVLINK_ERROR,
        Kind.THERMAL,
        Kind.POWER,
        Kind.DRIVER_UNUSABLE,
        Kind.CANNOT_TELL,
    }
)


@dataclass(slots=True)
class Gathered:
    """A report, and what its longer forms need beside it.

    Attributes:
        report: As it is, nothing redacted.
        readings: What was read. timelines: The same on joined clocks, one a host.
        options: How it was read. recordings: As shown, and the file.
        about: Input to what a recording says of itself. paths: What was given.
        unread: What could not be read, or not to its end.
    """

    report: Report
    readings: list[Reading]
    timelines: list[Timeline]
    options: Options
    recordings: list[tuple[str, Path]] = field(default_factory=list)
    about: dict[str, dict[str, str]] = field(default_factory=dict)
    paths: tuple[str, ...] = ()
    unread: tuple[Input, ...] = ()

    @property
    def folders(self) -> tuple[str, ...]:
        """Folders of the inputs that were named by absolute paths; no report needs to name them."""
        given = [Path(path) for path in self.paths]
        names = Counter(path.name for path in given)
        # What would lose the part that tells it from another one keeps all of it.
        alone = [path for path in given if path.is_absolute() and names[path.name] == 1]
        return tuple(f"{path.parent}/" for path in alone if path.parent != path.parent.parent)


def gather(
    paths: Sequence[str | Path],
    options: Options | None = None,
    audience: Audience = "engine",
    *,
    stdin: BinaryIO | None = None,
    progress: Callable[[Progress], None] | None = None,
) -> Gathered:
    """Read inputs and collect what a report of them holds; nothing is redacted yet.

    Args:
        paths: Logs, recordings, earlier reports, folders, archives; `-` is stdin.
        options: How to read them.
        audience: For whom the report is.
        stdin: What `-` reads.
        progress: Called now and then with how far the reading has come.

    Raises:
        InputUnreadableError: None of the inputs could be read.
        UsageError: An option names no time, zone or address.
    """
    options = options or Options()
    names = list(dict.fromkeys(str(path) for path in paths))
    recordings: list[tuple[str, Path]] = []
    raw = _noting(open_inputs(names, stdin=stdin), recordings)
    readings, unreadable = read(raw, options, progress=progress)
    if not readings:
        raise nothing_read(unreadable, names)
    given = {reading.input.path for reading in readings}
    recordings = [one for one in recordings if one[0] in given]
    diagnosis = diagnose_readings(readings, options, unreadable=unreadable)
    timelines = join_readings(readings, options)
    timeline = next((one for one in timelines if one.host == diagnosis.host), timelines[0])
    about = _about(readings, recordings)
    report = _report(diagnosis, timeline, readings, recordings, about, options, audience)
    unread = tuple(item for item in unreadable if item.format != OWN)
    return Gathered(
        report, readings, timelines, options, recordings, dict(about), tuple(names), unread
    )


def with_saved(gathered: Gathered) -> Report:
    """The report with what is needed to judge it again, for the forms that are read again."""
    at = gathered.report.diagnosis.verdicts[0].at
    saved = save(
        gathered.readings,
        gathered.timelines,
        gathered.options,
        gathered.about,
        at,
        gathered.unread,
    )
    return replace(gathered.report, saved=saved)


def _noting(
    raw_inputs: Iterable[RawOrRecording], recordings: list[tuple[str, Path]]
) -> Iterator[RawOrRecording]:
    for raw in raw_inputs:
        if isinstance(raw, RecordingInput):
            recordings.append((raw.path, raw.file))
        yield raw


def _report(
    diagnosis: Diagnosis,
    timeline: Timeline,
    readings: Sequence[Reading],
    recordings: Sequence[tuple[str, Path]],
    about: Sequence[tuple[str, dict[str, str]]],
    options: Options,
    audience: Audience,
) -> Report:
    verdict = diagnosis.verdicts[0]
    newest = about[-1][1] if about else {}
    runs = _runs(readings, about, diagnosis.answer, options)
    measured = telemetry(recordings, _sampled(timeline, recordings), diagnosis, _slowdown(timeline))
    lines, note = incident(timeline, verdict, recordings)
    rows = facts(timeline, verdict, newest, measured)
    if audience == "engine":
        # Numbers of one card mean nothing to those who mend programs.
        rows = tuple(row for row in rows if row.label not in ("UUID", "Serial"))
    return Report(
        diagnosis=_for_vendor(diagnosis) if audience == "vendor" else diagnosis,
        facts=rows,
        incident=lines,
        incident_note=note,
        telemetry=measured,
        questions=questions(timeline, argv_of(newest), environment(newest), runs),
        maintainer=maintainer(diagnosis, timeline, runs),
        audience=audience,
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )


def _for_vendor(diagnosis: Diagnosis) -> Diagnosis:
    first: Verdict = diagnosis.verdicts[0]
    if first.kind not in _DEVICE_KINDS:
        return diagnosis
    first = replace(first, next_steps=(BUG_REPORT, *first.next_steps))
    return replace(diagnosis, verdicts=(first, *diagnosis.verdicts[1:]))


def _about(
    readings: Sequence[Reading], recordings: Sequence[tuple[str, Path]]
) -> list[tuple[str, dict[str, str]]]:
    """What each recording, or each one that a report keeps, says of itself; the newest last."""
    found = [(reading.input.path, dict(reading.about)) for reading in readings if reading.about]
    told = {path for path, _ in found}
    for shown, path in recordings:
        if shown in told:
            continue
        with opened(path) as recording:
            found.append((shown, dict(recording.meta)))
    return sorted(found, key=lambda one: one[1].get("started", ""))


def _runs(
    readings: Sequence[Reading],
    about: Sequence[tuple[str, dict[str, str]]],
    answer: Kind,
    options: Options,
) -> list[Run]:
    """Each recorded run with its command line, and whether it alone shows the same fault."""
    by_path = {reading.input.path: reading for reading in readings}
    lines = [(by_path[path], argv_of(one)) for path, one in about if path in by_path]
    lines = [(reading, argv) for reading, argv in lines if argv and not reading.continues]
    if len(lines) < 2 or answer is Kind.NO_FAULT:
        return []
    alone = replace(options, device=None)
    return [
        Run(argv, diagnose_readings([reading], alone).answer is answer) for reading, argv in lines
    ]


def _sampled(
    timeline: Timeline, recordings: Sequence[tuple[str, Path]]
) -> dict[str, list[tuple[datetime, GpuSampled]]]:
    """Samples of logs, by device; those of recordings are read from their tables."""
    from_tables = {shown for shown, _ in recordings}
    found: dict[str, list[tuple[datetime, GpuSampled]]] = defaultdict(list)
    for sample in timeline.of(GpuSampled):
        at = timeline.at(sample)
        if sample.device is not None and at and sample.origin.input not in from_tables:
            found[str(sample.device)].append((at, sample))
    return {device: sorted(rows, key=lambda row: row[0]) for device, rows in found.items()}


def sampled_in_logs(gathered: Gathered) -> dict[str, list[tuple[datetime, GpuSampled]]]:
    """Samples of the logs of the host that the first verdict is about, by device."""
    host = gathered.report.diagnosis.host
    timelines = gathered.timelines
    if not timelines:
        return {}
    timeline = next((one for one in timelines if one.host == host), timelines[0])
    return _sampled(timeline, gathered.recordings)


def _slowdown(timeline: Timeline) -> dict[str, float]:
    return {
        str(event.device): event.slowdown_c
        for event in timeline.of(ThermalReported)
        if event.device is not None and event.slowdown_c is not None
    }
