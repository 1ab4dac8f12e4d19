"""The bus as the checks look at it, read from sysfs. Nothing here wakes a sleeping device."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from gpuprobe.checks.scene import NOT_ASKED, Function, GpuOnBus, Link
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reading, Reason, Unavailable, value_or_none
from gpuprobe.sources.pci.readings import (
    AER_DEVICE,
    AER_ROOT,
    read_aer,
    read_aer_service,
    read_function,
    read_link,
    read_power,
)
from gpuprobe.sources.pci.tree import Presence, gpus, look, path_to_root, read_config

PCIE_CAPABILITY = 0x10
CONFIG_BYTES = 256


def read_bus(root: Path = Path("/")) -> Reading[tuple[GpuOnBus, ...]]:
    """Every GPU in sysfs, in order of address, with the ports above it.

    Args:
        root: Where `sys` is looked for.
    """
    if not (root / "sys/bus/pci/devices").is_dir():
        return Unavailable(
            Reason.NOT_THERE,
            "no /sys/bus/pci here",
            "In a container, mount /sys read-only; in WSL2 there is none",
        )
    found = gpus(root)
    seen = look(found, root)
    return Known(tuple(_gpu(address, seen[address], root) for address in found))


def _gpu(address: PciAddress, presence: Presence, root: Path) -> GpuOnBus:
    who = read_function(address, root)
    return GpuOnBus(
        function=_function(address, root),
        bridges=tuple(
            replace(_function(port, root), aer_service=read_aer_service(port, root))
            if place == 0
            else _function(port, root)
            for place, port in enumerate(reversed(path_to_root(address, root)))
        ),
        vendor_id=who.vendor_id,
        driver=_driver(who.driver),
        runtime_status=_status(address, presence, root),
        presence=_answers(presence),
    )


def _driver(reading: Reading[str]) -> Reading[str | None]:
    """None for a function that no driver is bound to."""
    if isinstance(reading, Known):
        return Known(reading.value)
    return Known(None) if reading.reason is Reason.NOT_THERE else reading


def _status(address: PciAddress, presence: Presence, root: Path) -> Reading[str]:
    """`suspended` also for a device whose power state alone says that it sleeps."""
    reading = read_power(address, root).runtime_status
    if presence.config == "not-asked" and presence.directory:
        return Known("suspended")
    return reading


def _answers(presence: Presence) -> Reading[bool]:
    match presence.config:
        case "answers":
            return Known(True)
        case "all-ones":
            return Known(False)
        case "not-asked":
            return Unavailable(
                Reason.ASLEEP if presence.directory else Reason.LOST, presence.detail
            )
        case _:
            return Unavailable(Reason.FAILED, presence.detail)


def _function(address: PciAddress, root: Path) -> Function:
    return Function(
        address=address,
        link=_link(address, root),
        aer=_aer(address, root),
        error_reporting=_error_reporting(address, root),
    )


def _link(address: PciAddress, root: Path) -> Reading[Link]:
    reading = read_link(address, root)
    if isinstance(reading.width, Unavailable):
        return reading.width
    if isinstance(reading.speed_gts, Unavailable) and reading.speed_gts.reason is Reason.LOST:
        return reading.speed_gts
    return Known(
        Link(
            speed_gts=value_or_none(reading.speed_gts),
            width=reading.width.value,
            max_speed_gts=value_or_none(reading.max_speed_gts),
            max_width=value_or_none(reading.max_width),
        )
    )


def _aer(address: PciAddress, root: Path) -> Reading[Mapping[str, Mapping[str, int]]]:
    """By severity, as the files are called: `correctable`, `nonfatal`, `fatal`, `rootport`."""
    files = read_aer(address, root)
    found: dict[str, Mapping[str, int]] = {}
    missing: Unavailable | None = None
    for name in AER_DEVICE:
        reading = files[name]
        if isinstance(reading, Known):
            found[name.removeprefix("aer_dev_")] = reading.value
        else:
            missing = missing or reading
    totals = {
        name.removeprefix("aer_rootport_total_err_"): total.value["total"]
        for name in AER_ROOT
        if isinstance(total := files.get(name, NOT_ASKED), Known)
    }
    if totals:
        found["rootport"] = totals
    if not found:
        return missing or Unavailable(Reason.NOT_SUPPORTED)
    return Known(found)


def _error_reporting(address: PciAddress, root: Path) -> Reading[bool]:
    """Whether Device Control lets the function report correctable errors (`CorrErr+`).

    The register lies behind the 64 bytes that anybody may read.
    """
    config = read_config(address, root, CONFIG_BYTES)
    if isinstance(config, Unavailable):
        return config
    if config.value[:4] == b"\xff\xff\xff\xff":
        return Unavailable(Reason.LOST, "config space reads all ones")
    if len(config.value) < CONFIG_BYTES:
        return Unavailable(Reason.NOT_PERMITTED, "Device Control needs root", "Run it with sudo.")
    at = _capability(config.value, PCIE_CAPABILITY)
    if at is None:
        return Unavailable(Reason.NOT_SUPPORTED, "no PCIe capability")
    return Known(bool(config.value[at + 8] & 1))


def _capability(data: bytes, wanted: int) -> int | None:
    """Offset of a capability in the list that begins at 0x34, or None."""
    at, seen = data[0x34] & 0xFC, 0
    while at >= 0x40 and at + 9 <= len(data) and seen < 48:
        if data[at] == wanted:
            return at
        at, seen = data[at + 1] & 0xFC, seen + 1
    return None
