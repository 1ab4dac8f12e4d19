"""The PCIe link misbehaves, but the device is still there.

What proves it:
    AER reports of the GPU, of another function of its card, or of the port above it. A surprise
    down, containment or Link Down after which the device came back within a minute. Xid 32, 80,
    121, 159, 167, 173 and 176 are hints: likely at most.

What is no proof:
    AER of a device that is not tied to a GPU (a disk, a network card) is context. A lower
    generation at idle is healthy. A narrower width is worth a possible, and never an answer by
    itself. The open
    NVIDIA driver has no PCI error callbacks, so "recovery failed" is normal after any
    uncorrectable error on a GPU.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import (
    AerRecoveryEnded,
    AerReported,
    DpcTriggered,
    Event,
    LinkStateReported,
    SlotChanged,
)
from gpuprobe.identity import PciAddress
from gpuprobe.rules import xids
from gpuprobe.rules.absence import came_back
from gpuprobe.rules.base import Finding, Rule, certainty_of, gpu_name, moment, times, total
from gpuprobe.timeline import Timeline

FEW = 3
"""Corrected errors of one hop below this number are worth a possible only."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """Link trouble, one finding a GPU."""
    groups: dict[PciAddress, list[Event]] = defaultdict(list)
    bounced: set[PciAddress] = set()
    for event in timeline.of(AerReported, DpcTriggered, SlotChanged):
        gpu = _gpu_of(timeline, event)
        if gpu is None:
            continue
        if isinstance(event, SlotChanged):
            if event.what != "link-down" or not came_back(timeline, event, gpu):
                continue
            bounced.add(gpu)
        elif isinstance(event, DpcTriggered) and came_back(timeline, event, gpu):
            bounced.add(gpu)
        groups[gpu].append(event)
    found = [_finding(timeline, gpu, events, gpu in bounced) for gpu, events in groups.items()]
    known = {finding.device for finding in found}
    for finding in xids.findings(timeline, Kind.PCIE_LINK_ERRORS, "has trouble on its link"):
        if finding.device not in known:
            found.append(finding)
    if not found:
        found.extend(_narrow(timeline))
    return found


def _gpu_of(timeline: Timeline, event: Event) -> PciAddress | None:
    """The one GPU that an event of a function or a port is about."""
    if timeline.is_gpu(event.device):
        return event.device.slot if event.device else None
    sender = getattr(event, "sender", None)
    if timeline.is_gpu(sender):
        return sender.slot if sender else None
    below = timeline.gpus_below(event.device)
    return below[0] if len(below) == 1 else None


def _finding(timeline: Timeline, gpu: PciAddress, events: list[Event], bounced: bool) -> Finding:
    aer = [event for event in events if isinstance(event, AerReported)]
    worst = [event for event in aer if event.severity != "correctable"]
    bits = Counter(bit for event in aer for bit in event.bits)
    count = total(aer)
    best = Certainty.CONFIRMED
    if not worst and not bounced and count < FEW:
        best = Certainty.POSSIBLE
    if bounced:
        what = "lost its link and came back"
    elif worst:
        what = f"reported uncorrectable PCIe errors {times(total(worst))}"
    else:
        names = ", ".join(f"{name} {number}" for name, number in bits.most_common(4))
        what = f"corrected PCIe errors {times(count)}" + (f" ({names})" if names else "")
    finding = Finding(
        kind=Kind.PCIE_LINK_ERRORS,
        certainty=certainty_of(events, best),
        summary=f"The link of {gpu_name(gpu)} {what} {moment(events[0])}".rstrip()
        + ("; no line says that the GPU left" if worst and not bounced else ""),
        root=events[0],
        device=gpu,
        tags={"corrected-errors"} if not worst else {"uncorrected-errors"},
        background=not worst and not bounced,
    )
    own = [event for event in events if event.device is None or event.device.slot == gpu]
    finding.cite(Role.PROOF, own or events, "")
    finding.cite(Role.SUPPORT, events, "the port above it")
    recovery = [
        event
        for event in timeline.of(AerRecoveryEnded)
        if event.device is not None
        and (event.device.slot == gpu or gpu in timeline.gpus_below(event.device))
    ]
    finding.cite(Role.CONTEXT, recovery, "how recovery ended")
    return finding


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
