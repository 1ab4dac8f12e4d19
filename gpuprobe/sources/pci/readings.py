"""What sysfs says about a PCI function: link, AER counters, power state, ASPM, identity.

Every value is known or unavailable for a reason, and none is read from a device that is asleep:
on newer kernels the link files wake it. AER counters are the kernel's own sums, no hardware read.

Source: the kernel's Documentation/ABI/testing/sysfs-bus-pci and sysfs-bus-pci-devices-aer.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.pci.tree import (
    ROOT,
    asleep,
    device_path,
    read_config,
    read_hex,
    read_text,
)

LOST_WIDTH = 63
"""Link width of a device whose config space reads all ones."""

AER_DEVICE: Final = ("aer_dev_correctable", "aer_dev_nonfatal", "aer_dev_fatal")
"""One `NAME COUNT` a line, the total last."""

AER_ROOT: Final = (
    "aer_rootport_total_err_cor",
    "aer_rootport_total_err_nonfatal",
    "aer_rootport_total_err_fatal",
)
"""One number: messages that a root port got from below."""

AER_SERVICE: Final = 0x2
"""A port's service, as the number in the name of its device says."""

_SPEED = re.compile(r"(\d+(?:\.\d+)?) GT/s")


@dataclass(frozen=True, slots=True)
class LinkReading:
    """A link, as the function at one end of it sees it.

    Attributes:
        speed_gts: Speed now, in GT/s. An idle device may lower it on purpose.
        width: Lanes now.
        max_speed_gts: The best this function can do, GT/s.
        max_width: Its lanes.
    """

    speed_gts: Known[float] | Unavailable
    width: Known[int] | Unavailable
    max_speed_gts: Known[float] | Unavailable
    max_width: Known[int] | Unavailable


@dataclass(frozen=True, slots=True)
class PowerReading:
    """Whether a function is powered; the kernel's own notes, read without waking anything.

    Attributes:
        runtime_status: `active`, `suspended`, `unsupported`, `error`.
        power_state: `D0`, `D3hot`, `D3cold`, `unknown`.
        d3cold_allowed: Whether it may be switched off while idle.
        control: `auto` (may suspend) or `on`.
    """

    runtime_status: Known[str] | Unavailable
    power_state: Known[str] | Unavailable
    d3cold_allowed: Known[bool] | Unavailable
    control: Known[str] | Unavailable


@dataclass(frozen=True, slots=True)
class PortStatus:
    """What a port's own registers say about the link and the slot below it.

    Attributes:
        link_active: Data Link Layer Link Active.
        card_present: Presence Detect State of the slot.
        power_fault: Power Fault Detected, since it was last cleared.
        width: Negotiated lanes, 0 without a link.
    """

    link_active: Known[bool] | Unavailable
    card_present: Known[bool] | Unavailable
    power_fault: Known[bool] | Unavailable
    width: Known[int] | Unavailable


@dataclass(frozen=True, slots=True)
class FunctionReading:
    """Who a function is. From the kernel's cache: right even when the device no longer answers.

    Attributes:
        vendor_id: PCI vendor. device_id: PCI device. class_code: Such as 0x030200.
        driver: The bound driver's name; not-there when none is bound.
        numa_node: Memory node it hangs on; not-supported where the machine has one only.
        enabled: Whether a driver enabled it.
    """

    vendor_id: int | None
    device_id: int | None
    class_code: int | None
    driver: Known[str] | Unavailable
    numa_node: Known[int] | Unavailable
    enabled: Known[bool] | Unavailable


def read_link(address: PciAddress, root: Path = ROOT) -> LinkReading:
    """The link above a function, from its `current_link_*` and `max_link_*` files.

    Missing: lost where the device answers with all ones (width 63); asleep; not-supported for a
    function without PCIe, and for a speed the kernel has no name for (a port without a link).
    """
    folder = device_path(address, root)
    if (why := asleep(folder)) is not None:
        return LinkReading(why, why, why, why)
    speed, width = _link_pair(folder, "current")
    max_speed, max_width = _link_pair(folder, "max")
    return LinkReading(speed, width, max_speed, max_width)


