"""Findings that follow from another one become its evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gpuprobe.diagnosis import Kind, Role
from gpuprobe.events import Event, ProbeStalled
from gpuprobe.rules.base import Cited, Finding
from gpuprobe.rules.cannot_tell import finding_of, spoken_of
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.consequences import LEAD_UP, meaning_of
from gpuprobe.verdict.sequence import anchor_of, came_before, is_over

_PROGRAM_ENDS = frozenset({Kind.PROCESS_CRASH, Kind.COLLECTIVE_TIMEOUT, Kind.CANNOT_TELL})
"""How programs end that lost what they worked with."""

_GPU_FAILS = _PROGRAM_ENDS | {Kind.APPLICATION_FAULT, Kind.DRIVER_UNUSABLE, Kind.GPU_HANG}
"""What a GPU that failed can leave behind it."""

_LEADS_TO_LOSS = frozenset({Kind.POWER, Kind.THERMAL, Kind.PCIE_LINK_ERRORS, Kind.HOST_RESET})
"""What may come before a loss and is told with it."""

_HANGS_CALLS = frozenset(
    {Kind.DEVICE_LEFT_BUS, Kind.GPU_FIRMWARE_HANG, Kind.GPU_HANG, Kind.DRIVER_UNUSABLE}
)
"""Faults that make calls into the driver hang."""

_EXPLAINS: dict[Kind, frozenset[Kind]] = {
    Kind.DEVICE_LEFT_BUS: _GPU_FAILS | _LEADS_TO_LOSS | {Kind.GPU_FIRMWARE_HANG, Kind.NVLINK_ERROR},
    Kind.GPU_MEMORY_ERROR: _GPU_FAILS,
    Kind.GPU_FIRMWARE_HANG: _GPU_FAILS,
    Kind.GPU_HANG: _GPU_FAILS - {Kind.GPU_HANG},
    Kind.NVLINK_ERROR: _GPU_FAILS,
    Kind.PCIE_LINK_ERRORS: frozenset({Kind.COLLECTIVE_TIMEOUT}),
    Kind.HOST_OUT_OF_MEMORY: _PROGRAM_ENDS,
    Kind.GPU_OUT_OF_MEMORY: _PROGRAM_ENDS,
    Kind.JIT_CACHE_CORRUPT: _PROGRAM_ENDS,
    Kind.APPLICATION_FAULT: _PROGRAM_ENDS | {Kind.DRIVER_UNUSABLE},
    Kind.DRIVER_UNUSABLE: _PROGRAM_ENDS,
    Kind.COLLECTIVE_TIMEOUT: frozenset({Kind.PROCESS_CRASH, Kind.CANNOT_TELL}),
    Kind.PROCESS_CRASH: frozenset({Kind.CANNOT_TELL}),
    Kind.HOST_RESET: frozenset({Kind.CANNOT_TELL}),
}
"""What each kind can explain, when it did not come later. A link that corrects its errors does not
explain a CUDA error; a firmware that died explains the hang and the reset that follow it."""


def fold(timeline: Timeline, ranked: Sequence[Finding]) -> list[Finding]:
    """Drop findings that a graver or earlier one explains, and keep their lines as its evidence."""
    kept: list[Finding] = []
    for finding in ranked:
        causes_of = [other for other in kept if _explains(timeline, other, finding)]
        if not causes_of:
            kept.append(finding)
            continue
        finding, of_later_runs = _parted(timeline, causes_of, finding)
        # A line that another finding quotes already is told there.
        cause = next((c for c in causes_of if finding.root in c.events()), causes_of[0])
        told = {id(event) for other in kept if other is not cause for event in other.events()}
        for cited in finding.cited:
            if id(cited.event) not in told:
                _cite_folded(timeline, cause, finding, cited)
        if finding.device and finding.device != cause.device:
            cause.other_devices.add(finding.device)
        cause.tags |= {tag for tag in finding.tags if tag in ("prose", "corrected-errors")}
        if of_later_runs is not None:
            kept.append(of_later_runs)
    return kept


def _parted(
    timeline: Timeline, causes: Sequence[Finding], finding: Finding
) -> tuple[Finding, Finding | None]:
    """An open question without what no cause explains any more, and that as one of its own.

    The failures of all runs are one question, and of that the first may be explained and a later
    one not.
    """
    if finding.kind is not Kind.CANNOT_TELL:
        return finding, None
    failures = _failures(finding)
    rest = [
        cited
        for cited in failures
        if all(is_over(timeline, cause, cited.event) for cause in causes)
    ]
    if not rest:
        return finding, None
    later = {id(cited.event) for cited in rest}
    explained = [cited for cited in finding.cited if id(cited.event) not in later]
    inputs = {cited.event.origin.input for cited in rest}
    prose = [event for event in spoken_of(timeline) if event.origin.input in inputs]
    question = finding_of(timeline, [(cited.event, cited.says) for cited in rest], prose)
    return replace(finding, cited=explained), question


def _failures(finding: Finding) -> list[Cited]:
    """What an open question rests on."""
    return [cited for cited in finding.cited if cited.role is not Role.CONTEXT]


def _cite_folded(timeline: Timeline, cause: Finding, finding: Finding, cited: Cited) -> None:
    if cited.role is Role.CONTEXT or isinstance(cited.event, ProbeStalled):
        role = Role.CONTEXT if cited.role is Role.CONTEXT else Role.SUPPORT
        cause.cite(role, [cited.event], cited.says)
        return
    anchor = anchor_of(timeline, cause, cited.event) or cause.root
    before = timeline.precedes(cited.event, anchor)
    lead_up = isinstance(cited.event, LEAD_UP)
    if before and lead_up:
        cause.cite(Role.PRECURSOR, [cited.event], cited.says)
    elif cause.kind is Kind.DEVICE_LEFT_BUS and came_before(timeline, cited.event, anchor):
        cause.cite(Role.CONTEXT, [cited.event], cited.says)
    else:
        # Of one moment, a power brake or a link error is what led there rather than its result.
        led = lead_up and before is None and finding.kind in (Kind.POWER, Kind.THERMAL)
        says = cited.says if led else meaning_of(cited.event) or cited.says
        cause.cite(Role.PRECURSOR if led else Role.CONSEQUENCE, [cited.event], says)


def _explains(timeline: Timeline, cause: Finding, finding: Finding) -> bool:
    """Whether `finding` follows from `cause`."""
    if cause.never_first:
        return False
    if finding.kind is cause.kind:
        return finding.kind is not Kind.DEVICE_LEFT_BUS and (
            finding.device is None or finding.device == cause.device
        )
    if finding.kind not in _EXPLAINS.get(cause.kind, frozenset()):
        return False
    if finding.kind is Kind.CANNOT_TELL and _tells_all(cause, finding):
        return True
    precursor = cause.kind is Kind.DEVICE_LEFT_BUS and finding.kind in _LEADS_TO_LOSS
    anchor = anchor_of(timeline, cause, finding.root)
    if anchor is None:
        if not precursor:
            return False
        anchor = cause.root
    # A call that hangs is often the first sign of what shows itself later.
    if isinstance(finding.root, ProbeStalled) and cause.kind in _HANGS_CALLS:
        return finding.root.device in (None, cause.device) or cause.device is None
    later = not came_before(timeline, finding.root, anchor)
    same_device = finding.device is None or cause.device in (None, finding.device)
    if precursor:
        return same_device
    if cause.kind is Kind.DEVICE_LEFT_BUS:
        own = finding.kind in (Kind.GPU_FIRMWARE_HANG, Kind.GPU_HANG, Kind.APPLICATION_FAULT)
        return later and (same_device or not own)
    parts = [finding.root]
    if finding.kind is Kind.CANNOT_TELL:
        parts += [cited.event for cited in _failures(finding)]
    if all(is_over(timeline, cause, event) for event in parts):
        return False
    if finding.kind is Kind.APPLICATION_FAULT:
        return later and same_device and _near(timeline, anchor, finding.root)
    return later and (same_device or finding.kind is not Kind.GPU_HANG)


def _tells_all(cause: Finding, finding: Finding) -> bool:
    """Whether every line that an open question rests on is among the evidence of `cause`."""
    told = {id(event) for event in cause.events()}
    return all(id(event) in told for event in finding.events(Role.SUPPORT))


def _near(timeline: Timeline, first: Event, second: Event) -> bool:
    """Within a burst: NVIDIA groups Xids of a node until three minutes of silence."""
    gap = timeline.seconds_between(first, second)
    return gap is None or -2 <= gap <= 180
