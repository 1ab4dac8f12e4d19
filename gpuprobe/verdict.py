"""From findings to a diagnosis: what is the cause, what follows from it, and how it is told."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from gpuprobe import advice, causes, limits
from gpuprobe.diagnosis import (
    Certainty,
    Device,
    Diagnosis,
    Evidence,
    Kind,
    Role,
    Verdict,
)
from gpuprobe.events import (
    AdapterInitFailed,
    AerRecoveryEnded,
    AerReported,
    CollectiveFailed,
    ConfigSpaceUnreadable,
    CudaFailed,
    DeviceChanged,
    DpcTriggered,
    DriverUnusable,
    EngineChanged,
    Event,
    FirmwareFaulted,
    GpuLostReported,
    HostFaulted,
    LinkStateReported,
    LossHinted,
    NvmlReturned,
    OtherFailed,
    PowerReported,
    ProcessCrashed,
    ProfilerSeen,
    SlotChanged,
    ThermalReported,
    XidReported,
)
from gpuprobe.rules import RULES, Finding
from gpuprobe.rules.base import Cited
from gpuprobe.timeline import Timeline, is_evidence

CONSEQUENCES = (
    AdapterInitFailed,
    AerRecoveryEnded,
    CollectiveFailed,
    CudaFailed,
    DriverUnusable,
    EngineChanged,
    FirmwareFaulted,
    LossHinted,
    NvmlReturned,
    OtherFailed,
    ProcessCrashed,
)
"""Events that can follow from any fault of a GPU or a program."""

LOSS_CONSEQUENCES = (
    *CONSEQUENCES,
    AerReported,
    ConfigSpaceUnreadable,
    DeviceChanged,
    DpcTriggered,
    GpuLostReported,
    HostFaulted,
    LinkStateReported,
    SlotChanged,
    XidReported,
)
LOST_XID = 79

NOTICED_WITHIN_S = 30.0
"""How long after a program's error the driver may notice that the GPU is gone."""

PROGRAM_EVENTS = (CollectiveFailed, CudaFailed, EngineChanged, OtherFailed, ProcessCrashed)
"""What programs print, by a clock of their own or none."""

LINK_EVENTS = (AerReported, ConfigSpaceUnreadable, DpcTriggered, LinkStateReported, SlotChanged)
"""What PCI says when a link goes: support when it comes in the moment of the loss."""

ROOT_XIDS = frozenset({13, 31, 48, 94, 95})
"""Xids that stand for themselves even after a loss."""

CLEAN_UP_XIDS = frozenset({45, 154})

PRECURSORS = (AerReported, DpcTriggered, PowerReported, SlotChanged, ThermalReported)

_GRAVITY = {rule.kind: place for place, rule in enumerate(RULES)}

_EXPLAINS: dict[Kind, frozenset[Kind]] = {
    Kind.DEVICE_LEFT_BUS: frozenset(
        {
            Kind.PCIE_LINK_ERRORS,
            Kind.GPU_FIRMWARE_HANG,
            Kind.GPU_HANG,
            Kind.NVLINK_ERROR,
            Kind.APPLICATION_FAULT,
            Kind.DRIVER_UNUSABLE,
            Kind.COLLECTIVE_TIMEOUT,
            Kind.HOST_RESET,
            Kind.PROCESS_CRASH,
            Kind.CANNOT_TELL,
            Kind.POWER,
            Kind.THERMAL,
        }
    ),
    Kind.HOST_OUT_OF_MEMORY: frozenset(
        {Kind.PROCESS_CRASH, Kind.COLLECTIVE_TIMEOUT, Kind.CANNOT_TELL}
    ),
    Kind.GPU_OUT_OF_MEMORY: frozenset(
        {Kind.PROCESS_CRASH, Kind.COLLECTIVE_TIMEOUT, Kind.CANNOT_TELL}
    ),
    Kind.JIT_CACHE_CORRUPT: frozenset(
        {Kind.PROCESS_CRASH, Kind.COLLECTIVE_TIMEOUT, Kind.CANNOT_TELL}
    ),
    Kind.APPLICATION_FAULT: frozenset(
        {Kind.PROCESS_CRASH, Kind.COLLECTIVE_TIMEOUT, Kind.CANNOT_TELL, Kind.DRIVER_UNUSABLE}
    ),
    Kind.DRIVER_UNUSABLE: frozenset(
        {Kind.PROCESS_CRASH, Kind.COLLECTIVE_TIMEOUT, Kind.CANNOT_TELL}
    ),
    Kind.COLLECTIVE_TIMEOUT: frozenset({Kind.PROCESS_CRASH, Kind.CANNOT_TELL}),
    Kind.PROCESS_CRASH: frozenset({Kind.CANNOT_TELL}),
    Kind.HOST_RESET: frozenset({Kind.CANNOT_TELL}),
}
_HARDWARE = frozenset(
    {
        Kind.APPLICATION_FAULT,
        Kind.DRIVER_UNUSABLE,
        Kind.COLLECTIVE_TIMEOUT,
        Kind.PROCESS_CRASH,
        Kind.CANNOT_TELL,
        Kind.GPU_HANG,
    }
)
for _kind in (Kind.GPU_MEMORY_ERROR, Kind.GPU_FIRMWARE_HANG, Kind.GPU_HANG, Kind.NVLINK_ERROR):
    _EXPLAINS[_kind] = _HARDWARE - {_kind}
