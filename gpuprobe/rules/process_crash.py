"""A process was ended by a signal, and no GPU evidence goes with it.

What proves it:
    The kernel's segfault line, a shell's "Segmentation fault", a supervisor's status line, an exit
    status of 128 plus the signal.

What it is not:
    An explanation. SIGSEGV and SIGBUS without words are also how a cut cubin or a cut launcher in
    a JIT cache ends a program; SIGKILL is mostly the OOM killer or an operator; SIGABRT follows
    any uncaught C++ exception.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import ProcessCrashed
from gpuprobe.rules.base import Finding, Rule, certainty_of, moment
from gpuprobe.timeline import Timeline


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for all crashes."""
    crashes = list(timeline.of(ProcessCrashed))
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


RULE = Rule(Kind.PROCESS_CRASH, find)
