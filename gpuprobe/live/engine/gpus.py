"""Which GPUs an engine uses: named, else seen in use, else visible to it, else all there are.

In use are those on which NVML listed a process of the engine's tree at the last good sample. A
driver outside the engine's pid namespace lists other numbers, and then nothing matches.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuprobe.events import ProcessesListed
from gpuprobe.identity import PciAddress
from gpuprobe.live.presence import take_inventory, visible_gpus
from gpuprobe.sources.pci.tree import ROOT

GRACE_S: Final = 3.0
"""A process that left the list this shortly before its end was ending already."""


@dataclass(frozen=True, slots=True)
class Whose:
    """The GPUs of an engine.

    Attributes:
        devices: Their slots, in order of address; empty where there is no GPU in sight.
        how: How that is known, one clause for a sentence.
    """

    devices: tuple[PciAddress, ...]
    how: str

    def __str__(self) -> str:
        names = " and ".join(filter(None, (", ".join(map(str, self.devices[:-1])), self._last)))
        return f"GPU {names} ({self.how})" if names else "no GPU in sight"

    @property
    def _last(self) -> str:
        return str(self.devices[-1]) if self.devices else ""


class EngineGpus:
    """Keeps which GPUs an engine uses.

    Args:
        named: Those the user named; nothing else counts then.
        environment: The engine's.
        root: Where sysfs and procfs are looked for.
    """

    def __init__(
        self,
        named: Sequence[PciAddress],
        environment: Mapping[str, str],
        root: Path = ROOT,
    ) -> None:
        self._named = tuple(device.slot for device in named)
        self._inventory = take_inventory(root)
        self._visible = visible_gpus(self._inventory, environment)
        self._last_used: dict[PciAddress, float] = {}
        self._left: dict[PciAddress, float] = {}

    @property
    def none_on_bus(self) -> bool:
        """Whether sysfs lists PCI devices and none of them is a GPU."""
        return bool(self._inventory.functions) and not self._inventory.gpus

    def was_listed(self, device: PciAddress) -> bool:
        """Whether sysfs listed this device when the probe started."""
        return device.slot in {one.slot for one in self._inventory.functions}

    def listed(self, event: ProcessesListed, tree: Iterable[int]) -> None:
        """Take a list of processes, and the process ids of the engine at that time."""
        if event.device is None:
            return
        device = event.device.slot
        at = (event.stamp.monotonic_s if event.stamp else None) or 0.0
        if set(tree) & set(event.pids):
            self._last_used[device] = at
            self._left.pop(device, None)
        elif device in self._last_used:
            self._left.setdefault(device, at)

    def at(self, moment_s: float, seen: Iterable[PciAddress] = ()) -> Whose:
        """The engine's GPUs at a moment.

        Args:
            moment_s: On the monotonic clock.
            seen: GPUs that any source saw, for a machine whose sysfs lists none.
        """
        if self._named:
            return Whose(self._named, "named with --device")
        used = [
            device
            for device in self._last_used
            if moment_s - self._left.get(device, moment_s) <= GRACE_S
        ]
        if used:
            return Whose(tuple(sorted(used)), "NVML listed its processes there")
        visible = self._visible
        gpus = tuple(device.slot for device in visible.gpus)
        if visible.why and visible.sure:
            return Whose(gpus, f"by {visible.why}")
        every = gpus or tuple(sorted(device.slot for device in seen))
        doubt = f"; {visible.why} does not tell which" if visible.why else ""
        return Whose(every, f"every GPU that it can see: NVML listed no process of it{doubt}")
