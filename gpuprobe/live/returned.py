"""Lost devices that came back: when the driver may be asked about one again.

A device that answers on the bus can still be lost to its driver, and asking that driver again and
again says nothing new. So a device counts as returned when a driver was bound to it anew, and it
has answered since for some seconds.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from gpuprobe.events import DeviceChanged
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known
from gpuprobe.sources.pci.readings import read_driver
from gpuprobe.sources.pci.tree import ROOT, look_once

LOOK_EVERY_S = 1.0


class Returned:
    """Watches devices that came back.

    Args:
        settle_s: How long one must answer with its driver, seconds.
        root: Where /sys is looked for.
    """

    def __init__(self, settle_s: float, root: Path = ROOT) -> None:
        self._settle_s = settle_s
        self._root = root
        self._since: dict[PciAddress, float] = {}
        self._looked = 0.0

    def note(self, event: DeviceChanged, here: float) -> None:
        """Take what changed about a device, at `time.monotonic()` seconds."""
        assert event.device is not None
        if event.what in ("bound", "added"):
            self._since[event.device.slot] = here
        elif event.what in ("unbound", "removed"):
            self._since.pop(event.device.slot, None)

    def due(self, here: float) -> Iterator[PciAddress]:
        """Devices that may be asked again; each is given once."""
        if not self._since or here - self._looked < LOOK_EVERY_S:
            return
        self._looked = here
        for device, since in list(self._since.items()):
            answers = look_once(device, self._root).config == "answers"
            if not answers or not isinstance(read_driver(device, self._root), Known):
                self._since[device] = here
            elif here - since >= self._settle_s:
                del self._since[device]
                yield device
