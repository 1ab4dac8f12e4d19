"""Power was short: a power brake, missing plugs, or an under-voltage of the host.

What proves it:
    Xid 54 (auxiliary power not connected), the driver's line about power cables, clock-event
    reason 0x80 (an external power brake) in a sample, an under-voltage line of the host.

What is no proof:
    Clock-event reason 0x4: the power limit at work is normal under load. A draw below the limit:
    no software sees a spike of microseconds. A supply's own event says "supply", and whether the
    GPU suffered from it is for the other lines to show.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import PowerReported
from gpuprobe.rules import xids
from gpuprobe.rules.base import Finding, Rule, certainty_of, gpu_name, moment
from gpuprobe.timeline import Timeline

SENTENCES = {
    "brake": "was slowed by an external power brake",
    "external-missing": "lacks its power cables",
    "under-voltage": "The host's supply voltage was too low",
    "supply": "A power supply reported a fault",
}


WORDS = {
    "brake": "clocks held down by the power brake signal",
    "external-missing": "the card's own power plugs are not fed",
    "under-voltage": "the supply's voltage was below its limit",
    "supply": "the supply's own sensor, or the BMC's",
}


def find(timeline: Timeline) -> Sequence[Finding]:
    """Power trouble: what the GPU says first, then the host."""
    found = xids.findings(timeline, Kind.POWER, "reported a power fault")
    events = [event for event in timeline.of(PowerReported) if event.what in SENTENCES]
    for gpu in (True, False):
        group = [event for event in events if event.gpu is gpu]
        if not group:
            continue
        root = group[0]
        device = next((event.device.slot for event in group if event.device), None)
        words = SENTENCES[root.what]
        if gpu and words[0].islower():
            name = gpu_name(device)
            words = f"{name[0].upper()}{name[1:]} {words}"
        best = Certainty.CONFIRMED if device or not gpu else Certainty.LIKELY
        finding = Finding(
            kind=Kind.POWER,
            certainty=certainty_of(group, best),
            summary=f"{words} {moment(root)}".rstrip(),
            root=root,
            device=device,
            background=not gpu,
        )
        finding.cite(Role.PROOF, group, WORDS[root.what])
        found.append(finding)
    return found


RULE = Rule(Kind.POWER, find)
