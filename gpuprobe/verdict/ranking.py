"""Which finding is the answer: the gravest, then the earliest."""

from __future__ import annotations

from collections.abc import Iterator, Sequence, Set

from gpuprobe.diagnosis import Certainty, Kind
from gpuprobe.rules import RULES
from gpuprobe.rules.base import Finding
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.sequence import came_before

_GRAVITY = {rule.kind: place for place, rule in enumerate(RULES)}


HISTORY_S = 3600.0
"""A fault that was over so long before a program failed is history to that failure."""


def put_history_last(timeline: Timeline, kept: Sequence[Finding]) -> list[Finding]:
    """An old fault of another run does not answer for a failure that nothing explains.

    A loss stays first: a clean day after it does not erase it.
    """
    open_question = next((f for f in kept if f.kind is Kind.CANNOT_TELL), None)
    if open_question is None:
        return list(kept)

    def is_history(finding: Finding) -> bool:
        if finding is open_question or finding.kind is Kind.DEVICE_LEFT_BUS:
            return False
        gaps = [timeline.rough_gap(e, open_question.root) for e in finding.events()]
        return bool(gaps) and all(gap is not None and gap > HISTORY_S for gap in gaps)

    return sorted(kept, key=is_history)


def rank(timeline: Timeline, findings: Sequence[Finding]) -> list[Finding]:
    """Losses first, then by earliest root; of one moment, or on unjoined clocks, the gravest."""

    def tier(finding: Finding) -> int:
        if finding.kind is Kind.DEVICE_LEFT_BUS and finding.certainty is not Certainty.POSSIBLE:
            return 0
        if finding.kind is Kind.CANNOT_TELL:
            return 4
        if finding.certainty is Certainty.POSSIBLE:
            return 3
        return 2 if finding.background else 1

    def weight(finding: Finding) -> tuple[object, ...]:
        certainty = finding.certainty.rank if finding.certainty else -1
        device = str(finding.device or finding.uuid or "~")
        return (_GRAVITY[finding.kind], -certainty, device, finding.root.origin.text)

    ranked: list[Finding] = []
    for level in range(5):
        rest = [finding for finding in findings if tier(finding) == level]
        # Most pairs need no look: one that came before is enough until that one is ranked itself.
        ranked_ids: set[int] = set()
        others = {id(f): _earlier(timeline, f, tuple(rest), ranked_ids) for f in rest}
        waits_for = {key: next(found, None) for key, found in others.items()}
        while rest:
            heads = [finding for finding in rest if waits_for[id(finding)] is None] or rest
            best = min(heads, key=weight)
            ranked.append(best)
            rest = [finding for finding in rest if finding is not best]
            ranked_ids.add(id(best))
            for key, other in waits_for.items():
                if other is best:
                    waits_for[key] = next(others[key], None)
    return ranked


def _earlier(
    timeline: Timeline, finding: Finding, among: Sequence[Finding], but: Set[int]
) -> Iterator[Finding]:
    """Those that came before a finding, each looked at when it is asked for.

    Args:
        timeline: Says what came before what.
        finding: The finding.
        among: Which to look at.
        but: Ids of those that no longer count.
    """
    for other in among:
        if id(other) not in but and came_before(timeline, other.root, finding.root):
            yield other
