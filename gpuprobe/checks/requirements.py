"""Whether each GPU's link gives what the work needs: generation, lanes, bandwidth.

A link at idle steps down to a lower generation, so without `--under-load` it is the best
generation of the narrowest hop that counts; lanes do not step down, so those are as they are now.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from gpuprobe.checks.base import (
    REQUIREMENT_NOT_MET,
    CheckFinding,
    Status,
    known,
    not_checked,
)
from gpuprobe.checks.link import loaded
from gpuprobe.checks.pcie import SPEEDS, Hop, generation, hops, practical_bytes_per_s, spell
from gpuprobe.checks.scene import Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable

name = "requirements"

NEEDED = "what is needed"
OTHERS = "gpuprobe check --device ADDRESS asks of one GPU alone"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """A finding for each need of each GPU; none without needs."""
    if not scene.needs:
        return
    for address in scene.addresses():
        hop = slowest(scene, address)
        if hop is None or not hop.best_speed_gts or not hop.width:
            gpu = scene.on_bus(address)
            nothing = Unavailable(Reason.NOT_THERE, "its link is not readable")
            if gpu is not None and isinstance(gpu.function.link, Unavailable):
                nothing = gpu.function.link
            # Whoever asks must not be let through because nobody could look.
            yield replace(
                not_checked(name, NEEDED, nothing, address, OTHERS), kind=Kind.CANNOT_TELL
            )
            continue
        yield from _judge(scene, address, hop.best_speed_gts, hop.width, hop)


def _judge(
    scene: Scene, address: PciAddress, speed_gts: float, width: int, hop: Hop
) -> Iterator[CheckFinding]:
    needs = scene.needs
    gen = generation(speed_gts) or 0
    at = f"at {hop}"
    if needs.gen is not None:
        yield _finding(
            address,
            "need-gen",
            gen >= needs.gen,
            f"Gen{gen} {at}, needed Gen{needs.gen}",
            {"gen": gen, "need_gen": needs.gen},
        )
    if needs.width is not None:
        yield _finding(
            address,
            "need-width",
            width >= needs.width,
            f"x{width} {at}, needed x{needs.width}",
            {"width": width, "need_width": needs.width},
        )
    if needs.bytes_per_s is not None:
        rate = practical_bytes_per_s(speed_gts, width)
        yield _finding(
            address,
            "need-bandwidth",
            rate >= needs.bytes_per_s,
            f"about {rate / 1e9:.1f} GB/s in practice over {spell(speed_gts, width)} {at}, "
            f"needed {needs.bytes_per_s / 1e9:.1f} GB/s",
            {"bytes_per_s": round(rate), "need_bytes_per_s": round(needs.bytes_per_s)},
        )


def slowest(scene: Scene, address: PciAddress) -> Hop | None:
    """The hop with the lowest practical rate, its generation as it is judged (`best_speed_gts`)."""
    gpu = scene.on_bus(address)
    path = [hop for hop in hops(gpu) if hop.best_speed_gts and hop.width] if gpu else []
    seen = _under_load(scene, address)
    if not path and gpu is None:
        gen = known(scene.nvml_value(address, "max_link_gen"), int)
        width = known(scene.nvml_value(address, "link_width"), int)
        if gen and width:
            path = [Hop(address, None, None, width, SPEEDS.get(gen), width)]
    if path and seen:
        own = path[-1]
        path[-1] = Hop(own.lower, own.upper, seen, own.width, seen, own.best_width)
    return min(
        path,
        key=lambda hop: practical_bytes_per_s(hop.best_speed_gts or 0, hop.width or 0),
        default=None,
    )


def _under_load(scene: Scene, address: PciAddress) -> float | None:
    """The best speed that the GPU's own hop reached while it worked, GT/s."""
    if not isinstance(scene.load, Known):
        return None
    gens = [
        s.link_gen for s in scene.load.value if s.device == address and loaded(s) and s.link_gen
    ]
    return SPEEDS.get(max(gens)) if gens else None


def _finding(
    address: PciAddress, what: str, met: bool, text: str, figures: dict[str, int]
) -> CheckFinding:
    return CheckFinding(
        check=name,
        what=what,
        status=Status.OK if met else Status.BAD,
        text=text,
        subject=address,
        figures=figures,
        how="" if met else "Another slot, a BIOS setting of the slot's lanes, or no riser",
        kind=None if met else REQUIREMENT_NOT_MET,
    )
