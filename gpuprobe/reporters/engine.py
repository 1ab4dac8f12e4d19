"""The short form for the terminal an engine runs on: what failed, the proof, what to do next."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from gpuprobe.diagnosis import Diagnosis, Kind, Role, Verdict
from gpuprobe.reporters import outline
from gpuprobe.reporters.plain import cut, printable

PROOFS = 3
STEPS = 2

COLUMNS = 160
"""Longer quotes are cut; `diagnose` shows them whole."""


@dataclass(frozen=True, slots=True)
class EngineReporter:
    """Writes the lines that `gpuprobe run` says about its engine.

    Attributes:
        quiet: Only the sentences.
    """

    quiet: bool = False

    def verdict(
        self, found: Diagnosis, *, own: tuple[str, ...], whose: str, ended: str
    ) -> Iterator[str]:
        """What failed.

        Args:
            found: The diagnosis.
            own: Addresses of the engine's GPUs.
            whose: Which those are and how that is known.
            ended: How the engine ended, or that it still runs.
        """
        first: Verdict | None = found.verdicts[0]
        rest = found.verdicts[1:]
        if first is not None and _is_elsewhere(first, own):
            first, rest = None, found.verdicts
        if first is not None:
            yield f"gpuprobe: [{outline.tag(first)}] {printable(first.summary)}"
            if not self.quiet:
                yield from self._proof(first)
                yield f"  engine: {printable(ended)}; {printable(whose)}"
        for other in rest:
            if _is_elsewhere(other, own):
                yield (
                    f"{'  elsewhere' if first else 'gpuprobe'}: [{outline.tag(other)}] "
                    f"{printable(other.summary)} This engine uses {printable(whose)}."
                )
            elif not self.quiet:
                yield f"  also: [{outline.tag(other)}] {printable(other.summary)}"
        if first is not None and not self.quiet:
            yield from self._next(first)

    def _proof(self, verdict: Verdict) -> Iterator[str]:
        roles = (Role.PROOF,) if verdict.kind is not Kind.CANNOT_TELL else (Role.SUPPORT,)
        cited = [item for item in verdict.evidence if item.role in roles]
        name = "proof" if Role.PROOF in roles else "seen"
        shown = outline.cut_evidence(cited, PROOFS)
        for item in (*shown.head, *shown.tail):
            line = f"  {name}: {printable(outline.place(item))}: {printable(item.text)}"
            yield cut(line, COLUMNS)
        if shown.left_out:
            yield f"  … and {shown.left_out} more"

    def _next(self, verdict: Verdict) -> Iterator[str]:
        for step in verdict.next_steps[:STEPS]:
            yield f"  next: [{printable(outline.step_kind(step))}] {printable(step.text)}"
            if step.command:
                yield f"        {printable(step.command)}"

    def recording(self, path: str, command: str) -> Iterator[str]:
        """Where the evidence lies, and the command that tells all of it."""
        if not self.quiet:
            yield f"  recording: {printable(path)}"
            yield f"  in full: {printable(command)}"


def _is_elsewhere(verdict: Verdict, own: tuple[str, ...]) -> bool:
    device = verdict.device
    return (
        bool(own)
        and device is not None
        and device.pci is not None
        and str(device.pci.slot) not in own
    )