def _link_pair(
    folder: Path, which: str
) -> tuple[Known[float] | Unavailable, Known[int] | Unavailable]:
    speed_text = read_text(folder / f"{which}_link_speed")
    width_text = read_text(folder / f"{which}_link_width")
    width = _number(width_text)
    if isinstance(width, Known) and width.value == LOST_WIDTH:
        lost = Unavailable(Reason.LOST, f"{which}_link_width reads {LOST_WIDTH}: all ones")
        return lost, lost
    if isinstance(speed_text, Unavailable):
        return speed_text, width
    if (match := _SPEED.match(speed_text.value)) is not None:
        return Known(float(match[1])), width
    detail = f"{which}_link_speed reads {speed_text.value!r}"
    if not isinstance(width, Known):
        return Unavailable(Reason.LOST, detail), width
    return Unavailable(Reason.NOT_SUPPORTED, detail), width


def read_aer(
    address: PciAddress, root: Path = ROOT
) -> dict[str, Known[Mapping[str, int]] | Unavailable]:
    """AER counters by file; each file's counters by name (`RxErr`, `TOTAL_ERR_COR`).

    Missing: not-supported where the function has no AER, or the firmware kept it. Zero is no
    proof of health on a machine whose firmware handles AER itself.
    """
    folder = device_path(address, root)
    found: dict[str, Known[Mapping[str, int]] | Unavailable] = {}
    for name in AER_DEVICE:
        found[name] = _counters(read_text(folder / name))
    for name in AER_ROOT:
        # Only a root port has these; their absence says nothing about other functions.
        number = _number(read_text(folder / name))
        if isinstance(number, Known):
            found[name] = Known({"total": number.value})
    return found


def read_aer_service(port: PciAddress, root: Path = ROOT) -> Known[bool] | Unavailable:
    """Whether the kernel's own AER driver serves a root port, as `pcie002` below it tells.

    The counters do not: they are there as soon as the port has the capability, and stay at zero
    where the firmware kept AER to itself or `pci=noaer` is set.

    Missing: not-there where the kernel lists no port services at all.
    Source: Linux, drivers/pci/pcie/portdrv.c (`get_descriptor_id`, AER is bit 1).
    """
    folder = root / "sys/bus/pci_express/devices"
    try:
        names = [entry.name for entry in folder.iterdir()]
    except OSError as error:
        return Unavailable(Reason.NOT_THERE, f"{folder}: {error.strerror}")
    for name in names:
        if not name.startswith(f"{port}:pcie"):
            continue
        digits = name.rpartition(":pcie")[2]
        # The last two digits are the service; before 4.18 or so there was but one.
        bits = int(digits[1:] or "0", 16) if re.fullmatch("[0-9a-f]{2,3}", digits) else 0
        if bits & AER_SERVICE:
            return Known((folder / name / "driver").exists())
    return Known(False)


def aer_counters(address: PciAddress, root: Path = ROOT) -> tuple[tuple[str, int], ...]:
    """The same in one row: `aer_dev_correctable.RxErr` and its value, what is there only."""
    return tuple(
        (f"{file}.{name}", value)
        for file, reading in read_aer(address, root).items()
        if isinstance(reading, Known)
        for name, value in reading.value.items()
    )


def _counters(text: Known[str] | Unavailable) -> Known[Mapping[str, int]] | Unavailable:
    if isinstance(text, Unavailable):
        return text
    found: dict[str, int] = {}
    for line in text.value.splitlines():
        name, _, value = line.rpartition(" ")
        if name and value.isdecimal():
            found[name.strip()] = int(value)
    return Known(found) if found else Unavailable(Reason.FAILED, "no counters in the file")


def read_power(address: PciAddress, root: Path = ROOT) -> PowerReading:
    """The function's power state, as the kernel notes it."""
    folder = device_path(address, root)
    return PowerReading(
        runtime_status=read_text(folder / "power/runtime_status"),
        power_state=read_text(folder / "power_state"),
        d3cold_allowed=_flag(read_text(folder / "d3cold_allowed")),
        control=read_text(folder / "power/control"),
    )


