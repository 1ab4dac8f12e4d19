"""A rule's findings, or the whole judgement, from a few lines of text."""

from __future__ import annotations

import io

from gpuprobe.api import diagnose_text, timelines
from gpuprobe.diagnosis import Kind, Role, Verdict
from gpuprobe.rules import RULES, Finding
from gpuprobe.timeline import Timeline


def timeline_of(text: str) -> Timeline:
    """The timeline of a text that speaks of one machine."""
    (timeline,) = timelines("-", stdin=io.BytesIO(text.encode()))
    return timeline


def findings(kind: Kind, text: str) -> list[Finding]:
    """What the rule for `kind` finds, before findings are weighed against each other."""
    (rule,) = [rule for rule in RULES if rule.kind is kind]
    return list(rule.find(timeline_of(text)))


def kinds(text: str) -> list[Kind]:
    """The kinds of all verdicts, the answer first."""
    return [verdict.kind for verdict in diagnose_text(text).verdicts]


def only(text: str) -> Verdict:
    """The only verdict."""
    (verdict,) = diagnose_text(text).verdicts
    return verdict


def first(text: str) -> Verdict:
    """The answer's verdict."""
    return diagnose_text(text).verdicts[0]


def pci(verdict: Verdict | Finding) -> str | None:
    """Address of the verdict's device as text."""
    if isinstance(verdict, Finding):
        return str(verdict.device) if verdict.device else None
    return str(verdict.device.pci) if verdict.device and verdict.device.pci else None


def lines(verdict: Verdict, role: Role) -> list[int | None]:
    """Numbers of the lines quoted in a role."""
    return [item.line for item in verdict.evidence if item.role is role]


def unchecked(verdict: Verdict) -> str:
    """Everything that was not checked, in one text."""
    return "\n".join(f"{item.what}: {item.why} {item.how}" for item in verdict.not_checked)
