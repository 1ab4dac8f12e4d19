"""What a log says of why a GPU left: for each rule of the scorecard the figure behind it, or None.

The rules in words are in `gpuprobe.catalog.causes`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property

from gpuprobe.events import (
    AerReported,
    ConfigSpaceUnreadable,
    CountersSampled,
    DeviceChanged,
    Event,
    FirmwareFaulted,
    GpuLostReported,
    GpuSampled,
    HostFaulted,
    LinkStateReported,
    LossHinted,
    PowerReported,
    SlotChanged,
    SystemDescribed,
    ThermalReported,
    UncleanEndFound,
    XidReported,
)
from gpuprobe.rules.base import LOST_XID, Finding, times, total
from gpuprobe.rules.pcie_link_errors import link_rises
from gpuprobe.timeline import SAME_MOMENT_S, Timeline
from gpuprobe.values import Value

MARGIN_C = 15.0
"""How far below its slowdown limit a core must stay for its heat to be spoken against."""

FIRMWARE_XIDS = frozenset({62, 119, 120, 175})
MEMORY_XIDS = frozenset({48, 63, 64, 94, 95, 140})


class Loss(Value):
    """One loss and the events around it."""

    timeline: Timeline
    finding: Finding

    def before(self, event: Event) -> bool:
        """In the boot of the loss, and clearly before it."""
        return self.same_boot(event) and bool(self.timeline.precedes(event, self.finding.root))

    def with_it(self, event: Event) -> bool:
        """Within the moment of the loss."""
        gap = self.timeline.seconds_between(self.finding.root, event)
        return gap is not None and abs(gap) <= SAME_MOMENT_S

    def same_boot(self, event: Event) -> bool:
        """In the boot of the loss."""
        return self.timeline.same_run(self.finding.root, event)

    def ours(self, event: Event) -> bool:
        """About the lost GPU or the port above it, or about no device in particular."""
        return self.timeline.concerns(event, self.finding.device)

    @cached_property
    def samples(self) -> list[GpuSampled]:
        """Samples of the GPU in that boot, without the rows that say that it is lost."""
        return [
            event
            for event in self.timeline.of(GpuSampled)
            if self.ours(event) and self.same_boot(event) and not event.lost
        ]


Figure = str | None
"""The figure behind a rule that fires, or None."""


def _place(event: Event) -> str:
    """Where an event was read: input and line, or what was read where there are no lines."""
    if event.origin.line is None:
        return f"{event.origin.input}: {event.origin.text}"
    return f"{event.origin.input}:{event.origin.line}"


def _link_rise(loss: Loss) -> Figure:
    errors = [e for e in loss.timeline.of(AerReported) if loss.ours(e) and loss.before(e)]
    corrected = [event for event in errors if event.severity == "correctable"]
    if total(corrected) < 3:
        return _counter_rise(loss)
    gap = loss.timeline.seconds_between(corrected[0], loss.finding.root)
    since = f", the first {gap:.0f} s before the loss" if gap is not None else ""
    return f"{total(corrected)} corrected errors on the GPU or its port{since}"


def _counter_rise(loss: Loss) -> Figure:
    """Counters instead of lines: AER in sysfs, replays in NVML."""
    risen = (
        [
            rise
            for rise in link_rises(loss.timeline).get(loss.finding.device, [])
            if loss.before(rise.event)
        ]
        if loss.finding.device
        else []
    )
    if sum(rise.by for rise in risen) < 3:
        return None
    names = ", ".join(f"{rise.name} +{rise.by}" for rise in risen[:4])
    gap = loss.timeline.seconds_between(risen[0].event, loss.finding.root)
    return names + (f", the first {gap:.0f} s before the loss" if gap is not None else "")


def _link_quiet(loss: Loss) -> Figure:
    """No error counted, where counting is known to work: AER is granted and read at both ends."""
    gpu = loss.finding.device
    port = loss.timeline.parents().get(gpu) if gpu else None
    counted = {
        event.device.slot
        for event in loss.timeline.of(CountersSampled)
        if event.device and any(name.startswith("aer_dev_") for name, _ in event.counters)
    }
    quiet = not any(loss.ours(event) for event in loss.timeline.of(AerReported))
    if gpu is None or port is None or not {gpu, port.slot} <= counted or not quiet:
        return None
    if link_rises(loss.timeline).get(gpu) or not aer_granted(loss):
        return None
    return f"AER counters of {gpu} and {port} did not move"


def _load_step(loss: Loss) -> Figure:
    """A jump of the draw within the last three seconds, by a quarter of the limit or more."""
    points = []
    for sample in loss.samples:
        at = loss.timeline.seconds_between(loss.finding.root, sample)
        if at is not None and -15.0 <= at <= 0.0 and sample.power_w is not None:
            points.append((at, sample.power_w, sample.limit_w))
    late = [watts for at, watts, _ in points if at >= -3.0]
    early = [watts for at, watts, _ in points if at < -3.0]
    limits = [limit for _, _, limit in points if limit]
    if len(late) < 2 or len(early) < 5 or not limits:
        return None
    from statistics import median  # slow to import, and few logs hold samples

    step = max(late) - median(early)
    if step < 0.25 * min(limits):
        return None
    return f"from {median(early):.0f} to {max(late):.0f} W of {min(limits):.0f} W in the last 3 s"


def _link_burst(loss: Loss) -> Figure:
    errors = [e for e in loss.timeline.of(AerReported) if loss.ours(e)]
    if any(loss.before(event) for event in errors):
        return None
    burst = [event for event in errors if loss.with_it(event)]
    return f"{total(burst)} AER reports within 2 s of the loss, none before" if burst else None


def _link_narrow(loss: Loss) -> Figure:
    for event in loss.timeline.of(LinkStateReported):
        ours = event.device is not None and event.device.slot == loss.finding.device
        if ours and event.width and event.max_width and event.width < event.max_width:
            at = f" at {event.limited_by}" if event.limited_by else ""
            return f"width x{event.width} of x{event.max_width}{at}"
    return None


def _tunnel_first(loss: Loss) -> Figure:
    for event in loss.timeline.of(DeviceChanged, SlotChanged):
        tunnel = isinstance(event, DeviceChanged) and event.what == "tunnel-lost"
        slot = isinstance(event, SlotChanged) and event.what == "link-down" and loss.ours(event)
        cable = loss.timeline.described("egpu") or loss.timeline.described("riser")
        if (tunnel or (slot and cable)) and (loss.before(event) or loss.with_it(event)):
            return _place(event)
    return None


def _host_reset(loss: Loss) -> Figure:
    signs = list(loss.timeline.of(UncleanEndFound))
    return f"{len(signs)} signs of an unclean end" if signs else None


def _host_lived(loss: Loss) -> Figure:
    later = [
        gap
        for event in loss.timeline.events
        if (gap := loss.timeline.seconds_between(loss.finding.root, event)) is not None
        and gap > SAME_MOMENT_S
        and loss.same_boot(event)
    ]
    return f"lines up to {max(later):.0f} s after the loss" if later else None


def _power_brake(loss: Loss) -> Figure:
    for event in loss.timeline.of(PowerReported, XidReported):
        brake = isinstance(event, PowerReported) and event.what in (
            "brake",
            "external-missing",
            "supply",
        )
        plug = isinstance(event, XidReported) and event.code == 54
        if (brake or plug) and loss.ours(event):
            return _place(event)
    return None


_FAILING = (XidReported, GpuLostReported, ConfigSpaceUnreadable, LossHinted, HostFaulted)


def _others_failed(loss: Loss) -> Figure:
    """Devices of other slots that fail in the same moment; a card's functions are one card."""
    names = set()
    for event in loss.timeline.of(*_FAILING):
        lost = (
            isinstance(event, GpuLostReported | ConfigSpaceUnreadable)
            or (isinstance(event, XidReported) and event.code == LOST_XID)
            or (isinstance(event, LossHinted) and event.what == "bridge-error")
            or (isinstance(event, HostFaulted) and event.what == "nvme")
        )
        other = event.device is not None and event.device.slot != loss.finding.device
        if lost and other and loss.with_it(event):
            names.add(str(event.device))
    return ", ".join(sorted(names)) or None


