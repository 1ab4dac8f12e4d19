"""Whether a reset or a reboot is owed."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuprobe import catalog
from gpuprobe.checks.base import CheckFinding, Status, not_checked
from gpuprobe.checks.scene import Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.events import XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable

name = "recovery"

TRAFFIC_ONLY = frozenset({3, 5})
"""Actions that hold up peer traffic alone: the GPU itself works."""


HOW = {
    1: "End its programs, then: sudo nvidia-smi -i {gpu} -r",
    2: "sudo reboot (one GPU's fault asks this of all, so a healthy one may carry it)",
    3: "End the programs that copy between GPUs",
    4: "Let its programs end, then: sudo nvidia-smi -i {gpu} -r",
    5: "sudo systemctl restart nvidia-imex",
    6: "Let its programs end, then: sudo nvidia-smi -i {gpu} -r; else sudo reboot",
    7: "sudo reboot",
}
"""What to do, by the value of the action."""

RESET_REQUIRED = re.compile(r"NVML code 16$|RESET_REQUIRED")
"""Detail of a reading that NVML refused with NVML_ERROR_RESET_REQUIRED."""


def run(scene: Scene) -> Iterator[CheckFinding]:
    """One finding for each of NVIDIA's GPUs: by NVML, else by the kernel log's last Xid 154."""
    for address in scene.addresses():
        if scene.is_nvidia(address):
            yield _owed(scene, address)


def _owed(scene: Scene, address: PciAddress) -> CheckFinding:
    if _reset_required(scene, address):
        return _finding(
            address,
            Status.BAD,
            "NVML says that the GPU requires a reset",
            how=f"End its programs, then: sudo nvidia-smi -i {address} -r",
        )
    action = scene.nvml_value(address, "recovery_action")
    if isinstance(action, Known):
        return _action(address, int(action.value), "")
    told = _last_154(scene, address)
    if told is not None and told.recovery_action:
        return _action(address, told.recovery_action, "the kernel log's last Xid 154: ")
    whole = isinstance(scene.this_boot, Known) and scene.this_boot.value.whole
    if whole and scene.nvml_answers(address):
        # An older driver has no such field; it answers, and its log asks for nothing.
        return _finding(address, Status.OK, "the kernel log of this boot asks for none")
    # Another program that asks a driver which hangs only hangs as well.
    ask = action.reason not in (Reason.TIMED_OUT, Reason.LOST, Reason.ASLEEP)
    how = f"nvidia-smi -i {address} -q | grep -i 'recovery action'" if ask else ""
    return not_checked(name, "recovery action", action, address, how=how)


def _reset_required(scene: Scene, address: PciAddress) -> bool:
    values = scene.nvml.value.get(address, {}) if isinstance(scene.nvml, Known) else {}
    return any(
        isinstance(value, Unavailable) and RESET_REQUIRED.search(value.detail)
        for value in values.values()
    )


def _last_154(scene: Scene, address: PciAddress) -> XidReported | None:
    if isinstance(scene.this_boot, Unavailable):
        return None
    found = [
        event
        for event in scene.this_boot.value.timeline.of(XidReported)
        if event.code == 154 and event.device is not None and event.device.slot == address.slot
    ]
    return found[-1] if found else None


def _action(address: PciAddress, value: int, by: str) -> CheckFinding:
    if value == 0:
        return _finding(address, Status.OK, "no reset or reboot is owed", value=0)
    entry = next((e for e in catalog.recovery_actions() if e.value == value), None)
    words = entry.nvml.replace("_", " ").lower() if entry and entry.nvml else f"action {value}"
    for name_ in ("gpu", "imex"):
        words = words.replace(name_, name_.upper())
    how = HOW[value].format(gpu=address) if value in HOW else entry.meaning if entry else ""
    status = Status.WARN if value in TRAFFIC_ONLY else Status.BAD
    return _finding(address, status, f"{by}the driver asks for this: {words}", how, value)


def _finding(
    address: PciAddress, status: Status, text: str, how: str = "", value: int | None = None
) -> CheckFinding:
    return CheckFinding(
        check=name,
        what="recovery action",
        status=status,
        text=text,
        subject=address,
        figures={} if value is None else {"recovery_action": value},
        how=how,
        kind=Kind.GPU_HANG if status is Status.BAD else None,
    )
