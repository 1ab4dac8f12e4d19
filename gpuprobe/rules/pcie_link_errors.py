"""The PCIe link misbehaves, but the device is still there.

What proves it:
    AER reports of the GPU, of another function of its card, or of the port above it. A surprise
    down, containment or Link Down after which the device came back within a minute. Xid 32, 80,
    121, 159, 167, 173 and 176 are hints: likely at most. A GPU whose config space read all ones
    and answered again within a minute. AER counters in sysfs that rose while they were watched;
    NVML's replays and bad packets alone are worth a possible. A generation below the best in
    every sample of a GPU that is at least half busy: likely.

What is no proof:
    AER of a device that is not tied to a GPU (a disk, a network card) is context. A lower
    generation at idle is healthy. A counter that is not zero: it holds a lifetime. A narrower
    width is worth a possible, and never an answer by itself. The open NVIDIA driver has no PCI
    error callbacks, so "recovery failed" is normal after any uncorrectable error on a GPU.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from gpuprobe.derive import Rise, rises
from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import (
    AerRecoveryEnded,
    AerReported,
    ConfigSpaceUnreadable,
    CountersSampled,
    DpcTriggered,
    Event,
    GpuSampled,
    LinkStateReported,
    SlotChanged,
)
from gpuprobe.identity import PciAddress
from gpuprobe.rules import xids
from gpuprobe.rules.absence import answered_again, came_back
from gpuprobe.rules.base import Finding, Rule, certainty_of, gpu_name, moment, times, total
from gpuprobe.timeline import Timeline

BUSY = 50
"""Utilisation, per cent, from which a GPU has no reason to lower its link."""

FEW = 3
"""Corrected errors of one hop below this number are worth a possible only."""

AER_FILES = {"aer_dev_correctable": False, "aer_dev_nonfatal": True, "aer_dev_fatal": True}
"""Counters in sysfs to whether a rise is uncorrected; a root port's totals count the same again."""

BENIGN = frozenset({"UnsupReq", "ACSViol", "NonFatalErr"})
"""Counted when somebody asks a device for what it does not have, or seen again as uncorrected."""

