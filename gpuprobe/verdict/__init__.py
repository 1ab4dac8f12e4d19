"""From findings to a diagnosis: what is the cause, what follows from it, and how it is told."""

from __future__ import annotations

from gpuprobe.diagnosis import Diagnosis, Verdict
from gpuprobe.rules import RULES
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.consequences import add_consequences
from gpuprobe.verdict.elsewhere import apart
from gpuprobe.verdict.folding import fold
from gpuprobe.verdict.ranking import put_history_last, rank
from gpuprobe.verdict.telling import no_fault, note_later_boot, verdict_of


def diagnose(timeline: Timeline) -> Diagnosis:
    """The diagnosis of one host's timeline."""
    found = [finding for rule in RULES for finding in rule.find(timeline)]
    findings, elsewhere = apart(timeline, found)
    ranked = rank(timeline, findings)
    kept = put_history_last(timeline, fold(timeline, ranked))
    first = next((finding for finding in kept if not finding.never_first), None)
    verdicts: list[Verdict] = []
    if first is None:
        verdicts.append(no_fault(timeline))
    elif kept[0] is not first:
        kept.remove(first)
        kept.insert(0, first)
    if kept and first is not None:
        add_consequences(timeline, kept[0], [*kept[1:], *elsewhere])
        note_later_boot(timeline, kept[0], kept[1:])
    kept.extend(fold(timeline, rank(timeline, elsewhere)))
    verdicts.extend(verdict_of(timeline, finding, main=i == 0) for i, finding in enumerate(kept))
    return Diagnosis(verdicts=tuple(verdicts), inputs=tuple(timeline.inputs), host=timeline.host)
