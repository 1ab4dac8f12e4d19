"""Arithmetic of PCIe links: generations, rates, and the hops between a GPU and its root port."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from gpuprobe.checks.scene import Function, GpuOnBus, Link
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known

GENERATIONS = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}
"""GT/s of a lane to the PCIe generation."""

SPEEDS = {gen: speed for speed, gen in GENERATIONS.items()}
"""PCIe generation to GT/s of a lane."""

PRACTICAL_SHARE = 0.82
"""What a copy of pinned memory reaches of a link's raw rate.

Packets of 256 bytes carry 24 to 28 bytes of framing and header (0.91), and acknowledgements and
flow control take their part; Gen3 x16 then moves about 12.9 GB/s in one direction.
"""


def raw_bytes_per_s(speed_gts: float, width: int) -> float:
    """A link's raw rate in one direction, bytes per second, after line coding.

    Generations 1 and 2 send 10 bits for 8, 3 to 5 send 130 for 128, 6 sends 256-byte flits of
    which 242 carry packets.
    """
    coding = 0.8 if speed_gts <= 5 else 128 / 130 if speed_gts <= 32 else 242 / 256
    return speed_gts * 1e9 / 8 * coding * width


def practical_bytes_per_s(speed_gts: float, width: int) -> float:
    """What copies reach on such a link, bytes per second in one direction."""
    return PRACTICAL_SHARE * raw_bytes_per_s(speed_gts, width)


def generation(speed_gts: float | None) -> int | None:
    """The generation of a speed, or None for one that is none."""
    return GENERATIONS.get(speed_gts) if speed_gts is not None else None


def spell(speed_gts: float | None, width: int | None) -> str:
    """`Gen3 x16`; `?` for what is not known."""
    gen = generation(speed_gts)
    return f"Gen{gen if gen is not None else '?'} x{width if width else '?'}"


@dataclass(frozen=True, slots=True)
class Hop:
    """One link of the way to a GPU.

    Attributes:
        lower: The end nearer to the GPU. upper: The port above it, or None.
        speed_gts: GT/s now. width: Lanes now.
        best_speed_gts: The better speed both ends can do. best_width: Lanes both ends can do.
    """

    lower: PciAddress
    upper: PciAddress | None
    speed_gts: float | None
    width: int | None
    best_speed_gts: float | None
    best_width: int | None

    def __str__(self) -> str:
        return f"{self.upper} - {self.lower}" if self.upper else str(self.lower)


def hops(gpu: GpuOnBus) -> tuple[Hop, ...]:
    """The links between the root port and a GPU, from the top; without those not readable.

    Seen from the GPU, functions pair up: the GPU and the port it is in, a switch's upstream port
    and the port above that. The two ports of one switch have no link between them.
    """
    rising = [*reversed(gpu.path)]
    found = []
    for place in range(0, len(rising), 2):
        lower = rising[place]
        upper = rising[place + 1] if place + 1 < len(rising) else None
        hop = _hop(lower, upper)
        if hop is not None:
            found.append(hop)
    return tuple(reversed(found))


def _hop(lower: Function, upper: Function | None) -> Hop | None:
    ends = [end.link.value for end in (lower, upper) if end and isinstance(end.link, Known)]
    if not ends:
        return None
    speed = next((end.speed_gts for end in ends if end.speed_gts), None)
    width = next((end.width for end in ends if end.width), None)
    return Hop(
        lower=lower.address,
        upper=upper.address if upper else None,
        speed_gts=speed,
        width=width,
        best_speed_gts=_best([end.max_speed_gts for end in ends], speed),
        best_width=_best([end.max_width for end in ends], width),
    )


def _best(maxima: Iterable[float | None], now: float | None) -> Any:
    """What both ends can do. A virtual root port may claim less than its link does."""
    told = [value for value in maxima if value]
    if not told:
        return None
    return max(min(told), now or 0)


def narrowest(path: Iterable[Hop]) -> Hop | None:
    """The hop that limits the way, at its best; None where no hop's best is known."""
    rated = [hop for hop in path if hop.best_speed_gts and hop.best_width]
    return min(
        rated,
        key=lambda hop: raw_bytes_per_s(hop.best_speed_gts or 0, hop.best_width or 0),
        default=None,
    )


def own_best(gpu: GpuOnBus) -> Link | None:
    """The GPU's own end, or None."""
    return gpu.function.link.value if isinstance(gpu.function.link, Known) else None
