"""Which devices are none of the watched engine's, where the inputs say which are its own."""

from __future__ import annotations

from typing import Final

from gpuprobe.identity import PciAddress
from gpuprobe.timeline import Timeline

KEY: Final = "engine-gpus"
"""Key of the `SystemDescribed` that says it; the value is a list of addresses with blanks."""


def engine_gpus(timeline: Timeline) -> frozenset[PciAddress]:
    """The GPUs of the engine that the inputs are about; empty where they do not say."""
    told = timeline.described(KEY)
    if told is None:
        return frozenset()
    found = (PciAddress.try_parse(word) for word in told.value.split())
    return frozenset(address.slot for address in found if address is not None)


def is_elsewhere(timeline: Timeline, device: PciAddress | None) -> bool:
    """Whether a device is a GPU that the engine does not use, or a port above such alone."""
    own = engine_gpus(timeline) if device is not None else None
    if not own or device is None:
        return False
    if timeline.is_gpu(device):
        return device.slot not in own
    below = timeline.gpus_below(device)
    return bool(below) and not own & set(below)
