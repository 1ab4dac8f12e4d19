"""Which finding is the answer: the gravest, then the earliest."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind
from gpuprobe.rules import RULES
from gpuprobe.rules.base import Finding
from gpuprobe.timeline import Timeline

_GRAVITY = {rule.kind: place for place, rule in enumerate(RULES)}


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
        while rest:
            heads = [
                finding
                for finding in rest
                if not any(timeline.precedes(other.root, finding.root) for other in rest)
            ] or rest
            best = min(heads, key=weight)
            ranked.append(best)
            rest.remove(best)
    return ranked
