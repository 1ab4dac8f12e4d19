"""What a program's own output can prove: its own words, and not the kernel's that it passes on.

A start script that runs `dmesg`, a health check that prints the journal: such lines tell of any
time and any machine, and the moment they were written is not the moment of which they speak. The
kernel's log is a source of its own.
"""

from __future__ import annotations

import dataclasses
from typing import Final

from gpuprobe.events import (
    AerReported,
    ConfigSpaceUnreadable,
    DpcTriggered,
    Event,
    FirmwareFaulted,
    GpuLostReported,
    Setting,
    SlotChanged,
    SxidReported,
    XidReported,
)

_KERNEL: Final = "kernel"

_OF_THE_KERNEL: Final = (
    AerReported,
    ConfigSpaceUnreadable,
    DpcTriggered,
    FirmwareFaulted,
    SlotChanged,
    SxidReported,
)


def second_hand(event: Event, *, kernel: bool) -> Event:
    """The event as a program's output can prove it: `Setting.BARE` where the kernel speaks.

    Args:
        event: What the program printed.
        kernel: Its line has the form of the kernel's log.
    """
    if event.setting is Setting.LOG and (kernel or _is_the_kernels(event)):
        return dataclasses.replace(event, setting=Setting.BARE)
    return event


def _is_the_kernels(event: Event) -> bool:
    if isinstance(event, XidReported):
        return event.via == _KERNEL
    if isinstance(event, GpuLostReported):
        return event.by != "nvml"
    return event.source == _KERNEL or isinstance(event, _OF_THE_KERNEL)
