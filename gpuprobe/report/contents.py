"""What a report holds, in the order a maintainer reads."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Literal

from gpuprobe.diagnosis import Diagnosis
from gpuprobe.report.telemetry_types import Telemetry

Audience = Literal["engine", "vendor", "internal"]


def plural(number: int, word: str) -> str:
    """`1 line`, `2,000 lines`."""
    return f"{number:,} {word}{'' if number == 1 else 's'}"


@dataclass(frozen=True, slots=True)
class Fact:
    """A row of the table of facts.

    Attributes:
        label: `Driver`. value: As printed. source: The input and line it stands in, or "".
    """

    label: str
    value: str
    source: str = ""


@dataclass(frozen=True, slots=True)
class IncidentLine:
    """A line of the incident, engine and kernel on one clock.

    Attributes:
        at: When, aware, or None where the clock names no instant.
        at_raw: Its stamp as it stands, or None.
        offset_s: Seconds after the root (negative: before it); None where its clock and the
            root's could not be joined.
        side: `engine`, `kernel` or `probe`.
        text: The line; hostile. input: Where it stands. line: Its number, or None. ref: The row.
        role: What it does for the first verdict, or "" for a line that says nothing of it.
        count: How many lines of this shape stand for it.
        folded: The lines of a traceback that this one stands for, as they were written.
    """

    at: datetime | None
    at_raw: str | None
    offset_s: float | None
    side: str
    text: str
    input: str
    line: int | None
    ref: str | None = None
    role: str = ""
    count: int = 1
    folded: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Question:
    """What no sensor knows.

    Attributes:
        ask: One line. answer: What the inputs say of it, or "": to be filled in by the sender.
    """

    ask: str
    answer: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """One report.

    Attributes:
        diagnosis: The verdicts. facts: The machine and the engine.
        incident: The last two minutes. incident_note: What to know of its clock, or "".
        telemetry: Readings, or None where no input holds any.
        questions: For the sender to answer before posting.
        maintainer: Sentences on whether anything points at the engine.
        audience: For whom it is.
        made: When, ISO 8601, UTC.
        replaced: What was redacted, in words; "" when nothing was, None: nothing was looked for.
        saved: What is needed to judge again, as JSON holds it (see `gpuprobe.report.saved`).
    """

    diagnosis: Diagnosis
    facts: tuple[Fact, ...]
    incident: tuple[IncidentLine, ...]
    telemetry: Telemetry | None
    questions: tuple[Question, ...]
    maintainer: tuple[str, ...]
    audience: Audience
    incident_note: str = ""
    made: str = ""
    replaced: str | None = None
    saved: dict[str, Any] = field(default_factory=dict)
