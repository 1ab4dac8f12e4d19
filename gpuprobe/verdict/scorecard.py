"""Why did it leave? The scorecard under a loss: what speaks for and against each cause.

Every entry is a rule of `gpuprobe.catalog.causes` with the figure it was given. A rule whose input
was not among the inputs lands under "not seen": nothing is ruled out that no sensor saw.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cached_property

from gpuprobe.catalog.causes import cause_rules, cause_texts
from gpuprobe.diagnosis import Cause, CauseEntry
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


class _Scene(Value):
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
        return self.timeline.same_run(self.finding.root, event)

    def ours(self, event: Event) -> bool:
        """About the lost GPU or the port above it, or about no device in particular."""
        return self.timeline.concerns(event, self.finding.device)

    @cached_property
    def samples(self) -> list[GpuSampled]:
        return [
            event
            for event in self.timeline.of(GpuSampled)
            if self.ours(event) and self.same_boot(event) and not event.lost
        ]


_Answer = str | None
"""The figure behind a rule that fires, or None."""


def _place(event: Event) -> str:
    """Where an event was read: input and line, or what was read where there are no lines."""
    if event.origin.line is None:
        return f"{event.origin.input}: {event.origin.text}"
    return f"{event.origin.input}:{event.origin.line}"


def _link_rise(scene: _Scene) -> _Answer:
    errors = [e for e in scene.timeline.of(AerReported) if scene.ours(e) and scene.before(e)]
    corrected = [event for event in errors if event.severity == "correctable"]
    if total(corrected) < 3:
        return _counter_rise(scene)
    gap = scene.timeline.seconds_between(corrected[0], scene.finding.root)
    since = f", the first {gap:.0f} s before the loss" if gap is not None else ""
    return f"{total(corrected)} corrected errors on the GPU or its port{since}"


def _counter_rise(scene: _Scene) -> _Answer:
    """Counters instead of lines: AER in sysfs, replays in NVML."""
    risen = (
        [
            rise
            for rise in link_rises(scene.timeline).get(scene.finding.device, [])
            if scene.before(rise.event)
        ]
        if scene.finding.device
        else []
    )
    if sum(rise.by for rise in risen) < 3:
        return None
    names = ", ".join(f"{rise.name} +{rise.by}" for rise in risen[:4])
    gap = scene.timeline.seconds_between(risen[0].event, scene.finding.root)
    return names + (f", the first {gap:.0f} s before the loss" if gap is not None else "")


def _link_quiet(scene: _Scene) -> _Answer:
    """No error counted, where counting is known to work: AER is granted and read at both ends."""
    gpu = scene.finding.device
    port = scene.timeline.parents().get(gpu) if gpu else None
    counted = {
        event.device.slot
        for event in scene.timeline.of(CountersSampled)
        if event.device and any(name.startswith("aer_dev_") for name, _ in event.counters)
    }
    quiet = not any(scene.ours(event) for event in scene.timeline.of(AerReported))
    if gpu is None or port is None or not {gpu, port.slot} <= counted or not quiet:
        return None
    if link_rises(scene.timeline).get(gpu) or not _aer_granted(scene):
        return None
    return f"AER counters of {gpu} and {port} did not move"


def _load_step(scene: _Scene) -> _Answer:
    """A jump of the draw within the last three seconds, by a quarter of the limit or more."""
    points = []
    for sample in scene.samples:
        at = scene.timeline.seconds_between(scene.finding.root, sample)
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


def _link_burst(scene: _Scene) -> _Answer:
    errors = [e for e in scene.timeline.of(AerReported) if scene.ours(e)]
    if any(scene.before(event) for event in errors):
        return None
    burst = [event for event in errors if scene.with_it(event)]
    return f"{total(burst)} AER reports within 2 s of the loss, none before" if burst else None


def _link_narrow(scene: _Scene) -> _Answer:
    for event in scene.timeline.of(LinkStateReported):
        ours = event.device is not None and event.device.slot == scene.finding.device
        if ours and event.width and event.max_width and event.width < event.max_width:
            at = f" at {event.limited_by}" if event.limited_by else ""
            return f"width x{event.width} of x{event.max_width}{at}"
    return None


def _tunnel_first(scene: _Scene) -> _Answer:
    for event in scene.timeline.of(DeviceChanged, SlotChanged):
        tunnel = isinstance(event, DeviceChanged) and event.what == "tunnel-lost"
        slot = isinstance(event, SlotChanged) and event.what == "link-down" and scene.ours(event)
        cable = scene.timeline.described("egpu") or scene.timeline.described("riser")
        if (tunnel or (slot and cable)) and (scene.before(event) or scene.with_it(event)):
            return _place(event)
    return None


def _host_reset(scene: _Scene) -> _Answer:
    signs = list(scene.timeline.of(UncleanEndFound))
    return f"{len(signs)} signs of an unclean end" if signs else None


def _host_lived(scene: _Scene) -> _Answer:
    later = [
        gap
        for event in scene.timeline.events
        if (gap := scene.timeline.seconds_between(scene.finding.root, event)) is not None
        and gap > SAME_MOMENT_S
        and scene.same_boot(event)
    ]
    return f"lines up to {max(later):.0f} s after the loss" if later else None


def _power_brake(scene: _Scene) -> _Answer:
    for event in scene.timeline.of(PowerReported, XidReported):
        brake = isinstance(event, PowerReported) and event.what in (
            "brake",
            "external-missing",
            "supply",
        )
        plug = isinstance(event, XidReported) and event.code == 54
        if (brake or plug) and scene.ours(event):
            return _place(event)
    return None


_FAILING = (XidReported, GpuLostReported, ConfigSpaceUnreadable, LossHinted, HostFaulted)


def _others_failed(scene: _Scene) -> _Answer:
    """Devices of other slots that fail in the same moment; a card's functions are one card."""
    names = set()
    for event in scene.timeline.of(*_FAILING):
        lost = (
            isinstance(event, GpuLostReported | ConfigSpaceUnreadable)
            or (isinstance(event, XidReported) and event.code == LOST_XID)
            or (isinstance(event, LossHinted) and event.what == "bridge-error")
            or (isinstance(event, HostFaulted) and event.what == "nvme")
        )
        other = event.device is not None and event.device.slot != scene.finding.device
        if lost and other and scene.with_it(event):
            names.add(str(event.device))
    return ", ".join(sorted(names)) or None


