"""The last two minutes, engine and kernel on one clock."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from gpuprobe.diagnosis import Evidence, Verdict
from gpuprobe.events import (
    AerReported,
    BridgeLinked,
    CountersSampled,
    DeviceIdentified,
    DpcTriggered,
    Event,
    GpuSampled,
    HostSampled,
    LinkStateReported,
    NvmlReturned,
    OutputWritten,
    PowerSampled,
    PresenceTested,
    ProbeStalled,
    ProcessesListed,
    SlotChanged,
    SourceChanged,
    SystemDescribed,
    XidReported,
    is_evidence,
)
from gpuprobe.recording.opening import opened
from gpuprobe.recording.rows import to_ns
from gpuprobe.recording.tables import Tables
from gpuprobe.report import tracebacks
from gpuprobe.report.contents import IncidentLine
from gpuprobe.timeline import Timeline

BEFORE_S: Final = 120.0
AFTER_S: Final = 60.0
MOST_LINES: Final = 400
"""Lines that are kept, the nearest to the root."""

_QUIET: Final = (
    BridgeLinked,
    CountersSampled,
    DeviceIdentified,
    GpuSampled,
    HostSampled,
    OutputWritten,
    PowerSampled,
    ProcessesListed,
    SystemDescribed,
)
"""What describes or is sampled: it has tables of its own."""

_PROBE: Final = (NvmlReturned, PresenceTested, ProbeStalled, SourceChanged)
_KERNEL: Final = (AerReported, DpcTriggered, SlotChanged, XidReported)
_NUMBER: Final = re.compile(r"0x[0-9a-f]+|\d+", re.IGNORECASE)


def incident(
    timeline: Timeline, verdict: Verdict, recordings: Sequence[tuple[str, Path]]
) -> tuple[tuple[IncidentLine, ...], str]:
    """The lines around the root of `verdict`, in order, and what to know of their clocks.

    Args:
        timeline: Of the host that the verdict is about.
        verdict: The first one.
        recordings: As shown, and the file: what the engine wrote is read from them.
    """
    roles = {_place(item): item.role.value for item in verdict.evidence}
    root = _root(timeline, verdict)
    if root is None:
        return (), ""
    kernel = set(timeline.kernel_inputs())
    files = {shown for shown, _ in recordings}
    lines = []
    apart: set[str] = set()
    for event in timeline.events:
        role = roles.get((event.origin.input, event.origin.line, event.origin.ref), "")
        if not is_evidence(event) or (isinstance(event, _QUIET) and not role):
            continue
        if isinstance(event, LinkStateReported) and event.what == "sampled" and not role:
            continue
        gap = 0.0 if event is root else timeline.seconds_between(root, event)
        if gap is None:
            if not role:
                continue
            apart.add(event.origin.input)
        elif not -BEFORE_S <= gap <= AFTER_S:
            continue
        lines.append(
            IncidentLine(
                at=timeline.at(event),
                at_raw=event.stamp.raw if event.stamp else None,
                offset_s=gap,
                side=_side(event, kernel, files),
                text=event.origin.text,
                input=event.origin.input,
                line=event.origin.line,
                ref=event.origin.ref,
                role=role,
                count=event.count,
            )
        )
    lines += _output(recordings, timeline.at(root), {line.text.strip() for line in lines})
    lines.sort(key=lambda line: (line.offset_s is None, line.offset_s or 0.0))
    return tuple(_folded(_nearest(list(tracebacks.folded(lines))))), _note(apart)


def _note(apart: set[str]) -> str:
    if not apart:
        return ""
    named = ", ".join(sorted(apart)[:4])
    return (
        f"The clock of {named} could not be joined with that of the first proof: its lines stand "
        "last, without seconds."
    )


def _place(item: Evidence) -> tuple[str, int | None, str | None]:
    return item.input, item.line, item.ref


def _root(timeline: Timeline, verdict: Verdict) -> Event | None:
    """The event from which seconds are counted: the one at the verdict's time, or its first."""
    places = {_place(item): number for number, item in enumerate(verdict.evidence)}
    found: list[tuple[bool, int, Event]] = []
    for event in timeline.events:
        number = places.get((event.origin.input, event.origin.line, event.origin.ref))
        if number is not None and is_evidence(event):
            same = verdict.at is not None and timeline.at(event) == verdict.at
            stamped = event.stamp is not None and event.stamp.raw == verdict.at_raw
            found.append((not (same or stamped), number, event))
    return min(found, key=lambda item: item[:2])[2] if found else None


def _side(event: Event, kernel: set[str], recordings: set[str]) -> str:
    if isinstance(event, _PROBE):
        return "probe"
    if event.source == "kernel" or isinstance(event, _KERNEL):
        return "kernel"
    if event.origin.input in recordings:
        return "probe" if event.source in ("nvml", "sysfs", "udev", "host") else "engine"
    return "kernel" if event.source is None and event.origin.input in kernel else "engine"


def _output(
    recordings: Sequence[tuple[str, Path]], root: datetime | None, known: set[str]
) -> Iterator[IncidentLine]:
    """What the engine wrote in those minutes, without the lines that are there already."""
    if root is None:
        return
    begin = to_ns(root - timedelta(seconds=BEFORE_S))
    end = to_ns(root + timedelta(seconds=AFTER_S))
    for shown, path in recordings:
        with opened(path) as recording:
            tables = Tables(recording, shown)
            first = tables.first_id_at("engine_log", "at", begin)
            last = tables.first_id_at("engine_log", "at", end)
            names = ("id", "at", "text")
            first = max(first, last - 5 * MOST_LINES)
            for number, at, text in tables.scan("engine_log", names, first, last):
                if not isinstance(at, int) or not isinstance(text, str) or not text.strip():
                    continue
                if text.strip() in known:
                    continue
                moment = datetime.fromtimestamp(at / 1e9, UTC)
                yield IncidentLine(
                    at=moment,
                    at_raw=None,
                    offset_s=(moment - root).total_seconds(),
                    side="engine",
                    text=text[:500],
                    input=shown,
                    line=None,
                    ref=f"engine_log:{number}",
                )


def _nearest(lines: list[IncidentLine]) -> list[IncidentLine]:
    """Those with a role, and the nearest to the root of the others, in their order."""
    if len(lines) <= MOST_LINES:
        return lines
    others = [line for line in lines if not line.role]
    others.sort(key=lambda line: abs(line.offset_s or 0.0))
    kept = {id(line) for line in others[: max(0, MOST_LINES // 2)]}
    chosen = [line for line in lines if line.role or id(line) in kept]
    return chosen if len(chosen) <= MOST_LINES else [*chosen[: MOST_LINES - 50], *chosen[-50:]]


def _folded(lines: Iterable[IncidentLine]) -> Iterator[IncidentLine]:
    """Neighbours of one shape and side as one line with a count, and the last of them."""
    run: list[IncidentLine] = []
    for line in lines:
        if run and _shape(line) != _shape(run[-1]):
            yield from _as_one(run)
            run = []
        run.append(line)
    yield from _as_one(run)


def _shape(line: IncidentLine) -> tuple[str, str, str, bool]:
    return line.side, line.role, _NUMBER.sub("0", line.text), bool(line.folded)


def _as_one(run: Sequence[IncidentLine]) -> Iterator[IncidentLine]:
    if len(run) < 3:
        yield from run
        return
    # What came last before something else is worth its own time.
    yield replace(run[0], count=sum(line.count for line in run[:-1]))
    yield run[-1]
