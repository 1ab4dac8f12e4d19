"""A process was ended by a signal, and no GPU evidence goes with it.

What proves it:
    The kernel's segfault line, a shell's "Segmentation fault", a supervisor's status line, an exit
    status of 128 plus the signal.

What it is not:
    An explanation. SIGSEGV and SIGBUS without words are also how a cut cubin or a cut launcher in
    a JIT cache ends a program; SIGKILL is mostly the OOM killer or an operator; SIGABRT follows
    any uncaught C++ exception. A process that ends after its CUDA error ends of that error: the
    crash is then its consequence and no finding.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import CudaFailed, GpuHung, ProcessCrashed, SystemDescribed
from gpuprobe.rules.base import Finding, Rule, certainty_of, moment
from gpuprobe.timeline import Timeline

NEAR_S = 300.0
"""An engine may take minutes from its CUDA error to its end: workers are waited for."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for all crashes."""
    strangers = _strangers(timeline)
    crashes = [
        event
        for event in timeline.of(ProcessCrashed)
        if event.pid not in strangers and not _of_an_error(timeline, event)
    ]
    if not crashes:
        return []
    hard = [event for event in crashes if event.signal != "SIGABRT"] or crashes
    root = hard[0]
    who = root.process or "A process"
    place = f" in {root.in_library}" if root.in_library else ""
    finding = Finding(
        kind=Kind.PROCESS_CRASH,
        certainty=certainty_of(crashes, Certainty.CONFIRMED),
        summary=f"{who} was ended by {root.signal}{place} {moment(root)}".rstrip()
        + "; no line ties it to the GPU",
        root=root,
        background=True,
        tags={root.signal.lower()},
    )
    finding.cite(Role.PROOF, hard, f"ended by {root.signal}")
    finding.cite(Role.SUPPORT, crashes)
    return [finding]


def _strangers(timeline: Timeline) -> set[int]:
    """Processes that crashed beside a watched engine and were none of it."""
    told = (e.value for e in timeline.of(SystemDescribed) if e.key == "stranger-process")
    return {int(value) for value in told if value.isdecimal()}


def _of_an_error(timeline: Timeline, crash: ProcessCrashed) -> bool:
    """Whether a CUDA error or a lost device of the same run came shortly before the crash."""
    for error in timeline.of(CudaFailed, GpuHung):
        earlier = timeline.precedes(error, crash)
        if earlier is None and error.origin.input == crash.origin.input:
            earlier = error.origin.order < crash.origin.order
        if not earlier:
            continue
        gap = timeline.seconds_between(error, crash)
        if timeline.boot_of(error) == timeline.boot_of(crash) and (gap is None or gap <= NEAR_S):
            return True
    return False


RULE = Rule(Kind.PROCESS_CRASH, find)
