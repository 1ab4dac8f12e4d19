"""What each GPU did while the user's own load ran: power, heat, and what held its clocks back."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from gpuprobe.checks.base import CheckFinding, Status, known, not_checked
from gpuprobe.checks.heat import HW_THERMAL, SW_THERMAL
from gpuprobe.checks.link import loaded
from gpuprobe.checks.power import POWER_BRAKE
from gpuprobe.checks.scene import LoadSample, Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Reason, Unavailable

name = "load"

GRAVE = {
    POWER_BRAKE: (Kind.POWER, "the power brake came on"),
    HW_THERMAL: (Kind.THERMAL, "the hardware slowed it down for heat"),
}
"""Clock-event reasons that decide, with the kind they answer."""


def run(scene: Scene) -> Iterator[CheckFinding]:
    """One finding a GPU, with `--under-load` alone."""
    if isinstance(scene.load, Unavailable):
        if scene.load.reason is not Reason.NOT_ASKED:
            yield not_checked(name, "under load", scene.load)
        return
    for address in scene.addresses():
        samples = [sample for sample in scene.load.value if sample.device == address]
        if samples:
            yield _load(scene, address, samples)
        elif scene.is_nvidia(address):
            nothing = Unavailable(Reason.FAILED, "no sample of this GPU came")
            yield not_checked(name, "under load", nothing, address)


def _load(scene: Scene, address: PciAddress, samples: Sequence[LoadSample]) -> CheckFinding:
    power, limit = _most(samples, lambda s: s.power_w), _most(samples, lambda s: s.limit_w)
    heat, util = _most(samples, lambda s: s.temp_c), _most(samples, lambda s: s.util_percent)
    figures = {
        "samples": len(samples),
        "seconds": round(samples[-1].at_s - samples[0].at_s, 1),
        "util_percent_max": util,
        "power_w_max": power,
        "limit_w": limit,
        "temp_c_max": heat,
    }
    parts = [f"{len(samples)} samples in {figures['seconds']:.0f} s"]
    if util is not None:
        parts.append(f"utilisation up to {util:.0f} %")
    if power is not None:
        # Shorter spikes are beyond any software.
        parts.append(f"power up to {power:.0f} W" + (f" of {limit:.0f} W" if limit else ""))
    if heat is not None:
        slowdown = known(scene.nvml_value(address, "slowdown_temp_c"), int)
        beside = f" (slowdown {slowdown} °C)" if slowdown else ""
        parts.append(f"core up to {heat:.0f} °C{beside}")
    reasons = 0
    for sample in samples:
        reasons |= sample.reasons or 0
    status, kind = Status.OK, None
    if not any(loaded(sample) for sample in samples):
        status = Status.NOTE
        parts.append("no load ran")
    if reasons & SW_THERMAL:
        status = Status.WARN
        parts.append("the driver slowed it down for heat")
    for bit, (found, words) in GRAVE.items():
        if reasons & bit:
            status, kind = Status.BAD, kind or found
            parts.append(words)
    return CheckFinding(
        check=name,
        what="under load",
        status=status,
        text=", ".join(parts),
        subject=address,
        figures={key: value for key, value in figures.items() if value is not None},
        kind=kind,
    )


def _most(
    samples: Sequence[LoadSample], read: Callable[[LoadSample], float | None]
) -> float | None:
    return max((value for sample in samples if (value := read(sample)) is not None), default=None)
