"""NVLink or NVSwitch reported an error.

What proves it:
    Xid 74 (to Hopper), 136, 144 to 150, 155, 166 or 170 (Blackwell) for a device, or a fatal SXid
    of a switch. A dying GPU makes its peers report too: a GPU that also has a loss, a firmware
    or a memory Xid is the one to look at.

What only supports it:
    CUDA's "uncorrectable NVLink error" names no device: likely.

What is no proof:
    Non-fatal SXids while links come up at boot.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import CudaFailed, SxidReported
from gpuprobe.rules import xids
from gpuprobe.rules.base import Finding, Rule, certainty_of, moment
from gpuprobe.timeline import Timeline

CUDA_NVLINK = 220


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for the fabric: its errors come from several devices at once."""
    groups = xids.findings(timeline, Kind.NVLINK_ERROR, "reported an NVLink error")
    found: list[Finding] = []
    if groups:
        first = groups[0]
        for other in groups[1:]:
            first.cite(Role.PROOF, other.events())
            if other.device:
                first.other_devices.add(other.device)
        found.append(first)
    fatal = [event for event in timeline.of(SxidReported) if event.fatal]
    if fatal and found:
        found[0].cite(Role.SUPPORT, fatal, "the switch's side of it")
    elif fatal:
        finding = Finding(
            kind=Kind.NVLINK_ERROR,
            certainty=certainty_of(fatal),
            summary=f"{_switch(fatal[0])} reported a fatal error {moment(fatal[0])}".rstrip()
            + f": SXid {fatal[0].code}",
            root=fatal[0],
            device=fatal[0].device,
        )
        finding.cite(Role.PROOF, fatal, "fatal SXid")
        found.append(finding)
    failures = [event for event in timeline.of(CudaFailed) if event.code == CUDA_NVLINK]
    if failures and not found:
        finding = Finding(
            kind=Kind.NVLINK_ERROR,
            certainty=Certainty.LIKELY,
            summary="A program met an uncorrectable NVLink error; the peer may be the one at fault",
            root=failures[0],
        )
        finding.cite(Role.PROOF, failures, "CUDA reports an NVLink error")
        found.append(finding)
    return found


def _switch(event: SxidReported) -> str:
    return f"NVSwitch {event.device}" if event.device else "An NVSwitch"


RULE = Rule(Kind.NVLINK_ERROR, find)
