"""Which compute capability the GPUs of this machine have, by their PCI ids alone."""

from __future__ import annotations

from pathlib import Path

_NVIDIA = "0x10de"
_DISPLAY = ("0x0300", "0x0302")
_CAPABILITY = {
    0x1D: 70,
    0x1E: 75,
    0x1F: 75,
    0x20: 80,
    0x21: 75,
    0x22: 86,
    0x23: 90,
    0x24: 86,
    0x25: 86,
    0x26: 89,
    0x27: 89,
    0x28: 89,
    0x29: 100,
    0x2B: 120,
    0x2C: 120,
    0x2D: 120,
    0x2F: 120,
}
"""High byte of the device id, which is the chip, to its compute capability (pci.ids)."""


def capabilities(root: Path = Path("/")) -> frozenset[int]:
    """Compute capabilities as 90; empty where there is no GPU or one is not in the table.

    No driver is asked: a scan must also end beside one that hangs.
    """
    found = set()
    try:
        for device in (root / "sys/bus/pci/devices").iterdir():
            if (device / "vendor").read_text("ascii").strip() != _NVIDIA:
                continue
            if not (device / "class").read_text("ascii").startswith(_DISPLAY):
                continue
            number = int((device / "device").read_text("ascii").strip(), 16)
            found.add(_CAPABILITY.get(number >> 8, 0))
    except (OSError, ValueError):
        return frozenset()
    return frozenset() if 0 in found else frozenset(found)
