"""The GPU's own firmware (GSP, PMU, SEC2) stopped answering or crashed.

What proves it:
    Xid 62, 119, 120, 169 or 175; a heartbeat of a GSP or a Gaudi that timed out; a CrashCat
    report; a GFW boot that never ends; a GSP that cannot be booted (WPR2 still up).

What it is not:
    A bus loss. After a loss the driver's calls to the firmware fail too, so an Xid 79 of the same
    device, or a sanity check that ends with status 0x0f, makes these lines its consequence. When
    they come first and config space answers, the firmware is the cause.

Limits:
    Xid 119 is thinned out by the driver: its count is too low. A banner "GSP-RM is slow" is not
    a dead firmware.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import (
    AdapterInitFailed,
    DeviceIdentified,
    Event,
    FirmwareFaulted,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.rules import xids
from gpuprobe.rules.base import RM_STATUS_LOST, Finding, Rule, certainty_of, gpu_name, moment
from gpuprobe.timeline import Timeline

WORDS = {
    "heartbeat": "the GSP firmware's heartbeat stopped",
    "rpc-timeout": "the GSP firmware did not answer a call",
    "crash-cat": "the firmware crashed and wrote a report",
    "gfw-boot": "the GPU's boot firmware did not finish",
    "wpr2": "the GSP firmware cannot be started: an earlier one still holds its memory",
    "pmu-halted": "the power-management unit halted",
    "unresponsive": "the GSP firmware is unresponsive",
    "boot-failed": "the GSP firmware could not be started",
    "sanity-check": "the GPU failed the driver's check while a firmware call was waiting",
    "slow": "the GSP firmware is slow",
    "card-heartbeat": "its firmware's heartbeat stopped",
}


def find(timeline: Timeline) -> Sequence[Finding]:
    """Firmware faults; those of several GPUs within one incident are one finding."""
    found = xids.findings(timeline, Kind.GPU_FIRMWARE_HANG, "stopped at its own firmware")
    faults = [
        event
        for event in timeline.of(FirmwareFaulted)
        if event.status != RM_STATUS_LOST and event.what != "slow"
    ]
    if len(found) > 1:
        lead = found[0]
        for other in found[1:]:
            lead.cite(Role.PROOF, other.events())
            if other.device:
                lead.other_devices.add(other.device)
        also = ", ".join(str(device) for device in sorted(lead.other_devices))
        lead.summary += f"; also {also}" if also else ""
        found = [lead]
    if not faults:
        return found
    if found:
        for fault in faults:
            found[0].cite(Role.SUPPORT, [fault], WORDS.get(fault.what, ""))
        return found
    root = faults[0]
    device = next((event.device for event in faults if event.device), None)
    device = device or _device_beside(timeline, root)
    name = gpu_name(device)
    best = Certainty.CONFIRMED if device else Certainty.LIKELY
    finding = Finding(
        kind=Kind.GPU_FIRMWARE_HANG,
        certainty=certainty_of(faults, best),
        summary=(
            f"{name[0].upper()}{name[1:]}: {WORDS.get(root.what, root.what)} {moment(root)}"
        ).rstrip(),
        root=root,
        device=device,
    )
    for fault in faults:
        finding.cite(Role.PROOF, [fault], WORDS.get(fault.what, ""))
    return [finding]


def _device_beside(timeline: Timeline, root: Event) -> PciAddress | None:
    """The one GPU that nearby driver lines name, where the firmware's own lines name none."""
    near = {
        event.device.slot
        for event in timeline.of(AdapterInitFailed, DeviceIdentified, XidReported)
        if event.device
        and event.origin.input == root.origin.input
        and abs((event.origin.line or 0) - (root.origin.line or 0)) <= 12
        and _is_own(event)
    }
    return near.pop() if len(near) == 1 else None


def _is_own(event: AdapterInitFailed | DeviceIdentified | XidReported) -> bool:
    """Whether a line of the driver is about the GPU that has the fault.

    Xids 45 and 154 come on its healthy neighbours too, and names without a UUID at any time.
    """
    if isinstance(event, XidReported):
        return event.code not in (45, 154)
    return isinstance(event, AdapterInitFailed) or event.uuid is not None


RULE = Rule(Kind.GPU_FIRMWARE_HANG, find)
