"""What gpuprobe wrote is known by its first bytes, and logs that quote it are not taken for it."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from gpuprobe import diagnose
from gpuprobe.reporters.json import JsonReporter
from gpuprobe.reporters.markdown import MARK, MarkdownReporter
from gpuprobe.reporters.redact import Redactor
from gpuprobe.reporters.terminal import TerminalReporter
from gpuprobe.sources.files.magic import Kind, identify

EXAMPLE = Path(__file__).parents[2] / "examples" / "left-the-bus"
CUDA = "torch.AcceleratorError: CUDA error: unspecified launch failure"


@pytest.mark.parametrize(
    ("reporter", "kind"),
    [
        (TerminalReporter(), Kind.VERDICT),
        (TerminalReporter(colour=True, verbose=True), Kind.VERDICT),
        (JsonReporter(), Kind.VERDICT),
        (MarkdownReporter(), Kind.VERDICT),
    ],
)
@pytest.mark.parametrize("said", [EXAMPLE / "kernel.log", EXAMPLE / "engine.log", EXAMPLE])
def test_every_form_of_a_verdict_is_known(reporter, kind, said) -> None:
    """A loss, and what only an engine says."""
    out = io.StringIO()
    reporter.render(diagnose(said), out)

    assert identify(out.getvalue().encode()[:4096]) is kind


def test_a_verdict_without_a_fault_is_known(tmp_path: Path) -> None:
    """Its mark is in words, not a certainty."""
    log = tmp_path / "quiet.log"
    log.write_text("Sep 14 21:16:40 lathe systemd[1]: Started Session 3 of User root.\n")
    out = io.StringIO()
    TerminalReporter().render(diagnose(log), out)

    assert out.getvalue().startswith("[no fault]")
    assert identify(out.getvalue().encode()) is Kind.VERDICT


def test_the_list_of_what_stands_for_what_is_known(tmp_path: Path) -> None:
    """It holds the names that were replaced, and is of no use as a log."""
    redactor = Redactor()
    redactor.diagnosis(diagnose(EXAMPLE))

    path = redactor.write_map(tmp_path / "report.md")

    assert identify(path.read_bytes()) is Kind.VERDICT


@pytest.mark.parametrize(
    "text",
    [
        f"[confirmed] order 17 is on its way\n{CUDA}\n",
        "I ran gpuprobe and it said:\n[confirmed] GPU 0000:04:00.0 left the bus.\n  Kind: device-left-bus;\n",
        '{"schema": "gpuprobe.events/x"}\n',
        '{"level": "info", "schema": "gpuprobe.diagnosis/1"}\n',
        f"# What stands for what\n{CUDA}\n",
    ],
)
def test_what_only_looks_alike_is_text(text: str) -> None:
    """A log with brackets, a message about a verdict, another object."""
    assert identify(text.encode()) is Kind.TEXT


def test_the_mark_of_markdown_is_its_first_line() -> None:
    """Invisible on GitHub, and nothing of a log can stand before it."""
    out = io.StringIO()
    MarkdownReporter().render(diagnose(EXAMPLE), out)

    assert out.getvalue().splitlines()[0] == MARK
