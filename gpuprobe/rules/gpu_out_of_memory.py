"""The GPU's memory was full, or one request was too large for it.

What proves it:
    An engine's allocator says so, with the size it wanted. CUDA error 2.

What it is not:
    A fault of the GPU. Right after another process died on the same GPU its memory may not be
    free yet, which looks the same.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import CudaFailed, Event, GpuMemoryExhausted
from gpuprobe.rules.base import Finding, Rule, moment, times, total
from gpuprobe.timeline import Timeline

CUDA_OUT_OF_MEMORY = 2


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for all refusals of GPU memory."""
    refused: list[Event] = [
        *timeline.of(GpuMemoryExhausted),
        *(event for event in timeline.of(CudaFailed) if event.code == CUDA_OUT_OF_MEMORY),
    ]
    if not refused:
        return []
    refused.sort(key=lambda event: event.origin.order)
    root = next((e for e in refused if isinstance(e, GpuMemoryExhausted)), refused[0])
    wanted = getattr(root, "wanted", "")
    free = getattr(root, "free", "")
    size = f" for {wanted}" if wanted else ""
    left = f" with {free} free" if free else ""
    count = total(refused)
    finding = Finding(
        kind=Kind.GPU_OUT_OF_MEMORY,
        certainty=Certainty.CONFIRMED,
        summary=(
            f"The GPU had no memory left{size}{left} {moment(root)}".rstrip()
            + (f", {times(count)} in all" if count > 1 else "")
        ),
        root=root,
    )
    finding.cite(Role.PROOF, [root], "the allocator was refused")
    finding.cite(Role.CONSEQUENCE, refused)
    return [finding]


RULE = Rule(Kind.GPU_OUT_OF_MEMORY, find)
