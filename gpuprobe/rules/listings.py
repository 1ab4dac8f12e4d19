"""GPUs that a list of all of them has, and a later list of the same machine has no more."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.events import (
    CudaFailed,
    Event,
    GpusListed,
    LossHinted,
    NvmlReturned,
    ProseMentioned,
)
from gpuprobe.timeline import Timeline


def no_longer_listed(timeline: Timeline) -> Iterator[tuple[GpusListed, GpusListed, str]]:
    """Lists that lack what the list before them had.

    A list without any of the earlier GPUs, or with new ones, is another machine's or another
    selection.

    Yields:
        The earlier list, the later one, and the GPU that it lacks: its UUID, or its address.
    """
    earlier: list[GpusListed] = []
    for listed in timeline.of(GpusListed):
        for before in () if listed.apart else reversed(earlier):
            if _one_machine(before, listed):
                for gpu in before.gpus:
                    if gpu not in listed.gpus:
                        yield before, listed, gpu.partition(" ")[0]
                break
        earlier.append(listed)


def _one_machine(before: GpusListed, after: GpusListed) -> bool:
    """Whether both lists are of one machine, seen from one place, and nothing was added."""
    return (
        before.origin.input == after.origin.input
        and before.machine == after.machine
        and ("" in (before.prompt, after.prompt) or before.prompt == after.prompt)
        and set(after.gpus) <= set(before.gpus)
    )


def is_trouble(event: Event) -> bool:
    """Whether a program or a tool failed in a way that a GPU which is gone would explain."""
    return isinstance(event, CudaFailed | LossHinted | NvmlReturned)


def is_told(event: Event) -> bool:
    """Whether somebody's own words tell of such trouble."""
    return event.setting == "prose" and (
        isinstance(event, CudaFailed)
        or (isinstance(event, ProseMentioned) and event.topic in ("xid", "loss", "cuda"))
    )