def _heat_rise(loss: Loss) -> Figure:
    for event in loss.timeline.of(ThermalReported):
        if event.what in ("slowdown", "shutdown") and loss.ours(event):
            return _place(event)
    for sample in loss.samples:
        if (sample.clocks_event_reasons or 0) & 0x60:
            return f"clock-event reasons {sample.clocks_event_reasons:#x}"
    return None


def _core_cool(loss: Loss) -> Figure:
    temps = [sample.temp_c for sample in loss.samples if sample.temp_c is not None]
    limits = [e.slowdown_c for e in loss.timeline.of(ThermalReported) if e.slowdown_c]
    if len(temps) < 2 or not limits or max(temps) > min(limits) - MARGIN_C:
        return None
    return f"at most {max(temps):g} °C of {min(limits):g} °C in {len(temps)} samples"


def _firmware_first(loss: Loss) -> Figure:
    for event in loss.timeline.of(FirmwareFaulted, XidReported):
        fault = isinstance(event, FirmwareFaulted) or (
            isinstance(event, XidReported) and event.code in FIRMWARE_XIDS
        )
        if fault and loss.before(event):
            return _place(event)
    return None


def _idle(loss: Loss) -> Figure:
    last = loss.samples[-3:]
    loads = [sample.util_percent for sample in last if sample.util_percent is not None]
    if len(loads) >= 2 and max(loads) <= 5:
        return f"utilisation at most {max(loads):g} % in the last {len(loads)} samples"
    return None


