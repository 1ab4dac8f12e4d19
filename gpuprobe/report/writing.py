"""Writing a report: the form by the file's suffix, redacted, whole or not at all."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Final, TextIO

from gpuprobe.diagnosis import Diagnosis
from gpuprobe.options import Options
from gpuprobe.output_file import replacing, write_whole
from gpuprobe.report.contents import Report
from gpuprobe.report.forms import check_output
from gpuprobe.report.gathering import Gathered, with_saved
from gpuprobe.reporters.redact import Redactor
from gpuprobe.reporters.report_redacted import redacted

_NUMBER: Final = re.compile(r"\d+[> ] ")


@dataclass(slots=True)
class Written:
    """What came of writing a report.

    Attributes:
        redactor: What knows what was replaced.
        files: What was written, the report first.
        problems: What is missing from it and why, in sentences.
    """

    redactor: Redactor
    files: list[Path] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)


def write(
    gathered: Gathered, output: Path, *, keep: Iterable[str] = (), plots: bool = True
) -> Written:
    """Write the report to `output` and what belongs beside it.

    Args:
        gathered: What was read.
        output: Where to; its suffix says which form.
        keep: What is not redacted, beside what its audience needs.
        plots: Whether to draw.

    Raises:
        UsageError: It cannot be written there, or `keep` names nothing.
    """
    check_output(output, [reading.input.path for reading in gathered.readings])
    form = output.suffix.lower()
    is_read_again = form in (".json", ".zip") and gathered.readings
    report = with_saved(gathered) if is_read_again else gathered.report
    report, redactor = redacted(report, keep, gathered.folders)
    done = Written(redactor)
    if form == ".zip":
        from gpuprobe.reporters.bundle import pack

        with replacing(output) as file:
            pack(_members(gathered, report, done, plots), file, report.made)
        done.files.append(output)
    else:
        pictures = _pictures(report, done, plots) if form == ".md" else []
        names = [f"{output.stem}-{name}" for name, _ in pictures]
        text = _rendered(report, form, done, names, plots)
        _write(output, text.encode("utf-8", "replace"), done)
        for name, (_, picture) in zip(names, pictures, strict=True):
            _write(output.with_name(name), picture, done)
    if redactor.replaced():
        done.files.append(redactor.write_map(output))
    return done


def markdown(gathered: Gathered, out: TextIO, *, keep: Iterable[str] = ()) -> Redactor:
    """Write the Markdown form to a stream; there is no place beside it for plots."""
    from gpuprobe.reporters.report_markdown import ReportMarkdown

    report, redactor = redacted(gathered.report, keep, gathered.folders)
    ReportMarkdown().render(report, out)
    return redactor


def _rendered(
    report: Report, form: str, done: Written, pictures: Sequence[str], plots: bool
) -> str:
    """One form of the report as text; a form's module is loaded only when it is asked for."""
    out = io.StringIO()
    if form == ".md":
        from gpuprobe.reporters.report_markdown import ReportMarkdown

        ReportMarkdown(pictures).render(report, out)
    elif form == ".html":
        from gpuprobe.reporters.report_html import HtmlReporter

        reporter = HtmlReporter(plots=plots)
        reporter.render(report, out)
        _say_once(done, reporter.problem)
    else:
        from gpuprobe.reporters.report_json import ReportJson

        ReportJson().render(report, out)
    return out.getvalue()


def _pictures(report: Report, done: Written, plots: bool) -> list[tuple[str, bytes]]:
    """The plots as PNG, or none where they cannot be drawn, which is said."""
    if report.telemetry is None or not plots:
        return []
    from gpuprobe.report.drawing import PlotsMissingError, pictures

    try:
        return list(pictures(report.telemetry))
    except PlotsMissingError as error:
        _say_once(done, f"{error}: {error.hint}")
        return []


def _say_once(done: Written, problem: str) -> None:
    if problem and problem not in done.problems:
        done.problems.append(problem)


# --- the members of the ZIP ------------------------------------------------------------------


def _members(
    gathered: Gathered, report: Report, done: Written, plots: bool
) -> Iterator[tuple[str, bytes]]:
    pictures = _pictures(report, done, plots)
    names = [f"plots/{name}" for name, _ in pictures]
    for form in (".json", ".md", ".html"):
        text = _rendered(report, form, done, names if form == ".md" else (), plots)
        yield f"report{form}", text.encode("utf-8", "replace")
    for name, (_, picture) in zip(names, pictures, strict=True):
        yield name, picture
    yield from _excerpts(gathered, done.redactor)
    yield from _tables(gathered, done)


def _excerpts(gathered: Gathered, redactor: Redactor) -> Iterator[tuple[str, bytes]]:
    from gpuprobe.report.attachments import excerpts

    found = [(path, [_numbered(line) for line in lines]) for path, lines in excerpts(gathered)]
    for _, lines in found:
        redactor.learn(text for _, text in lines)
        redactor.learn_broken(text for _, text in lines)
    for number, (path, lines) in enumerate(found, start=1):
        for folder in gathered.folders:
            path = path.removeprefix(folder)
        shown = [redactor.text(path), "", *(mark + redactor.text(text) for mark, text in lines)]
        text = "\n".join(shown) + "\n"
        yield f"evidence/{number:02}.txt", text.encode("utf-8", "replace")


def _numbered(line: str) -> tuple[str, str]:
    """The number before a line, and the line: what stands at its beginning is a host or a user."""
    found = _NUMBER.match(line)
    return (found[0], line[found.end() :]) if found else ("", line)


def _tables(gathered: Gathered, done: Written) -> Iterator[tuple[str, bytes]]:
    from gpuprobe.report.attachments import tables, to_csv, to_parquet

    for name, columns, rows in tables(gathered):
        yield f"telemetry/{name}.csv", to_csv(columns, rows)
        parquet = to_parquet(columns, rows)
        if parquet is not None:
            yield f"telemetry/{name}.parquet", parquet
        else:
            _say_once(done, "no Parquet, only CSV: pip install 'gpuprobe[report]'")


# --- files -----------------------------------------------------------------------------------


def _write(path: Path, data: bytes, done: Written) -> None:
    write_whole(path, data)
    done.files.append(path)


# --- a verdict alone -------------------------------------------------------------------------


def write_verdict(diagnosis: Diagnosis, output: Path) -> Written:
    """Write the report of a run of which nothing but the diagnosis is left.

    Raises:
        UsageError: It cannot be written there.
    """
    report = Report(
        diagnosis=diagnosis,
        facts=(),
        incident=(),
        telemetry=None,
        questions=(),
        maintainer=("The run was not recorded: this verdict is all there is of it.",),
        audience="engine",
        made=datetime.now(UTC).isoformat(timespec="seconds"),
    )
    return write(Gathered(report, [], [], Options()), output)
