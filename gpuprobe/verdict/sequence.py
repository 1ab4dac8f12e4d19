"""What came first: an event, or the fault that may have caused it."""

from __future__ import annotations

from gpuprobe.diagnosis import Role
from gpuprobe.events import (
    CollectiveFailed,
    CudaFailed,
    EngineChanged,
    Event,
    GpuHung,
    GpuLostReported,
    OtherFailed,
    ProcessCrashed,
    XidReported,
)
from gpuprobe.rules.base import LOST_XID, Finding
from gpuprobe.rules.gpu_hang import API_DRIVERS
from gpuprobe.timeline import Timeline

NOTICED_WITHIN_S = 30.0
"""How long after a program's error the driver may notice that the GPU is gone."""

PROGRAM_EVENTS = (CollectiveFailed, CudaFailed, EngineChanged, OtherFailed, ProcessCrashed)
"""What programs print, by a clock of their own or none."""


def anchor_of(timeline: Timeline, cause: Finding, event: Event) -> Event | None:
    """What decided for `cause` in the boot of `event`: its root, or its proof in another boot."""
    proofs = (cause.root, *cause.events(Role.PROOF))
    return next((proof for proof in proofs if timeline.same_run(proof, event)), None)


def came_before(timeline: Timeline, event: Event, root: Event) -> bool:
    """Whether `event` came before `root`.

    Where a program's log and the kernel's are pasted into one text, the place of their lines says
    nothing: a program's line counts as earlier by its place only where neither has a stamp. And a
    program may meet a lost GPU some seconds before the driver notices.
    """
    if timeline.precedes(event, root) is not True:
        return False
    gap = timeline.seconds_between(event, root)
    of_program = _is_programs(event) and not _is_programs(root)
    if gap is None:
        return not of_program or not (event.stamp or root.stamp)
    noticed = isinstance(root, GpuLostReported) or (
        isinstance(root, XidReported) and root.code == LOST_XID
    )
    return not (of_program and noticed and gap <= NOTICED_WITHIN_S)


def _is_programs(event: Event) -> bool:
    """Whether a program printed the event; so it did what a graphics API told it."""
    if isinstance(event, GpuHung):
        return event.driver in API_DRIVERS
    return isinstance(event, PROGRAM_EVENTS)
