"""NVRM's words while it loads: what it found, what it cannot use, what did not come up."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import (
    AdapterInitFailed,
    DeviceIdentified,
    DriverUnusable,
    GpuLostReported,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF, SLOT, hex_or_none, int_or_none, joined_from

_OPEN = "open kernel modules 515 to 595"

_BANNER_LINES = 4
"""The probe banner has three lines; one more for a stray line of another CPU between them."""


def _unusable(what: str) -> Callable[[re.Match[str], Window], Reading]:
    """A reader that gives `DriverUnusable(what)` with the address, if the match names one."""

    def read(match: re.Match[str], window: Window) -> Reading:
        return DriverUnusable(**window.base(match.groupdict().get("bdf")), what=what)

    return read


def _read_banner(match: re.Match[str], window: Window) -> Reading:
    rest = joined_from(match, window, _BANNER_LINES)[:600]
    # The next GPU's banner starts with the same words: what follows them is not about this one.
    rest = rest.split("The NVIDIA GPU ")[0]
    device = window.base(match["bdf"])
    if "fallen off the bus" in rest:
        return GpuLostReported(**device, by="probe")
    if "open kernel modules" in rest or "open GPU kernel modules" in rest:
        return DriverUnusable(**device, what="wrong-flavour")
    if "is not supported" in rest or "Legacy" in rest:
        return DriverUnusable(**device, what="probe-failed")
    return None


def _read_banner_end(match: re.Match[str], window: Window) -> Reading:
    head = " ".join(record.message for record in reversed(window.before(_BANNER_LINES)))
    if re.search(rf"The NVIDIA GPU {BDF}", f"{head} {window.text}"):
        return None
    return GpuLostReported(**window.base(), by="probe")


def _read_loading(match: re.Match[str], window: Window) -> Reading:
    flavour = "open" if match["open"] else "closed"
    return [
        SystemDescribed(**window.base(), key="driver", value=match["version"]),
        SystemDescribed(**window.base(), key="open-module", value=flavour),
    ]


def _read_rm_init(match: re.Match[str], window: Window) -> Reading:
    return AdapterInitFailed(
        **window.base(match["bdf"]),
        step=hex_or_none(match["step"]),
        status=hex_or_none(match["status"]),
        source_line=int_or_none(match["line"]),
    )


def _read_rm_init_old(match: re.Match[str], window: Window) -> Reading:
    return AdapterInitFailed(**window.base(match["bdf"]))


def _read_probe_error(match: re.Match[str], window: Window) -> Reading:
    """The driver binds nothing but GPUs, so the device is one even if it stays without a driver."""
    device = window.base(match["bdf"] or match["old"])
    return [DeviceIdentified(**device, is_gpu=True), DriverUnusable(**device, what="probe-failed")]


def _read_bar(match: re.Match[str], window: Window) -> Reading:
    found = re.search(rf"BAR\d .{{0,60}}?\((?:PCI:)?({SLOT})\)", joined_from(match, window, 2))
    device = PciAddress.try_parse(found[1]) if found else None
    return DriverUnusable(**window.base(device), what="bar-invalid")


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="nvrm-probe-banner",
        needles=("The NVIDIA GPU ",),
        regex=regex(rf"The NVIDIA GPU (?P<bdf>{BDF})"),
        read=_read_banner,
        examples=(
            "NVRM: The NVIDIA GPU 0000:65:00.0\nNVRM: (PCI ID: 10de:2684) installed in this system has\nNVRM: fallen off the bus and is not responding to commands.",
            "NVRM: The NVIDIA GPU 0000:65:00.0 NVRM: (PCI ID: 10de:2684) installed in this system has NVRM: fallen off the bus and is not responding to commands.",
            "NVRM: The NVIDIA GPU 0000:65:00.0 (PCI ID: 10de:2b85)\nNVRM: installed in this system requires use of the NVIDIA open kernel modules.",
        ),
        near=("NVRM: The NVIDIA GPU driver is here", "NVRM: The NVIDIA GPU 0000:65:00.0 is fine"),
        source=f"{_OPEN}, osapi.c",
    ),
    Pattern(
        id="nvrm-probe-banner-end",
        needles=("not responding to commands",),
        regex=regex(r"fallen off the bus and is not responding to commands"),
        read=_read_banner_end,
        examples=("NVRM: fallen off the bus and is not responding to commands.",),
        near=("The shell is not responding to commands",),
        source=f"{_OPEN}, osapi.c",
    ),
    Pattern(
        id="nvrm-wrong-flavour",
        needles=("use of the NVIDIA open kernel mod",),
        regex=regex(r"requires use of the NVIDIA open kernel mod"),
        read=lambda match, window: (
            None
            if any("The NVIDIA GPU" in record.message for record in window.before(_BANNER_LINES))
            else _unusable("wrong-flavour")(match, window)
        ),
        examples=(
            "NVRM: installed in this system requires use of the NVIDIA open kernel modules.",
        ),
        near=("We advise the use of the NVIDIA open kernel modules.",),
        source="closed driver 560 and later on Blackwell",
    ),
    Pattern(
        id="nvrm-loading",
        needles=("loading NVIDIA UNIX", "NVRM version: "),
        regex=regex(
            r"(?:loading|NVRM version:) NVIDIA UNIX (?:(?P<open>Open )Kernel Module for \S+|\S+ Kernel Module)"
            r"\s+(?P<version>\d{2,3}\.\d+(?:\.\d+)*)"
        ),
        read=_read_loading,
        examples=(
            "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build  (root@box)",
            "NVRM: loading NVIDIA UNIX x86_64 Kernel Module  550.90.07  Fri May 31 09:35:42 UTC 2024",
            "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.183.01  Sun May 12 19:39:15 UTC 2024",
        ),
        near=("NVRM: loading NVIDIA UNIX module",),
        source=f"{_OPEN}, nv.c",
    ),
    Pattern(
        id="nvrm-rm-init",
        needles=("RmInitAdapter failed",),
        regex=regex(
            rf"(?:GPU (?P<bdf>{SLOT}): ?)?RmInitAdapter failed!?"
            r"(?: \((?P<step>0x[0-9a-fA-F]+):(?P<status>0x[0-9a-fA-F]+)(?::(?P<line>\d+))?\)?)?"
        ),
        read=_read_rm_init,
        examples=(
            "NVRM: GPU 0000:65:00.0: RmInitAdapter failed! (0x62:0x55:2477)",
            "NVRM: RmInitAdapter failed! (0x26:0xffffffff:1076)",
        ),
        near=("NVRM: RmInitAdapter: done",),
        source=f"{_OPEN}, osinit.c",
    ),
    Pattern(
        id="nvrm-rm-init-old",
        needles=("rm_init_adapter",),
        regex=regex(rf"(?:GPU (?P<bdf>{SLOT}): ?)?rm_init_adapter(?:\(\d+\))? failed"),
        read=_read_rm_init_old,
        examples=(
            "NVRM: GPU 0000:65:00.0: rm_init_adapter failed, device minor number 0",
            "NVRM: rm_init_adapter failed for device bearing minor number 0",
            "NVRM: rm_init_adapter(0) failed",
        ),
        near=("call rm_init_adapter first",),
        source=f"{_OPEN}, nv.c",
    ),
    Pattern(
        id="nvrm-probe-routine",
        needles=("NVIDIA probe routine",),
        regex=regex(r"The NVIDIA probe routine (?:failed|was not called) for"),
        read=_unusable("probe-failed"),
        examples=("NVRM: The NVIDIA probe routine failed for 2 device(s).",),
        near=("The NVIDIA probe routine is in nv-pci.c",),
        source=f"{_OPEN}, nv.c",
    ),
    Pattern(
        id="nvrm-probe-error",
        needles=("probe with driver nvidia failed", "nvidia: probe of "),
        regex=regex(
            rf"nvidia (?P<bdf>{BDF}): probe with driver nvidia failed|nvidia: probe of (?P<old>{BDF}) failed"
        ),
        read=_read_probe_error,
        examples=(
            "nvidia 0000:65:00.0: probe with driver nvidia failed with error -1",
            "nvidia: probe of 0000:65:00.0 failed with error -1",
        ),
        near=("i2c i2c-3: probe with driver nvidia failed",),
        source="Linux, drivers/base/dd.c",
    ),
    Pattern(
        id="nvrm-none",
        needles=("No NVIDIA ",),
        regex=regex(
            r"NVRM: No NVIDIA (?:PCI devices found|GPU found|devices probed|graphics adapter found)"
        ),
        read=_unusable("no-devices"),
        examples=("NVRM: No NVIDIA GPU found.", "NVRM: No NVIDIA devices probed."),
        near=("No NVIDIA sticker on the case",),
        source=f"{_OPEN}, nv.c",
    ),
    Pattern(
        id="nvrm-none-initialized",
        needles=("None of the NVIDIA",),
        regex=regex(r"None of the NVIDIA (?:devices|graphics adapters) were initialized"),
        read=_unusable("probe-failed"),
        examples=("NVRM: None of the NVIDIA devices were initialized.",),
        near=("None of the NVIDIA docs help",),
        source=f"{_OPEN}, nv.c",
    ),
    Pattern(
        id="nvrm-bound-elsewhere",
        needles=("is already bound to", "ownership of the NVIDIA"),
        regex=regex(
            rf"GPU (?P<bdf>{SLOT}) is already bound to \w"
            r"|obtain(?:ed)? ownership of the NVIDIA"
        ),
        read=_unusable("bound-elsewhere"),
        examples=(
            "NVRM: GPU 0000:65:00.0 is already bound to nouveau.",
            "NVRM: GPU 0000:65:00.0 is already bound to NovaCore.",
            "NVRM: obtained ownership of the NVIDIA device(s)",
        ),
        near=("port 8000 is already bound to another process",),
        source=f"{_OPEN}, nv-pci.c",
    ),
    Pattern(
        id="nvrm-bar",
        needles=("PCI I/O region assigned",),
        regex=regex(r"PCI I/O region assigned to your NVIDIA device is invalid"),
        read=_read_bar,
        examples=(
            "NVRM: This PCI I/O region assigned to your NVIDIA device is invalid:\nNVRM: BAR1 is 0M @ 0x0 (PCI:0000:65:00.0)",
        ),
        near=("the PCI I/O region assigned to the bridge",),
        source=f"{_OPEN}, nv-pci.c",
    ),
    Pattern(
        id="nvrm-irq",
        needles=("find an IRQ for your NVIDIA",),
        regex=regex(r"Can't find an IRQ for your NVIDIA card"),
        read=_unusable("probe-failed"),
        examples=("NVRM: Can't find an IRQ for your NVIDIA card!",),
        near=("please find an IRQ for your NVIDIA card",),
        source=f"{_OPEN}, nv-pci.c",
    ),
    Pattern(
        id="nvrm-api-mismatch",
        needles=("API mismatch: the",),
        regex=regex(
            r"API mismatch: the (?:client(?: '[^']*')?(?: \([^)]*\))? has the version|NVIDIA kernel module has version)"
        ),
        read=_unusable("version-mismatch"),
        examples=(
            "NVRM: API mismatch: the client has the version 550.90.07, but this kernel module has the version 550.54.15.",
            "NVRM: API mismatch: the client 'nvidia-smi' (pid 5512) has the version 550.90.07, but",
        ),
        near=("API mismatch: the server wants v2",),
        source=f"{_OPEN}, nv.c",
    ),
)
