"""What failed after the root, what led there, and what each means in one clause."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Kind, Role
from gpuprobe.events import (
    AdapterInitFailed,
    AerRecoveryEnded,
    AerReported,
    CollectiveFailed,
    ConfigSpaceUnreadable,
    CountersSampled,
    CudaFailed,
    DeviceChanged,
    DpcTriggered,
    DriverUnusable,
    EngineChanged,
    Event,
    FirmwareFaulted,
    GpuLostReported,
    GpuSampled,
    HostFaulted,
    HostSampled,
    LinkStateReported,
    LossHinted,
    NvmlReturned,
    OtherFailed,
    PowerReported,
    PowerSampled,
    ProcessCrashed,
    ProfilerSeen,
    SlotChanged,
    ThermalReported,
    XidReported,
    is_evidence,
)
from gpuprobe.rules.base import Finding
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.sequence import anchor_of, came_before, is_over

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
"""Events that can follow from a loss."""

LINK_EVENTS = (AerReported, ConfigSpaceUnreadable, DpcTriggered, LinkStateReported, SlotChanged)
"""What PCI says when a link goes: support when it comes in the moment of the loss."""

ROOT_XIDS = frozenset({13, 31, 48, 94, 95})
"""Xids that stand for themselves even after a loss."""

CLEAN_UP_XIDS = frozenset({45, 154})
"""Xids that only follow, whatever the fault was."""

PRECURSORS = (AerReported, DpcTriggered, PowerReported, SlotChanged, ThermalReported)
"""Events that can lead up to a loss."""

LEAD_UP = (*PRECURSORS, ConfigSpaceUnreadable, CountersSampled)
"""What can lead up to a loss where a finding cites it; most readings of counters say nothing."""

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


def add_consequences(timeline: Timeline, lead: Finding, others: Sequence[Finding]) -> None:
    """Everything that failed after the root and belongs to no other finding."""
    claimed = {id(event) for finding in (lead, *others) for event in finding.events()}
    loss = lead.kind is Kind.DEVICE_LEFT_BUS
    touched = {event.origin.input for event in lead.events()}
    for event in timeline.events:
        if isinstance(event, GpuSampled | CountersSampled | HostSampled | PowerSampled):
            continue  # thousands of them, and none follows from anything
        if id(event) in claimed or not is_evidence(event):
            continue
        if isinstance(event, ProfilerSeen):
            lead.cite(Role.CONTEXT, [event], "a profiler can give 719 on a healthy GPU")
            continue
        anchor = anchor_of(timeline, lead, event)
        if anchor is None or is_over(timeline, lead, event):
            continue
        before = timeline.precedes(event, anchor)
        if before and came_before(timeline, event, anchor):
            if isinstance(event, ThermalReported) and event.what == "reading" and not event.temp_c:
                continue  # a limit alone
            if loss and isinstance(event, PRECURSORS) and timeline.concerns(event, lead.device):
                lead.cite(Role.PRECURSOR, [event], "before the loss")
            continue
        if loss and before is None and isinstance(event, LINK_EVENTS):
            if _link_of(timeline, event, lead):
                lead.cite(Role.SUPPORT, [event], "PCI said so in the same moment")
        elif _is_clean_end(event) and event.origin.input not in touched:
            continue  # nothing in its log speaks of the fault
        elif _follows(event, loss=loss):
            lead.cite(Role.CONSEQUENCE, [event], meaning_of(event))
            touched.add(event.origin.input)
            named = event.device if isinstance(event, XidReported | AdapterInitFailed) else None
            if named is not None and named.slot != lead.device:
                lead.other_devices.add(named.slot)


def _is_clean_end(event: Event) -> bool:
    """Whether a program ended well, which by itself is nobody's consequence."""
    return isinstance(event, EngineChanged) and event.code == 0


def _follows(event: Event, *, loss: bool) -> bool:
    """Whether an event of this type can follow from the fault at hand."""
    if isinstance(event, EngineChanged) and event.what in ("started", "request-aborted"):
        return False
    if isinstance(event, DeviceChanged) and event.what in ("added", "active", "suspended"):
        return False  # found at boot or by a rescan, or somebody's look at its power state
    if isinstance(event, XidReported):
        return event.code not in ROOT_XIDS if loss else event.code in CLEAN_UP_XIDS
    return isinstance(event, LOSS_CONSEQUENCES if loss else CONSEQUENCES)


def _link_of(timeline: Timeline, event: Event, lead: Finding) -> bool:
    """Whether a link event of the loss' own moment is about the lost GPU.

    A port that no line ties to a GPU may still be the one above it when it drops in that moment;
    a port that is tied to another device is not.
    """
    if timeline.concerns(event, lead.device):
        return True
    tied = event.device is not None and (
        event.device.slot in timeline.parents().values() or timeline.is_gpu(event.device)
    )
    return not tied and isinstance(event, SlotChanged | DpcTriggered)


def meaning_of(event: Event) -> str:
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
