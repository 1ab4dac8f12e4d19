"""The GPU, or one of its engines, hangs or needs a reset; nothing speaks of bus or firmware.

What proves it:
    Xid 8, 38, 46, 61, 109 or 158 for a device; amdgpu's ring timeout; a wedged device (xe, i915,
    amdgpu); a display driver that Windows reset (TDR, bugcheck 0x116). CUDA 702 is the program's
    side of the display's watchdog: likely.

What is no proof:
    A page fault alone (amdgpu): the GPU refused a program's access and went on. Vulkan's or
    Direct3D's "device lost" is printed for a reset, a hang or a loss: with nothing else the
    answer is that it cannot be told.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpuprobe import catalog
from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import CudaFailed, GpuHung
from gpuprobe.identity import PciAddress
from gpuprobe.rules import xids
from gpuprobe.rules.base import Finding, Rule, certainty_of, gpu_name, moment
from gpuprobe.timeline import Timeline

API_DRIVERS = frozenset({"vulkan", "d3d"})

PAGE_FAULT = "page-fault"
"""A refused access, which is the program's unless a hang follows."""


WORDS = {
    "ring-timeout": "one of its queues did not finish in time",
    "reset": "the driver reset it",
    "reset-failed": "the driver could not reset it",
    "wedged": "the driver gave it up",
    "tdr": "it did not answer Windows in time, or its driver reported an error",
    "device-removed": "the program's device was removed",
    "fence": "a fence was not signalled in time",
    "fault": "the driver reported a fault",
    "page-fault": "an access to memory that is not mapped",
}
"""What each of `GpuHung.what` means."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """Hangs, one finding a GPU."""
    found = xids.findings(timeline, Kind.GPU_HANG, "hung")
    groups: dict[tuple[str, PciAddress | None], list[GpuHung]] = defaultdict(list)
    for event in timeline.of(GpuHung):
        if event.driver not in API_DRIVERS:
            groups[(event.driver, event.device.slot if event.device else None)].append(event)
    for driver in {driver for driver, _ in groups}:
        named = [key for key in groups if key[0] == driver and key[1] is not None]
        if len(named) == 1 and (driver, None) in groups:
            groups[named[0]] = sorted(
                groups[named[0]] + groups.pop((driver, None)), key=lambda e: e.origin.order
            )
    for (driver, device), events in groups.items():
        if all(event.what == PAGE_FAULT for event in events):
            continue
        root = events[0]
        recovered = any(event.recovered for event in events)
        best = Certainty.CONFIRMED if device else Certainty.LIKELY
        name = gpu_name(device)
        finding = Finding(
            kind=Kind.GPU_HANG,
            certainty=certainty_of(events, best),
            summary=(
                f"{name[0].upper()}{name[1:]} hung and {driver} "
                f"{'reset it' if recovered else 'had to act'} {moment(root)}".rstrip()
            ),
            root=root,
            device=device,
        )
        for event in events:
            finding.cite(Role.PROOF, [event], WORDS.get(event.what, event.what))
        found.append(finding)
    return found + _watchdog(timeline, found)


def _watchdog(timeline: Timeline, found: Sequence[Finding]) -> list[Finding]:
    """A kernel that the display's watchdog ended, as the program tells it (CUDA 702)."""
    timed_out = [
        event
        for event in timeline.of(CudaFailed)
        if event.code is not None
        and (known := catalog.cuda_by_code(event.code)) is not None
        and known.verdict is Kind.GPU_HANG
    ]
    if found:
        found[0].cite(Role.CONSEQUENCE, timed_out, "the program's side of it")
        return []
    if not timed_out:
        return []
    root = timed_out[0]
    finding = Finding(
        kind=Kind.GPU_HANG,
        certainty=certainty_of(timed_out, Certainty.LIKELY),
        summary=f"A kernel ran for longer than the driver's watchdog allows {moment(root)}".rstrip()
        + f": “{root.message}” (CUDA {root.code})",
        root=root,
    )
    finding.cite(Role.PROOF, timed_out, "the watchdog ended a kernel")
    return [finding]


RULE = Rule(Kind.GPU_HANG, find)
