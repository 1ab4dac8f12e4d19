"""What is known of a device from the messages of the NVML child."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.rows import FAST_NAMES, SampleRows
from gpuprobe.reading import Known, Reading, Reason, Unavailable


@dataclass(slots=True)
class Device:
    """What is known of one slot's device.

    Attributes:
        pci: Its address, once it was opened.
        readings: The newest value of each slow name, or why there is none.
        fast: Its newest row, or rows of which the last is that.
        over: It is no longer sampled: lost, gone, skipped.
        not_opened: Why it could not be opened, or None.
        lost: Why it is lost, or None.
        counters: The newest counts; counted: the seldom ones among them have been read.
        slow: The newest of the values that samples have and no row.
        bytes_seen: Monotonic nanoseconds, and the PCIe bytes received and sent until then.
    """

    slot: int
    pci: PciAddress | None = None
    uuid: str | None = None
    name: str | None = None
    index: int | None = None
    readings: dict[str, Reading[Any]] = field(default_factory=dict)
    fast: list[Any] | SampleRows = field(default_factory=list)
    over: bool = False
    not_opened: Unavailable | None = None
    lost: Unavailable | None = None
    counters: dict[str, int] = field(default_factory=dict)
    counted: bool = False
    slow: dict[str, Any] = field(default_factory=dict)
    bytes_seen: tuple[int, int, int] | None = None

    def keep(self, fast: list[Any] | SampleRows) -> None:
        """Take its newest row, but none that was on its way when the device was lost."""
        if self.lost is None:
            self.fast = fast

    def newest(self) -> dict[str, Reading[Any]]:
        """The newest reading of every name."""
        found = dict(self.readings)
        row = self.fast.newest_row() if isinstance(self.fast, SampleRows) else self.fast
        for name, value in zip(FAST_NAMES, row[1:], strict=False):
            if value is not None:
                found[name] = as_reading(value)
        return found


def as_reading(value: Any) -> Reading[Any]:
    """A value of the protocol as a reading."""
    if value is None:
        return Unavailable(Reason.NOT_SUPPORTED)
    if isinstance(value, dict):
        return Unavailable(Reason(value["u"]), f"NVML code {value['c']}")
    return Known(value)
