"""What amdgpu's RAS says of errors in a GPU's memories that were not corrected."""

from __future__ import annotations

import re

from gpuprobe.events import GpuMemoryCounted
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading

_MISREAD = 1048560
"""What a register that reads all ones is counted as: no errors, at each question the same again."""


def _read_counted(match: re.Match[str], window: Window) -> Reading:
    count = int(match["count"])
    if count % _MISREAD == 0:
        return None
    return GpuMemoryCounted(what="ras", value=count, **window.base(match["address"]))


PATTERNS = (
    Pattern(
        id="amdgpu-ras",
        needles=("uncorrectable hardware errors detected in",),
        regex=regex(
            r"amdgpu (?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]): (?:amdgpu: )?(?:\{\d+\} ?)?(?:socket: \d+,?(?: die: \d+,)? )?"
            r"(?P<count>\d+) (?:new )?uncorrectable hardware errors detected in (?:total in )?\w+ block"
        ),
        read=_read_counted,
        examples=(
            "amdgpu 0000:c1:00.0: amdgpu: socket: 0, die: 1, 2 new uncorrectable hardware errors detected in umc block",
            "amdgpu 0000:c1:00.0: amdgpu: 1 uncorrectable hardware errors detected in gfx block",
        ),
        near=(
            "amdgpu 0000:c1:00.0: amdgpu: no uncorrectable hardware errors detected in umc block",
            "amdgpu 0000:c1:00.0: 1048560 uncorrectable hardware errors detected in umc block",
            "amdgpu 0000:c1:00.0: amdgpu: 0 uncorrectable hardware errors detected in umc block",
        ),
        source="Linux, drivers/gpu/drm/amd/amdgpu/amdgpu_ras.c",
    ),
)