def _heat_rise(scene: _Scene) -> _Answer:
    for event in scene.timeline.of(ThermalReported):
        if event.what in ("slowdown", "shutdown") and scene.ours(event):
            return _place(event)
    for sample in scene.samples:
        if (sample.clocks_event_reasons or 0) & 0x60:
            return f"clock-event reasons {sample.clocks_event_reasons:#x}"
    return None


def _core_cool(scene: _Scene) -> _Answer:
    temps = [sample.temp_c for sample in scene.samples if sample.temp_c is not None]
    limits = [e.slowdown_c for e in scene.timeline.of(ThermalReported) if e.slowdown_c]
    if len(temps) < 2 or not limits or max(temps) > min(limits) - MARGIN_C:
        return None
    return f"at most {max(temps):g} °C of {min(limits):g} °C in {len(temps)} samples"


def _firmware_first(scene: _Scene) -> _Answer:
    for event in scene.timeline.of(FirmwareFaulted, XidReported):
        fault = isinstance(event, FirmwareFaulted) or (
            isinstance(event, XidReported) and event.code in FIRMWARE_XIDS
        )
        if fault and scene.before(event):
            return _place(event)
    return None


def _idle(scene: _Scene) -> _Answer:
    last = scene.samples[-3:]
    loads = [sample.util_percent for sample in last if sample.util_percent is not None]
    if len(loads) >= 2 and max(loads) <= 5:
        return f"utilisation at most {max(loads):g} % in the last {len(loads)} samples"
    return None


def _memory_errors(scene: _Scene) -> _Answer:
    events = [
        event
        for event in scene.timeline.of(XidReported)
        if event.code in MEMORY_XIDS
        and event.device is not None
        and event.device.slot == scene.finding.device
    ]
    return f"{times(total(events))}, first Xid {events[0].code}" if events else None


def _iommu(scene: _Scene) -> _Answer:
    events = [e for e in scene.timeline.of(HostFaulted) if e.what == "iommu" and scene.ours(e)]
    return f"{total(events)} IOMMU faults" if events else None


def _host_errors(scene: _Scene) -> _Answer:
    events = [
        e
        for e in scene.timeline.of(HostFaulted)
        if e.what in ("mce", "edac", "ghes") and scene.same_boot(e)
    ]
    return f"{total(events)} lines" if events else None


