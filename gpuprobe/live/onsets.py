"""States that begin between two samples: a power brake, a slowdown for heat, limits of a card."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from gpuprobe.events import Event, GpuSampled, PowerReported, ThermalReported
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reading

BRAKE: Final = 0x80
"""Clock-event reason: something outside, such as the supply, asked the card to slow down."""

HW_THERMAL: Final = 0x40
"""Clock-event reason: the hardware slows the card down for its temperature."""


class Onsets:
    """Turns the first sample of a state into the event that saved logs give for it."""

    def __init__(self) -> None:
        self._reasons: dict[PciAddress | None, int] = {}
        self._looked_up: set[PciAddress] = set()

    def begun(self, sample: GpuSampled) -> Iterator[Event]:
        """What began with this sample."""
        mask = sample.clocks_event_reasons
        if mask is None:
            return
        before = self._reasons.get(sample.device, 0)
        self._reasons[sample.device] = mask
        new = mask & ~before
        if new & BRAKE:
            yield PowerReported(
                **_base(sample, "clock-event reason 0x80: an external power brake"),
                what="brake",
                power_w=sample.power_w,
                limit_w=sample.limit_w,
            )
        if new & HW_THERMAL:
            yield ThermalReported(
                **_base(sample, "clock-event reason 0x40: the hardware slows down for heat"),
                what="slowdown",
                temp_c=sample.temp_c,
            )

    def is_new(self, device: PciAddress | None, masks: Iterable[int | None]) -> bool:
        """Whether samples with these masks begin or end a state, or are a card's first."""
        held = (None, self._reasons.get(device, 0))
        return device not in self._looked_up or any(mask not in held for mask in masks)

    def lacks_limits(self, device: PciAddress | None) -> bool:
        """Whether the card's limits have not been looked up yet."""
        return device is not None and device not in self._looked_up

    def limits(self, sample: GpuSampled, readings: Mapping[str, Reading[Any]]) -> Iterator[Event]:
        """The card's slowdown temperature, once.

        Args:
            sample: A sample of the card.
            readings: NVML's newest readings of it, by name; empty before they were read.
        """
        found = readings.get("slowdown_temp_c")
        if found is None or sample.device is None:
            return
        self._looked_up.add(sample.device)
        if isinstance(found, Known):
            text = f"slows down at {found.value} °C"
            base = _base(sample, text)
            yield ThermalReported(**base, what="reading", slowdown_c=float(found.value))


def _base(sample: GpuSampled, text: str) -> dict[str, Any]:
    return {
        "origin": replace(sample.origin, text=text),
        "stamp": sample.stamp,
        "device": sample.device,
        "source": sample.source,
    }
