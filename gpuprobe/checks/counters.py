"""Error counters of the way to each GPU: AER in sysfs at every function, PCIe counts of NVML.

A count is of a lifetime (NVML) or of this boot (AER), so what is there is a note; what rises while
the user's load runs is a warning, and an uncorrectable error among it decides.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from gpuprobe.checks.base import CheckFinding, Status, known, not_checked
from gpuprobe.checks.scene import Function, GpuOnBus, NvmlValues, Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable

name = "counters"

PCIE_COUNTS = {
    "pcie_replay": "replays",
    "pcie_correctable_errors": "correctable errors",
    "pcie_receiver_errors": "receiver errors",
    "pcie_bad_tlp": "bad TLPs",
    "pcie_bad_dllp": "bad DLLPs",
    "pcie_lcrc_errors": "LCRC errors",
    "pcie_lane_errors": "lane errors",
    "pcie_non_fatal_errors": "non-fatal errors",
    "pcie_fatal_errors": "fatal errors",
}
"""NVML's counts that mean errors, in words. Returns to L0 are left out: they rise whenever the
generation changes."""

UNCORRECTABLE = frozenset({"nonfatal", "fatal", "pcie_non_fatal_errors", "pcie_fatal_errors"})
WATCH = "gpuprobe check --under-load 30"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """Two findings a GPU: AER on its path, and the GPU's own counts."""
    for address in scene.addresses():
        gpu = scene.on_bus(address)
        if gpu is not None and not gpu.asleep:
            yield _aer(scene, gpu)
        if scene.is_nvidia(address):
            yield _nvml(scene, address)


def aer_counts(gpu: GpuOnBus) -> dict[tuple[PciAddress, str, str], int]:
    """Counts above zero on the path, by function, severity and bit."""
    found = {}
    for function in gpu.path:
        for severity, counts in _severities(function).items():
            for bit, value in counts.items():
                if value and not bit.startswith("TOTAL"):
                    found[(function.address, severity, bit)] = value
    return found


def _severities(function: Function) -> Mapping[str, Mapping[str, int]]:
    if isinstance(function.aer, Unavailable):
        return {}
    # A root port's totals count the messages of devices below it: those have their own files.
    return {key: value for key, value in function.aer.value.items() if key != "rootport"}


def _aer(scene: Scene, gpu: GpuOnBus) -> CheckFinding:
    seen = [function for function in gpu.path if isinstance(function.aer, Known)]
    if not seen:
        reading = gpu.function.aer
        nothing = reading if isinstance(reading, Unavailable) else Unavailable(Reason.NOT_SUPPORTED)
        return not_checked(name, "AER", nothing, gpu.address)
    counts = aer_counts(gpu)
    rises = _aer_rises(scene, gpu)
    if rises:
        return _rose(
            "AER",
            gpu.address,
            {f"{a} {s}.{b}": n for (a, s, b), n in rises.items()},
            any(severity in UNCORRECTABLE for _, severity, _ in rises),
        )
    if not counts:
        quiet = _silenced(scene)
        if quiet:
            return not_checked(name, "AER", Unavailable(Reason.NOT_SUPPORTED, quiet), gpu.address)
        return CheckFinding(
            check=name,
            what="AER",
            status=Status.OK,
            text="no error counted since boot"
            + (
                f" ({len(seen)} of {len(gpu.path)} functions count)"
                if len(seen) < len(gpu.path)
                else ""
            ),
            subject=gpu.address,
            figures={"functions": len(seen), "errors": 0},
        )
    grave = [key for key in counts if key[1] in UNCORRECTABLE]
    shown = [
        f"{bit} {n:,} at {at}" for (at, _, bit), n in sorted(counts.items(), key=lambda i: -i[1])
    ]
    return CheckFinding(
        check=name,
        what="AER",
        status=Status.WARN if grave else Status.NOTE,
        text=f"since boot {', '.join(shown[:3])}"
        + (f" and {len(shown) - 3} more" if len(shown) > 3 else "")
        + ("; uncorrectable ones are among them" if grave else "; only a rise under load matters"),
        subject=gpu.address,
        figures={f"{at} {severity}.{bit}": n for (at, severity, bit), n in counts.items()},
        how=WATCH,
    )


def _silenced(scene: Scene) -> str:
    """Why a zero is no zero, or ""."""
    host = scene.host.value if isinstance(scene.host, Known) else None
    if host is not None and "noaer" in (known(host.cmdline, str) or ""):
        return "pci=noaer on the kernel's command line switches it off"
    log = scene.this_boot.value if isinstance(scene.this_boot, Known) else None
    if log is not None and log.timeline.described("aer-disabled"):
        return "the firmware kept AER to itself, so a zero here is no zero"
    return ""


def _aer_rises(scene: Scene, gpu: GpuOnBus) -> dict[tuple[PciAddress, str, str], int]:
    if isinstance(scene.after_load, Unavailable):
        return {}
    later = next((other for other in scene.after_load.value if other.address == gpu.address), None)
    if later is None:
        return {}
    before = aer_counts(gpu)
    after = aer_counts(later)
    return {key: n - before.get(key, 0) for key, n in after.items() if n > before.get(key, 0)}


def _rose(what: str, address: PciAddress, rises: Mapping[str, int], grave: bool) -> CheckFinding:
    shown = ", ".join(f"{key} +{value:,}" for key, value in list(rises.items())[:3])
    return CheckFinding(
        check=name,
        what=what,
        status=Status.BAD if grave else Status.WARN,
        text=f"rose while it was sampled under load: {shown}",
        subject=address,
        figures=rises,
        how="Power off, reseat the card, take out risers; then one PCIe generation lower in BIOS",
        kind=Kind.PCIE_LINK_ERRORS if grave else None,
    )


def _nvml(scene: Scene, address: PciAddress) -> CheckFinding:
    counts = _counts(scene.nvml.value, address) if isinstance(scene.nvml, Known) else {}
    if not counts:
        reading = scene.nvml_value(address, "pcie_replay")
        nothing = reading if isinstance(reading, Unavailable) else Unavailable(Reason.FAILED)
        return not_checked(name, "PCIe counts", nothing, address)
    if isinstance(scene.nvml_after_load, Known):
        later = _counts(scene.nvml_after_load.value, address)
        rises = {key: later[key] - n for key, n in counts.items() if later.get(key, 0) > n}
        if rises:
            grave = any(key in UNCORRECTABLE for key in rises)
            words = {PCIE_COUNTS[key]: n for key, n in rises.items()}
            return _rose("PCIe counts", address, words, grave)
    some = [f"{PCIE_COUNTS[key]} {n:,}" for key, n in counts.items() if n]
    return CheckFinding(
        check=name,
        what="PCIe counts",
        status=Status.OK,
        text=f"lifetime: {', '.join(some)}; only a rise means something"
        if some
        else "no PCIe error counted by the GPU",
        subject=address,
        figures=counts,
    )


def _counts(values: NvmlValues, address: PciAddress) -> dict[str, int]:
    own: Mapping[str, Known[Any] | Unavailable] = values.get(address, {})
    return {
        key: int(reading.value)
        for key in PCIE_COUNTS
        if isinstance(reading := own.get(key), Known) and isinstance(reading.value, int | float)
    }
