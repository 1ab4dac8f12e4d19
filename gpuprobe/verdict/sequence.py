"""What came first: an event, or the fault that may have caused it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpuprobe.diagnosis import Kind, Role
from gpuprobe.events import (
    CollectiveFailed,
    CudaFailed,
    EngineChanged,
    Event,
    GpuHung,
    GpuLostReported,
    OtherFailed,
    ProcessCrashed,
    SourceChanged,
    XidReported,
)
from gpuprobe.rules.base import LOST_XID, Finding
from gpuprobe.rules.gpu_hang import API_DRIVERS
from gpuprobe.timeline import Timeline

NOTICED_WITHIN_S = 30.0
"""How long after a program's error the driver may notice that the GPU is gone."""

PASSING_S: Final = {
    Kind.APPLICATION_FAULT: 600.0,
    Kind.GPU_OUT_OF_MEMORY: 600.0,
    Kind.HOST_OUT_OF_MEMORY: 600.0,
    Kind.JIT_CACHE_CORRUPT: 600.0,
    Kind.PROCESS_CRASH: 600.0,
    # The watchdogs of the other ranks wait for up to half an hour.
    Kind.COLLECTIVE_TIMEOUT: 1800.0,
}
"""Faults that are over with the program they ended, and how long after them, in seconds, it and
others that waited for it may still be ending: they explain nothing much later."""

PROGRAM_EVENTS = (CollectiveFailed, CudaFailed, EngineChanged, OtherFailed, ProcessCrashed)
"""What programs print, by a clock of their own or none."""

_NEVER_OF_A_FILE: Final = frozenset({700, 719})
"""CUDA errors of a kernel that ran, which a file that could not be loaded does not give."""


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
    gap = timeline.rough_gap(event, root)
    of_program = _is_programs(event) and not _is_programs(root)
    if gap is None:
        return not of_program or not (event.stamp or root.stamp)
    noticed = isinstance(root, GpuLostReported) or (
        isinstance(root, XidReported) and root.code == LOST_XID
    )
    return not (of_program and noticed and gap <= NOTICED_WITHIN_S)


def is_over(timeline: Timeline, cause: Finding, event: Event) -> bool:
    """Whether a fault that ended with its program was over when `event` came.

    It is when too much time has passed, when what the event tells of was started since, and when
    that met an error of its own. An event that cannot be placed may still be of that program.
    """
    limit = PASSING_S.get(cause.kind)
    if limit is None:
        return False
    gaps = (timeline.rough_gap(line, event) for line in cause.events())
    if not any(gap is None or -limit <= gap <= limit for gap in gaps):
        return True
    if cause.kind is Kind.JIT_CACHE_CORRUPT and _ran_on(timeline, cause, event):
        return True
    lines = (cause.root, *cause.events(Role.PROOF))
    return any(
        all(_after(timeline, line, start) for line in lines) and _after(timeline, start, event)
        for start in _starts(timeline, event.origin.input)
    )


def _ran_on(timeline: Timeline, cause: Finding, event: Event) -> bool:
    """Whether kernels ran, and one failed, between a file that could not be loaded and `event`.

    Another input that does not speak of the file at all tells of that error alone.
    """
    path = event.origin.input
    lines = (cause.root, *cause.events(Role.PROOF))
    own = [line.origin.order for line in lines if line.origin.input == path]
    return any(
        error.code in _NEVER_OF_A_FILE
        and error.origin.input == path
        and (not own or max(own) < error.origin.order <= event.origin.order)
        for error in timeline.of(CudaFailed)
    )


def _after(timeline: Timeline, first: Event, second: Event) -> bool:
    """Whether `second` surely came after `first`, be it within a moment."""
    gap = timeline.seconds_between(first, second)
    if gap is None or gap == 0:
        same = first.origin.input == second.origin.input
        return same and first.origin.order < second.origin.order
    exact = max(event.stamp.resolution_s if event.stamp else 0.0 for event in (first, second))
    return gap > 0 and (first.origin.input == second.origin.input or gap > exact)


def _starts(timeline: Timeline, path: str) -> Iterator[Event]:
    """Where a run begins in an input: an engine that starts, or the recorder of a run."""
    for event in timeline.of(EngineChanged):
        if event.origin.input == path and event.what in ("started", "restarted"):
            yield event
    recorder = (e for e in timeline.of(SourceChanged) if e.origin.input == path)
    if (first := next(recorder, None)) is not None:
        yield first


def _is_programs(event: Event) -> bool:
    """Whether a program printed the event; so it did what a graphics API told it."""
    if isinstance(event, GpuHung):
        return event.driver in API_DRIVERS
    return isinstance(event, PROGRAM_EVENTS)
