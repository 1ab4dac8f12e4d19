"""Heat of each GPU: its core against the slowdown limit, and slowdowns by temperature."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.checks.base import CheckFinding, Status, known, not_checked
from gpuprobe.checks.scene import Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Unavailable

name = "heat"

SW_THERMAL, HW_THERMAL = 0x20, 0x40
"""Clock-event reasons: the driver, the hardware slows the card down for its temperature."""


def run(scene: Scene) -> Iterator[CheckFinding]:
    """One finding for each of NVIDIA's GPUs."""
    for address in scene.addresses():
        if scene.is_nvidia(address):
            yield _heat(scene, address)


def _heat(scene: Scene, address: PciAddress) -> CheckFinding:
    reading = scene.nvml_value(address, "temp_c")
    if isinstance(reading, Unavailable):
        return not_checked(name, "temperature", reading, address)
    core = float(reading.value)
    memory = scene.nvml_value(address, "memory_temp_c")
    slowdown = known(scene.nvml_value(address, "slowdown_temp_c"), int)
    hot_ns = known(scene.nvml_value(address, "throttle_hw_thermal_ns"), int) or 0
    reasons = known(scene.nvml_value(address, "clocks_event_reasons"), int) or 0
    figures: dict[str, float] = {"temp_c": core}
    parts = [f"core {core:.0f} °C" + (f" (slowdown {slowdown} °C)" if slowdown else "")]
    if slowdown:
        figures["slowdown_temp_c"] = slowdown
    if isinstance(memory, Unavailable):
        parts.append("memory temperature not readable")
    else:
        figures["memory_temp_c"] = memory.value
        parts.append(f"memory {memory.value:.0f} °C")
    status, kind = Status.OK, None
    if hot_ns:
        figures["throttle_hw_thermal_s"] = hot_ns / 1e9
        parts.append(f"slowed down by heat for {hot_ns / 1e9:.1f} s since the driver was loaded")
        status = Status.WARN
    if reasons & SW_THERMAL:
        parts.append("the driver slows it down for heat now")
        status = Status.WARN
    if reasons & HW_THERMAL:
        parts.append("the hardware slows it down for heat now")
        status, kind = Status.BAD, Kind.THERMAL
    return CheckFinding(
        check=name,
        what="temperature",
        status=status,
        text=", ".join(parts),
        subject=address,
        figures=figures,
        how="" if status is Status.OK else "Check fans and airflow; try it with the case open",
        kind=kind,
    )
