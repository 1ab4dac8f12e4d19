"""Ways to check what was not checked: each stands alone, so that it can be copied."""

from __future__ import annotations

import io
import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprobe import diagnose
from gpuprobe.diagnosis import NotChecked
from gpuprobe.reporters.markdown import MarkdownReporter, code
from gpuprobe.reporters.report_html import HtmlReporter
from gpuprobe.reporters.report_markdown import ReportMarkdown
from gpuprobe.reporters.terminal import TerminalReporter
from tests.report.reports import left_the_bus

EXAMPLE = Path(__file__).parents[2] / "examples" / "left-the-bus"
SMI = (
    "nvidia-smi --query-gpu=timestamp,pci.bus_id,power.draw,power.limit,temperature.gpu,"
    "clocks_event_reasons.active --format=csv -lms 200 > samples.csv"
)


def test_no_way_holds_a_remark() -> None:
    """What is for people stands in the reason: a bracket would be run with the command."""
    ways = [row.how for row in diagnose(EXAMPLE).verdicts[0].not_checked]

    assert f"gpuprobe record\n{SMI}" in ways
    assert not any("(" in way for way in ways)


def test_text_has_each_on_a_line_of_its_own() -> None:
    """Longer than the screen is wide, and still in one piece."""
    out = io.StringIO()
    TerminalReporter().render(diagnose(EXAMPLE), out)
    lines = [line.strip() for line in out.getvalue().splitlines()]

    assert lines[lines.index("gpuprobe record") + 1] == SMI


@pytest.mark.parametrize("form", ["verdict", "report"])
def test_markdown_has_each_as_code(form: str) -> None:
    """Copied from the file, nothing in it is escaped."""
    out = io.StringIO()
    if form == "verdict":
        MarkdownReporter().render(diagnose(EXAMPLE), out)
    else:
        ReportMarkdown().render(left_the_bus(), out)

    assert f"<br>How: `gpuprobe record`<br>How: `{SMI}`\n" in out.getvalue()


def test_a_page_has_each_as_code() -> None:
    """With a line end between them."""
    out = io.StringIO()
    HtmlReporter(plots=False).render(left_the_bus(), out)

    assert f"<code>gpuprobe record</code><br><code>{SMI.replace('>', '&gt;')}</code>" in (
        out.getvalue()
    )


@pytest.mark.parametrize("text", ["a`b", "``", "`<img src=x>`", "a\n\n# b", "\x1b[31m`x`"])
def test_code_cannot_be_left(text: str) -> None:
    """More backticks than are in it, one line, no control characters."""
    found = re.fullmatch(r"(`+) ?(.*?) ?\1", code(text))

    assert found is not None
    assert found[1] not in re.findall(r"`+", found[2])
    assert "\n" not in found[2]
    assert "\x1b" not in found[2]


def test_a_hostile_way_stays_in_its_code() -> None:
    """A recording's hint may come from anybody."""
    found = diagnose(EXAMPLE)
    row = NotChecked("x", "y", "`<img src=x onerror=alert(1)>` @admin")
    first = replace(found.verdicts[0], not_checked=(row,))
    out = io.StringIO()
    MarkdownReporter().render(replace(found, verdicts=(first,)), out)

    assert "<br>How: `` `<img src=x onerror=alert(1)>` @admin ``\n" in out.getvalue()
