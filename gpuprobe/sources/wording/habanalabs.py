"""What the driver of Intel's Gaudi says when an accelerator stops answering.

Source: drivers/accel/habanalabs of Linux, common/device.c.
"""

from __future__ import annotations

import re

from gpuprobe.events import ConfigSpaceUnreadable, Event, FirmwareFaulted
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF


def _read_heartbeat(match: re.Match[str], window: Window) -> Reading:
    base = window.base(match["bdf"])
    silent = FirmwareFaulted(**base, what="card-heartbeat")
    # The driver calls the link broken where the vendor's id reads back as another.
    gone: tuple[Event, ...] = (ConfigSpaceUnreadable(**base, how="all-ones"),)
    return (silent, *gone) if match["link"] == "broken" else silent


PATTERNS = (
    Pattern(
        id="habanalabs-heartbeat",
        needles=("Device heartbeat failed!",),
        regex=regex(
            rf"(?:\bhabanalabs|\baccel)\b[ \w]*?(?P<bdf>{BDF})?: Device heartbeat failed!(?: PCI link is (?P<link>healthy|broken))?"
        ),
        read=_read_heartbeat,
        examples=(
            "habanalabs hl2: Device heartbeat failed!",
            "accel accel1: Device heartbeat failed! PCI link is healthy",
            "habanalabs 0000:4d:00.0: Device heartbeat failed! PCI link is broken",
        ),
        near=("qat_4xxx 0000:6b:00.0: Device heartbeat failed!",),
        source="Linux, drivers/accel/habanalabs/common/device.c",
    ),
)
