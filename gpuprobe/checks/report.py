"""What `gpuprobe check` came to: findings, the GPUs they are about, the answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from gpuprobe.checks.base import REQUIREMENT_NOT_MET, CheckFinding, Status
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress


@dataclass(frozen=True, slots=True)
class CheckedGpu:
    """One GPU that the check knows of.

    Attributes:
        pci: Its address.
        name: Marketing name, or None where nothing names it.
        uuid: `GPU-...`, or None.
        driver: Kernel driver bound to it, or None.
        looked_at: Whether it could be looked at: its driver answered or, where the driver was not
            asked, its config space did.
    """

    pci: PciAddress
    name: str | None = None
    uuid: str | None = None
    driver: str | None = None
    looked_at: bool = False


@dataclass(frozen=True, slots=True)
class CheckReport:
    """All that a check found.

    Attributes:
        findings: In the order of the checks, GPU by GPU.
        gpus: In order of address.
        took_s: Seconds it took, the sampling under load not counted.
    """

    findings: tuple[CheckFinding, ...]
    gpus: tuple[CheckedGpu, ...]
    took_s: float = 0.0

    @property
    def answer(self) -> str:
        """A verdict kind or `requirement-not-met`.

        It speaks of the present. A device that is gone is always the answer; then whatever else
        is wrong now; then an unmet requirement; then that nothing could be looked at, or that a
        requirement could not be judged.
        """
        bad = [finding.kind for finding in self.findings if finding.status is Status.BAD]
        if Kind.DEVICE_LEFT_BUS in bad:
            return Kind.DEVICE_LEFT_BUS.value
        for kind in bad:
            if kind is not None and kind != REQUIREMENT_NOT_MET:
                return str(kind)
        if REQUIREMENT_NOT_MET in bad:
            return REQUIREMENT_NOT_MET
        if self.undecided or not any(gpu.looked_at for gpu in self.gpus):
            return Kind.CANNOT_TELL.value
        return Kind.NO_FAULT.value

    @property
    def undecided(self) -> tuple[CheckFinding, ...]:
        """Needs that were asked for and could not be judged."""
        return tuple(
            finding
            for finding in self.findings
            if finding.status is Status.NOT_CHECKED and finding.kind == Kind.CANNOT_TELL
        )

    @property
    def exit_code(self) -> int:
        """0 no fault, 3 cannot tell, 79 a GPU is off the bus now, 1 anything else."""
        return exit_code(self.answer)

    def of(self, subject: PciAddress | None) -> tuple[CheckFinding, ...]:
        """The findings about one GPU, or about the host for None."""
        return tuple(finding for finding in self.findings if finding.subject == subject)


def exit_code(answer: str) -> int:
    """The command line's exit code for an answer."""
    return {Kind.NO_FAULT.value: 0, Kind.CANNOT_TELL.value: 3, Kind.DEVICE_LEFT_BUS.value: 79}.get(
        answer, 1
    )


def translate(code: int, answer: str, scheme: str | None) -> int:
    """An exit code in the words of another tool.

    Args:
        code: The code of `exit_code`, or 2 for usage errors.
        answer: The answer behind it.
        scheme: `npd` (node-problem-detector: 0 well, 1 a problem, 2 unknown), `nagios` (0 to 3:
            OK, WARNING, CRITICAL, UNKNOWN), or None for the code as it is.
    """
    if scheme == "npd":
        return {0: 0, 1: 1, 79: 1}.get(code, 2)
    if scheme == "nagios":
        if code in (2, 3):
            return 3
        if code == 0:
            return 0
        return 1 if answer in ("pcie-link-errors", "thermal", "power") else 2
    return code


def worst(findings: Iterable[CheckFinding]) -> Status:
    """The gravest status among findings: bad, warn, not-checked, note, ok."""
    order = [Status.BAD, Status.WARN, Status.NOT_CHECKED, Status.NOTE, Status.OK]
    return min((finding.status for finding in findings), key=order.index, default=Status.OK)