def _driver_only(scene: _Scene) -> _Answer:
    return "config space answered after it" if "config-alive" in scene.finding.tags else None


_RULES: dict[str, Callable[[_Scene], _Answer]] = {
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

_NOTES: dict[str, Callable[[_Scene], _Answer]] = {"P2": _host_lived}
"""Rules that explain and speak neither for nor against; shown with what they are mistaken for."""

_NOT_SEEN: dict[str, tuple[str, ...]] = {
    "power": ("P3", "P6", "P7"),
    "link": ("L1", "L3", "L4"),
    "heat": ("T1", "T3"),
    "firmware": ("F1", "F3"),
    "card": ("C1", "C2"),
    "host": ("H2", "P8"),
}


def scorecard(timeline: Timeline, finding: Finding) -> tuple[Cause, ...]:
    """A row for each cause of a loss, in the catalogue's order."""
    scene = _Scene(timeline, finding)
    pro: dict[str, list[CauseEntry]] = defaultdict(list)
    against: dict[str, list[CauseEntry]] = defaultdict(list)
    fired = set()
    texts = cause_rules()
    for rule_id, ask in _RULES.items():
        figure = ask(scene)
        if figure is None:
            continue
        fired.add(rule_id)
        for effect in texts[rule_id].effects:
            side = against if effect.weight == "-" else pro
            side[effect.cause].append(
                CauseEntry(rule_id, f"{texts[rule_id].text} ({figure})", effect.weight)
            )
    if figure := _driver_only(scene):
        against["link"].append(CauseEntry("F1", f"only the driver's test failed ({figure})", "-"))
    notes = [
        CauseEntry(rule_id, f"{texts[rule_id].text} ({figure}); one plug is not excluded", "")
        for rule_id, ask in _NOTES.items()
        if (figure := ask(scene))
    ]
    rows = []
    for cause in cause_texts():
        unseen = list(_unseen(scene, cause, fired))
        if cause == "power":
            unseen.extend(notes)
        rows.append(
            Cause(
                cause=cause,
                score=_score(pro[cause], against[cause]),
                pro=tuple(pro[cause]),
                against=tuple(against[cause]),
                not_seen=tuple(unseen),
            )
        )
    rows.sort(key=lambda row: -sum({"++": 2, "+": 1}.get(e.weight, 0) for e in row.pro))
    return tuple(rows)


def _score(pro: list[CauseEntry], against: list[CauseEntry]) -> str:
    if pro and against:
        return "mixed"
    if pro:
        return "for"
    return "against" if against else "not-seen"


def _unseen(scene: _Scene, cause: str, fired: set[str]) -> Iterator[CauseEntry]:
    """Rules of this cause whose input is not among the inputs, with what they would need."""
    texts = cause_rules()
    samples = scene.samples
    seen = {
        "P6": len(samples) >= 2,
        "P3": any(sample.clocks_event_reasons is not None for sample in samples),
        "L1": (scene.timeline.has_kernel_log() and _aer_granted(scene)) or _counted(scene),
        "L4": any(s.link_width for s in samples)
        or any(True for _ in scene.timeline.of(LinkStateReported)),
        "T1": any(sample.temp_c is not None for sample in samples),
        "T3": any(sample.temp_c is not None for sample in samples),
        "F1": scene.timeline.has_kernel_log(),
        "H2": scene.timeline.has_kernel_log(),
        "P8": scene.timeline.has_kernel_log(),
    }
    for rule_id in _NOT_SEEN.get(cause, ()):
        if rule_id in fired or seen.get(rule_id):
            continue
        yield CauseEntry(rule_id, texts[rule_id].needs, "")


def _counted(scene: _Scene) -> bool:
    """Whether counters of link errors were read at least twice before the loss."""
    before = [e for e in scene.timeline.of(CountersSampled) if scene.ours(e) and scene.before(e)]
    return len({id(event.stamp) for event in before}) > 1


def _aer_granted(scene: _Scene) -> bool:
    """Whether zero AER lines would mean zero errors: AER is Linux' own and not switched off."""
    cmdline = scene.timeline.described("cmdline")
    off = cmdline is not None and ("pci=noaer" in cmdline.value or "nommconf" in cmdline.value)
    granted = any(
        isinstance(event, SystemDescribed) and event.key == "aer-granted"
        for event in scene.timeline.events
    )
    return granted and not off
