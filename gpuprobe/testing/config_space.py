"""The bytes of a PCI function's configuration space, for `FakeSysfs`."""

from __future__ import annotations

import struct

from gpuprobe.identity import PciAddress

SIZE = 4096
UNPRIVILEGED_SIZE = 64
"""Bytes that the kernel gives to a reader without CAP_SYS_ADMIN."""

POWER_CAPABILITY = 0x60
EXPRESS_CAPABILITY = 0x78
AER_CAPABILITY = 0x100

_SPEED_CODES = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


class ConfigSpace:
    """A type 0 (GPU) or type 1 (bridge) header with power, PCI Express and AER capabilities.

    Args:
        vendor: Vendor id. device: Device id. class_code: 24 bits, such as 0x030000.
        revision: Revision id.
        buses: Primary, secondary and subordinate bus of a bridge; None for an endpoint.
        port_type: PCI Express type: 0 endpoint, 4 root port, 5 upstream, 6 downstream port.
        hotplug: The port has a hot-plug slot.
    """

    def __init__(
        self,
        *,
        vendor: int,
        device: int,
        class_code: int,
        revision: int = 0xA1,
        buses: tuple[int, int, int] | None = None,
        port_type: int = 0,
        hotplug: bool = False,
    ) -> None:
        self.data = bytearray(SIZE)
        self._put(0, "<HHHH", vendor, device, 0x0507, 0x0010)
        self._put(8, "<I", class_code << 8 | revision)
        if buses is not None:
            self._put(0x0E, "<B", 1)
            self._put(0x18, "<BBB", *buses)
        self._put(0x34, "<B", POWER_CAPABILITY)
        self._put(POWER_CAPABILITY, "<BBHI", 0x01, EXPRESS_CAPABILITY, 0x0003, 0)
        slot = port_type in (4, 6)
        self._put(EXPRESS_CAPABILITY, "<BBH", 0x10, 0, 2 | port_type << 4 | slot << 8)
        self._put(EXPRESS_CAPABILITY + 0x08, "<H", 0x000F)  # every error reporting enable bit
        if slot:
            self._put(EXPRESS_CAPABILITY + 0x14, "<I", 0x0000_006B if hotplug else 0)
            self._put(EXPRESS_CAPABILITY + 0x1A, "<H", 1 << 6)  # presence detected
        self._put(AER_CAPABILITY, "<I", 0x0001 | 2 << 16)
        self._is_port = slot

    def set_link(self, speed_gts: float, width: int, max_speed_gts: float, max_width: int) -> None:
        """Write link capabilities and link status; a speed not in any standard reads as 0."""
        capabilities = _SPEED_CODES.get(max_speed_gts, 0) | max_width << 4
        status = _SPEED_CODES.get(speed_gts, 0) | width << 4
        active = 1 << 13 if self._is_port and width else 0
        self._put(EXPRESS_CAPABILITY + 0x0C, "<I", capabilities)
        self._put(EXPRESS_CAPABILITY + 0x12, "<H", status | active)

    def _put(self, offset: int, form: str, *values: int) -> None:
        struct.pack_into(form, self.data, offset, *values)


def bridge_buses(address: PciAddress, below: PciAddress) -> tuple[int, int, int]:
    """Primary, secondary and subordinate bus of a bridge above a function."""
    return (address.bus, below.bus, max(below.bus, address.bus))
