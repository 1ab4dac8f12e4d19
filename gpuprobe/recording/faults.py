"""Which events make a recording worth keeping, and the moments around which it is read closely."""

from __future__ import annotations

from typing import Final

from gpuprobe.events import (
    AdapterInitFailed,
    AerReported,
    ConfigSpaceUnreadable,
    CudaFailed,
    DeviceAssertFailed,
    DpcTriggered,
    DriverUnusable,
    Event,
    FirmwareFaulted,
    GpuHung,
    GpuLostReported,
    GpuMemoryCounted,
    GpuMemoryExhausted,
    JitCacheFailed,
    OomKilled,
    PresenceTested,
    ProbeStalled,
    ProcessCrashed,
    SxidReported,
    XidReported,
    is_evidence,
)

FAULTS: Final = (
    AdapterInitFailed,
    ConfigSpaceUnreadable,
    CudaFailed,
    DeviceAssertFailed,
    DpcTriggered,
    DriverUnusable,
    FirmwareFaulted,
    GpuHung,
    GpuLostReported,
    GpuMemoryCounted,
    GpuMemoryExhausted,
    JitCacheFailed,
    OomKilled,
    ProbeStalled,
    ProcessCrashed,
    SxidReported,
    XidReported,
)
"""Kinds of events that say that something failed."""


def is_fault(event: Event) -> bool:
    """Whether an event says that something failed."""
    if isinstance(event, AerReported):
        return event.severity != "correctable"
    if isinstance(event, PresenceTested):
        return not event.directory or event.config == "all-ones" or event.driver == "lost"
    return isinstance(event, FAULTS) and is_evidence(event)