_EXPLAINS[Kind.PCIE_LINK_ERRORS] = frozenset({Kind.COLLECTIVE_TIMEOUT})
"""What each kind can explain, when it did not come later. A link that corrects its errors does not
explain a CUDA error; a firmware that died explains the hang and the reset that follow it."""


def diagnose(timeline: Timeline, *, all_paths: Sequence[str] = ()) -> Diagnosis:
    """The diagnosis of one host's timeline.

    Args:
        timeline: What its inputs say.
        all_paths: Paths of all inputs, for the note on what was not among them.
    """
    findings = [finding for rule in RULES for finding in rule.find(timeline)]
    ranked = _rank(timeline, findings)
    kept = _fold(timeline, ranked)
    first = next((finding for finding in kept if not finding.never_first), None)
    verdicts: list[Verdict] = []
    if first is None:
        verdicts.append(_no_fault(timeline))
    elif kept[0] is not first:
        kept.remove(first)
        kept.insert(0, first)
    if kept and first is not None:
        _add_consequences(timeline, kept[0], kept[1:])
    verdicts.extend(_verdict(timeline, finding, main=i == 0) for i, finding in enumerate(kept))
    return Diagnosis(verdicts=tuple(verdicts), inputs=tuple(timeline.inputs), host=timeline.host)


def _rank(timeline: Timeline, findings: Sequence[Finding]) -> list[Finding]:
    """Losses first, then by earliest root; of one moment, or on unjoined clocks, the gravest."""

    def tier(finding: Finding) -> int:
        if finding.kind is Kind.DEVICE_LEFT_BUS and finding.certainty is not Certainty.POSSIBLE:
            return 0
        if finding.kind is Kind.CANNOT_TELL:
            return 4
        if finding.certainty is Certainty.POSSIBLE:
            return 3
        return 2 if finding.background else 1

    def weight(finding: Finding) -> tuple[object, ...]:
        certainty = finding.certainty.rank if finding.certainty else -1
        device = str(finding.device or finding.uuid or "~")
        return (_GRAVITY[finding.kind], -certainty, device, finding.root.origin.text)

    ranked: list[Finding] = []
    for level in range(5):
        rest = [finding for finding in findings if tier(finding) == level]
        while rest:
            heads = [
                finding
                for finding in rest
                if not any(timeline.precedes(other.root, finding.root) for other in rest)
            ] or rest
            best = min(heads, key=weight)
            ranked.append(best)
            rest.remove(best)
    return ranked


def _fold(timeline: Timeline, ranked: Sequence[Finding]) -> list[Finding]:
    """Drop findings that a graver or earlier one explains, and keep their lines as its evidence."""
    kept: list[Finding] = []
    for finding in ranked:
        causes_of = [other for other in kept if _explains(timeline, other, finding)]
        if not causes_of:
            kept.append(finding)
            continue
        # A line that another finding quotes already is told there.
        cause = next((c for c in causes_of if finding.root in c.events()), causes_of[0])
        told = {id(event) for other in kept if other is not cause for event in other.events()}
        for cited in finding.cited:
            if id(cited.event) not in told:
                _cite_folded(timeline, cause, finding, cited)
        if finding.device and finding.device != cause.device:
            cause.other_devices.add(finding.device)
        cause.tags |= {tag for tag in finding.tags if tag in ("prose", "corrected-errors")}
    return kept


