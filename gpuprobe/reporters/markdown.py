"""The form for an issue on GitHub: redacted, folded, and below the size GitHub accepts."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TextIO

from gpuprobe import __version__
from gpuprobe.diagnosis import CauseEntry, Diagnosis, Evidence, Role, Verdict
from gpuprobe.reporters import outline
from gpuprobe.reporters.plain import printable
from gpuprobe.reporters.redact import Redactor

MARK = "<!-- gpuprobe verdict: made for people; judge the logs again -->"
"""First line of the document, invisible; by it gpuprobe knows that this is no log."""

MOST_CHARACTERS = 60_000
"""GitHub refuses an issue body above 65,536 characters; the reporter may want to add words."""

_SPECIAL = re.compile(
    r"[\\`*_{}\[\]<>#+!|~&@$]|\b(?:https?|ftp):(?=//)|\bwww(?=\.)|\bGH(?=-\d)"
    r"|:(?=(?:[a-z][\w+-]*|[+-]1|100|1234):)",
    re.IGNORECASE,
)
_BREAK = "<!-- -->"
_LIST_MARK = re.compile(r"^(?=[-=])|^\d+(?=[.)](?:\s|$))")


@dataclass(frozen=True, slots=True)
class Size:
    """How much is shown: rows of each list, characters of each text, verdicts of each host."""

    rows: int | None
    text: int
    verdicts: int | None


SIZES = (
    Size(None, 2000, None),
    Size(60, 500, None),
    Size(20, 400, 10),
    Size(8, 300, 5),
    Size(3, 160, 2),
)
"""Tried in order until the document is short enough."""


class MarkdownReporter:
    """Writes GitHub-flavoured Markdown in which no log line can be markup, a link or a mention.

    Args:
        redactor: What has already redacted the diagnosis, so that the list of what was replaced
            can be shown. Without one, the reporter redacts by itself.
    """

    def __init__(self, redactor: Redactor | None = None) -> None:
        self.redactor = redactor

    def render(self, diagnosis: Diagnosis, out: TextIO) -> None:
        """See `Reporter.render`."""
        redactor = self.redactor
        if redactor is None:
            redactor = Redactor()
            diagnosis = redactor.diagnosis(diagnosis)
        for size in SIZES:
            blocks = list(Writer(size).document(diagnosis, redactor))
            if sum(len(block) + 1 for block in blocks) <= MOST_CHARACTERS:
                break
        else:
            blocks = _drop(blocks)
        out.write("\n".join(blocks) + "\n")


def _drop(blocks: list[str]) -> list[str]:
    """Leave out whole blocks from the end until the rest is short enough."""
    note = "\n*The rest was left out for its length.*"
    room = MOST_CHARACTERS - len(note) - 1
    kept = []
    for block in blocks:
        room -= len(block) + 1
        if room < 0:
            break
        kept.append(block)
    return [*kept, note]


def escape(text: str) -> str:
    """Return `text` as Markdown that shows exactly `text`: no markup, link, mention or HTML.

    GitHub finds mentions, issue numbers, addresses and the names of pictures, such as `:100:`
    in `file.py:100:7`, after it has undone backslashes, so an empty comment is put behind what
    starts one.
    """
    text = _SPECIAL.sub(_escaped, printable(text).strip())
    # At the start of a line these would make a list, a heading underline or a quote.
    return _LIST_MARK.sub(lambda match: f"{match[0]}\\", text, count=1)


def _escaped(match: re.Match[str]) -> str:
    found = match[0]
    if found == "<":
        return "&lt;"
    if found == ">":
        return "&gt;"
    if found == "&":
        return "&amp;"
    if found in ("@", ":"):
        return f"{found}{_BREAK}"
    if found == "#":
        return f"\\#{_BREAK}"
    if len(found) > 1:
        return found + _BREAK
    return f"\\{found}"


def fence(text: str, language: str = "") -> str:
    """Return `text` in a code fence that no run of backticks in it can close."""
    longest = max((len(run) for run in re.findall(r"`+", text)), default=0)
    marks = "`" * max(3, longest + 1)
    return f"{marks}{language}\n{text}\n{marks}"


def code(text: str) -> str:
    """Return `text` in a code span: it is copied as it stands, from the page and from the file."""
    text = printable(text)
    marks = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    room = " " if "`" in text else ""
    return f"{marks}{room}{text}{room}{marks}"


class Writer:
    """The blocks of a document at one size; each block is whole, so that any can be left out."""

    def __init__(self, size: Size) -> None:
        self.size = size

    def document(self, diagnosis: Diagnosis, redactor: Redactor) -> Iterator[str]:
        """All of it, host by host."""
        yield MARK
        for number, one in enumerate(outline.hosts(diagnosis)):
            if number:
                yield f"\n# Another host: {self.text(one.host or 'unnamed')}"
            shown = outline.cut_list(one.verdicts, self.size.verdicts)
            for verdict in shown.head:
                yield from self.verdict(verdict, one.host)
            if shown.left_out:
                yield f"\n*… and {shown.left_out:,} more verdicts.*"
            yield from self.inputs(one)
        replaced = redactor.summary()
        yield f"\nRedacted: {self.text(replaced)}." if replaced else "\nRedacted: nothing found."
        yield f"gpuprobe {__version__}"

    def verdict(self, verdict: Verdict, host: str | None) -> Iterator[str]:
        """A verdict with everything under it."""
        yield f"\n## {self.text(verdict.summary)}"
        yield self.table(("Fact", "Value"), outline.facts(verdict, host))
        for role, evidence in outline.by_role(verdict):
            yield self.evidence(role, evidence)
        if verdict.ruled_out:
            rows = [
                (row.kind, row.why, outline.figures_text(row.figures)) for row in verdict.ruled_out
            ]
            body = self.table(("Cause", "Why not", "Figures"), rows)
            yield f"\n### {outline.RULED_OUT}\n{body}"
        if verdict.not_checked:
            yield self.not_checked(verdict)
        if verdict.causes:
            yield self.causes(verdict)
        if verdict.next_steps:
            yield f"\n### {outline.NEXT_STEPS}"
            yield from self.next_steps(verdict)

    def not_checked(self, verdict: Verdict) -> str:
        """What was not among the inputs; each way to look at it stands alone."""
        shown = outline.cut_list(verdict.not_checked, self.size.rows)
        lines = [f"\n### {outline.NOT_CHECKED}\n"]
        for row in shown.head:
            # A table would squeeze the command, which is the longest of the three.
            ways = "".join(f"<br>How: {code(self.cut(how))}" for how in outline.how_lines(row))
            lines.append(f"- **{self.text(row.what)}**: {self.text(row.why)}{ways}")
        if shown.left_out:
            lines.append(f"- … and {shown.left_out:,} more")
        return "\n".join(lines)

    def evidence(self, role: Role, evidence: list[Evidence]) -> str:
        """The quotes of one role; only proofs are shown without a click."""
        shown = outline.cut_list(evidence, self.size.rows, keep_last=role is Role.CONSEQUENCE)
        parts = [self.quote(item) for item in shown.head]
        if shown.left_out:
            parts.append(f"*… and {shown.left_out:,} more*\n")
        parts += [self.quote(item) for item in shown.tail]
        heading = outline.role_heading(role, evidence)
        if role is Role.PROOF:
            return f"\n### {heading}\n\n" + "\n".join(parts)
        return details(heading, "\n".join(parts))

    def quote(self, evidence: Evidence) -> str:
        """One line with its place, in a fence."""
        times = f" ({evidence.count:,} times)" if evidence.count > 1 else ""
        says = f" — {self.text(evidence.says)}" if evidence.says else ""
        head = f"**{self.text(outline.place(evidence))}**{times}{says}"
        return f"{head}\n\n{fence(self.cut(printable(evidence.text)), 'text')}\n"

    def causes(self, verdict: Verdict) -> str:
        """The scorecard."""

        def cell(entries: tuple[CauseEntry, ...]) -> str:
            shown = outline.cut_list(entries, self.size.rows)
            texts = [f"{self.text(entry.text)} ({self.text(entry.rule)})" for entry in shown.head]
            if shown.left_out:
                texts.append(f"… and {shown.left_out:,} more")
            return "<br>".join(texts)

        lines = ["| Cause | Score | For | Against | Not seen |", "| --- | --- | --- | --- | --- |"]
        for cause in verdict.causes:
            score = outline.SCORE_NAMES.get(cause.score, cause.score)
            cells = (cell(cause.pro), cell(cause.against), cell(cause.not_seen))
            lines.append(f"| {self.text(cause.cause)} | {self.text(score)} | {' | '.join(cells)} |")
        return f"\n### {outline.CAUSES}\n\n" + "\n".join(lines)

    def next_steps(self, verdict: Verdict, first: int = 1) -> Iterator[str]:
        """The steps, numbered from `first`."""
        shown = outline.cut_list(verdict.next_steps, self.size.rows)
        for number, step in enumerate(shown.head, start=first):
            kind = self.text(outline.step_kind(step))
            lines = [f"\n**{number}.** *{kind}* — {self.text(step.text)}"]
            terms = outline.step_terms(step)
            if terms:
                texts = [f"{name}: {self.text(text)}" for name, text in terms]
                lines.append("<br>".join(["", *texts]))
            if step.command:
                lines.append("\n" + fence(printable(step.command), "sh"))
            yield "".join(lines)
        if shown.left_out:
            yield f"\n*… and {shown.left_out:,} more*"

    def inputs(self, diagnosis: Diagnosis) -> Iterator[str]:
        """What was read, folded."""
        if not diagnosis.inputs:
            return
        rows = [
            (item.path, outline.input_text(item), "; ".join(item.notes))
            for item in diagnosis.inputs
        ]
        body = self.table(("Path", "Read as", "Notes"), rows)
        yield details(f"{outline.INPUTS} ({len(rows):,})", body)

    def table(self, heads: tuple[str, ...], rows: Sequence[tuple[str, ...]]) -> str:
        """A table, every cell escaped."""
        shown = outline.cut_list(rows, self.size.rows)
        lines = ["", f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
        lines += [f"| {' | '.join(self.text(cell) for cell in row)} |" for row in shown.head]
        if shown.left_out:
            lines.append(f"| … and {shown.left_out:,} more |{' |' * (len(heads) - 1)}")
        return "\n".join(lines)

    def text(self, text: str) -> str:
        """Cut and escaped."""
        return escape(self.cut(text))

    def cut(self, text: str) -> str:
        """Cut to the length of this size."""
        return text if len(text) <= self.size.text else text[: self.size.text - 1] + "…"


def details(summary: str, body: str) -> str:
    """A body that is shown when its summary is clicked; neither is escaped here."""
    return f"\n<details><summary>{summary}</summary>\n\n{body}\n\n</details>"
