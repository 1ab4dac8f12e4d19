"""Which boot of its machine each event belongs to."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.events import (
    BootStarted,
    CollectiveFailed,
    CudaFailed,
    DeviceAssertFailed,
    EngineChanged,
    Event,
    GpuMemoryExhausted,
    JitCacheFailed,
    OtherFailed,
    ProcessCrashed,
    ProfilerSeen,
    is_evidence,
)

_PROGRAM_EVENTS = (
    CollectiveFailed,
    CudaFailed,
    DeviceAssertFailed,
    EngineChanged,
    GpuMemoryExhausted,
    JitCacheFailed,
    OtherFailed,
    ProcessCrashed,
    ProfilerSeen,
)
"""What programs print, into logs of their own."""


def _of_machine(event: Event) -> bool:
    """Whether a line shows that its machine ran by then.

    A program's own log, or somebody's words, pasted above a kernel log do not belong to an earlier
    boot because of their place.
    """
    program = isinstance(event, _PROGRAM_EVENTS) and event.host is None
    return is_evidence(event) and not program


def number_boots(events: Sequence[Event]) -> dict[int, str]:
    """Name of each event's boot, by `id(event)`.

    A journal's boot id is the name where there is one. Elsewhere a new boot begins where a line
    says so, or where the kernel's clock falls back by more than a moment.
    """
    names: dict[int, str] = {}
    current: dict[str, int] = {}
    clock: dict[str, float] = {}
    fresh: dict[str, bool] = {}
    # A line that starts a boot may say other things too; all of them are of the new boot.
    starts = {
        (event.origin.input, event.origin.line, event.origin.ref)
        for event in events
        if isinstance(event, BootStarted) and is_evidence(event)
    }
    for event in events:
        path = event.origin.input
        number = current.setdefault(path, 0)
        stamp = event.stamp.monotonic_s if event.stamp else None
        if (path, event.origin.line, event.origin.ref) in starts:
            # `-- Boot …` and the kernel's own first line announce one and the same boot.
            if not fresh.get(path) and path in fresh:
                number = current[path] = number + 1
            fresh[path] = True
            clock.pop(path, None)
        else:
            if path in fresh or _of_machine(event):
                fresh[path] = False
            if stamp is not None and stamp + 60 < clock.get(path, 0.0):
                number = current[path] = number + 1
        if stamp is not None:
            clock[path] = stamp
        names[id(event)] = event.boot or f"{path}#{number}"
    return names