NVML_COUNTERS = {
    "pcie_replay": "replays",
    "pcie_replay_rollover": "replay rollovers",
    "pcie_bad_tlp": "BadTLP",
    "pcie_bad_dllp": "BadDLLP",
    "pcie_lcrc_errors": "LCRC errors",
}
"""NVML's counters of a link that has to send again, with the words for them."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """Link trouble, one finding a GPU."""
    groups: dict[PciAddress, list[Event]] = defaultdict(list)
    bounced: set[PciAddress] = set()
    for event in timeline.of(AerReported, DpcTriggered, SlotChanged, ConfigSpaceUnreadable):
        gpu = _gpu_of(timeline, event)
        if gpu is None:
            continue
        if isinstance(event, ConfigSpaceUnreadable):
            if event.how != "all-ones" or not answered_again(timeline, event):
                continue
            bounced.add(gpu)
        elif isinstance(event, SlotChanged):
            if event.what != "link-down" or not came_back(timeline, event, gpu):
                continue
            bounced.add(gpu)
        elif isinstance(event, DpcTriggered) and came_back(timeline, event, gpu):
            bounced.add(gpu)
        groups[gpu].append(event)
    risen = link_rises(timeline)
    for gpu in risen.keys() - groups.keys():
        if any(_is_aer(rise) for rise in risen[gpu]):
            groups[gpu] = []
    found = [
        _finding(timeline, gpu, events, risen.get(gpu, []), bounced=gpu in bounced)
        for gpu, events in groups.items()
    ]
    known = {finding.device for finding in found}
    for finding in xids.findings(timeline, Kind.PCIE_LINK_ERRORS, "has trouble on its link"):
        if finding.device not in known:
            found.append(finding)
    if not found:
        found.extend(_replays(timeline, risen))
    if not found:
        found.extend(_slow(timeline))
    if not found:
        found.extend(_narrow(timeline))
    return found


def link_rises(timeline: Timeline) -> dict[PciAddress, list[Rise]]:
    """Counters of link errors that went up, of each GPU and of the ports above it."""
    found: dict[PciAddress, list[Rise]] = defaultdict(list)
    for rise in rises(timeline.of(CountersSampled)):
        gpu = _gpu_of(timeline, rise.event)
        file, _, name = rise.name.partition(".")
        aer = file in AER_FILES and name not in BENIGN and not name.startswith("TOTAL")
        if gpu is not None and (aer or rise.name in NVML_COUNTERS):
            found[gpu].append(rise)
    return found


def _is_aer(rise: Rise) -> bool:
    return rise.name.partition(".")[0] in AER_FILES


def _is_uncorrected(rise: Rise) -> bool:
    return AER_FILES.get(rise.name.partition(".")[0], False)


def _gpu_of(timeline: Timeline, event: Event) -> PciAddress | None:
    """The one GPU that an event of a function or a port is about."""
    if timeline.is_gpu(event.device):
        return event.device.slot if event.device else None
    sender = getattr(event, "sender", None)
    if timeline.is_gpu(sender):
        return sender.slot if sender else None
    below = timeline.gpus_below(event.device)
    return below[0] if len(below) == 1 else None


def _finding(
    timeline: Timeline,
    gpu: PciAddress,
    events: list[Event],
    risen: Sequence[Rise],
    *,
    bounced: bool,
) -> Finding:
    rose = [rise for rise in risen if _is_aer(rise)]
    shown = list({id(rise.event): rise.event for rise in rose}.values())
    aer = [event for event in events if isinstance(event, AerReported)]
    worst = [event for event in aer if event.severity != "correctable"]
    bits = Counter(bit for event in aer for bit in event.bits)
    count = total(aer)
    counted = sum(rise.by for rise in rose if not _is_uncorrected(rise))
    fatal = total(worst) or sum(rise.by for rise in rose if _is_uncorrected(rise))
    if counted > count:
        # The kernel prints at a limited rate: the counters saw what the log left out.
        count = counted
        bits = Counter()
        for rise in rose:
            if not _is_uncorrected(rise):
                bits[rise.name.partition(".")[2]] += rise.by
    best = Certainty.CONFIRMED
    if not fatal and not bounced and count < FEW:
        best = Certainty.POSSIBLE
    if bounced:
        what = "lost its link and came back"
    elif fatal:
        what = f"reported uncorrectable PCIe errors {times(fatal)}"
    else:
        names = ", ".join(f"{name} {number}" for name, number in bits.most_common(4))
        what = f"corrected PCIe errors {times(count)}" + (f" ({names})" if names else "")
    told = _in_order(timeline, [*events, *shown])
    finding = Finding(
        kind=Kind.PCIE_LINK_ERRORS,
        certainty=certainty_of(told, best),
        summary=f"The link of {gpu_name(gpu)} {what} {moment(told[0])}".rstrip()
        + ("; no line says that the GPU left" if fatal and not bounced else ""),
        root=told[0],
        device=gpu,
        tags={"corrected-errors"} if not fatal else {"uncorrected-errors"},
        background=not fatal and not bounced,
    )
    own = [event for event in events if event.device is None or event.device.slot == gpu]
    finding.cite(Role.PROOF, own or events, "")
    finding.cite(Role.SUPPORT, events, "the port above it")
    for rise in rose:
        role = Role.SUPPORT if events else Role.PROOF
        finding.cite(role, [rise.event], _rise_words(rise))
    again = [answered_again(timeline, e) for e in events if isinstance(e, ConfigSpaceUnreadable)]
    finding.cite(Role.SUPPORT, [event for event in again if event], "it answers again")
    recovery = [
        event
        for event in timeline.of(AerRecoveryEnded)
        if event.device is not None
        and (event.device.slot == gpu or gpu in timeline.gpus_below(event.device))
    ]
    finding.cite(Role.CONTEXT, recovery, "how recovery ended")
    return finding


def _in_order(timeline: Timeline, events: Sequence[Event]) -> list[Event]:
    """By time where every event has one, else as they came."""
    times_ = [(timeline.at(event), event) for event in events]
    if any(at is None for at, _ in times_):
        return list(events)
    return [event for _, event in sorted(times_, key=lambda pair: (pair[0], pair[1].origin.order))]


def _rise_words(rise: Rise) -> str:
    name = NVML_COUNTERS.get(rise.name) or rise.name.partition(".")[2] or rise.name
    return f"{name} rose from {rise.before} to {rise.after} while it was watched"


def _replays(timeline: Timeline, risen: dict[PciAddress, list[Rise]]) -> list[Finding]:
    """NVML's own counters of a link that sends again, where AER says nothing: possible."""
    found = []
    for gpu, all_ in risen.items():
        here = [rise for rise in all_ if rise.name in NVML_COUNTERS]
        if sum(rise.by for rise in here) < FEW:
            continue
        events = _in_order(timeline, [rise.event for rise in here])
        words = ", ".join(f"{rise.by} {NVML_COUNTERS[rise.name]}" for rise in here)
        finding = Finding(
            kind=Kind.PCIE_LINK_ERRORS,
            certainty=Certainty.POSSIBLE,
            summary=f"The link of {gpu_name(gpu)} had to send again: {words}",
            root=events[0],
            device=gpu,
            background=True,
            tags={"corrected-errors"},
        )
        for rise in here:
            finding.cite(Role.PROOF, [rise.event], _rise_words(rise))
        found.append(finding)
    return found


