"""A file of a JIT cache is truncated, empty, unparsable or for another architecture.

What proves it:
    The traceback that reads the cache: Triton's `get_group` or metadata with a JSONDecodeError, a
    child that the group file names and the folder lacks, a shared library that is too short.

What only supports it:
    "device kernel image is invalid" fits a cut cubin and one built for another GPU: likely.

Why it matters:
    The poison lies on disk. A restart cannot heal it: the same request dies again each time, after
    a full load of the model. Moving the one entry aside does.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import JitCacheFailed
from gpuprobe.rules.base import Finding, Rule, moment
from gpuprobe.timeline import Timeline


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for all entries that a program could not use."""
    events = [event for event in timeline.of(JitCacheFailed) if event.fatal]
    if not events:
        return []
    root = next((event for event in events if event.sure), events[0])
    where = f" in {root.path}" if root.path else ""
    finding = Finding(
        kind=Kind.JIT_CACHE_CORRUPT,
        certainty=Certainty.CONFIRMED if root.sure else Certainty.LIKELY,
        summary=(
            f"An entry of the {root.cache} cache{where} is broken {moment(root)}".rstrip()
            + f": {root.why}; restarting will not heal it"
        ),
        root=root,
        tags={f"cache-{root.cache}"},
    )
    finding.cite(Role.PROOF, [root, *events], root.why)
    return [finding]


RULE = Rule(Kind.JIT_CACHE_CORRUPT, find)
