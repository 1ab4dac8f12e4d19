"""The link of each GPU: now, at best, which hop limits it, and its generation under load."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from gpuprobe.checks.base import CheckFinding, Status, known, not_checked
from gpuprobe.checks.pcie import SPEEDS, Hop, generation, hops, narrowest, own_best, spell
from gpuprobe.checks.scene import LoadSample, Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Reason, Unavailable

name = "link"

LOADED_UTIL_PERCENT = 30.0
"""Utilisation from which a GPU counts as loaded."""

LOADED_POWER_SHARE = 0.5
"""Or this share of its power limit: utilisation does not work on MIG."""

IN_A_ROW = 2
"""Samples on end that have to agree before a generation is judged."""

RESEAT = "Power off, reseat the card and take out risers; then another slot"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """One finding a GPU for the link as it is, one for its generation under load."""
    for address in scene.addresses():
        gpu = scene.on_bus(address)
        if gpu is not None and gpu.asleep:
            yield not_checked(name, "link", Unavailable(Reason.ASLEEP), address)
            continue
        path = hops(gpu) if gpu is not None else ()
        reading = gpu.function.link if gpu is not None else None
        if not path or isinstance(reading, Unavailable) or path[-1].speed_gts is None:
            # A virtual machine may hide the speed from sysfs, not from the driver.
            path = _by_nvml(scene, address) or (() if isinstance(reading, Unavailable) else path)
        if path:
            yield _now(scene, address, path)
            yield from _under_load(scene, address, path)
        else:
            nothing = reading if isinstance(reading, Unavailable) else None
            fallback = scene.nvml_value(address, "link_width")
            if nothing is None and isinstance(fallback, Unavailable):
                nothing = fallback
            yield not_checked(
                name, "link", nothing or Unavailable(Reason.NOT_THERE, "no link files"), address
            )


def _by_nvml(scene: Scene, address: PciAddress) -> tuple[Hop, ...]:
    """The GPU's own hop as the driver tells it, where sysfs does not."""
    width = known(scene.nvml_value(address, "link_width"), int)
    best_width = known(scene.nvml_value(address, "max_link_width"), int)
    gen = known(scene.nvml_value(address, "link_gen"), int)
    best_gen = known(scene.nvml_value(address, "max_link_gen"), int)
    if not width or not gen:
        return ()
    return (
        Hop(
            lower=address,
            upper=None,
            speed_gts=SPEEDS.get(gen),
            width=width,
            best_speed_gts=SPEEDS.get(best_gen or gen),
            best_width=best_width or width,
        ),
    )


def _now(scene: Scene, address: PciAddress, path: Sequence[Hop]) -> CheckFinding:
    own = path[-1]
    limit = narrowest(path)
    best = limit or own
    short = [hop for hop in path if hop.width and hop.best_width and hop.width < hop.best_width]
    text = f"{spell(own.speed_gts, own.width)} now"
    status, how = Status.OK, ""
    if own.speed_gts and best.best_speed_gts and own.speed_gts < best.best_speed_gts:
        busy = known(scene.nvml_value(address, "util_percent"), int)
        if busy is not None and busy >= LOADED_UTIL_PERCENT:
            status, how = Status.WARN, "gpuprobe check --under-load 30"
            text += f" at {busy} % utilisation"
        else:
            text += " (a link at idle steps down)"
    if limit is None or limit is own:
        text += f", best {spell(best.best_speed_gts, best.best_width)}"
    if limit is not None and status is Status.OK:
        text, status = _limited(scene, address, limit, path, text)
    if short:
        hop = short[0]
        status, how = Status.WARN, RESEAT
        text += f"; {hop} runs x{hop.width} of x{hop.best_width}"
    return CheckFinding(
        check=name,
        what="link",
        status=status,
        text=text,
        subject=address,
        figures={
            "gen": generation(own.speed_gts),
            "width": own.width,
            "best_gen": generation(best.best_speed_gts),
            "best_width": best.best_width,
            "limited_by": str(limit.upper or limit.lower) if limit else None,
        },
        how=how,
    )


def _limited(
    scene: Scene, address: PciAddress, limit: Hop, path: Sequence[Hop], text: str
) -> tuple[str, Status]:
    """Name the hop that limits, where the card alone could do more."""
    gpu = scene.on_bus(address)
    card = own_best(gpu) if gpu is not None else None
    if card is None or not card.max_speed_gts or not card.max_width or not limit.best_width:
        return text, Status.OK
    if card.max_speed_gts <= (limit.best_speed_gts or 0) and card.max_width <= limit.best_width:
        return text, Status.OK
    best = spell(limit.best_speed_gts, limit.best_width)
    if limit is not path[-1]:
        return f"{text} at the card, but {best} at best on its way: the hop {limit}", Status.NOTE
    port = f" ({limit.upper})" if limit.upper else ""
    text += f", limited by its slot{port}; the card: {spell(card.max_speed_gts, card.max_width)}"
    return text, Status.NOTE


def loaded(sample: LoadSample) -> bool:
    """Whether the GPU worked when this sample was taken."""
    if sample.util_percent is not None and sample.util_percent >= LOADED_UTIL_PERCENT:
        return True
    return bool(
        sample.power_w and sample.limit_w and sample.power_w >= LOADED_POWER_SHARE * sample.limit_w
    )


def _under_load(scene: Scene, address: PciAddress, path: Sequence[Hop]) -> Iterator[CheckFinding]:
    if isinstance(scene.load, Unavailable):
        if scene.load.reason is not Reason.NOT_ASKED:
            yield not_checked(name, "link under load", scene.load, address)
        return
    working = [s for s in scene.load.value if s.device == address and loaded(s) and s.link_gen]
    best = generation((narrowest(path) or path[-1]).best_speed_gts)
    if len(working) < IN_A_ROW:
        yield not_checked(
            name,
            "link under load",
            Unavailable(Reason.FAILED, "no load ran on this GPU while it was sampled"),
            address,
            how="Start the engine's own load, then: gpuprobe check --under-load 30",
        )
        return
    low = _lowest_held([sample.link_gen or 0 for sample in working])
    widths = [sample.link_width for sample in working if sample.link_width]
    width, best_width = max(widths, default=0), path[-1].best_width or 0
    figures = {"gen": low, "best_gen": best, "width": width or None, "samples": len(working)}
    text = f"Gen{low} x{width or '?'} in {len(working)} samples under load"
    wrong = bool(best and low < best) or 0 < width < best_width
    yield CheckFinding(
        check=name,
        what="link under load",
        status=Status.BAD if wrong else Status.OK,
        text=text + (f", best Gen{best} x{best_width or '?'}" if wrong else ""),
        subject=address,
        figures=figures,
        how=RESEAT if wrong else "",
        kind=Kind.PCIE_LINK_ERRORS if wrong else None,
    )


def _lowest_held(generations: Sequence[int]) -> int:
    """The lowest generation that held for `IN_A_ROW` samples: a single dip is a transition."""
    return min((max(pair) for pair in pairwise(generations)), default=max(generations))
