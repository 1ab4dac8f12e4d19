"""What every form of a report says in the same words: headings, cells, captions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC
from typing import Final

from gpuprobe.diagnosis import Kind, Verdict
from gpuprobe.report.contents import IncidentLine, Question, Report, plural
from gpuprobe.report.telemetry_types import DeviceTelemetry, Figure

FACTS: Final = "Facts"
INCIDENT: Final = "The last two minutes"
MAINTAINER: Final = "For the maintainer"
TELEMETRY: Final = "Telemetry"
PLOTS: Final = "Plots"
QUESTIONS: Final = "To fill in before posting"
OTHER_VERDICTS: Final = "Other findings"

UNANSWERED: Final = "please answer"
"""What stands where an answer is missing."""

INCIDENT_HEADS: Final = ("Time", "Side", "What was written", "Where")
FIGURE_HEADS: Final = ("Reading", "Lowest", "Mean", "Highest", "Last before it")

AUDIENCES: Final = {
    "engine": "for the engine's maintainers",
    "vendor": "for the GPU's vendor",
    "internal": "for internal use",
}


def headline(verdict: Verdict) -> str:
    """The verdict behind its certainty: `Confirmed: GPU 0000:04:00.0 left the bus`."""
    if verdict.certainty is None:
        return verdict.summary
    return f"{verdict.certainty.value.capitalize()}: {verdict.summary}"


def moment(line: IncidentLine) -> str:
    """`21:16:43.120 (+3.1 s)`, or the stamp as it stands where its clock is not joined."""
    text = ""
    if line.at is not None:
        text = line.at.astimezone(UTC).strftime("%H:%M:%S.%f")[:12]
    elif line.at_raw:
        text = line.at_raw
        if text.isdigit() and len(text) > 6:
            text = f"{int(text) / 1e6:.3f} s"
    if line.offset_s is None:
        return text
    close = abs(line.offset_s) < 1
    gap = f"{line.offset_s:+.3f} s" if close else f"{line.offset_s:+.1f} s"
    gap = "0 s" if abs(line.offset_s) < 0.0005 else gap
    return f"{text} ({gap})" if text else gap


FEWEST_OPEN: Final = 5
"""Lines of the incident that are shown at once where few say anything for the verdict."""


def open_lines(lines: Sequence[IncidentLine], limit: int) -> list[IncidentLine]:
    """What is shown at once: lines that say something for the verdict, kernel lines, tracebacks.

    The nearest others fill up where these are few. All of them are shown where few would be hidden.
    """
    if len(lines) <= FEWEST_OPEN + 2:
        return list(lines)
    order = {"proof": 0, "precursor": 1, "support": 2, "consequence": 3, "context": 4}

    def rank(number: int) -> tuple[int, float]:
        line = lines[number]
        telling = 5 if line.folded or line.side == "kernel" else 6
        return order.get(line.role, telling), abs(line.offset_s or 0.0)

    places = sorted(range(len(lines)), key=rank)
    telling = sum(1 for number in places if rank(number)[0] < 6)
    return [lines[number] for number in sorted(places[: max(FEWEST_OPEN, min(limit, telling))])]


def traceback_title(line: IncidentLine) -> str:
    """`18 lines of a traceback, 0.001 s after the root`: figures alone, nothing of a log."""
    text = f"{len(line.folded):,} lines of a traceback"
    if line.offset_s is None:
        return text
    side = "after" if line.offset_s >= 0 else "before"
    return f"{text}, {abs(line.offset_s):.3f} s {side} the root"


def where(line: IncidentLine) -> str:
    """`kernel.log:19`, or the row."""
    if line.line is not None:
        return f"{line.input}:{line.line}"
    return f"{line.input} ({line.ref})" if line.ref else line.input


def times(count: int) -> str:
    """` (12 times)`, or nothing for one."""
    return f" ({count:,} times)" if count > 1 else ""


def clock_of(report: Report) -> str:
    """What the times of the incident are."""
    placed = any(line.at is not None for line in report.incident)
    clock = "Times are UTC" if placed else "Times are those of the logs"
    text = f"{clock}; in brackets the seconds before or after the root."
    return f"{text} {report.incident_note}" if report.incident_note else text


def figure_cells(figure: Figure) -> tuple[str, str, str, str, str]:
    """Cells of a row of the summary."""
    unit = f" {figure.unit}" if figure.unit else ""
    last = "" if figure.last is None else number(figure.last) + unit
    low, mean, high = (number(value) + unit for value in (figure.low, figure.mean, figure.high))
    return figure.label, low, mean, high, last


def number(value: float) -> str:
    """`1,980`, `350.2`, `0.04`."""
    if abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.1f}".removesuffix(".0") if abs(value) >= 1 else f"{value:.2g}"


def sampled(report: Report) -> str:
    """How much was sampled, or "" where nothing was."""
    telemetry = report.telemetry
    if telemetry is None:
        return ""
    begin = telemetry.begin.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    end = telemetry.end.astimezone(UTC).strftime("%Y-%m-%d %H:%M:%S")
    text = f"{telemetry.samples:,} samples from {begin} to {end} UTC"
    if telemetry.interval_s:
        text += f", {telemetry.interval_s:g} s apart"
    if telemetry.pauses:
        longest = max(length for _, length in telemetry.pauses)
        many = f"{plural(len(telemetry.pauses), 'pause')}, the longest {longest:.3g} s"
        text += f", with {many}"
    elif telemetry.interval_s:
        text += " without a pause"
    return text + "."


def reasons(device: DeviceTelemetry) -> str:
    """For how much of the time which clock-event reason held, and which never did."""
    if not device.reasons:
        return "Clock-event reasons: not read."
    held = [f"{name} {_percent(share)}" for name, share in device.reasons.items() if share > 0]
    never = [name for name, share in device.reasons.items() if not share]
    text = f"Clock-event reasons, share of the samples: {', '.join(held) or 'none'}"
    return f"{text}; never: {', '.join(never)}." if never else f"{text}."


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %" if share >= 0.01 else f"{100 * share:.2g} %"


def device_title(device: DeviceTelemetry) -> str:
    """`0000:04:00.0, NVIDIA RTX`."""
    return f"{device.device}, {device.name}" if device.name else device.device


def answer(question: Question) -> str:
    """What is known, or the words that ask for it."""
    return question.answer or UNANSWERED


def failed(report: Report) -> bool:
    """Whether there is anything to ask the sender about."""
    return report.diagnosis.answer is not Kind.NO_FAULT


def notes(report: Report) -> Iterator[str]:
    """Lines for the foot: what was replaced."""
    if report.replaced is None:
        yield "Nothing was redacted: check it before you pass it on."
    elif report.replaced:
        yield f"Redacted: {report.replaced}."
    else:
        yield "Redacted: nothing found."
