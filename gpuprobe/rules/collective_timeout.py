"""A collective or its store timed out, or a peer went away, without a GPU fault in these inputs.

What proves it:
    NCCL's watchdog, a store or Gloo timeout.

What it is not:
    The cause. One rank that died, hangs or fell behind makes all the others wait: look at the rank
    that printed something else first, or that printed nothing at all.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import CollectiveFailed, CudaFailed
from gpuprobe.rules.base import Finding, Rule, certainty_of, moment
from gpuprobe.timeline import Timeline

NEAR_S = 7200.0
"""A collective waits 10 to 30 minutes for a rank that died, some set-ups longer."""


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for the group."""
    events = [event for event in timeline.of(CollectiveFailed) if not _of_an_error(timeline, event)]
    if not events:
        return []
    timeouts = [event for event in events if event.what != "peer-gone"]
    root = (timeouts or events)[0]
    ranks = sorted({event.rank for event in events if event.rank is not None})
    who = f" on rank {', '.join(map(str, ranks[:8]))}" if ranks else ""
    operation = f" {root.operation}" if root.operation else ""
    limit = f" after {root.timeout_ms / 1000:g} s" if root.timeout_ms else ""
    what = (
        f"The collective{operation} timed out{limit}{who}"
        if timeouts
        else f"A peer of the collective went away{who}"
    )
    finding = Finding(
        kind=Kind.COLLECTIVE_TIMEOUT,
        certainty=certainty_of(events, Certainty.CONFIRMED if timeouts else Certainty.LIKELY),
        summary=f"{what} {moment(root)}".rstrip() + "; these inputs hold no GPU fault behind it",
        root=root,
        background=True,
    )
    finding.cite(Role.PROOF, timeouts or events, "a rank waited in vain")
    finding.cite(Role.SUPPORT, events)
    return [finding]


def _of_an_error(timeline: Timeline, failed: CollectiveFailed) -> bool:
    """Whether a rank met a CUDA error before: the others then waited for a dead one, or lost it."""
    for error in timeline.of(CudaFailed):
        if error.teardown or (error.framework == "nccl" and error.code is None):
            continue  # "unhandled cuda error" is how NCCL ends after a peer went away, too
        gap = timeline.seconds_between(error, failed)
        first = timeline.precedes(error, failed)
        # A peer goes away because of something: an error of the same second is what it was, and
        # so is one beside it in a log without times. A peer that goes gives no rank such an error.
        undated = gap is None and first is not None
        beside = undated or (gap is not None and first is None)
        if not first and not (beside and failed.what == "peer-gone"):
            continue
        if timeline.boot_of(error) == timeline.boot_of(failed) and (gap is None or gap <= NEAR_S):
            return True
    return False


RULE = Rule(Kind.COLLECTIVE_TIMEOUT, find)
