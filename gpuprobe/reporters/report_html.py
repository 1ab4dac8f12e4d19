"""The report as one HTML file: opens offline, fetches nothing, and no line of a log is alive."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, TextIO

from gpuprobe import __version__
from gpuprobe.diagnosis import CauseEntry, Diagnosis, Evidence, NextStep, Role, Verdict
from gpuprobe.report.contents import IncidentLine, Report
from gpuprobe.reporters import html_page, outline
from gpuprobe.reporters import report_words as words
from gpuprobe.reporters.html_page import shown
from gpuprobe.reporters.html_plots import plots_section, without_plots

MOST_BYTES: Final = 2_000_000
"""A page of this size opens on a phone and can be attached to a mail."""

OPEN_LINES: Final = 12
"""Lines of the incident that are shown without a click."""

_LEAST_ROOM: Final = 100_000
"""Characters that the plots get at least; with fewer the words are cut instead."""


@dataclass(frozen=True, slots=True)
class _Size:
    """How much is written: rows of each list, characters of each text, verdicts of each host."""

    rows: int | None
    text: int
    verdicts: int | None


_SIZES: Final = (
    _Size(None, 4000, None), _Size(500, 1000, 50), _Size(100, 500, 20), _Size(20, 300, 5),
    _Size(5, 200, 2),
)  # fmt: skip


class HtmlReporter:
    """Writes a report that has been redacted.

    Attributes:
        problem: Why the page has no plots though there are readings, with what to do; "" else.

    Args:
        plots: Whether to draw; without the extra `report` the page goes without and says so.
    """

    def __init__(self, *, plots: bool = True) -> None:
        self.plots = plots
        self.problem = ""

    def render(self, report: Report, out: TextIO) -> None:
        """Write the page, at most `MOST_BYTES`."""
        library = self._library() if report.telemetry is not None and self.plots else ""
        title = f"gpuprobe: {report.diagnosis.verdicts[0].summary}"[:120]
        room = MOST_BYTES - 20_000 - len(library.encode("utf-8"))
        for size in _SIZES:
            body = _Writer(report, size)
            head, tail = "\n".join(body.before()), "\n".join(body.after())
            left = room - len((head + tail).encode("utf-8", "replace"))
            if left > (_LEAST_ROOM if library else 0):
                break
        if not library or report.telemetry is None:
            section = without_plots(report, self.problem)
            out.write(html_page.page(title, _encodable(head + section + tail)))
            return
        from gpuprobe.report.drawing import payload
        from gpuprobe.report.palette import DARK, LIGHT

        drawn = payload(report.telemetry, left)
        section = "\n".join(plots_section(drawn))
        data = html_page.data_element("plots", drawn.text)
        data += html_page.data_element(
            "themes", html_page.safe_json({"light": LIGHT, "dark": DARK})
        )
        scripts = (library, html_page.part("report.js"))
        body_text = _encodable(head + section + tail)
        out.write(html_page.page(title, body_text, scripts=scripts, data=data))

    def _library(self) -> str:
        from gpuprobe.report.drawing import PlotsMissingError, library

        try:
            return library()
        except PlotsMissingError as error:
            self.problem = f"{error}: {error.hint}"
            return ""


def _encodable(text: str) -> str:
    """Lone surrogates have no UTF-8 form; they become question marks."""
    return text.encode("utf-8", "replace").decode("utf-8")


class _Writer:
    """The sections of the page at one size, in the order a maintainer reads them."""

    def __init__(self, report: Report, size: _Size) -> None:
        self.report = report
        self.size = size
        self.diagnosis = report.diagnosis

    def before(self) -> Iterator[str]:
        """What stands before the plots."""
        report, first = self.report, self.diagnosis.verdicts[0]
        yield f'<header><span class="tag">{shown(first.kind.value)}</span>'
        if first.certainty is not None:
            yield f'<span class="tag">{shown(first.certainty.value)}</span>'
        yield f"<h1>{self.text(first.summary)}</h1></header>\n<main>"
        said = " ".join(map(self.text, report.maintainer))
        if said:
            yield f'<p class="maintainer"><b>{words.MAINTAINER}.</b> {said}</p>'
        yield _section(words.FACTS, self.facts())
        if report.incident:
            yield _section(words.INCIDENT, self.incident())
        yield from self.parts(first)
        if report.telemetry is not None:
            yield _section(words.TELEMETRY, self.telemetry())

    def after(self) -> Iterator[str]:
        """What stands after the plots."""
        report = self.report
        if words.failed(report):
            yield _section(words.QUESTIONS, self.questions())
        others = outline.cut_list(self.diagnosis.verdicts[1:], self.size.verdicts)
        if others.head:
            body = [self.other(verdict, self.diagnosis.host) for verdict in others.head]
            yield _section(words.OTHER_VERDICTS, "\n".join([*body, _more(others.left_out)]))
        for other in self.diagnosis.other_hosts:
            shown_ones = outline.cut_list(other.verdicts, self.size.verdicts)
            body = [self.other(verdict, other.host) for verdict in shown_ones.head]
            body += [_more(shown_ones.left_out), self.inputs(other)]
            yield _section(f"Another host: {self.text(other.host or 'unnamed')}", "\n".join(body))
        yield _section(outline.INPUTS, self.inputs(self.diagnosis))
        yield '</main>\n<footer class="soft">'
        yield from (f"<p>{self.text(note)}</p>" for note in words.notes(report))
        made = f" on {report.made}" if report.made else ""
        yield f"<p>{self.text(f'gpuprobe {__version__}{made}, {words.AUDIENCES[report.audience]}')}"
        yield "</p></footer>"

    def facts(self) -> str:
        first = self.diagnosis.verdicts[0]
        rows = [
            (name, value, "")
            for name, value in outline.facts(first, self.diagnosis.host)
            if name in ("Kind", "Also named", "Xid", "Noticed at", "Host")
        ]
        if first.device and first.device.index is not None:
            rows.append(("NVML index", str(first.device.index), ""))
        rows += [(fact.label, fact.value, fact.source) for fact in self.report.facts]
        return self.table(("Fact", "Value", "From"), rows)

    def incident(self) -> str:
        lines = self.report.incident
        note = f'<p class="soft">{self.text(words.clock_of(self.report))}</p>'
        shown_ones = words.open_lines(lines, OPEN_LINES)
        parts = [note, self.incident_table(shown_ones)]
        if len(shown_ones) < len(lines):
            whole = self.incident_table(lines)
            parts.append(_details(f"All {len(lines):,} lines of these minutes", whole))
        parts += [self.traceback(line) for line in lines if line.folded]
        return "".join(parts)

    def traceback(self, line: IncidentLine) -> str:
        cut = outline.cut_list(line.folded, self.size.rows, keep_last=True)
        rows = [*cut.head, *([f"… {cut.left_out:,} lines …"] if cut.left_out else []), *cut.tail]
        title = words.traceback_title(line)
        body = "\n".join(self.text(row) for row in rows)
        return _details(title, f"<pre>{body}</pre>")

    def incident_table(self, lines: Sequence[IncidentLine]) -> str:
        cut = outline.cut_list(lines, self.size.rows)
        rows = []
        for line in cut.head:
            side = f"{line.side}, {line.role}" if line.role else line.side
            role = ' class="proof"' if line.role == "proof" else ""
            time, says, text, where = words.INCIDENT_HEADS
            rows.append(
                f"<tr{role}>{_cell(time, self.text(words.moment(line)), 'time')}"
                f"{_cell(says, self.text(side))}"
                f"{_cell(text, self.text(line.text) + words.times(line.count), 'line')}"
                f"{_cell(where, self.text(words.where(line)))}</tr>"
            )
        return _table(words.INCIDENT, words.INCIDENT_HEADS, rows) + _more(cut.left_out)

    def parts(self, verdict: Verdict) -> Iterator[str]:
        """Evidence, what was ruled out, what was not checked, causes and steps of a verdict."""
        for role, evidence in outline.by_role(verdict):
            heading = outline.role_heading(role, evidence)
            body = self.quotes(evidence, keep_last=role is Role.CONSEQUENCE)
            if role is Role.PROOF:
                yield _section(heading, body)
            else:
                yield _details(heading, body)
        if verdict.ruled_out:
            rows = [
                (row.kind, row.why, outline.figures_text(row.figures)) for row in verdict.ruled_out
            ]
            yield _section(outline.RULED_OUT, self.table(("Cause", "Why not", "Figures"), rows))
        else:
            text = "<p>Nothing: no input holds figures that could.</p>"
            yield _section(outline.RULED_OUT, text)
        if verdict.not_checked:
            yield _section(outline.NOT_CHECKED, self.not_checked(verdict))
        if verdict.causes:
            yield _section(outline.CAUSES, self.causes(verdict))
        if verdict.next_steps:
            yield _section(outline.NEXT_STEPS, self.steps(verdict))

    def not_checked(self, verdict: Verdict) -> str:
        """What was not among the inputs; each way to look at it stands alone."""
        cut = outline.cut_list(verdict.not_checked, self.size.rows)
        heads = ("What", "Why", "How to check it")
        rows = []
        for row in cut.head:
            ways = "<br>".join(f"<code>{self.text(how)}</code>" for how in outline.how_lines(row))
            rows.append(
                f'<tr><th scope="row">{self.text(row.what)}</th>'
                f"{_cell(heads[1], self.text(row.why))}{_cell(heads[2], ways)}</tr>"
            )
        return _table(outline.NOT_CHECKED, heads, rows) + _more(cut.left_out)

    def other(self, verdict: Verdict, host: str | None) -> str:
        facts = self.table(("Fact", "Value"), outline.facts(verdict, host))
        parts = "\n".join(self.parts(verdict)).replace("<h2>", "<h3>").replace("</h2>", "</h3>")
        return _details(self.text(words.headline(verdict)), facts + parts)

    def quotes(self, evidence: Sequence[Evidence], *, keep_last: bool) -> str:
        cut = outline.cut_list(evidence, self.size.rows, keep_last=keep_last)
        parts = [self.quote(item) for item in cut.head]
        parts += [_more(cut.left_out), *(self.quote(item) for item in cut.tail)]
        return "\n".join(parts)

    def quote(self, evidence: Evidence) -> str:
        says = f" — {self.text(evidence.says)}" if evidence.says else ""
        head = f"<b>{self.text(outline.place(evidence))}</b>{words.times(evidence.count)}{says}"
        return f"<p>{head}</p><pre>{self.text(evidence.text)}</pre>"

    def causes(self, verdict: Verdict) -> str:
        def cell(entries: tuple[CauseEntry, ...]) -> str:
            cut = outline.cut_list(entries, self.size.rows)
            return "<br>".join(
                f'{self.text(entry.text)} <span class="soft">({self.text(entry.rule)})</span>'
                for entry in cut.head
            )

        heads = ("Cause", "Score", "For", "Against", "Not seen")
        rows = [
            f'<tr><th scope="row">{self.text(cause.cause)}</th>'
            f"{_cell(heads[1], self.text(outline.SCORE_NAMES.get(cause.score, cause.score)))}"
            f"{_cell(heads[2], cell(cause.pro))}{_cell(heads[3], cell(cause.against))}"
            f"{_cell(heads[4], cell(cause.not_seen))}</tr>"
            for cause in verdict.causes
        ]
        return _table(outline.CAUSES, heads, rows)

    def steps(self, verdict: Verdict) -> str:
        first, rest = verdict.next_steps[:1], verdict.next_steps[1:]
        cut = outline.cut_list(rest, self.size.rows)
        text = f'<ol class="steps">{self.step(first[0])}</ol>'
        if rest:
            items = "\n".join(self.step(step) for step in cut.head)
            body = f'<ol class="steps" start="2">{items}</ol>{_more(cut.left_out)}'
            text += _details(f"{len(rest)} more, in their order", body)
        return text

    def step(self, step: NextStep) -> str:
        parts = [f"<li><i>{self.text(outline.step_kind(step))}</i> — {self.text(step.text)}"]
        if step.command:
            parts.append(f"<pre>{self.text(step.command)}</pre>")
        terms = outline.step_terms(step)
        if terms:
            rows = "".join(f"<dt>{name}</dt><dd>{self.text(text)}</dd>" for name, text in terms)
            parts.append(f'<dl class="terms">{rows}</dl>')
        return "".join([*parts, "</li>"])

    def telemetry(self) -> str:
        assert self.report.telemetry is not None
        parts = [f"<p>{self.text(words.sampled(self.report))}</p>"]
        for device in self.report.telemetry.devices:
            rows = []
            for figure in device.figures:
                label, *cells = words.figure_cells(figure)
                numbers = "".join(f'<td class="number">{self.text(cell)}</td>' for cell in cells)
                rows.append(f'<tr><th scope="row">{self.text(label)}</th>{numbers}</tr>')
            title = words.device_title(device)
            parts.append(f"<h3>{self.text(title)}</h3>")
            parts.append(_table(title, words.FIGURE_HEADS, rows, numbers=True))
            parts.append(f"<p>{self.text(words.reasons(device))}</p>")
        return "\n".join(parts)

    def questions(self) -> str:
        items = [
            f"<li>{self.text(question.ask)}"
            f'<div class="answer">{self.text(words.answer(question))}</div></li>'
            for question in self.report.questions
        ]
        return f'<ul class="questions">{"".join(items)}</ul>'

    def inputs(self, diagnosis: Diagnosis) -> str:
        rows = [
            (item.path, outline.input_text(item), "; ".join(item.notes))
            for item in diagnosis.inputs
        ]
        return self.table(("Path", "Read as", "Notes"), rows) if rows else "<p>None.</p>"

    def table(self, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        cut = outline.cut_list(rows, self.size.rows)
        made = []
        for row in cut.head:
            named = zip(heads[1:], row[1:], strict=True)
            cells = "".join(_cell(head, self.text(cell)) for head, cell in named)
            made.append(f'<tr><th scope="row">{self.text(row[0])}</th>{cells}</tr>')
        return _table(" ".join(heads), heads, made) + _more(cut.left_out)

    def text(self, text: str) -> str:
        limit = self.size.text
        return shown(text if len(text) <= limit else text[: limit - 1] + "…")


def _section(heading: str, body: str) -> str:
    return f"<section><h2>{heading}</h2>\n{body}</section>"


def _details(summary: str, body: str) -> str:
    return f"<details><summary>{summary}</summary>\n{body}\n</details>"


def _more(left_out: int) -> str:
    return f"<p><i>… and {left_out:,} more</i></p>" if left_out else ""


def _cell(head: str, body: str, kind: str = "") -> str:
    """A cell that has its column's heading with it, for where the rows are stacked."""
    named = f' class="{kind}"' if kind else ""
    return f'<td{named} data-head="{shown(head)}">{body}</td>'


def _table(name: str, heads: Sequence[str], rows: Sequence[str], *, numbers: bool = False) -> str:
    """A table that scrolls in its own box, by touch and by the keyboard."""
    kind = ' class="number"' if numbers else ""
    look = "" if numbers else ' class="stack"'
    head = "".join(
        f'<th scope="col"{kind if index else ""}>{shown(text)}</th>'
        for index, text in enumerate(heads)
    )
    return (
        f'<div class="scroll" tabindex="0" role="region" aria-label="{shown(name)}"><table{look}>'
        f"<thead><tr>{head}</tr></thead><tbody>{''.join(rows)}</tbody></table></div>"
    )