def _memory_errors(loss: Loss) -> Figure:
    events = [
        event
        for event in loss.timeline.of(XidReported)
        if event.code in MEMORY_XIDS
        and event.device is not None
        and event.device.slot == loss.finding.device
    ]
    return f"{times(total(events))}, first Xid {events[0].code}" if events else None


def _iommu(loss: Loss) -> Figure:
    events = [e for e in loss.timeline.of(HostFaulted) if e.what == "iommu" and loss.ours(e)]
    return f"{total(events)} IOMMU faults" if events else None


def _host_errors(loss: Loss) -> Figure:
    events = [
        e
        for e in loss.timeline.of(HostFaulted)
        if e.what in ("mce", "edac", "ghes") and loss.same_boot(e)
    ]
    return f"{total(events)} lines" if events else None


def driver_only(loss: Loss) -> Figure:
    """What shows that the link is whole and the driver alone gave the GPU up."""
    return "config space answered after it" if "config-alive" in loss.finding.tags else None


SIGNS: dict[str, Callable[[Loss], Figure]] = {
    "L1": _link_rise,
    "L2": _link_burst,
    "L3": _link_quiet,
    "L4": _link_narrow,
    "L6": _tunnel_first,
    "P1": _host_reset,
    "P3": _power_brake,
    "P6": _load_step,
    "P8": _others_failed,
    "T1": _heat_rise,
    "T3": _core_cool,
    "F1": _firmware_first,
    "F4": _idle,
    "C2": _memory_errors,
    "H1": _iommu,
    "H2": _host_errors,
}
"""Rules that a log can answer. The others need runs or swaps, and stay among the next steps."""

NOTES: dict[str, Callable[[Loss], Figure]] = {"P2": _host_lived}
"""Rules that explain and speak neither for nor against; shown with what they are mistaken for."""


def aer_granted(loss: Loss) -> bool:
    """Whether zero AER lines would mean zero errors: AER is Linux' own and not switched off."""
    cmdline = loss.timeline.described("cmdline")
    off = cmdline is not None and ("pci=noaer" in cmdline.value or "nommconf" in cmdline.value)
    granted = any(
        isinstance(event, SystemDescribed) and event.key == "aer-granted"
        for event in loss.timeline.events
    )
    return granted and not off
