"""The driver cannot be used: version mismatch, not loaded, no permission, failed to initialise.

What proves it:
    A driver and library that do not match; a module that is not loaded or lost its device to
    another driver; CUDA 803, 804 or 35; NVSwitch systems whose fabric manager is not up (802).

What only supports it:
    "RmInitAdapter failed" says that the driver could not start a GPU, and not why: likely. Its
    second number may say more: 0x0f lost, 0x62 reset required.

What is no proof:
    "No devices were found" and CUDA's "no CUDA-capable device" fit a lost GPU, a driver that is
    not loaded and a container without devices alike.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence

from gpuprobe import catalog
from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import AdapterInitFailed, CudaFailed, DriverUnusable, Event, NvmlReturned
from gpuprobe.identity import PciAddress
from gpuprobe.rules import xids
from gpuprobe.rules.base import Finding, Rule, certainty_of, gpu_name, moment, times, total
from gpuprobe.timeline import Timeline

SENTENCES = {
    "version-mismatch": "The driver in the kernel and its libraries are of different versions",
    "not-loaded": "The NVIDIA kernel driver is not loaded",
    "no-permission": "The driver's device files may not be used here",
    "bound-elsewhere": "Another driver holds the GPU",
    "container-setup": "The container could not be given the GPU",
    "vm-setup": "The virtual machine could not be given a PCI device",
    "too-old": "The driver is older than the program or its container asks for",
    "no-library": "The driver's user-space library is missing",
    "unsupported": "The installed driver does not support this GPU",
    "wrong-flavour": "This GPU needs the other flavour of the kernel module",
    "probe-failed": "The driver could not take the device at probe",
    "bar-invalid": "The GPU's PCI address windows are invalid",
    "smi-failed": "nvidia-smi could not reach the driver",
    "fabric": "The NVSwitch fabric is not ready: its manager is not running",
}
WEAK = frozenset({"no-devices", "no-cuda-device", "smi-failed", "probe-failed"})
"""Words that fit a lost GPU as well: they decide nothing alone."""

NVML_UNUSABLE = frozenset({9, 18, 4, 17})


def find(timeline: Timeline) -> Sequence[Finding]:
    """What keeps the driver from being used, one finding a reason."""
    found = xids.findings(timeline, Kind.DRIVER_UNUSABLE, "could not be used")
    reasons: dict[str, list[Event]] = defaultdict(list)
    for event in timeline.of(DriverUnusable):
        reasons[event.what].append(event)
    for failure in timeline.of(CudaFailed):
        known = catalog.cuda_by_code(failure.code) if failure.code is not None else None
        if known and known.verdict is Kind.DRIVER_UNUSABLE and known.loss == "no":
            reasons["fabric" if failure.code == 802 else "cuda"].append(failure)
    for returned in timeline.of(NvmlReturned):
        if returned.code in NVML_UNUSABLE:
            reasons[
                {18: "version-mismatch", 9: "not-loaded"}.get(returned.code, "no-permission")
            ].append(returned)
    strong = {what: events for what, events in reasons.items() if what not in WEAK}
    for what, events in strong.items():
        found.append(_reason(what, events))
    found.extend(_init_failures(timeline))
    if found:
        weak = [event for what in WEAK for event in reasons.get(what, ())]
        found[0].cite(Role.SUPPORT, weak, "fits it")
    elif "probe-failed" in reasons or "smi-failed" in reasons:
        events = reasons.get("probe-failed", []) + reasons.get("smi-failed", [])
        what = "probe-failed" if "probe-failed" in reasons else "smi-failed"
        finding = _reason(what, events)
        finding.certainty = Certainty.LIKELY
        found.append(finding)
    return found


def _reason(what: str, events: list[Event]) -> Finding:
    root = events[0]
    sentence = SENTENCES.get(what)
    if sentence is None:
        sentence = f"CUDA cannot use this driver: {getattr(root, 'message', what)}"
    finding = Finding(
        kind=Kind.DRIVER_UNUSABLE,
        # QEMU does not say what device it is.
        certainty=certainty_of(
            events, Certainty.LIKELY if what == "vm-setup" else Certainty.CONFIRMED
        ),
        summary=f"{sentence} {moment(root)}".rstrip(),
        root=root,
        device=next((event.device.slot for event in events if event.device), None),
        background=True,
        tags={what},
    )
    finding.cite(Role.PROOF, events, sentence.lower())
    return finding


def _init_failures(timeline: Timeline) -> list[Finding]:
    groups: dict[PciAddress | None, list[AdapterInitFailed]] = defaultdict(list)
    for event in timeline.of(AdapterInitFailed):
        groups[event.device.slot if event.device else None].append(event)
    found = []
    for device, events in groups.items():
        status = next((event.status for event in events if event.status is not None), None)
        means = {item.code: item.name for item in catalog.rm_statuses()}.get(status or -1)
        says = f" with status {status:#04x}" if status is not None else ""
        says += f" ({means})" if means else ""
        count = total(events)
        finding = Finding(
            kind=Kind.DRIVER_UNUSABLE,
            certainty=certainty_of(events, Certainty.LIKELY),
            summary=(
                f"The driver could not initialise {gpu_name(device)} {moment(events[0])}".rstrip()
                + f"{says}, {times(count)}"
            ),
            root=events[0],
            device=device,
            background=True,
            tags={"init-failed"},
        )
        finding.cite(Role.PROOF, events, "initialisation failed")
        found.append(finding)
    return found


RULE = Rule(Kind.DRIVER_UNUSABLE, find)
