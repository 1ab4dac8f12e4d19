"""Absences that are no loss: the device came back at once, or somebody had taken it away."""

from __future__ import annotations

from gpuprobe.events import (
    AdminActed,
    AerRecoveryEnded,
    ConfigSpaceUnreadable,
    DeviceChanged,
    Event,
    GpuLostReported,
    GpuSampled,
    LinkStateReported,
    SlotChanged,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.timeline import Timeline

CAME_BACK_S = 60.0
"""A link that is up again within this time bounced; the device did not leave."""

ON_PURPOSE_S = 600.0
"""How long after somebody's removal or reset an absence is taken to be asked for."""

ANSWERS_AFTER_S = 1.0
"""A GPU whose driver reads it so long after words of its loss was there when they were written."""


def came_back(timeline: Timeline, event: Event, gpu: PciAddress | None) -> bool:
    """Whether the link or the device answered again within `CAME_BACK_S` of `event`."""
    port = event.device
    for later in timeline.of(AerRecoveryEnded, SlotChanged, DeviceChanged, LinkStateReported):
        good = (
            (isinstance(later, AerRecoveryEnded) and later.outcome in ("recovered", "link-reset"))
            or (isinstance(later, SlotChanged) and later.what in ("link-up", "ignored"))
            or (isinstance(later, DeviceChanged) and later.what in ("answered", "added"))
            or (isinstance(later, LinkStateReported) and later.what == "active")
        )
        if not good or later.device is None:
            continue
        of_gpu = gpu is not None and (
            later.device.slot == gpu.slot or gpu.slot in timeline.gpus_below(later.device)
        )
        # The kernel reads a device's ids when it finds it, and at boot it finds the port as well.
        found = isinstance(later, DeviceChanged) and later.what == "added"
        if (later.device != port or found) and not of_gpu:
            continue
        if not timeline.same_run(later, event):
            continue
        gap = timeline.seconds_between(event, later)
        if gap is None:
            if timeline.precedes(event, later):
                return True
        elif (0 if found else -2) <= gap <= CAME_BACK_S:
            return True
    return False


def answered_again(timeline: Timeline, event: Event) -> DeviceChanged | None:
    """The reading by which a silent device answered within `CAME_BACK_S`, or None."""
    for change in timeline.of(DeviceChanged):
        if change.what != "answered" or change.device is None or event.device is None:
            continue
        gap = timeline.seconds_between(event, change)
        if change.device.slot == event.device.slot and gap is not None and 0 < gap <= CAME_BACK_S:
            return change
    return None


def sampled_after(timeline: Timeline, event: Event, device: PciAddress | None) -> bool:
    """Whether the driver still read the device's power or heat a while after `event`."""
    return device is not None and any(
        (sample.power_w is not None or sample.temp_c is not None)
        and sample.device is not None
        and sample.device.slot == device.slot
        and (timeline.seconds_between(event, sample) or 0.0) > ANSWERS_AFTER_S
        and timeline.same_run(event, sample)
        for sample in timeline.of(GpuSampled)
    )


_TAKES_AWAY = frozenset(
    {"remove", "unbind", "reset", "rmmod", "slot-power", "bind-vfio", "powering-off"}
)
"""What people do to a device, the last by the button of its slot or a virtual machine's host."""


def _takes(act: str, event: Event) -> bool:
    """Whether the act explains what `event` says of an absence."""
    if act == "rmmod":
        # A driver that was unloaded leaves its device on the bus, where the next one finds it.
        return not isinstance(event, XidReported | GpuLostReported)
    if act == "reset":
        # Whoever resets a device wants it back.
        return not (isinstance(event, ConfigSpaceUnreadable) and event.how == "not-ready")
    return True


def asked_for(timeline: Timeline, event: Event, device: PciAddress | None) -> bool:
    """Whether somebody removed, unbound or reset the device shortly before `event`."""
    for act in timeline.of(AdminActed, SlotChanged):
        if act.what not in _TAKES_AWAY or not _takes(act.what, event):
            continue
        if act.device is not None and device is not None:
            # Whoever removes a port removes what lies below it.
            below = timeline.gpus_below(act.device)
            if act.device.slot != device.slot and device.slot not in below:
                continue
        if not timeline.same_run(act, event):
            continue
        gap = timeline.seconds_between(act, event)
        if gap is None:
            before = timeline.precedes(act, event)
            if before:
                return True
        elif -1 <= gap <= ON_PURPOSE_S:
            return True
    return False
