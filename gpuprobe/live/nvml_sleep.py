"""Which NVIDIA GPUs sleep, read without waking them."""

from __future__ import annotations

import contextlib
from pathlib import Path

from gpuprobe.identity import PciAddress

_NVIDIA = "0x10de"
_DISPLAY = "0x03"


def nvidia_gpus(root: Path = Path("/")) -> dict[PciAddress, bool]:
    """NVIDIA's GPUs in sysfs, and whether each is runtime-suspended.

    Source: `vendor` and `class` (cached by the kernel) and `power/runtime_status` (the kernel's
    own note) of each PCI device; none of them touches the hardware.
    """
    found: dict[PciAddress, bool] = {}
    devices = root / "sys/bus/pci/devices"
    with contextlib.suppress(OSError):
        for folder in sorted(devices.iterdir()):
            address = PciAddress.try_parse(folder.name)
            if address is None or _read(folder / "vendor") != _NVIDIA:
                continue
            if _read(folder / "class").startswith(_DISPLAY):
                found[address] = is_asleep(address, root)
    return found


def is_asleep(address: PciAddress, root: Path = Path("/")) -> bool:
    """Whether a device is runtime-suspended, by the kernel's own note."""
    folder = root / "sys/bus/pci/devices" / str(address)
    return _read(folder / "power/runtime_status") in {"suspended", "suspending"}


def _read(path: Path) -> str:
    try:
        return path.read_text("utf-8", "replace").strip()
    except OSError:
        return ""
