"""Machines for the tests of checks: a scene of one healthy GPU, and what can be changed in it."""

from __future__ import annotations

import io
from collections.abc import Iterable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from gpuprobe.api import timelines
from gpuprobe.checks import Check, CheckFinding, Status
from gpuprobe.checks.bus import read_bus
from gpuprobe.checks.scene import BootLog, HostFacts, LoadSample, Scene
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reading, Reason, Unavailable
from gpuprobe.testing.sysfs import FakeSysfs
from gpuprobe.verdict import diagnose

GPU = PciAddress.parse("0000:65:00.0")
PORT = PciAddress.parse("0000:64:00.0")

QUIET = "[    0.000000] Linux version 6.8.0-79-generic (build@host) #79\n"
"""Kernel log of a boot in which nothing happened."""

HEALTHY: dict[str, Any] = {
    "name": "NVIDIA GeForce RTX 4090",
    "uuid": "GPU-00000065-0000-4000-8000-000000000000",
    "vbios": "95.02.18.80.01",
    "power_w": 43.0,
    "limit_w": 450.0,
    "default_limit_w": 450.0,
    "temp_c": 41,
    "slowdown_temp_c": 93,
    "memory_temp_c": 52,
    "sm_clock_mhz": 210,
    "pstate": 8,
    "util_percent": 0,
    "link_gen": 4,
    "link_width": 16,
    "max_link_gen": 4,
    "max_link_width": 16,
    "persistence_mode": 1,
    "clocks_event_reasons": 1,
    "pcie_replay": 1,
    "pcie_bad_tlp": 24,
    "recovery_action": 0,
    "ecc_corrected_volatile": 0,
    "ecc_uncorrected_volatile": 0,
    "remapped_corrected": 0,
    "remapped_uncorrected": 0,
    "remap_pending": 0,
    "remap_failed": 0,
}
"""What NVML says of a healthy GPU, by the names of `nvml.calls`."""


def lost() -> Unavailable:
    """What a lost GPU's values are."""
    return Unavailable(Reason.LOST, "nvmlDeviceGetPowerUsage returned GPU_IS_LOST")


def nvml(*addresses: PciAddress, **changed: Any) -> Known[Any]:
    """NVML's values of these GPUs: healthy but for what is changed; a reading stands for itself."""
    values = {
        key: value if isinstance(value, Known | Unavailable) else Known(value)
        for key, value in {**HEALTHY, **changed}.items()
    }
    return Known(dict.fromkeys(addresses or (GPU,), values))


def machine(folder: Path) -> FakeSysfs:
    """One GPU below one root port, which the kernel's AER driver serves."""
    found = FakeSysfs(folder)
    found.gpu(str(GPU), bridges=[str(PORT)])
    serve(found, PORT)
    return found


def serve(tree: FakeSysfs, port: PciAddress, *, service: str = "pcie002") -> None:
    """Let a service of a port be there and bound, as the kernel's port driver lists it."""
    tree.write(f"sys/bus/pci_express/devices/{port}:{service}/driver/bind", "")


@cache
def log(text: str, *, whole: bool = True) -> Known[BootLog]:
    """The kernel log of a boot."""
    (timeline,) = timelines("-", stdin=io.BytesIO(text.encode()))
    return Known(BootLog(timeline=timeline, diagnosis=diagnose(timeline), whole=whole))


def host(**changed: Any) -> Known[HostFacts]:
    """A machine that lets everything be seen and keeps everything."""
    facts = HostFacts(
        kernel=Known("6.8.0-79-generic"),
        cmdline=Known("BOOT_IMAGE=/vmlinuz root=/dev/sda2 ro quiet"),
        kernel_log=Known("/dev/kmsg"),
        udev=Known("kernel uevents"),
        journal=Known("persistent"),
        pstore=Known("efi_pstore"),
        recorders=Known(("gpuprobe record (pid 812)",)),
        sensors=Known(("nct6798",)),
    )
    return Known(replace(facts, **changed))


def scene(tree: FakeSysfs | None, **changed: Any) -> Scene:
    """A healthy machine's scene, but for what is changed."""
    bus: Reading[Any] = read_bus(tree.root) if tree else Known(())
    whole: dict[str, Any] = {
        "bus": bus,
        "nvml": nvml(),
        "host": host(),
        "this_boot": log(QUIET),
        "previous_boot": log(QUIET + "[  900.000000] reboot: Restarting system\n"),
    }
    return Scene(**{**whole, **changed})


def sample(at_s: float, **values: Any) -> LoadSample:
    """One sample of the GPU under load."""
    whole: dict[str, Any] = {
        "util_percent": 97,
        "power_w": 380.0,
        "limit_w": 450.0,
        "temp_c": 71,
        "link_gen": 4,
        "link_width": 16,
        "reasons": 0x4,
    }
    return LoadSample(device=GPU, at_s=at_s, **{**whole, **values})


def run(check: Check, of: Scene) -> list[CheckFinding]:
    """All findings of one check."""
    return list(check.run(of))


def only(check: Check, of: Scene, what: str) -> CheckFinding:
    """The one finding of that name."""
    (found,) = [finding for finding in run(check, of) if finding.what == what]
    return found


def statuses(findings: Iterable[CheckFinding]) -> set[Status]:
    """The statuses among findings."""
    return {finding.status for finding in findings}
