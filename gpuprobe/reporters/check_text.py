"""A check for a person: one line a finding, GPU by GPU, then the host."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TextIO

from gpuprobe.checks.base import REQUIREMENT_NOT_MET, CheckFinding, Status
from gpuprobe.checks.report import CheckedGpu, CheckReport
from gpuprobe.reporters.plain import columns, count, printable, width, wrap

LABEL_COLUMNS = 18

MARKS = {
    Status.OK: ("ok", "green"),
    Status.NOTE: ("note", ""),
    Status.WARN: ("warn", "yellow"),
    Status.BAD: ("BAD", "bold red"),
    Status.NOT_CHECKED: ("-", "dim"),
}
"""How each status is marked, and the rich style of the line."""

READY = "ready"
"""The check whose findings about the host stand in a section of their own."""

FEW = 2
"""GPUs that are shown line by line; of more than these, what is well takes one line each."""

TOLD = ("link", "power", "temperature")
"""Findings whose figures that line holds."""

Line = tuple[str, str]


class CheckTextReporter:
    """Writes what a person reads.

    Args:
        quiet: Only the answer, and what is wrong or should be mended.
        colour: Use colour (rich is imported only then).
        fit_terminal: Use the terminal's width instead of 80 columns.
        verbose: A line for everything that is well, however many GPUs there are.
    """

    def __init__(
        self,
        *,
        quiet: bool = False,
        colour: bool = False,
        fit_terminal: bool = False,
        verbose: bool = False,
    ) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.colour = colour
        self.columns = columns(fit_terminal=fit_terminal, least=60)

    def render(self, report: CheckReport, out: TextIO) -> None:
        """Write `report` to `out`, ending with a newline."""
        lines = self._lines(report)
        if self.colour:
            from gpuprobe.reporters.terminal import write_coloured

            write_coloured(lines, out)
        else:
            out.writelines(f"{text}\n" for text, _ in lines)

    def _lines(self, report: CheckReport) -> Iterator[Line]:
        style = {0: "bold green", 3: "bold yellow"}.get(report.exit_code, "bold red")
        for row in wrap(f"[{report.answer}] {printable(headline(report))}", self.columns):
            yield row, style
        short = len(report.gpus) > FEW and not self.verbose
        for gpu in report.gpus:
            yield from self._section(_title(gpu), report.of(gpu.pci), short=short)
        host = report.of(None)
        yield from self._section("Host", [f for f in host if f.check != READY])
        yield from self._section(
            "Would the next loss be provable?", [f for f in host if f.check == READY]
        )

    def _section(
        self, title: str, findings: Sequence[CheckFinding], *, short: bool = False
    ) -> Iterator[Line]:
        if self.quiet:
            findings = [f for f in findings if f.status in (Status.WARN, Status.BAD)]
        if not findings:
            return
        yield "", ""
        yield printable(title), "bold"
        well = [finding for finding in findings if finding.status is Status.OK]
        if short and len(well) > 1:
            told = "; ".join(finding.text for finding in well if finding.what in TOLD)
            yield from self._finding(Status.OK, f"{len(well)} checks", told or "all well", "")
            findings = [finding for finding in findings if finding.status is not Status.OK]
        seen = [finding for finding in findings if finding.status is not Status.NOT_CHECKED]
        for finding in seen:
            yield from self._finding(finding.status, finding.what, finding.text, finding.how)
        for whats, text, how in _folded(findings):
            yield from self._finding(Status.NOT_CHECKED, "not checked", f"{whats}: {text}", how)

    def _finding(self, status: Status, label: str, text: str, how: str) -> Iterator[Line]:
        mark, style = MARKS[status]
        lead = f"  {mark:<5}{printable(label):<{LABEL_COLUMNS}} "
        indent = " " * (7 + LABEL_COLUMNS + 1)
        if width(lead) > len(indent):
            lead = lead.rstrip() + ": "
        rows = wrap(printable(text), max(24, self.columns - len(indent)))
        if width(lead) > len(indent):
            rows = wrap(printable(text), max(24, self.columns - width(lead))) or [""]
        yield (lead + (rows[0] if rows else "")).rstrip(), style
        for row in rows[1:]:
            yield indent + row, style
        if how and status is not Status.OK:
            # A command stays on one line, so that it can be copied.
            yield f"{' ' * 7}-> {printable(how)}", ""


def _title(gpu: CheckedGpu) -> str:
    return f"GPU {gpu.pci}" + (f"  {gpu.name}" if gpu.name else "")


def _folded(findings: Iterable[CheckFinding]) -> Iterator[tuple[str, str, str]]:
    """What was not checked, joined where the reason and the remedy are the same."""
    groups: dict[tuple[str, str], list[str]] = {}
    for finding in findings:
        if finding.status is Status.NOT_CHECKED:
            groups.setdefault((finding.text, finding.how), []).append(finding.what)
    for (text, how), whats in groups.items():
        yield ", ".join(dict.fromkeys(whats)), text, how


def headline(report: CheckReport) -> str:
    """The answer in one sentence."""
    bad = [
        finding
        for finding in report.findings
        if finding.status is Status.BAD and str(finding.kind) == report.answer
    ]
    if bad:
        first = bad[0]
        who = f"GPU {first.subject}: " if first.subject else ""
        more = f" (and {len(bad) - 1} more)" if len(bad) > 1 else ""
        need = "its link is less than what is needed: " if _unmet(report) else ""
        return f"{who}{need}{first.text}{more}."
    if report.undecided:
        first = report.undecided[0]
        return f"GPU {first.subject}: {first.what} could not be judged: {first.text}."
    warnings = sum(finding.status is Status.WARN for finding in report.findings)
    unseen = sum(finding.status is Status.NOT_CHECKED for finding in report.findings)
    if not any(gpu.looked_at for gpu in report.gpus):
        many = (
            count(len(report.gpus), "GPU") + " known" if report.gpus else "there is none in sight"
        )
        return f"No GPU could be looked at ({many})."
    blind = [gpu for gpu in report.gpus if not gpu.looked_at]
    rest = ", ".join(
        part
        for part in (
            count(warnings, "warning") if warnings else "",
            f"{unseen} not checked" if unseen else "",
        )
        if part
    )
    said = "Nothing is wrong now"
    if blind:
        said = (
            f"Nothing is wrong at {count(len(report.gpus) - len(blind), 'GPU')}; "
            f"{count(len(blind), 'GPU')} could not be looked at"
        )
    return said + (f" ({rest})." if rest else ".")


def _unmet(report: CheckReport) -> bool:
    return report.answer == REQUIREMENT_NOT_MET
