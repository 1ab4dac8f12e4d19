"""The program did something illegal, and the GPU said so: it is healthy, unless it owes a reset.

What proves it:
    Xid 13, 31, 69 and their like, with the GPU going on afterwards; a device-side assert; a CUDA
    error that only a program can cause (700 illegal address, 710 assert, 714 to 718) together
    with such an Xid. Xid 43 says that the driver ended a program's channel for a fault of its
    own: with that program's CUDA error it proves it, alone it is likely.

What only supports it:
    CUDA 700 or 710 to 718 in a program's log without the kernel's side: likely.

What is no proof:
    CUDA 719, "unspecified launch failure": a lost device prints the same words. With the kernel
    log and its Xid 43 or 13 at hand it is the program's; without, it cannot be told.

What the driver asks for afterwards:
    An Xid 154 can ask for a reset or a reboot after the program's fault. The program is at fault
    all the same, but the GPU is not called healthy, and the reset comes first among the steps.

Profilers:
    nsys, ncu and CUPTI can give 719 on a healthy GPU. One that shows in the log is named.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe import catalog
from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import CudaFailed, DeviceAssertFailed, Event, GpuHung, ProfilerSeen
from gpuprobe.rules import xids
from gpuprobe.rules.base import Finding, Rule, certainty_of, gpu_name, moment
from gpuprobe.rules.gpu_hang import PAGE_FAULT
from gpuprobe.timeline import Timeline

BESIDE_S = 180.0
"""How far a program's error and the Xid of its fault may be apart."""

TRAFFIC_ONLY = frozenset({0, 3, 5})
"""Values of the recovery action with which the GPU itself works on."""

REBOOTS = frozenset({2, 7})
"""Values that ask for more than a reset of the GPU or its bus."""

_HEALTHY = "is healthy and "

OPEN_CODES = frozenset({719, 999})
"""Codes that belong to the program only when its Xid says so."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """Program faults: those with an Xid a GPU each, the rest in one."""
    found = xids.findings(
        timeline, Kind.APPLICATION_FAULT, f"{_HEALTHY}stopped a program for its own fault"
    )
    for finding in found:
        _owed(timeline, finding)
    own = all_own = [event for event in timeline.of(CudaFailed) if _is_programs(event)]
    asserts = all_asserts = list(timeline.of(DeviceAssertFailed))
    profilers = list(timeline.of(ProfilerSeen))
    if found:
        lead = found[0]
        open_codes = [
            event
            for event in timeline.of(CudaFailed)
            if event.code in OPEN_CODES and _with(timeline, lead.root, event)
        ]
        own = [event for event in own if _with(timeline, lead.root, event)]
        asserts = [event for event in asserts if _with(timeline, lead.root, event)]
        words: list[Event] = [*asserts, *own, *open_codes]
        if words and set(lead.xids) == {43}:
            # The driver ended the channel, and the program says why: together they prove it.
            lead.certainty = certainty_of(lead.events(Role.PROOF))
        lead.cite(Role.SUPPORT, [*asserts, *own], "the program's side of it")
        lead.cite(Role.CONSEQUENCE, open_codes, "the program's side of it")
        asserts = [event for event in all_asserts if event not in asserts]
        own = [event for event in all_own if event not in own]
    if asserts or own:
        root = sorted([*asserts, *own], key=lambda event: event.origin.order)[0]
        what = "its own assert fired" if asserts else _words(own[0])
        finding = Finding(
            kind=Kind.APPLICATION_FAULT,
            certainty=certainty_of([root], Certainty.LIKELY),
            summary=f"The program is at fault {moment(root)}".rstrip() + f": {what} on the GPU",
            root=root,
        )
        finding.cite(Role.PROOF, [*asserts, *own], what)
        found.append(finding)
    found.extend(_refused(timeline))
    if profilers and found:
        found[0].cite(Role.CONTEXT, profilers, "a profiler can give 719 on a healthy GPU")
    return found


def _owed(timeline: Timeline, finding: Finding) -> None:
    """Take back that the GPU is healthy where the driver asks for a reset or a reboot."""
    action = xids.action_owed(timeline, finding.root, finding.device)
    if action in TRAFFIC_ONLY:
        return
    reboot = action in REBOOTS
    asks = "a reboot" if reboot else "a reset of this GPU"
    finding.summary = finding.summary.replace(_HEALTHY, "", 1)
    finding.summary += f"; the driver asks for {asks} (Xid 154)"
    finding.tags.add("reboot-owed" if reboot else "reset-owed")


def _refused(timeline: Timeline) -> list[Finding]:
    """Accesses that amdgpu refused, where no hang of that GPU came with them."""
    faults = [event for event in timeline.of(GpuHung) if event.what == PAGE_FAULT]
    hung = {event.device for event in timeline.of(GpuHung) if event.what != PAGE_FAULT}
    faults = [event for event in faults if not hung & {event.device, None}]
    if not faults:
        return []
    root = faults[0]
    finding = Finding(
        kind=Kind.APPLICATION_FAULT,
        certainty=certainty_of(faults, Certainty.LIKELY),
        summary=f"{gpu_name(root.device)} refused a program's access {moment(root)}".rstrip()
        + ": a page fault",
        root=root,
        device=root.device.slot if root.device else None,
    )
    finding.cite(Role.PROOF, faults, "the GPU refused an access")
    return [finding]


def _with(timeline: Timeline, root: Event, event: Event) -> bool:
    """Whether a program's error can be the other side of the Xid: not long before or after it."""
    gap = timeline.rough_gap(root, event)
    return gap is None or -BESIDE_S <= gap <= BESIDE_S


def _is_programs(event: CudaFailed) -> bool:
    if event.code is None:
        return False
    known = catalog.cuda_by_code(event.code)
    return known is not None and known.verdict is Kind.APPLICATION_FAULT


def _words(event: CudaFailed) -> str:
    return f"“{event.message}” (CUDA {event.code})"


RULE = Rule(Kind.APPLICATION_FAULT, find)
