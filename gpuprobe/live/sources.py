"""The sources of this machine, and how each is doing."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.probe import NvmlProbe
from gpuprobe.sources.base import Availability, Source
from gpuprobe.sources.host import HostSource
from gpuprobe.sources.kernel_log import KernelLog
from gpuprobe.sources.pci.sysfs import PRESENCE_S, SysfsSource
from gpuprobe.sources.pci.tree import ROOT
from gpuprobe.sources.pci.udev import UdevSource
from gpuprobe.sources.threaded import ThreadedSource

BESIDE_NVML_S: Final = 0.4
"""Time between two presence tests where NVML's own calls find a loss sooner, seconds."""

WHAT: Final = {
    "nvml": "power, temperature, clocks and the driver's own word (NVML)",
    "kernel-log": "the kernel log",
    "udev": "devices that come and go (udev)",
    "sysfs": "presence, links and AER counters (sysfs)",
    "host": "the host's memory, sensors and pressure",
}
"""What a source sees, for a list of what is not seen."""


@dataclass(frozen=True, slots=True)
class SourceState:
    """How a source is doing.

    Attributes:
        name: Its name. access: How it can be used, or why not and what would change that.
        what: The last thing it said of itself (`SourceChanged.what`), or "".
        text: The same in words.
    """

    name: str
    access: Availability
    what: str = ""
    text: str = ""


def live_sources(
    *,
    rate_hz: float = 10.0,
    devices: Sequence[PciAddress] | None = None,
    nvml: bool = True,
    batch_s: float = 1.0,
    root: Path = ROOT,
    wake: threading.Event | None = None,
    kmsg: int | None = None,
) -> list[Source]:
    """The sources of this machine, the kernel's word first.

    Args:
        rate_hz: Rate of NVML's fast group.
        devices: These alone; None for every GPU. A device named here is watched whatever it is.
        nvml: False leaves NVML to others.
        batch_s: NVML's readings come together after this long at most, seconds.
        root: Where /sys and /proc are looked for.
        wake: See `Source`.
        kmsg: See `KernelLog`: `opened`.
    """
    found: list[ThreadedSource | NvmlProbe] = [KernelLog(0, root=root, opened=kmsg)]
    presence_s = BESIDE_NVML_S if nvml else PRESENCE_S
    sysfs = SysfsSource(2, root=root, devices=devices, presence_s=presence_s)
    if nvml:
        options: dict[str, Any] = {"rate_hz": rate_hz, "batch_s": batch_s}
        probe = NvmlProbe(devices=devices, root=root, order=1, **options)
        sysfs.answered_s = probe.answered_s
        found.append(probe)
    found.append(sysfs)
    found.append(UdevSource(3))
    found.append(HostSource(4, root=root))
    for source in found:
        source.wake = wake
    return list(found)
