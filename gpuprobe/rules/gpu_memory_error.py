"""The GPU's memory has an uncorrectable error, or could not repair itself.

What proves it:
    Xid 48, 64, 94, 95, 140, 157, 161, 168, 171 or 172 for a device. Xid 94 says that the error was
    contained: only the program that met it ends. 95 says that it was not. "Remapping failure
    occurred: Yes" in nvidia-smi's output.

What only supports it:
    A program's "uncorrectable ECC error encountered" (CUDA 214) names no device: likely. So are
    uncorrectable errors that nvidia-smi counts since the driver was loaded.

What is no proof:
    Xid 63, 92 and 160 record repairs and corrected errors: at most possible, and no reason to
    stop an engine. The host's own memory errors (EDAC, MCE) are not the GPU's.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import CudaFailed, GpuMemoryCounted
from gpuprobe.rules import xids
from gpuprobe.rules.base import Finding, Rule, certainty_of, gpu_name, moment
from gpuprobe.timeline import Timeline

CUDA_ECC = 214


def find(timeline: Timeline) -> Sequence[Finding]:
    """Memory errors, one finding a GPU."""
    found = xids.findings(timeline, Kind.GPU_MEMORY_ERROR, "has a memory error")
    for finding in found:
        codes = set(finding.xids)
        if codes == {94}:
            finding.tags.add("contained")
        if 95 in codes:
            finding.summary += "; not contained, so other programs on it may have met it too"
        elif 94 in codes:
            finding.summary += (
                "; contained (Xid 94), so only the program that met it ends, and the reset can "
                "wait until the GPU is drained"
            )
        if codes <= {63, 92, 160}:
            finding.background = True
    failures = [event for event in timeline.of(CudaFailed) if event.code == CUDA_ECC]
    if failures and found:
        found[0].cite(Role.CONSEQUENCE, failures, "the program's side of it")
    elif failures:
        finding = Finding(
            kind=Kind.GPU_MEMORY_ERROR,
            certainty=Certainty.LIKELY,
            summary=(
                f"A GPU's memory has an uncorrectable error {moment(failures[0])}".rstrip()
                + "; the program's words do not say which GPU"
            ),
            root=failures[0],
        )
        finding.cite(Role.PROOF, failures, "CUDA reports an uncorrectable ECC error")
        found.append(finding)
    return [*found, *_counted(timeline, found)]


def _counted(timeline: Timeline, found: Sequence[Finding]) -> list[Finding]:
    """Counters that a tool printed: support for an Xid, else a finding of their own."""
    counts = list(timeline.of(GpuMemoryCounted))
    if not counts:
        return []
    if found:
        found[0].cite(Role.SUPPORT, counts, "counted by the driver")
        return []
    failed = [event for event in counts if event.what in ("remap-failed", "ras")]
    root = (failed or counts)[0]
    words = {
        "remap-failed": "a memory row could not be remapped",
        "remap-pending": "a memory row waits for a reset to be remapped",
        "ras": f"errors in one of its blocks that were not corrected: {root.value}",
        "remapped": f"memory rows were remapped after uncorrectable errors: {root.value}",
        "uncorrectable": f"{root.value} uncorrectable memory errors since the driver was loaded",
    }
    best = Certainty.CONFIRMED if failed else Certainty.LIKELY
    if all(event.what == "remapped" for event in counts):
        best = Certainty.POSSIBLE  # as an Xid 63 alone: the memory has been repaired
    finding = Finding(
        kind=Kind.GPU_MEMORY_ERROR,
        certainty=certainty_of(counts, best),
        summary=f"{gpu_name(root.device)} has a memory error: {words.get(root.what, root.what)}",
        root=root,
        device=root.device.slot if root.device else None,
        background=not failed,
        tags={"ecc"},
    )
    finding.cite(Role.PROOF, [root], words.get(root.what, ""))
    finding.cite(Role.SUPPORT, counts, "counted by the driver")
    return [finding]


RULE = Rule(Kind.GPU_MEMORY_ERROR, find)
