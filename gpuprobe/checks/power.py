"""Power of each GPU: its limit, persistence mode, and the brake from outside."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.checks.base import CheckFinding, Status, known, not_checked
from gpuprobe.checks.scene import Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Unavailable

name = "power"

POWER_BRAKE = 0x80
"""Clock-event reason: something outside, such as the supply, asked the card to slow down."""


def run(scene: Scene) -> Iterator[CheckFinding]:
    """Two findings for each of NVIDIA's GPUs: power, and persistence mode."""
    for address in scene.addresses():
        if scene.is_nvidia(address):
            yield _limit(scene, address)
            yield _persistence(scene, address)


def _limit(scene: Scene, address: PciAddress) -> CheckFinding:
    reading = scene.nvml_value(address, "limit_w")
    drawn = _number(scene, address, "power_w")
    if isinstance(reading, Unavailable) and drawn is None:
        return not_checked(name, "power", reading, address)
    limit = _number(scene, address, "limit_w")
    default = _number(scene, address, "default_limit_w")
    brake_ns = _number(scene, address, "throttle_hw_power_brake_ns")
    figures = {"power_w": drawn, "limit_w": limit, "default_limit_w": default}
    parts = []
    if drawn is not None:
        parts.append(f"{drawn:.0f} W now")
    status, how = Status.OK, ""
    if limit is not None:
        changed = default is not None and abs(limit - default) >= 1
        parts.append(f"limit {limit:.0f} W" + (f" (default {default:.0f} W)" if changed else ""))
        status = Status.NOTE if changed else Status.OK
    if brake_ns:
        figures["throttle_hw_power_brake_s"] = brake_ns / 1e9
        parts.append(f"power brake for {brake_ns / 1e9:.1f} s since the driver was loaded")
        status, how = Status.WARN, "One native cable for each plug of the card; both ends seated"
    kind = None
    if (known(scene.nvml_value(address, "clocks_event_reasons"), int) or 0) & POWER_BRAKE:
        parts.append("the power brake is on: something outside the card slows it down")
        status, kind = Status.BAD, Kind.POWER
        how = "One native cable for each plug of the card; both ends seated; a larger supply"
    return CheckFinding(
        check=name,
        what="power",
        status=status,
        text=", ".join(parts),
        subject=address,
        figures={key: value for key, value in figures.items() if value is not None},
        how=how,
        kind=kind,
    )


def _number(scene: Scene, address: PciAddress, key: str) -> float | None:
    reading = scene.nvml_value(address, key)
    whole = known(reading, int)
    fraction = known(reading, float)
    return float(whole) if whole is not None else fraction


def _persistence(scene: Scene, address: PciAddress) -> CheckFinding:
    reading = scene.nvml_value(address, "persistence_mode")
    if isinstance(reading, Unavailable):
        return not_checked(name, "persistence mode", reading, address)
    on = bool(reading.value)
    return CheckFinding(
        check=name,
        what="persistence mode",
        status=Status.OK if on else Status.NOTE,
        text="on"
        if on
        else "off: the driver lets go of the GPU when its last program ends, and starts it anew; "
        "with -pm 0 it is off again",
        subject=address,
        figures={"persistence_mode": on},
        how="" if on else f"sudo nvidia-smi -i {address} -pm 1",
    )