def _cite_folded(timeline: Timeline, cause: Finding, finding: Finding, cited: Cited) -> None:
    if cited.role is Role.CONTEXT:
        cause.cite(Role.CONTEXT, [cited.event], cited.says)
        return
    anchor = _anchor(timeline, cause, cited.event) or cause.root
    before = timeline.precedes(cited.event, anchor)
    lead_up = isinstance(cited.event, PRECURSORS)
    if before and lead_up:
        cause.cite(Role.PRECURSOR, [cited.event], cited.says)
    elif cause.kind is Kind.DEVICE_LEFT_BUS and _came_before(timeline, cited.event, anchor):
        cause.cite(Role.CONTEXT, [cited.event], cited.says)
    else:
        # Of one moment, a power brake or a link error is what led there rather than its result.
        led = lead_up and before is None and finding.kind in (Kind.POWER, Kind.THERMAL)
        says = cited.says if led else _says(cited.event) or cited.says
        cause.cite(Role.PRECURSOR if led else Role.CONSEQUENCE, [cited.event], says)


def _explains(timeline: Timeline, cause: Finding, finding: Finding) -> bool:
    """Whether `finding` follows from `cause`."""
    if finding.kind is cause.kind:
        return finding.kind is not Kind.DEVICE_LEFT_BUS and (
            finding.device is None or finding.device == cause.device
        )
    if finding.kind not in _EXPLAINS.get(cause.kind, frozenset()):
        return False
    precursor = cause.kind is Kind.DEVICE_LEFT_BUS and finding.kind in (
        Kind.POWER,
        Kind.THERMAL,
        Kind.PCIE_LINK_ERRORS,
        Kind.HOST_RESET,
    )
    anchor = _anchor(timeline, cause, finding.root)
    if anchor is None:
        if not precursor:
            return False
        anchor = cause.root
    later = not _came_before(timeline, finding.root, anchor)
    same_device = finding.device is None or cause.device in (None, finding.device)
    if precursor:
        return same_device
    if cause.kind is Kind.DEVICE_LEFT_BUS:
        own = finding.kind in (Kind.GPU_FIRMWARE_HANG, Kind.GPU_HANG, Kind.APPLICATION_FAULT)
        return later and (same_device or not own)
    if finding.kind is Kind.APPLICATION_FAULT:
        return later and same_device and _near(timeline, anchor, finding.root)
    return later and (same_device or finding.kind is not Kind.GPU_HANG)


def _anchor(timeline: Timeline, cause: Finding, event: Event) -> Event | None:
    """What decided for `cause` in the boot of `event`: its root, or its proof in another boot."""
    proofs = (cause.root, *cause.events(Role.PROOF))
    return next((proof for proof in proofs if timeline.same_run(proof, event)), None)


def _came_before(timeline: Timeline, event: Event, root: Event) -> bool:
    """Whether `event` came before `root`.

    Where a program's log and the kernel's are pasted into one text, the place of their lines says
    nothing: a program's line counts as earlier by its place only where neither has a stamp. And a
    program may meet a lost GPU some seconds before the driver notices.
    """
    if timeline.precedes(event, root) is not True:
        return False
    gap = timeline.seconds_between(event, root)
    of_program = isinstance(event, PROGRAM_EVENTS) and not isinstance(root, PROGRAM_EVENTS)
    if gap is None:
        return not of_program or not (event.stamp or root.stamp)
    noticed = isinstance(root, GpuLostReported) or (
        isinstance(root, XidReported) and root.code == LOST_XID
    )
    return not (of_program and noticed and gap <= NOTICED_WITHIN_S)


def _near(timeline: Timeline, first: Event, second: Event) -> bool:
    """Within a burst: NVIDIA groups Xids of a node until three minutes of silence."""
    gap = timeline.seconds_between(first, second)
    return gap is None or -2 <= gap <= 180


