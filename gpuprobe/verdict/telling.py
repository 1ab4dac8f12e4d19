"""A finding told as a verdict: sentence, evidence, what is ruled out, next steps."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuprobe.diagnosis import Cause, Device, Evidence, Kind, Role, Verdict
from gpuprobe.events import (
    AerReported,
    CudaFailed,
    DeviceChanged,
    Event,
    HostFaulted,
    is_evidence,
)
from gpuprobe.rules.base import Finding
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.next_steps import next_steps
from gpuprobe.verdict.precursors import before_loss
from gpuprobe.verdict.ruled_out import not_checked, ruled_out

_ORDER = (Role.PROOF, Role.SUPPORT, Role.PRECURSOR, Role.CONSEQUENCE, Role.CONTEXT)


def verdict_of(timeline: Timeline, finding: Finding, *, main: bool) -> Verdict:
    """The verdict of one finding; next steps come with the main one alone."""
    before = before_loss(timeline, finding)
    for event, says in before.signs:
        finding.cite(Role.PRECURSOR, [event], says)
    device = timeline.identify(finding.device, uuid=finding.uuid)
    if device is not None and finding.device is not None and device.pci is None:
        device = Device(finding.device, device.uuid, device.name, device.index)
    return Verdict(
        kind=finding.kind,
        certainty=finding.certainty,
        summary=_sentence(timeline, finding),
        device=device,
        other_devices=tuple(sorted(finding.other_devices)),
        at=timeline.at(finding.root),
        at_raw=finding.root.stamp.raw if finding.root.stamp else None,
        xids=finding.xids,
        evidence=tuple(_evidence(timeline, finding)),
        ruled_out=(
            *ruled_out(timeline, finding),
            *([before.none_seen] if before.none_seen else []),
        ),
        not_checked=tuple(not_checked(timeline, finding)),
        causes=_causes(timeline, finding),
        next_steps=next_steps(timeline, finding) if main else (),
    )


def _causes(timeline: Timeline, finding: Finding) -> tuple[Cause, ...]:
    if finding.kind is not Kind.DEVICE_LEFT_BUS:
        return ()
    from gpuprobe.verdict.scorecard import scorecard  # no other verdict waits for its catalogue

    return scorecard(timeline, finding)


def _evidence(timeline: Timeline, finding: Finding) -> Iterable[Evidence]:
    for role in _ORDER:
        cited = [item for item in finding.cited if item.role is role]
        cited.sort(key=lambda item: item.event.origin.order)
        for item in cited:
            event = item.event
            yield Evidence(
                role=role,
                text=event.origin.text,
                input=event.origin.input,
                line=event.origin.line,
                at=timeline.at(event),
                at_raw=event.stamp.raw if event.stamp else None,
                count=event.count,
                ref=event.origin.ref,
                says=item.says,
            )


def _sentence(timeline: Timeline, finding: Finding) -> str:
    """The summary, with the consequence that people will ask about first."""
    summary = finding.summary
    if finding.kind is Kind.DEVICE_LEFT_BUS:
        failure = next(
            (event for event in finding.events(Role.CONSEQUENCE) if isinstance(event, CudaFailed)),
            None,
        )
        if failure is not None:
            gap = timeline.seconds_between(finding.root, failure)
            when = f" {gap:.0f} s later" if gap is not None and gap >= 1 else ""
            summary += f"; the CUDA error{when} is a consequence"
    return summary.rstrip(".") + "."


def note_later_boot(timeline: Timeline, lead: Finding, others: Sequence[Finding]) -> None:
    """Say so where the machine was booted again since: a fault of the past is not the state now."""
    if lead.kind is Kind.CANNOT_TELL or timeline.in_last_boot(lead.root):
        return
    again = any(
        timeline.precedes(lead.root, other.root) and not timeline.same_run(lead.root, other.root)
        for other in others
    )
    if not again:
        lead.summary += "; a boot since then, among these inputs, shows no fault"


def _left_in_order(timeline: Timeline, event: Event) -> bool:
    """Whether a GPU was taken away while it answered, as by a write to `remove`."""
    return (
        isinstance(event, DeviceChanged)
        and event.what == "removed"
        and event.driver is None
        and timeline.is_gpu(event.device)
    )


def no_fault(timeline: Timeline) -> Verdict:
    """The verdict where no rule found anything."""
    cited = [
        event
        for event in timeline.events
        if not is_evidence(event)
        or isinstance(event, AerReported | HostFaulted)
        or _left_in_order(timeline, event)
    ]
    shell = Finding(Kind.NO_FAULT, None, "", root=cited[0]) if cited else None
    return Verdict(
        kind=Kind.NO_FAULT,
        certainty=None,
        summary="Nothing in these inputs failed.",
        evidence=tuple(
            Evidence(
                role=Role.CONTEXT,
                text=event.origin.text,
                input=event.origin.input,
                line=event.origin.line,
                at=timeline.at(event),
                at_raw=event.stamp.raw if event.stamp else None,
                count=event.count,
                says="it answered until it was removed: on purpose"
                if isinstance(event, DeviceChanged)
                else "no evidence of a GPU fault",
            )
            for event in cited[:20]
        ),
        not_checked=tuple(not_checked(timeline, shell)),
        next_steps=(),
    )