def _slow(timeline: Timeline) -> list[Finding]:
    """Generations below what link and GPU can do in every busy sample: at idle that is normal."""
    busy: dict[PciAddress, list[GpuSampled]] = defaultdict(list)
    for sample in timeline.of(GpuSampled):
        if sample.device is not None and sample.link_gen and (sample.util_percent or 0) >= BUSY:
            busy[sample.device.slot].append(sample)
    found = []
    for gpu, samples in busy.items():
        slow = [
            link
            for link in timeline.of(LinkStateReported)
            if link.device is not None
            and link.device.slot == gpu
            and link.what == "sampled"
            and link.width is None
            and (link.speed_gts or 0) < (link.max_speed_gts or 0)
        ]
        if not slow or len(slow) < len(samples):
            continue
        finding = Finding(
            kind=Kind.PCIE_LINK_ERRORS,
            certainty=certainty_of(slow, Certainty.LIKELY),
            summary=(
                f"The link of {gpu_name(gpu)} runs at {slow[0].speed_gts:g} GT/s of "
                f"{slow[0].max_speed_gts:g} GT/s while the GPU works"
            ),
            root=slow[0],
            device=gpu,
            background=True,
        )
        finding.cite(Role.PROOF, slow, "generation below the best while the GPU is busy")
        found.append(finding)
    return found


def _narrow(timeline: Timeline) -> list[Finding]:
    """Fewer lanes than the card can use: a possible finding, by itself never more."""
    found = []
    for event in timeline.of(LinkStateReported):
        if event.width is None or event.max_width is None or event.device is None:
            continue
        if event.width in range(1, event.max_width) and timeline.is_gpu(event.device):
            finding = Finding(
                kind=Kind.PCIE_LINK_ERRORS,
                certainty=Certainty.POSSIBLE,
                summary=(
                    f"The link of {gpu_name(event.device)} runs on {event.width} of "
                    f"{event.max_width} lanes"
                    + (f", limited at {event.limited_by}" if event.limited_by else "")
                ),
                root=event,
                device=event.device.slot,
                background=True,
                never_first=True,
                tags={"narrow-link"},
            )
            finding.cite(Role.PROOF, [event], "width below what the card can use")
            found.append(finding)
            break
    return found


RULE = Rule(Kind.PCIE_LINK_ERRORS, find)