def read_function(address: PciAddress, root: Path = ROOT) -> FunctionReading:
    """Who the function is and which driver it has."""
    folder = device_path(address, root)
    return FunctionReading(
        vendor_id=read_hex(folder / "vendor"),
        device_id=read_hex(folder / "device"),
        class_code=read_hex(folder / "class"),
        driver=read_driver(address, root),
        numa_node=_numa(read_text(folder / "numa_node")),
        enabled=_flag(read_text(folder / "enable")),
    )


def read_driver(address: PciAddress, root: Path = ROOT) -> Known[str] | Unavailable:
    """Name of the bound driver; not-there when none is bound."""
    link = device_path(address, root) / "driver"
    try:
        return Known(link.readlink().name)
    except OSError:
        return Unavailable(Reason.NOT_THERE, "no driver is bound")


def read_aspm_policy(root: Path = ROOT) -> Known[str] | Unavailable:
    """The kernel's ASPM policy: `default`, `performance`, `powersave`, `powersupersave`."""
    text = read_text(root / "sys/module/pcie_aspm/parameters/policy")
    if isinstance(text, Unavailable):
        return text
    match = re.search(r"\[(\w+)\]", text.value)
    return Known(match[1]) if match else Unavailable(Reason.FAILED, text.value[:80])


def read_port_status(address: PciAddress, root: Path = ROOT) -> PortStatus:
    """Link and slot status of a port, from its PCIe capability.

    Missing: not-permitted without root, since the capability lies behind the first 64 bytes;
    not-supported for a port without a slot.
    """
    config = read_config(address, root, 256)
    if isinstance(config, Unavailable):
        return PortStatus(config, config, config, config)
    data = config.value
    if data[:4] == b"\xff\xff\xff\xff":
        lost = Unavailable(Reason.LOST, "the port's config space reads all ones")
        return PortStatus(lost, lost, lost, lost)
    if len(data) < 256:
        denied = Unavailable(
            Reason.NOT_PERMITTED, "the port's registers need root", "Run it with sudo."
        )
        return PortStatus(denied, denied, denied, denied)
    at = _pcie_capability(data)
    if at is None:
        none = Unavailable(Reason.NOT_SUPPORTED, "no PCIe capability")
        return PortStatus(none, none, none, none)
    link = int.from_bytes(data[at + 0x12 : at + 0x14], "little")
    active = bool(link >> 13 & 1)
    # Whether the port can report its link at all: Link Capabilities, bit 20.
    reports = int.from_bytes(data[at + 0x0C : at + 0x10], "little") >> 20 & 1
    slot = int.from_bytes(data[at + 0x1A : at + 0x1C], "little")
    has_slot = int.from_bytes(data[at + 2 : at + 4], "little") >> 8 & 1
    unreported = Unavailable(Reason.NOT_SUPPORTED, "the port does not report link activity")
    slotless = Unavailable(Reason.NOT_SUPPORTED, "the port has no slot")
    return PortStatus(
        link_active=Known(active) if active or reports else unreported,
        card_present=Known(bool(slot >> 6 & 1)) if has_slot else slotless,
        power_fault=Known(bool(slot >> 1 & 1)) if has_slot else slotless,
        width=Known(link >> 4 & 0x3F),
    )


def _pcie_capability(data: bytes) -> int | None:
    """Offset of the PCI Express capability (id 0x10) in the list that begins at 0x34."""
    at, seen = data[0x34] & 0xFC, 0
    while at >= 0x40 and at + 0x1C <= len(data) and seen < 48:
        if data[at] == 0x10:
            return at
        at, seen = data[at + 1] & 0xFC, seen + 1
    return None


def _number(text: Known[str] | Unavailable) -> Known[int] | Unavailable:
    if isinstance(text, Unavailable):
        return text
    try:
        return Known(int(text.value))
    except ValueError:
        return Unavailable(Reason.FAILED, f"no number: {text.value[:40]!r}")


def _flag(text: Known[str] | Unavailable) -> Known[bool] | Unavailable:
    number = _number(text)
    return Known(number.value != 0) if isinstance(number, Known) else number


def _numa(text: Known[str] | Unavailable) -> Known[int] | Unavailable:
    number = _number(text)
    if isinstance(number, Known) and number.value < 0:
        return Unavailable(Reason.NOT_SUPPORTED, "the firmware names no node")
    return number
