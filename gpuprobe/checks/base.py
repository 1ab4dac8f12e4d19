"""What a check is and what it finds. A check looks at a `Scene` and at nothing else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Protocol

from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable

if TYPE_CHECKING:
    from gpuprobe.checks.scene import Scene


class Status(StrEnum):
    """What a finding amounts to. The values are stable."""

    OK = "ok"
    """Looked at, and as it should be."""
    NOTE = "note"
    """Worth knowing, nothing to mend."""
    WARN = "warn"
    """Should be mended; it does not change the answer."""
    BAD = "bad"
    """Wrong now: it decides the answer."""
    NOT_CHECKED = "not-checked"
    """Could not be looked at: `text` says why, `how` what would make it possible."""


REQUIREMENT_NOT_MET = "requirement-not-met"
"""Answer of a check whose `--need-*` is not met."""


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckFinding:
    """One line of a check.

    Attributes:
        check: Name of the check that found it.
        what: What was looked at, in few words; stable.
        status: What it amounts to.
        text: What was found, one clause, with its figures; why not, when it was not checked.
        subject: The GPU it is about, or None for the host.
        figures: The figures in `text` by name, with their unit in the name.
        how: The command or step that makes it right or checkable, or "".
        kind: What a bad finding answers: a verdict kind, or `requirement-not-met`. On one that
            was not checked `cannot-tell`: without it there is no answer.
        at: When it happened, ISO 8601 in UTC, for findings about something past; else "".
    """

    check: str
    what: str
    status: Status
    text: str
    subject: PciAddress | None = None
    figures: Mapping[str, Any] = field(default_factory=dict)
    how: str = ""
    kind: Kind | str | None = None
    at: str = ""


class Check(Protocol):
    """One check: a name, and a function from what was gathered to what it amounts to."""

    @property
    def name(self) -> str:
        """Short name, as in `CheckFinding.check`."""

    def run(self, scene: Scene) -> Iterable[CheckFinding]:
        """Judge; without its input a check gives a `not-checked` finding."""


WHY = {
    Reason.NOT_SUPPORTED: "this GPU or kernel does not offer it",
    Reason.NOT_PERMITTED: "no permission",
    Reason.TIMED_OUT: "no answer in time",
    Reason.LOST: "the GPU does not answer",
    Reason.ASLEEP: "the GPU sleeps, and asking would wake it",
    Reason.NOT_THERE: "it does not exist here",
    Reason.NOT_ASKED: "not asked for",
    Reason.FAILED: "the answer was an error",
}
"""Each reason in words."""


def why(reading: Unavailable) -> str:
    """The reason in words, with the detail behind it; a detail that says it all stands alone."""
    if not reading.detail:
        return WHY[reading.reason]
    if reading.reason in (Reason.NOT_THERE, Reason.FAILED):
        return reading.detail
    return f"{WHY[reading.reason]} ({reading.detail})"


def not_checked(
    check: str, what: str, reading: Unavailable, subject: PciAddress | None = None, how: str = ""
) -> CheckFinding:
    """The finding for something that could not be read.

    Args:
        check: The check's name.
        what: What it wanted to look at.
        reading: Why there is no value.
        subject: The GPU, or None for the host.
        how: What would help where the reading itself has no hint.
    """
    return CheckFinding(
        check=check,
        what=what,
        status=Status.NOT_CHECKED,
        text=why(reading),
        subject=subject,
        how=reading.hint or how,
    )


def known(reading: Known[Any] | Unavailable, type_: type) -> Any:
    """The value where it is of this type, else None: a driver may answer anything."""
    if isinstance(reading, Known) and isinstance(reading.value, type_):
        return reading.value
    return None
