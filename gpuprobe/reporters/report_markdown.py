"""The report as the body of an issue on GitHub: below its size, folded, nothing in it alive."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, TextIO

from gpuprobe import __version__
from gpuprobe.diagnosis import Diagnosis, Evidence, Role, Verdict
from gpuprobe.report.contents import IncidentLine, Report
from gpuprobe.reporters import outline
from gpuprobe.reporters import report_words as words
from gpuprobe.reporters.markdown import (
    MOST_CHARACTERS,
    Size,
    Writer,
    details,
    escape,
    fence,
)
from gpuprobe.reporters.plain import printable

MARK: Final = "<!-- gpuprobe report: made for people; judge its .json or .zip again -->"
"""First line of the document, invisible; by it gpuprobe knows that this is no log."""

OPEN_LINES: Final = 9
"""Lines of the incident that are shown without a click."""

LEAST: Final = Size(3, 160, 1)
_FIRST: Final = Size(None, 2000, None)


@dataclass(slots=True)
class _Section:
    """A part of the document that can be written shorter."""

    name: str
    write: Callable[[_Writer], str]
    folded: bool
    size: Size = _FIRST
    rows: int = 0


class ReportMarkdown:
    """Writes a report that has been redacted.

    Args:
        plots: Names of the files beside it that hold the plots.
    """

    def __init__(self, plots: Sequence[str] = ()) -> None:
        self.plots = plots

    def render(self, report: Report, out: TextIO) -> None:
        """Write the report; whatever it holds, the text stays below `MOST_CHARACTERS`."""
        sections = list(_sections(report, self.plots))
        texts = [_text(section) for section in sections]
        shortened: dict[str, None] = {}
        while _length(texts, shortened) > MOST_CHARACTERS:
            number = _longest(sections, texts)
            if number is None:
                break
            shortened[sections[number].name] = None
            sections[number].size = _smaller(sections[number].size)
            texts[number] = _text(sections[number])
        out.write(_fitting(texts, shortened))


def _length(texts: Sequence[str], shortened: dict[str, None]) -> int:
    return sum(len(text) + 1 for text in texts) + len(_said(shortened))


def _fitting(texts: list[str], shortened: dict[str, None]) -> str:
    """All of it, or as much as fits; the foot stays."""
    body, foot = texts[:-1], texts[-1]
    room = MOST_CHARACTERS - len(foot) - len(_said({**shortened, "the rest": None})) - 10
    kept: list[str] = []
    for text in body:
        room -= len(text) + 1
        if room < 0:
            shortened["the rest"] = None
            break
        kept.append(text)
    return "\n".join([*kept, foot]) + _said(shortened) + "\n"


def _said(shortened: dict[str, None]) -> str:
    if not shortened:
        return ""
    return f"  \nShortened to fit an issue: {', '.join(shortened)}."


def _text(section: _Section) -> str:
    return section.write(_Writer(section.size))


def _longest(sections: Sequence[_Section], texts: Sequence[str]) -> int | None:
    """Which part to shorten: the longest that is folded, and only then one that is not."""
    for folded in (True, False):
        able = [
            number
            for number, section in enumerate(sections)
            if section.folded is folded and section.size != LEAST and len(texts[number]) > 1500
        ]
        if able:
            return max(able, key=lambda number: len(texts[number]))
    return None


def _smaller(size: Size) -> Size:
    steps = (
        Size(200, 1000, 40), Size(100, 500, 20), Size(50, 400, 10), Size(25, 300, 5),
        Size(12, 240, 3), Size(6, 200, 2), LEAST,
    )  # fmt: skip
    return steps[0] if size == _FIRST else steps[steps.index(size) + 1]


def _sections(report: Report, plots: Sequence[str]) -> Iterator[_Section]:
    first, *others = report.diagnosis.verdicts
    yield _Section("the head", lambda w: w.head(report, first), False)
    yield _Section("facts", lambda w: w.facts(report), False)
    if report.incident:
        yield _Section("the last two minutes", lambda w: w.incident(report), False)
        if words.open_lines(report.incident, OPEN_LINES) != list(report.incident):
            yield _Section("all lines of them", lambda w: w.whole_incident(report), True)
        for line in report.incident:
            if line.folded:
                yield _Section("tracebacks", _traceback(line), True)
    for role, evidence in outline.by_role(first):
        name = outline.ROLE_HEADINGS[role].lower()
        yield _Section(name, _quotes(role, evidence), role is not Role.PROOF)
    yield _Section("what was ruled out", lambda w: w.ruled_out(first), False)
    if first.not_checked:
        yield _Section("what was not checked", lambda w: w.not_checked(first), False)
    if first.causes:
        yield _Section("causes", lambda w: w.causes(first), False)
    if first.next_steps:
        yield _Section("next steps", lambda w: "\n".join(w.steps(first)), False)
    if report.telemetry is not None:
        yield _Section("telemetry", lambda w: w.telemetry(report), False)
    if plots:
        yield _Section("plots", lambda w: w.plots(plots), False)
    if words.failed(report):
        yield _Section("questions", lambda w: w.questions(report), False)
    for verdict in others:
        yield _Section("other findings", _other(verdict, report.diagnosis.host), True)
    for other in report.diagnosis.other_hosts:
        yield _Section("other hosts", _other_host(other), True)
    yield _Section("inputs", lambda w: "\n".join(w.inputs(report.diagnosis)), True)
    yield _Section("the foot", lambda w: w.foot(report), False)


def _traceback(line: IncidentLine) -> Callable[[_Writer], str]:
    return lambda writer: writer.traceback(line)


def _quotes(role: Role, evidence: list[Evidence]) -> Callable[[_Writer], str]:
    return lambda writer: writer.evidence(role, evidence)


def _other(verdict: Verdict, host: str | None) -> Callable[[_Writer], str]:
    return lambda writer: details(
        f"{words.OTHER_VERDICTS}: {writer.text(words.headline(verdict))}",
        "\n".join(writer.verdict(verdict, host)),
    )


def _other_host(diagnosis: Diagnosis) -> Callable[[_Writer], str]:
    def write(writer: _Writer) -> str:
        name = writer.text(diagnosis.host or "unnamed")
        shown = outline.cut_list(diagnosis.verdicts, writer.size.verdicts)
        body = [text for one in shown.head for text in writer.verdict(one, diagnosis.host)]
        return details(f"Another host: {name}", "\n".join(body))

    return write


class _Writer(Writer):
    """The sections of a report at one size."""

    def head(self, report: Report, verdict: Verdict) -> str:
        lines = [MARK, "", f"## {self.text(words.headline(verdict))}", ""]
        lines += [f"**{words.MAINTAINER}.** " + " ".join(map(self.text, report.maintainer))]
        return "\n".join(lines)

    def facts(self, report: Report) -> str:
        verdict = report.diagnosis.verdicts[0]
        rows = [
            (name, value, "")
            for name, value in outline.facts(verdict, report.diagnosis.host)
            if name in ("Kind", "Also named", "Xid", "Noticed at", "Host")
        ]
        if verdict.device and verdict.device.index is not None:
            rows.append(("NVML index", str(verdict.device.index), ""))
        rows += [(fact.label, fact.value, fact.source) for fact in report.facts]
        return f"\n### {words.FACTS}\n{self.table(('Fact', 'Value', 'From'), rows)}"

    def incident(self, report: Report) -> str:
        shown = words.open_lines(report.incident, min(OPEN_LINES, self.size.rows or OPEN_LINES))
        text = f"\n### {words.INCIDENT}\n\n{self.text(words.clock_of(report))}\n"
        return text + self.table(words.INCIDENT_HEADS, [self.incident_row(line) for line in shown])

    def whole_incident(self, report: Report) -> str:
        rows = [self.incident_row(line) for line in report.incident]
        title = f"All {len(rows):,} lines of these minutes"
        return details(title, self.table(words.INCIDENT_HEADS, rows))

    def traceback(self, line: IncidentLine) -> str:
        cut = outline.cut_list(line.folded, self.size.rows, keep_last=True)
        lines = [*cut.head, *([f"… {cut.left_out:,} lines …"] if cut.left_out else []), *cut.tail]
        title = words.traceback_title(line)
        body = "\n".join(self.cut(printable(text)) for text in lines)
        return details(title, fence(body, "text"))

    @staticmethod
    def incident_row(line: IncidentLine) -> tuple[str, str, str, str]:
        side = f"{line.side}, {line.role}" if line.role else line.side
        # Blanks that do not break keep a time on one line.
        return (
            words.moment(line).replace(" ", "\u00a0"),
            side,
            line.text + words.times(line.count),
            words.where(line),
        )

    def ruled_out(self, verdict: Verdict) -> str:
        if not verdict.ruled_out:
            return f"\n### {outline.RULED_OUT}\n\nNothing: no input holds figures that could."
        rows = [(row.kind, row.why, outline.figures_text(row.figures)) for row in verdict.ruled_out]
        return f"\n### {outline.RULED_OUT}\n{self.table(('Cause', 'Why not', 'Figures'), rows)}"

    def steps(self, verdict: Verdict) -> Iterator[str]:
        yield f"\n### {outline.NEXT_STEPS}"
        # The first one is what to do; the others wait until it has been done.
        yield from Writer(self.size).next_steps(replace(verdict, next_steps=verdict.next_steps[:1]))
        rest = verdict.next_steps[1:]
        if rest:
            body = Writer(self.size).next_steps(replace(verdict, next_steps=rest), first=2)
            yield details(f"{len(rest)} more, in their order", "\n".join(body))

    def telemetry(self, report: Report) -> str:
        assert report.telemetry is not None
        parts = [f"\n### {words.TELEMETRY}\n\n{self.text(words.sampled(report))}"]
        for device in report.telemetry.devices:
            rows = [words.figure_cells(figure) for figure in device.figures]
            table = self.table(words.FIGURE_HEADS, rows)
            parts.append(f"\n**{self.text(words.device_title(device))}**\n{table}")
            parts.append(f"\n{self.text(words.reasons(device))}")
        return "\n".join(parts)

    def plots(self, names: Sequence[str]) -> str:
        files = "\n".join(f"- `{printable(name).replace('`', '')}`" for name in names)
        return f"\n### {words.PLOTS}\n\nFiles beside this one; drag them in here.\n\n{files}"

    def questions(self, report: Report) -> str:
        lines = [f"\n### {words.QUESTIONS}\n"]
        for question in report.questions:
            answer = self.text(question.answer) if question.answer else f"*{words.UNANSWERED}*"
            lines.append(f"- {self.text(question.ask)} — {answer}")
        return "\n".join(lines)

    def foot(self, report: Report) -> str:
        made = f", made {report.made}" if report.made else ""
        audience = words.AUDIENCES[report.audience]
        lines = [self.text(note) for note in words.notes(report)]
        lines.append(escape(f"gpuprobe {__version__}{made}, {audience}"))
        return "\n" + "  \n".join(lines)
