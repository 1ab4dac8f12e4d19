"""What tools print about PCI: lspci, sysfs, setpci, dumps of config space."""

from __future__ import annotations

import itertools
import re

from gpuprobe.events import (
    BridgeLinked,
    ConfigSpaceUnreadable,
    DeviceChanged,
    DeviceIdentified,
    Event,
    LinkStateReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.pci import GPU_VENDORS
from gpuprobe.sources.wording.shapes import BDF

_LSPCI_HEAD = regex(rf"^(?P<bdf>{BDF}) (?P<class>[A-Z0-9].*)")
_LSPCI_ROW = regex(rf"(?<![\w:./])(?P<bdf>{BDF}) [A-Z][\w /-]+(?: \[[0-9a-f]{{4}}\])?: ")
_LSPCI_GPU = regex(
    rf"(?P<bdf>{BDF}) (?:VGA compatible controller|3D controller|Display controller)(?: \[03[0-9a-f]{{2}}\])?: (?P<rest>.+)"
)
_LINK_CAP = regex(r"LnkCap:.*?Speed (?P<speed>[\d.]+) ?GT/s.*?Width x(?P<width>\d+)")


def _lspci_device(window: Window) -> tuple[PciAddress | None, str]:
    """The device whose `lspci -v` section the window's record stands in, and its head line."""
    own = _LSPCI_HEAD.match(window.text)
    if own:
        return PciAddress.try_parse(own["bdf"]), window.text
    for record in window.before(Window.REACH):
        if found := _LSPCI_HEAD.match(record.message):
            return PciAddress.try_parse(found["bdf"]), record.message
        if not record.message.strip():
            break  # lspci puts an empty line between two devices
    return None, ""


def _gpu_answers(device: PciAddress | None, window: Window) -> bool:
    """Whether lspci read the first function of this card: then a later one only sleeps."""
    if device is None or device.function == 0:
        return False
    before = window.before(window.REACH)[::-1]
    texts = [record.message for record in (*before, window.record, *window.after(window.REACH))]
    for text, below in itertools.zip_longest(texts, texts[1:], fillvalue=""):
        head = _LSPCI_ROW.search(text)
        address = PciAddress.try_parse(head["bdf"]) if head else None
        if address is not None and (address.function, address.slot) == (0, device.slot):
            # A mail program may have put the revision on the next line; lspci leaves out a zero.
            return "(rev ff)" not in (text if _LSPCI_ROW.search(below) else text + below)
    return False


def _read_rev_ff(match: re.Match[str], window: Window) -> Reading:
    if _gpu_answers(PciAddress.try_parse(match["bdf"]), window):
        return None
    events: list[Event] = [ConfigSpaceUnreadable(**window.base(match["bdf"]), how="all-ones")]
    if gpu := _LSPCI_GPU.search(window.text):
        named = _read_lspci_gpu(gpu, window)
        events.extend([named] if isinstance(named, Event) else ())
    return events


def _read_header_type(match: re.Match[str], window: Window) -> Reading:
    device, head = _lspci_device(window)
    if "(rev ff)" in head or _gpu_answers(device, window):
        return None
    return ConfigSpaceUnreadable(**window.base(device), how="all-ones")


def _read_lspci_gpu(match: re.Match[str], window: Window) -> Reading:
    ids = re.search(r"\[(?P<vendor>[0-9a-f]{4}):(?P<device>[0-9a-f]{4})\]", match["rest"])
    vendor = int(ids["vendor"], 16) if ids else None
    if vendor is not None and vendor not in GPU_VENDORS:
        return None
    name = re.split(r" \[[0-9a-f]{4}:[0-9a-f]{4}\]| \(rev ", match["rest"])[0].strip()
    return DeviceIdentified(
        **window.base(match["bdf"]),
        name=name or None,
        is_gpu=True if vendor or "NVIDIA" in name else None,
        vendor_id=vendor,
        device_id=int(ids["device"], 16) if ids else None,
    )


def _read_link_status(match: re.Match[str], window: Window) -> Reading:
    device, _ = _lspci_device(window)
    width = int(match["width"])
    if match["speed"] is None and width == 63:
        if _gpu_answers(device, window):
            return None
        return ConfigSpaceUnreadable(**window.base(device), how="all-ones")
    caps = [_LINK_CAP.search(record.message) for record in window.before(8)]
    cap = next((found for found in caps if found), None)
    return LinkStateReported(
        **window.base(device),
        what="sampled",
        speed_gts=float(match["speed"]) if match["speed"] else None,
        width=width,
        max_speed_gts=float(cap["speed"]) if cap else None,
        max_width=int(cap["width"]) if cap else None,
    )


def _read_sysfs_link(match: re.Match[str], window: Window) -> Reading:
    named = re.findall(rf"/({BDF})(?=/)", window.text[: match.end()])
    device = PciAddress.try_parse(named[-1]) if named else None
    value = match["value"].strip()
    if value.startswith("Unknown") or (match["which"] == "width" and value == "63"):
        return ConfigSpaceUnreadable(**window.base(device), how="all-ones")
    number = float(value.split()[0])
    if match["which"] == "speed":
        return LinkStateReported(**window.base(device), what="sampled", speed_gts=number)
    return LinkStateReported(**window.base(device), what="sampled", width=int(number))


def _read_runtime_status(match: re.Match[str], window: Window) -> Reading:
    # A relay, such as a CI's runner, puts its prefix before the answer as before the question.
    below = [record.message.strip() for record in window.after(2)]
    state = match["state"] or next(filter(None, below), "")
    if state not in ("suspended", "active"):
        return None
    return DeviceChanged(**window.base(match["bdf"]), what=state)


def _read_switched_off(match: re.Match[str], window: Window) -> Reading:
    """A laptop's second GPU without power, as its user wants it."""
    device = match["bdf"] or match["named"]
    for record in window.before(Window.REACH) if device is None else ():
        if found := re.search(rf"bbswitch: Found discrete VGA device ({BDF})", record.message):
            device = found[1]
    return DeviceChanged(**window.base(device), what="suspended") if device else None


def _read_vendor(match: re.Match[str], window: Window) -> Reading:
    """The vendor id that somebody asked a device for, with the answer's line behind it."""
    return ConfigSpaceUnreadable(**window.base(match["bdf"] or match["named"]), how="all-ones")


def _read_config_dump(match: re.Match[str], window: Window) -> Reading:
    device, _ = _lspci_device(window)
    if device is None:
        above = " ".join(record.message for record in window.before(2))
        named = re.search(rf"/({BDF})/config\b", above)
        if named is None:
            return None
        device = PciAddress.try_parse(named[1])
    return ConfigSpaceUnreadable(**window.base(device), how="all-ones")


def _read_sysfs_path(match: re.Match[str], window: Window) -> Reading:
    hops = [PciAddress.parse(hop) for hop in match["hops"].strip("/").split("/")]
    return [
        BridgeLinked(**window.base(child), parent=parent)
        for parent, child in itertools.pairwise(hops)
    ]


_TREE_ROOT = regex(r"-\[(?P<domain>[0-9a-f]{4,8}):(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]-")
_TREE_HOP = regex(
    r"(?P<dev>[01][0-9a-f])\.(?P<fn>[0-7])(?:-\[(?P<bus>[0-9a-f]{2})(?:-[0-9a-f]{2})?\]-+)?"
)


def _tree_bus(window: Window, column: int) -> tuple[int, int, bool] | None:
    """Domain and bus that a row of `lspci -t` starts from; False where only the domain is known."""
    rows = [window.record.raw, *(record.raw for record in window.before(Window.REACH))]
    for raw in rows:
        if root := _TREE_ROOT.search(raw):
            first_level = raw is rows[0] or column == root.end()
            return int(root["domain"], 16), int(root["bus"], 16), first_level
    return None


def _read_tree(match: re.Match[str], window: Window) -> Reading:
    column = len(re.split(r"[+\\]-(?=[01][0-9a-f]\.)", window.record.raw)[0])
    root = _tree_bus(window, column)
    if root is None:
        return None
    domain, bus, known = root
    events: list[Event] = []
    parent: PciAddress | None = None
    for hop in _TREE_HOP.finditer(match["chain"]):
        here = PciAddress(domain, bus, int(hop["dev"], 16), int(hop["fn"])) if known else None
        if parent and here:
            events.append(BridgeLinked(**window.base(here), parent=parent))
        parent = here
        if hop["bus"] is None:
            break
        bus, known = int(hop["bus"], 16), True
    return events or None


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="lspci-rev-ff",
        needles=("(rev ff)",),
        regex=regex(rf"(?P<bdf>{BDF}) [A-Z0-9].{{4,200}}?\(rev ff\)"),
        read=_read_rev_ff,
        examples=("65:00.0 VGA compatible controller: NVIDIA Corporation Device 2684 (rev ff)",),
        near=(
            "firmware (rev ff)",
            "65:00.1 Audio device: NVIDIA Corporation Device 22ba (rev ff)\n65:00.0 VGA compatible controller: NVIDIA Corporation Device 2684 (rev a1)",
        ),
        source="pciutils, lspci",
    ),
    Pattern(
        id="lspci-header-type",
        needles=("Unknown header type 7f",),
        regex=regex(r"!!! Unknown header type 7f"),
        read=_read_header_type,
        examples=("!!! Unknown header type 7f",),
        near=("Unknown header type 7f of a packet",),
        source="pciutils, lspci",
    ),
    Pattern(
        id="lspci-gpu",
        needles=("VGA compatible controller", "3D controller", "Display controller"),
        regex=_LSPCI_GPU,
        read=_read_lspci_gpu,
        examples=(
            "65:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD102 [GeForce RTX 4090] [10de:2684] (rev a1)",
            "0000:65:00.0 3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev a1)",
        ),
        near=(
            "04:00.0 VGA compatible controller [0300]: ASPEED Technology, Inc. ASPEED Graphics Family [1a03:2000] (rev 41)",
        ),
        source="pciutils, lspci",
    ),
    Pattern(
        id="lspci-link-status",
        needles=("LnkSta:",),
        regex=regex(
            r"LnkSta:\s*Speed (?:(?P<speed>[\d.]+) ?GT/s|[Uu]nknown)(?: \([^)]*\))?, Width x(?P<width>\d+)"
        ),
        read=_read_link_status,
        examples=(
            "LnkSta: Speed 8GT/s (downgraded), Width x4 (downgraded)",
            "LnkSta: Speed unknown, Width x63",
        ),
        near=("LnkSta: not read",),
        source="pciutils, lspci -vv",
    ),
    Pattern(
        id="sysfs-link",
        needles=("current_link_",),
        regex=regex(
            r"current_link_(?P<which>speed|width)\s*[:= ]\s*(?P<value>Unknown(?: speed)?|[\d.]+(?: GT/s(?: PCIe)?)?)"
        ),
        read=_read_sysfs_link,
        examples=(
            "/sys/bus/pci/devices/0000:65:00.0/current_link_speed:Unknown",
            "/sys/bus/pci/devices/0000:65:00.0/current_link_width:63",
            "/sys/bus/pci/devices/0000:65:00.0/current_link_speed:16.0 GT/s PCIe",
        ),
        near=("cat /sys/bus/pci/devices/0000:65:00.0/current_link_speed",),
        source="Linux, drivers/pci/pci-sysfs.c",
    ),
    Pattern(
        id="sysfs-runtime-status",
        needles=("/power/runtime_status",),
        regex=regex(
            rf"/(?P<bdf>{BDF})/power/runtime_status(?:\s*[:= ]\s*(?P<state>suspended|active)\b|[ \t]*(?=\n|\Z))"
        ),
        read=_read_runtime_status,
        examples=(
            "/sys/bus/pci/devices/0000:65:00.0/power/runtime_status:suspended",
            "$ cat /sys/bus/pci/devices/0000:65:00.0/power/runtime_status active",
            "$ cat /sys/bus/pci/devices/0000:65:00.0/power/runtime_status\n\nsuspended",
        ),
        near=(
            "/sys/bus/pci/devices/0000:65:00.0/power/runtime_status:unsupported",
            "$ cat /sys/bus/pci/devices/0000:65:00.0/power/runtime_status\nunsupported",
        ),
        source="Linux, Documentation/ABI/testing/sysfs-devices-power",
    ),
    Pattern(
        id="switched-off",
        needles=("bbswitch: ", ":DynOff:"),
        regex=regex(
            rf"bbswitch: (?:[^\n]{{0,40}}Discrete card (?P<bdf>{BDF}) is off|disabling discrete graphics)|:DynOff:(?P<named>{BDF})"
        ),
        read=_read_switched_off,
        examples=(
            "bbswitch: Succesfully loaded. Discrete card 0000:01:00.0 is off",
            "bbswitch: Found discrete VGA device 0000:01:00.0: \\_SB_.PCI0.PEG0.PEGP\nbbswitch: disabling discrete graphics",
            "1:DIS: :DynOff:0000:01:00.0",
        ),
        near=(
            "bbswitch: Succesfully loaded. Discrete card 0000:01:00.0 is on",
            "1:DIS: :DynPwr:0000:01:00.0",
        ),
        source="bbswitch.c; Linux, drivers/gpu/vga/vga_switcheroo.c",
    ),
    Pattern(
        id="vendor-all-ones",
        needles=("VENDOR_ID", "/vendor", " 0.w", " 0.l", " 00.w", " 00.l"),
        regex=regex(
            rf"(?:\bsetpci -s (?P<bdf>{BDF}) (?i:VENDOR_ID(?:\.w)?|0{{1,2}}\.[wl])\s+ffff(?:ffff)?"
            rf"|/(?P<named>{BDF})/vendor\s*[:= ]\s*0xffff)(?!\w)"
        ),
        read=_read_vendor,
        examples=(
            "$ sudo setpci -s 65:00.0 VENDOR_ID ffff",
            "/sys/bus/pci/devices/0000:65:00.0/vendor:0xffff",
        ),
        near=(
            "$ sudo setpci -s 65:00.0 VENDOR_ID\n10de",
            "/sys/bus/pci/devices/0000:65:00.0/vendor:0x10de",
            "setpci -s 65:00.0 VENDOR_ID; before a reboot, ffff is no answer",
        ),
        source="pciutils, setpci(8); Linux, drivers/pci/pci-sysfs.c",
    ),
    Pattern(
        id="config-all-ones",
        needles=("00: ff ff ff ff", "00000: ffff ffff", "00000 ffff ffff"),
        regex=regex(r"(?:\b00: ff(?: ff){7}|\b0{7,8}:? ffff(?: ffff){3})"),
        read=_read_config_dump,
        examples=(
            "65:00.0 VGA compatible controller: NVIDIA Corporation Device 2684\n00: ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff ff",
        ),
        near=("00000000: ffff ffff ffff ffff",),
        source="pciutils, lspci -x; xxd of config",
    ),
    Pattern(
        id="lspci-tree",
        needles=("]----", "]-+-"),
        regex=regex(
            r"(?:[+\\]|\]-)-(?P<chain>[01][0-9a-f]\.[0-7]-\[[0-9a-f]{2}(?:-[0-9a-f]{2})?\]-(?:---|\+-)[0-9a-f].*)"
        ),
        read=_read_tree,
        examples=("-[0000:60]-+-01.0-[61]----00.0  NVIDIA Corporation AD102",),
        near=("table [01]----end",),
        source="pciutils, lspci -t",
    ),
    Pattern(
        id="sysfs-path",
        needles=("/devices/pci",),
        regex=regex(rf"/devices/pci[0-9a-f]{{4,8}}:[0-9a-f]{{2}}(?P<hops>(?:/{BDF}){{2,}})"),
        read=_read_sysfs_path,
        examples=("/sys/devices/pci0000:60/0000:60:01.0/0000:61:00.0/0000:62:00.0/0000:65:00.0",),
        near=("/sys/devices/pci0000:00/0000:00:1f.3/sound",),
        source="Linux, sysfs",
    ),
)

FAMILY = Family("pci_tools", PATTERNS)
