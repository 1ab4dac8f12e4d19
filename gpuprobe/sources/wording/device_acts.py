"""What people do to devices on purpose: writes to sysfs, sudo's record of them, rmmod, setpci."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import AdminActed
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF

_WRITES = regex(r"\btee\b|\becho\b|\bprintf\b|>\s*/sys|COMMAND=|\bwrite")


def _read_sysfs_act(match: re.Match[str], window: Window) -> Reading:
    if not _WRITES.search(window.text):
        return None
    named = re.findall(BDF, match[0])
    return AdminActed(**window.base(named[-1] if named else None), what=match["act"])


def _read_driver_act(match: re.Match[str], window: Window) -> Reading:
    if not _WRITES.search(window.text):
        return None
    driver, act = match["driver"], match["act"]
    if act == "unbind":
        what = "unbind"
    elif driver.startswith("vfio"):
        what = "bind-vfio"
    else:
        return None
    named = re.search(BDF, window.text)
    return AdminActed(**window.base(named[0] if named else None), what=what)


def _acted(what: str) -> Callable[[re.Match[str], Window], Reading]:
    """A reader that gives `AdminActed(what)` with the address, if the match names one."""

    def read(match: re.Match[str], window: Window) -> Reading:
        return AdminActed(**window.base(match.groupdict().get("bdf")), what=what)

    return read


def _read_setpci(match: re.Match[str], window: Window) -> Reading:
    # Bit 6 of the bridge control register holds everything below the bridge in reset.
    what = "reset" if "BRIDGE_CONTROL" in match["register"].upper() else "config-write"
    return AdminActed(**window.base(match["bdf"]), what=what)


def _read_nodedev(match: re.Match[str], window: Window) -> Reading:
    device = "{}:{}:{}.{}".format(*match["node"].split("_"))
    return AdminActed(**window.base(device), what="bind-vfio")


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="admin-sysfs",
        needles=("/sys/bus/pci/", "/sys/devices/pci", "/sys/class/"),
        regex=regex(
            rf"/sys/(?:bus/pci|devices/pci[\w:./-]{{0,300}}?|class/\w+/\w+/device)(?:/devices)?(?:/{BDF})*/(?P<act>remove|reset|rescan)(?![\w/-])"
        ),
        read=_read_sysfs_act,
        examples=(
            "lee : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/tee /sys/bus/pci/devices/0000:65:00.0/remove",
            "echo 1 > /sys/bus/pci/rescan",
            "+ echo 1 > /sys/bus/pci/devices/0000:65:00.0/reset",
        ),
        near=(
            "cat /sys/bus/pci/devices/0000:65:00.0/reset_method",
            "ls /sys/bus/pci/devices/0000:65:00.0/reset",
        ),
        source="Linux, Documentation/ABI/testing/sysfs-bus-pci",
    ),
    Pattern(
        id="admin-driver",
        needles=("/sys/bus/pci/drivers/",),
        regex=regex(r"/sys/bus/pci/drivers/(?P<driver>[\w-]+)/(?P<act>unbind|bind|new_id)\b"),
        read=_read_driver_act,
        examples=(
            "lee : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/tee /sys/bus/pci/drivers/nvidia/unbind",
            "echo 0000:65:00.0 > /sys/bus/pci/drivers/vfio-pci/bind",
        ),
        near=("ls /sys/bus/pci/drivers/nvidia/unbind",),
        source="Linux, Documentation/ABI/testing/sysfs-bus-pci",
    ),
    Pattern(
        id="admin-smi-reset",
        needles=("nvidia-smi -r", "--gpu-reset", "nvidia-smi -i"),
        regex=regex(
            rf"nvidia-smi (?:(?:-i|--id)[ =](?:(?P<bdf>{BDF})|\S+) )?(?:-r(?![\w-])|--gpu-reset(?:-ecc)?\b)"
        ),
        read=_acted("reset"),
        examples=(
            "lee : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/nvidia-smi --gpu-reset -i 0",
            "# nvidia-smi -i 0000:65:00.0 -r",
        ),
        near=("nvidia-smi -i 0 -q",),
        source="nvidia-smi(1)",
    ),
    Pattern(
        id="admin-smi-drain",
        needles=("nvidia-smi drain",),
        regex=regex(
            rf"nvidia-smi drain(?: (?:-p|--pciid)[ =](?P<bdf>{BDF}))? (?:-r(?![\w-])|--remove\b|(?:-m|--modify)[ =]1\b)"
        ),
        read=_acted("remove"),
        examples=(
            "# nvidia-smi drain -p 0000:65:00.0 -m 1",
            "lee : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/nvidia-smi drain -p 0000:65:00.0 -r",
        ),
        near=("nvidia-smi drain -p 0000:65:00.0 -m 0", "nvidia-smi drain -p 0000:65:00.0 -q"),
        source="nvidia-smi(1)",
    ),
    Pattern(
        id="admin-rmmod",
        needles=("rmmod ", "modprobe -r", "modprobe --remove"),
        regex=regex(r"\b(?:rmmod|modprobe (?:-r|--remove))(?: -\w+)* nvidia(?![\w-]*fs)"),
        read=_acted("rmmod"),
        examples=(
            "lee : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/sbin/rmmod nvidia_uvm nvidia",
            "# modprobe -r nvidia_drm",
        ),
        near=("rmmod snd_hda_intel",),
        source="kmod",
    ),
    Pattern(
        id="admin-setpci",
        needles=("setpci ",),
        regex=regex(rf"\bsetpci (?:-v )?-s (?P<bdf>{BDF}) (?P<register>[\w.+]+)=[0-9a-fA-F:]+"),
        read=_read_setpci,
        examples=(
            "# setpci -s 0000:64:00.0 BRIDGE_CONTROL=40:40",
            "setpci -s 64:00.0 CAP_EXP+10.w=0040",
        ),
        near=("setpci -s 64:00.0 CAP_EXP+10.w",),
        source="pciutils, setpci(8)",
    ),
    Pattern(
        id="admin-slot-power",
        needles=("/sys/bus/pci/slots/",),
        regex=regex(r"(?:tee|>)\s*/sys/bus/pci/slots/[\w-]+/power\b"),
        read=_acted("slot-power"),
        examples=("echo 0 > /sys/bus/pci/slots/4/power",),
        near=("cat /sys/bus/pci/slots/4/power",),
        source="Linux, drivers/pci/slot.c",
    ),
    Pattern(
        id="admin-nodedev",
        needles=("nodedev-detach",),
        regex=regex(
            r"nodedev-detach (?:--device )?pci_(?P<node>[0-9a-f]{4}_[0-9a-f]{2}_[01][0-9a-f]_[0-7])"
        ),
        read=_read_nodedev,
        examples=("virsh nodedev-detach pci_0000_65_00_0",),
        near=("virsh nodedev-detach usb_1_2",),
        source="libvirt",
    ),
)

FAMILY = Family("device_acts", PATTERNS)
