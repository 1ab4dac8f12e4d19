"""What the kernel's PCI core, IOMMU and neighbouring drivers say about a function."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import (
    AdminActed,
    BridgeLinked,
    ConfigSpaceUnreadable,
    DeviceChanged,
    DeviceIdentified,
    Event,
    HostFaulted,
    LossHinted,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF, DEVICE

GPU_VENDORS = (0x10DE, 0x1002, 0x8086)
"""NVIDIA, AMD, Intel."""


def is_gpu_class(class_code: int) -> bool:
    """True for VGA (0x0300xx) and 3D (0x0302xx) controllers."""
    return class_code >> 8 in (0x0300, 0x0302)


def _read_power_state(match: re.Match[str], window: Window) -> Reading:
    return ConfigSpaceUnreadable(
        **window.base(match["bdf"]),
        how="power-state",
        driver=match["drv"],
        from_state=match["state"] or match["old"],
    )


def _hint(what: str) -> Callable[[re.Match[str], Window], Reading]:
    """A reader that gives `LossHinted(what)` for the function that the match names."""

    def read(match: re.Match[str], window: Window) -> Reading:
        return LossHinted(**window.base(match["bdf"]), what=what)

    return read


def _changed(what: str) -> Callable[[re.Match[str], Window], Reading]:
    """A reader that gives `DeviceChanged(what)` with the driver that the match names."""

    def read(match: re.Match[str], window: Window) -> Reading:
        named = match.groupdict()
        return DeviceChanged(**window.base(named.get("bdf")), what=what, driver=named.get("drv"))

    return read


def _read_ready(match: re.Match[str], window: Window) -> Reading:
    if match["state"] == "ready":
        return DeviceChanged(**window.base(match["bdf"]), what="answered", driver=match["drv"])
    return ConfigSpaceUnreadable(
        **window.base(match["bdf"]),
        how="not-ready" if match["act"] == "giving up" else "waiting",
        driver=match["drv"],
    )


def _read_enumerated(match: re.Match[str], window: Window) -> Reading:
    class_code = int(match["class"], 16)
    vendor = int(match["vendor"], 16)
    gpu = is_gpu_class(class_code) and vendor in GPU_VENDORS
    return [
        DeviceChanged(**window.base(match["bdf"]), what="added", class_code=class_code),
        DeviceIdentified(
            **window.base(match["bdf"]),
            vendor_id=vendor,
            device_id=int(match["device"], 16),
            is_gpu=True if gpu else None,
        ),
    ]


def _read_bridge(match: re.Match[str], window: Window) -> Reading:
    parent = PciAddress.parse(match["bdf"])
    # Which functions sit on that bus is not said; its first one stands for all of them.
    child = PciAddress(parent.domain, int(match["bus"], 16), 0, 0)
    return BridgeLinked(**window.base(child), parent=parent)


def _read_dmar(match: re.Match[str], window: Window) -> Reading:
    text = match["bdf"].lower().replace("0x", "")
    return HostFaulted(**window.base(text), what="iommu")


def _read_amd_vi(match: re.Match[str], window: Window) -> Reading:
    device = match["bdf"] or match["device"]
    # An invalidation that is never answered means a device that does not answer; a fault means
    # the reverse: the device could still do DMA.
    if match["event"] == "IOTLB_INV_TIMEOUT":
        return LossHinted(**window.base(device), what="bridge-error")
    return HostFaulted(**window.base(device), what="iommu")


def _read_smmu(match: re.Match[str], window: Window) -> Reading:
    return HostFaulted(**window.base(), what="iommu")


def _read_vfio_bound(match: re.Match[str], window: Window) -> Reading:
    return [
        DeviceChanged(**window.base(match["bdf"]), what="bound", driver="vfio-pci"),
        AdminActed(**window.base(match["bdf"]), what="bind-vfio"),
    ]


def _read_osc(match: re.Match[str], window: Window) -> Reading:
    granted = re.search(r"\bAER\b", match["features"]) is not None
    controls = match["who"] == "OS now controls"
    if not controls and not granted:
        return None
    key = "aer-granted" if controls and granted else "aer-disabled"
    return SystemDescribed(**window.base(), key=key, value=match[0])


def _read_aspm(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(**window.base(), key="aspm", value=match[0])


def _read_cmdline(match: re.Match[str], window: Window) -> Reading:
    line = match["line"].strip()
    events: list[Event] = [SystemDescribed(**window.base(), key="cmdline", value=line)]
    if re.search(r"\bpci=(?:\S*,)?noaer\b", line):
        events.append(SystemDescribed(**window.base(), key="aer-disabled", value="pci=noaer"))
    return events


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="pci-power-state",
        needles=("device inaccessible", "config space inaccessible"),
        regex=regex(
            rf"{DEVICE}(?:Unable to change power state from (?P<state>\S+) to \S+, device inaccessible"
            r"|can['\u2019]t change power state from (?P<old>\S+) to \S+ \(config space inaccessible)"
        ),
        read=_read_power_state,
        examples=(
            "nvidia 0000:65:00.0: Unable to change power state from D3cold to D0, device inaccessible",
            "nvidia 0000:65:00.0: can't change power state from D3hot to D0 (config space inaccessible)",
            "nvidia 0000:65:00.0: can\u2019t change power state from D3hot to D0 (config space inaccessible)",
        ),
        near=("block device inaccessible", "nvme 0000:65:00.0: device inaccessible"),
        source="Linux, drivers/pci/pci.c, before and after 5.19",
    ),
    Pattern(
        id="pci-power-refused",
        needles=("Refused to change power state",),
        # What is still in D0 has answered: only a power state that does not reach D0 is a sign.
        regex=regex(rf"{DEVICE}Refused to change power state(?!, currently in D0| from D0)"),
        read=_hint("stuck-in-d3"),
        examples=(
            "nvidia 0000:65:00.0: Refused to change power state, currently in D3",
            "nvidia 0000:65:00.0: Refused to change power state from D3hot to D0",
        ),
        near=(
            "Refused to change power state of the lamp",
            "nvidia 0000:65:00.0: Refused to change power state from D0 to D3hot",
            "pci 0000:65:00.0: Refused to change power state, currently in D0",
        ),
        source="Linux, drivers/pci/pci.c",
    ),
    Pattern(
        id="pci-ready",
        needles=("ms after ",),
        regex=regex(
            rf"{DEVICE}(?P<state>not ready|ready) \d+ms after [^;]{{1,40}}(?:; (?P<act>waiting|giving up))?"
        ),
        read=_read_ready,
        examples=(
            "nvidia 0000:65:00.0: not ready 65535ms after bus reset; giving up",
            "vfio-pci 0000:65:00.0: not ready 1023ms after FLR; waiting",
            "vfio-pci 0000:65:00.0: ready 2047ms after FLR",
        ),
        near=(
            "server ready 200ms after start",
            "IPv6: ADDRCONF(NETDEV_UP): eth0: link is not ready",
        ),
        source="Linux, drivers/pci/pci.c",
    ),
    Pattern(
        id="pci-removed",
        needles=("Removing from iommu group",),
        regex=regex(rf"{DEVICE}Removing from iommu group"),
        read=_changed("removed"),
        examples=("pci 0000:65:00.0: Removing from iommu group 19",),
        near=("Removing from iommu group",),
        source="Linux, drivers/iommu/iommu.c",
    ),
    Pattern(
        id="pci-enumerated",
        needles=("] type 0",),
        regex=regex(
            rf"(?P<bdf>{BDF}): \[(?P<vendor>[0-9a-f]{{4}}):(?P<device>[0-9a-f]{{4}})\] type 0[0-2] class (?P<class>0x[0-9a-f]{{6}})"
        ),
        read=_read_enumerated,
        examples=("pci 0000:65:00.0: [10de:2684] type 00 class 0x030000 PCIe Legacy Endpoint",),
        near=("[10de:2684] type 00",),
        source="Linux, drivers/pci/probe.c",
    ),
    Pattern(
        id="pci-enabling",
        needles=("enabling device (",),
        regex=regex(rf"{DEVICE}enabling device \([0-9a-f]{{4}} -> [0-9a-f]{{4}}\)"),
        read=_changed("answered"),
        examples=("nvidia 0000:65:00.0: enabling device (0000 -> 0003)",),
        near=("enabling device (again)",),
        source="Linux, drivers/pci/setup-res.c",
    ),
    Pattern(
        id="pci-bridge",
        needles=("PCI bridge to [bus ",),
        regex=regex(
            rf"(?P<bdf>{BDF}): PCI bridge to \[bus (?P<bus>[0-9a-f]{{2}})(?:-[0-9a-f]{{2}})?\]"
        ),
        read=_read_bridge,
        examples=(
            "pci 0000:64:00.0: PCI bridge to [bus 65]",
            "pci 0000:00:01.0: PCI bridge to [bus 01-03]",
        ),
        near=("acpiphp: PCI bridge to [bus unknown]",),
        source="Linux, drivers/pci/probe.c",
    ),
    Pattern(
        id="iommu-intel",
        needles=("Request device [",),
        regex=regex(
            r"DMAR: \[[^\]]{2,40}\] Request device \[(?P<bdf>(?:0x)?[0-9a-fA-F]{2}:(?:0x)?[0-9a-fA-F]{2}\.[0-7])\]"
        ),
        read=_read_dmar,
        examples=(
            "DMAR: [DMA Read NO_PASID] Request device [65:00.0] fault addr 0x7f000000 [fault reason 0x06] PTE Read access is not set",
        ),
        near=("Request device [name]",),
        source="Linux, drivers/iommu/intel/dmar.c",
    ),
    Pattern(
        id="iommu-amd",
        needles=("AMD-Vi: Event logged",),
        regex=regex(
            rf"(?:(?P<bdf>{BDF}): )?AMD-Vi: Event logged \[(?P<event>[A-Z_]+)(?: device=(?P<device>{BDF}))?"
        ),
        read=_read_amd_vi,
        examples=(
            "nvidia 0000:65:00.0: AMD-Vi: Event logged [IO_PAGE_FAULT domain=0x0014 address=0xfc80b000 flags=0x0020]",
            "AMD-Vi: Event logged [IO_PAGE_FAULT device=0b:00.0 domain=0x002c address=0xfdf8000000 flags=0x0008]",
            "AMD-Vi: Event logged [IOTLB_INV_TIMEOUT device=0b:00.0 address=0x10]",
        ),
        near=("AMD-Vi: Event logged",),
        source="Linux, drivers/iommu/amd/iommu.c",
    ),
    Pattern(
        id="iommu-arm",
        needles=("arm-smmu",),
        regex=regex(
            r"arm-smmu(?:-v3)? \S+: (?:event 0x[0-9a-f]+ received|event: F_|Unhandled context fault)"
        ),
        read=_read_smmu,
        examples=("arm-smmu-v3 arm-smmu-v3.16.auto: event 0x10 received:",),
        near=("arm-smmu-v3 arm-smmu-v3.16.auto: ias 48-bit, oas 48-bit",),
        source="Linux, drivers/iommu/arm",
    ),
    Pattern(
        id="sibling-usb",
        needles=("HC died", "assume dead"),
        regex=regex(
            # A graphics card's USB controller is its third function; others are docks and boards.
            rf"xhci\S* (?P<bdf>{BDF})(?<=\.2): (?:HC died|xHCI host controller not responding, assume dead)"
        ),
        read=_hint("bridge-error"),
        examples=(
            "xhci_hcd 0000:65:00.2: HC died; cleaning up",
            "xhci_hcd 0000:65:00.2: xHCI host controller not responding, assume dead",
        ),
        near=("The HC died yesterday", "xhci_hcd 0000:2e:00.0: HC died; cleaning up"),
        source="Linux, drivers/usb/host/xhci.c",
    ),
    Pattern(
        id="sibling-audio",
        needles=("CORB reset timeout",),
        regex=regex(rf"snd_hda_intel (?P<bdf>{BDF}): CORB reset timeout"),
        read=_hint("bridge-error"),
        examples=("snd_hda_intel 0000:65:00.1: CORB reset timeout#1, CORBRP = 65535",),
        near=("CORB reset timeout",),
        source="Linux, sound/pci/hda",
    ),
    Pattern(
        id="sibling-ucsi",
        needles=("i2c timeout error ffffffff",),
        regex=regex(rf"nvidia-gpu (?P<bdf>{BDF}): i2c timeout error ffffffff"),
        read=_hint("all-ones"),
        examples=("nvidia-gpu 0000:65:00.3: i2c timeout error ffffffff",),
        near=("i2c-3: i2c timeout error ffffffff",),
        source="Linux, drivers/i2c/busses/i2c-nvidia-gpu.c",
    ),
    Pattern(
        id="vfio-reset-done",
        needles=("vfio-pci ",),
        regex=regex(rf"(?P<drv>vfio-pci) (?P<bdf>{BDF}): reset done"),
        read=_changed("reset-done"),
        examples=("vfio-pci 0000:65:00.0: reset done",),
        near=("vfio-pci 0000:65:00.0: resetting",),
        source="Linux, drivers/pci/pci.c",
    ),
    Pattern(
        id="vfio-bound",
        needles=("vfio-pci ",),
        regex=regex(rf"vfio-pci (?P<bdf>{BDF}): vgaarb: "),
        read=_read_vfio_bound,
        examples=(
            "vfio-pci 0000:65:00.0: vgaarb: VGA decodes changed: olddecodes=io+mem,decodes=none:owns=none",
        ),
        near=("vfio-pci 0000:65:00.0: relaying device request to user",),
        source="Linux, drivers/pci/vgaarb.c",
    ),
    Pattern(
        id="thunderbolt-gone",
        needles=("device disconnected",),
        regex=regex(r"thunderbolt \d+-\d+: device disconnected"),
        read=_changed("tunnel-lost"),
        examples=("thunderbolt 0-3: device disconnected",),
        near=("bluetooth: device disconnected", "thunderbolt 0-0:1.1: retimer disconnected"),
        source="Linux, drivers/thunderbolt",
    ),
    Pattern(
        id="acpi-osc",
        needles=("_OSC: OS now controls", "_OSC: platform does not support"),
        regex=regex(
            r"_OSC: (?P<who>OS now controls|platform does not support) \[(?P<features>[^\]]*)\]"
        ),
        read=_read_osc,
        examples=(
            "acpi PNP0A08:00: _OSC: OS now controls [PCIeHotplug PME AER PCIeCapability LTR DPC]",
            "acpi PNP0A08:00: _OSC: platform does not support [SHPCHotplug AER]",
        ),
        near=("acpi PNP0A08:00: _OSC: platform does not support [SHPCHotplug]",),
        source="Linux, drivers/acpi/pci_root.c",
    ),
    Pattern(
        id="pcie-aspm",
        needles=("PCIe ASPM is ", "FADT indicates ASPM"),
        regex=regex(
            r"PCIe ASPM is (?:disabled|forcibly enabled)|FADT indicates ASPM is unsupported"
        ),
        read=_read_aspm,
        examples=(
            "PCIe ASPM is disabled",
            "FADT indicates ASPM is unsupported, using BIOS configuration",
        ),
        near=("PCIe ASPM is a feature",),
        source="Linux, drivers/pci/pcie/aspm.c",
    ),
    Pattern(
        id="kernel-cmdline",
        needles=("ommand line: ", "BOOT_IMAGE="),
        regex=regex(
            r"(?:\b[Cc]ommand line: (?P<tag>(?=\S*(?:=|/)))|(?=BOOT_IMAGE=))(?P<line>\S+.*)"
        ),
        read=_read_cmdline,
        examples=(
            "Command line: BOOT_IMAGE=/vmlinuz-6.8 root=/dev/sda2 ro quiet pci=noaer",
            "Kernel command line: root=/dev/nvme0n1p2 ro pcie_aspm=off",
        ),
        near=("Bad command line: try --help",),
        source="Linux, init/main.c",
    ),
)

FAMILY = Family("pci", PATTERNS)
