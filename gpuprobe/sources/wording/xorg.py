"""NVIDIA's X driver in Xorg's log: it waits for a GPU that does not go on.

A GPU that hangs and one that left the bus make it wait alike, so its words decide nothing.

Source: NVIDIA's X driver, logs in public reports.
"""

from __future__ import annotations

import re

from gpuprobe.events import OtherFailed
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading


def _read_waits(match: re.Match[str], window: Window) -> Reading:
    return OtherFailed(
        **window.base(), what="the X driver is waiting for GPU progress", where="nvidia-x"
    )


FAMILY = Family(
    "xorg",
    (
        Pattern(
            id="xorg-waits",
            needles=(" NVIDIA: ", " NVIDIA("),
            regex=regex(
                r"\((?:EE|WW)\) NVIDIA(?:\([\w-]+\))?: +Wait for channel idle timed out"
                r"|\(EE\) NVIDIA(?:\([\w-]+\))?: +(?:WAIT \(\d|The NVIDIA X driver has encountered an error|Failed to recover from error|Error recovery failed)"
            ),
            read=_read_waits,
            examples=(
                "(WW) NVIDIA: Wait for channel idle timed out.",
                "(EE) NVIDIA(GPU-0): WAIT (2, 8, 0x8000, 0x00004e10, 0x00004e10)",
                "(EE) NVIDIA(0): The NVIDIA X driver has encountered an error; attempting to",
                "(EE) NVIDIA(0): Failed to recover from error!",
            ),
            near=(
                "(WW) NVIDIA(0): WAIT (0, 6, 0x8000, 0x00002f10, 0x00002f44)",
                "(II) NVIDIA(0): Setting mode",
                "(EE) NVIDIA(GPU-0): Failed to acquire modesetting permission.",
            ),
            source="NVIDIA X driver",
        ),
    ),
)
"""What the X driver says where the GPU does not go on."""
