"""The driver's own power samples, taken apart when somebody reads them.

A hundred come each second, two minutes of them are kept, and few are ever read.
"""

from __future__ import annotations

import binascii
from collections.abc import Iterator
from typing import Any

from gpuprobe.live.nvml.packed import Packed
from gpuprobe.live.nvml.wire import SAMPLE


class DriverSamples(Packed[tuple[float, float]]):
    """Reads like a tuple of seconds since 1970 and watts.

    Args:
        text: As `wire.to_text` makes it.

    Raises:
        ValueError: It is cut short, or no base64.
    """

    __slots__ = ("_packed",)

    def __init__(self, text: str) -> None:
        self._packed = binascii.a2b_base64(text)
        if len(self._packed) % SAMPLE.size:
            raise ValueError("power samples are cut short")

    def whole(self) -> tuple[list[int], list[int]]:
        """The same as the driver gives them: microseconds, and milliwatts."""
        packed = memoryview(self._packed)  # a third of what unpacking one by one costs
        return packed.cast("Q")[::2].tolist(), packed.cast("I")[2::4].tolist()

    def __iter__(self) -> Iterator[tuple[float, float]]:
        for at, power in SAMPLE.iter_unpack(self._packed):
            yield at / 1e6, power / 1e3

    def __len__(self) -> int:
        return len(self._packed) // SAMPLE.size

    def __getitem__(self, place: Any) -> Any:
        return tuple(self)[place]
