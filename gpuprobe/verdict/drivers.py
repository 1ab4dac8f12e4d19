"""Whose driver a finding speaks of, where it is not NVIDIA's on Linux."""

from __future__ import annotations

from gpuprobe.events import ConfigSpaceUnreadable, CudaFailed, GpuHung, GpuLostReported
from gpuprobe.rules.base import Finding

OTHERS = frozenset({"amdgpu", "radeon", "i915", "xe", "nouveau", "macos"})
"""Drivers that log no Xid and whose GPUs nvidia-smi does not see."""


def driver_of(finding: Finding) -> str | None:
    """A driver of `OTHERS`, or Windows' `nvlddmkm`; None for NVIDIA's on Linux or where unknown."""
    for event in (finding.root, *finding.events()):
        name = None
        if isinstance(event, GpuHung | ConfigSpaceUnreadable):
            name = event.driver
        elif isinstance(event, GpuLostReported):
            name = event.by
        elif isinstance(event, CudaFailed) and event.framework == "hip":
            name = "amdgpu"
        if name in OTHERS or name == "nvlddmkm":
            return name
    return None