def _add_consequences(timeline: Timeline, lead: Finding, others: Sequence[Finding]) -> None:
    """Everything that failed after the root and belongs to no other finding."""
    claimed = {id(event) for finding in (lead, *others) for event in finding.events()}
    loss = lead.kind is Kind.DEVICE_LEFT_BUS
    for event in timeline.events:
        if id(event) in claimed or not is_evidence(event):
            continue
        if isinstance(event, ProfilerSeen):
            lead.cite(Role.CONTEXT, [event], "a profiler can give 719 on a healthy GPU")
            continue
        anchor = _anchor(timeline, lead, event)
        if anchor is None:
            continue
        before = timeline.precedes(event, anchor)
        if before and _came_before(timeline, event, anchor):
            if loss and isinstance(event, PRECURSORS) and _belongs(timeline, event, lead):
                lead.cite(Role.PRECURSOR, [event], "before the loss")
            continue
        if loss and before is None and isinstance(event, LINK_EVENTS):
            if _link_of(timeline, event, lead):
                lead.cite(Role.SUPPORT, [event], "PCI said so in the same moment")
        elif _follows(event, loss=loss):
            lead.cite(Role.CONSEQUENCE, [event], _says(event))
            named = event.device if isinstance(event, XidReported | AdapterInitFailed) else None
            if named is not None and named.slot != lead.device:
                lead.other_devices.add(named.slot)


_LIFE = {
    "worker-exited": "a worker of the engine exited",
    "engine-dead": "the engine died",
    "stopping": "the server stopped",
    "stopped": "the server stopped",
    "failed-to-start": "the engine could not start again",
    "restarted": "the engine was started again",
    "cpu-fallback": "the engine fell back to the CPU",
    "killed-by-supervisor": "its supervisor ended the engine",
}


def _says(event: Event) -> str:
    """What a consequence means, in one clause."""
    match event:
        case XidReported(code=154):
            return "the driver's recovery action for a GPU it manages, failed or not"
        case XidReported(code=45):
            return "clean-up of a program's channels"
        case CudaFailed(teardown=True):
            return "the same error again while the program ended"
        case CudaFailed(code=code):
            return f"the program met CUDA {code}" if code else "the program met a CUDA error"
        case EngineChanged(what=what):
            return _LIFE.get(what, "")
        case AdapterInitFailed():
            return "the driver could not start the GPU again"
        case CollectiveFailed():
            return "other ranks waited in vain"
        case ProcessCrashed(signal=signal):
            return f"a process was ended by {signal}"
        case DriverUnusable():
            return "no usable GPU from then on"
        case _:
            return ""


def _follows(event: Event, *, loss: bool) -> bool:
    """Whether an event of this type can follow from the fault at hand."""
    if isinstance(event, EngineChanged) and event.what in ("started", "request-aborted"):
        return False
    if isinstance(event, XidReported):
        return event.code not in ROOT_XIDS if loss else event.code in CLEAN_UP_XIDS
    return isinstance(event, LOSS_CONSEQUENCES if loss else CONSEQUENCES)


def _link_of(timeline: Timeline, event: Event, lead: Finding) -> bool:
    """Whether a link event of the loss' own moment is about the lost GPU.

    A port that no line ties to a GPU may still be the one above it when it drops in that moment;
    a port that is tied to another device is not.
    """
    if _belongs(timeline, event, lead):
        return True
    tied = event.device is not None and (
        event.device.slot in timeline.parents().values() or timeline.is_gpu(event.device)
    )
    return not tied and isinstance(event, SlotChanged | DpcTriggered)


def _belongs(timeline: Timeline, event: Event, lead: Finding) -> bool:
    """Whether a lead-up event is about the lost GPU, its card or the port above it."""
    if event.device is None or lead.device is None:
        return True
    return event.device.slot == lead.device or lead.device in timeline.gpus_below(event.device)


def _verdict(timeline: Timeline, finding: Finding, *, main: bool) -> Verdict:
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
        ruled_out=(*finding.ruled_out, *limits.ruled_out(timeline, finding)),
        not_checked=(*finding.not_checked, *limits.not_checked(timeline, finding)),
        causes=causes.scorecard(timeline, finding) if finding.kind is Kind.DEVICE_LEFT_BUS else (),
        next_steps=advice.next_steps(timeline, finding) if main else (),
    )


_ORDER = (Role.PROOF, Role.SUPPORT, Role.PRECURSOR, Role.CONSEQUENCE, Role.CONTEXT)


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


def _no_fault(timeline: Timeline) -> Verdict:
    cited = [
        event
        for event in timeline.events
        if not is_evidence(event) or isinstance(event, AerReported | HostFaulted)
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
                says="no evidence of a GPU fault",
            )
            for event in cited[:20]
        ),
        not_checked=tuple(limits.not_checked(timeline, shell)),
        next_steps=(),
    )
