"""Faults of GPUs that the watched engine does not use: told, and never taken for its own."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Kind
from gpuprobe.rules.base import Finding
from gpuprobe.rules.elsewhere import is_elsewhere
from gpuprobe.timeline import Timeline


def apart(
    timeline: Timeline, findings: Sequence[Finding]
) -> tuple[Sequence[Finding], Sequence[Finding]]:
    """Findings of the engine's own GPUs (or of none), and those of other GPUs.

    Where nothing happened to the engine's own, all are its findings: a loss elsewhere is then the
    only thing to tell.
    """
    others = [f for f in findings if is_elsewhere(timeline, f.device or f.root.device)]
    if all(finding.kind is Kind.CANNOT_TELL for finding in others):
        return findings, ()  # traces on another GPU may follow from a fault of the engine's own
    mine = [finding for finding in findings if finding not in others]
    if all(finding.never_first for finding in mine):
        return findings, ()
    return mine, others
