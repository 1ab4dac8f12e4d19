"""The form for a terminal or a text file: plain lines of 80 columns, with colour if wanted."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TextIO

from gpuprobe.diagnosis import (
    Cause,
    CauseEntry,
    Diagnosis,
    Evidence,
    Input,
    NextStep,
    NotChecked,
    Role,
    RuledOut,
    Verdict,
)
from gpuprobe.reporters import outline
from gpuprobe.reporters.plain import columns, cut, fold, printable, wrap

"""Longer lines are hard to read, however wide the terminal is."""

LIST_LIMIT = 6
"""Rows of any other list shown unless everything is asked for."""

QUOTE_LINES = 3
"""Lines that one quote may take up, likewise; only proof gets more than one."""

Line = tuple[str, str]
"""A text and the rich style it gets, or "" for none."""


class TerminalReporter:
    """Writes what a person reads.

    Args:
        quiet: Only the one-sentence verdicts, each on one uncut line.
        verbose: Everything, uncut; without it long lists and quotes are shortened.
        colour: Use colour (rich is imported only then).
        fit_terminal: Use the terminal's width instead of 80 columns.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        verbose: bool = False,
        colour: bool = False,
        fit_terminal: bool = False,
    ) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.colour = colour
        self.columns = columns(fit_terminal=fit_terminal, least=40)

    def render(self, diagnosis: Diagnosis, out: TextIO) -> None:
        """See `Reporter.render`."""
        lines = self._brief(diagnosis) if self.quiet else self._whole(diagnosis)
        if self.colour:
            write_coloured(lines, out)
        else:
            out.writelines(f"{text}\n" for text, _ in lines)

    # --- the two lengths ---

    def _brief(self, diagnosis: Diagnosis) -> Iterator[Line]:
        several = bool(diagnosis.other_hosts)
        for one in outline.hosts(diagnosis):
            for verdict in one.verdicts:
                host = f"{printable(one.host or 'unnamed host')}: " if several else ""
                text = f"{host}[{outline.tag(verdict)}] {printable(verdict.summary)}"
                yield text, _verdict_style(verdict)

    def _whole(self, diagnosis: Diagnosis) -> Iterator[Line]:
        for number, one in enumerate(outline.hosts(diagnosis)):
            if number:
                yield "", ""
                yield from self._title(f"Another host: {printable(one.host or 'unnamed')}", "bold")
                yield "", ""
            for place, verdict in enumerate(one.verdicts):
                if place:
                    yield "", ""
                    yield "─" * self.columns, "dim"
                yield from self._verdict(verdict, one.host)
            yield from self._inputs(one.inputs)

    def _verdict(self, verdict: Verdict, host: str | None) -> Iterator[Line]:
        yield from self._title(
            f"[{outline.tag(verdict)}] {printable(verdict.summary)}", _verdict_style(verdict)
        )
        rows = [row for row in outline.facts(verdict, host) if row[0] != "Certainty"]
        yield from self._indented(
            "; ".join(f"{name}: {printable(value)}" for name, value in rows), 2, "dim"
        )
        for role, evidence in outline.by_role(verdict):
            yield from self._evidence(role, evidence)
        yield from self._ruled_out(verdict.ruled_out)
        yield from self._not_checked(verdict.not_checked)
        yield from self._causes(verdict.causes)
        yield from self._next_steps(verdict.next_steps)

    # --- the sections ---

    def _evidence(self, role: Role, evidence: list[Evidence]) -> Iterator[Line]:
        yield from self._heading(outline.role_heading(role, evidence))
        limit = None if self.verbose else outline.ROLE_LIMITS[role]
        shown = outline.cut_evidence(evidence, limit)
        quote_lines = QUOTE_LINES if role is Role.PROOF else 1
        for item in shown.head:
            yield from self._quote(item, quote_lines)
        yield from self._more(shown.left_out, 2)
        for item in shown.tail:
            yield from self._quote(item, quote_lines)

    def _quote(self, evidence: Evidence, most_lines: int) -> Iterator[Line]:
        times = f"  ({evidence.count:,} times)" if evidence.count > 1 else ""
        yield from self._indented(printable(outline.place(evidence)) + times, 2, "cyan")
        room = self.columns - 6
        rows = fold(printable(evidence.text), room)
        if not self.verbose and len(rows) > most_lines:
            # One column is kept free for the ellipsis.
            rows = [*rows[: most_lines - 1], cut(rows[most_lines - 1], room - 1) + "…"]
        for row in rows:
            yield f"    | {row}", ""
        if evidence.says:
            yield from self._indented(printable(evidence.says), 4, "italic")

    def _ruled_out(self, rows: tuple[RuledOut, ...]) -> Iterator[Line]:
        if not rows:
            return
        yield from self._heading(outline.RULED_OUT)
        shown = outline.cut_list(rows, self._limit())
        for row in shown.head:
            text = f"{printable(row.kind)}: {printable(row.why)}"
            figures = printable(outline.figures_text(row.figures))
            yield from self._item("-", f"{text} [{figures}]")
        yield from self._more(shown.left_out, 2)

    def _not_checked(self, rows: tuple[NotChecked, ...]) -> Iterator[Line]:
        if not rows:
            return
        yield from self._heading(outline.NOT_CHECKED)
        shown = outline.cut_list(rows, self._limit())
        for row in shown.head:
            yield from self._item("-", f"{printable(row.what)}: {printable(row.why)}")
            for how in outline.how_lines(row):
                # Never wrapped or cut: it is there to be copied.
                yield f"      {printable(how)}", "bold"
        yield from self._more(shown.left_out, 2)

    def _causes(self, causes: tuple[Cause, ...]) -> Iterator[Line]:
        if not causes:
            return
        yield from self._heading(f"{outline.CAUSES}  (+ speaks for, - against, ? not seen)")
        for cause in causes:
            score = outline.SCORE_NAMES.get(cause.score, cause.score)
            left = f"  {printable(cause.cause):<9} {printable(score):<9} "
            rows = [
                *self._entries("+", cause.pro),
                *self._entries("-", cause.against),
                *self._entries("?", cause.not_seen),
            ]
            for row in rows or [""]:
                yield f"{left}{row}".rstrip(), ""
                left = " " * len(left)

    def _entries(self, mark: str, entries: tuple[CauseEntry, ...]) -> Iterator[str]:
        shown = outline.cut_list(entries, None if self.verbose else 2)
        for entry in shown.head:
            text = f"{printable(entry.text)} ({printable(entry.rule)})"
            for number, row in enumerate(wrap(text, self.columns - 24)):
                yield f"{mark} {row}" if number == 0 else f"  {row}"
        if shown.left_out:
            yield f"  … and {shown.left_out} more (-v shows them)"

    def _next_steps(self, steps: tuple[NextStep, ...]) -> Iterator[Line]:
        if not steps:
            return
        yield from self._heading(outline.NEXT_STEPS)
        shown = outline.cut_list(steps, self._limit())
        for number, step in enumerate(shown.head, start=1):
            kind = printable(outline.step_kind(step))
            yield from self._item(f"{number}.", f"[{kind}] {printable(step.text)}")
            if step.command:
                # Never wrapped or cut: it is there to be copied.
                yield f"       {printable(step.command)}", "bold"
            for name, text in outline.step_terms(step):
                yield from self._indented(f"{name}: {printable(text)}", 5, "dim")
        yield from self._more(shown.left_out, 2)

    def _inputs(self, inputs: tuple[Input, ...]) -> Iterator[Line]:
        if not inputs:
            return
        yield from self._heading(outline.INPUTS)
        shown = outline.cut_list(inputs, self._limit())
        for item in shown.head:
            yield from self._item("-", f"{printable(item.path)}: {outline.input_text(item)}")
            for note in item.notes:
                yield from self._indented(printable(note), 4)
        yield from self._more(shown.left_out, 2)

    # --- lines ---

    def _limit(self) -> int | None:
        return None if self.verbose else LIST_LIMIT

    def _title(self, text: str, style: str) -> Iterator[Line]:
        for row in wrap(text, self.columns):
            yield row, style

    def _heading(self, text: str) -> Iterator[Line]:
        yield "", ""
        yield text, "bold"

    def _indented(self, text: str, indent: int, style: str = "") -> Iterator[Line]:
        for row in wrap(text, self.columns - indent):
            yield " " * indent + row, style

    def _item(self, mark: str, text: str) -> Iterator[Line]:
        lead = f"  {mark} "
        for row in wrap(text, self.columns - len(lead)):
            yield lead + row, ""
            lead = " " * len(lead)

    def _more(self, left_out: int, indent: int) -> Iterator[Line]:
        if left_out:
            yield f"{' ' * indent}… and {left_out:,} more (-v shows them)", "dim"


def _verdict_style(verdict: Verdict) -> str:
    if verdict.kind.value == "no-fault":
        return "bold green"
    return "bold yellow" if verdict.certainty is None else "bold red"


def write_coloured(lines: Iterable[Line], out: TextIO) -> None:
    """Write styled lines with colour, whatever `out` is."""
    from rich.console import Console
    from rich.text import Text

    console = Console(
        file=out, force_terminal=True, color_system="standard", no_color=False, highlight=False
    )
    for text, style in lines:
        console.print(Text(text, style=style), soft_wrap=True, crop=False)
