"""The text form reads well, fits and is harmless."""

from __future__ import annotations

import unicodedata

import pytest

from gpuprobe.diagnosis import Certainty, Diagnosis, Evidence, Input, Kind, Role, Verdict
from gpuprobe.reporters.plain import cut, fold, printable, width, wrap
from gpuprobe.reporters.terminal import TerminalReporter


@pytest.mark.parametrize(
    ("name", "options"),
    [
        ("loss", {}),
        ("loss", {"verbose": True}),
        ("loss", {"quiet": True}),
        ("nothing", {}),
        ("two_hosts", {"quiet": True}),
        ("two_hosts", {}),
    ],
)
def test_the_whole_text_is_the_stored_one(name, options, request, rendered, compare) -> None:
    """Every word and blank of the text form is as it was."""
    text = rendered(TerminalReporter(**options), request.getfixturevalue(name))

    compare(f"{'-'.join([name, *options])}.txt", text)


@pytest.mark.parametrize("name", ["loss", "nothing", "two_hosts", "hostile", "huge"])
@pytest.mark.parametrize("verbose", [False, True])
def test_lines_fit_80_columns(name, verbose, request, rendered) -> None:
    """Only a command, which is there to be copied, may be longer."""
    diagnosis = request.getfixturevalue(name)
    commands = {
        f"       {printable(step.command)}"
        for verdict in diagnosis.verdicts
        for step in verdict.next_steps
        if step.command
    } | {
        f"      {printable(row.how)}"
        for verdict in diagnosis.verdicts
        for row in verdict.not_checked
    }

    for line in rendered(TerminalReporter(verbose=verbose), diagnosis).splitlines():
        assert width(line) <= 80 or line in commands


@pytest.mark.parametrize("options", [{}, {"quiet": True}, {"verbose": True}])
def test_no_control_character_of_a_log_gets_through(options, hostile, rendered) -> None:
    """Neither ESC nor NUL nor a right-to-left override reaches the terminal."""
    text = rendered(TerminalReporter(**options), hostile)

    assert not {c for c in text if unicodedata.category(c) in {"Cc", "Cf", "Cs", "Zl"}} - {"\n"}
    assert "\\x1b[2J" in text
    assert "\\u202e" in text


def test_colour_adds_only_colours(hostile, rendered) -> None:
    """With colour, the only escapes are SGR, and without them the text is the same."""
    import re

    plain = rendered(TerminalReporter(), hostile)
    coloured = rendered(TerminalReporter(colour=True), hostile)

    assert coloured != plain
    assert re.sub(r"\x1b\[[\d;]*m", "", coloured) == plain


def test_the_first_line_is_the_verdict_with_its_certainty(loss, rendered) -> None:
    """Who reads one line has the answer."""
    first = rendered(TerminalReporter(), loss).splitlines()[0]

    assert first.startswith("[confirmed] GPU 0000:0b:00.0 left the bus")


def test_consequences_show_one_of_each_meaning_and_the_last(rendered) -> None:
    """A flood of one message hides none of another meaning, and the last is shown."""
    says = ["clean-up"] * 20 + ["the program met CUDA 719"] + ["clean-up"] * 20
    evidence = tuple(
        Evidence(Role.CONSEQUENCE, f"line {n}", "k.log", n, says=words)
        for n, words in enumerate(says, start=1)
    )
    verdict = Verdict(Kind.GPU_HANG, Certainty.LIKELY, "It hangs.", evidence=evidence)
    diagnosis = Diagnosis((verdict,), (Input("k.log", "text", 41),))
    text = rendered(TerminalReporter(), diagnosis)

    assert "What follows from it (41 lines)" in text
    assert [n for n in range(1, 42) if f"k.log:{n}\n" in text] == [1, 21, 41]
    assert "… and 38 more (-v shows them)" in text
    assert "-v shows them" not in rendered(TerminalReporter(verbose=True), diagnosis)


def test_cut_quotes_end_with_an_ellipsis_and_verbose_shows_all(rendered) -> None:
    """Nothing is cut without a sign, and -v cuts nothing."""
    long = "NVRM: " + "word " * 90 + "last."
    evidence = Evidence(Role.PROOF, long, "k.log", 1)
    verdict = Verdict(Kind.GPU_HANG, Certainty.LIKELY, "It hangs.", evidence=(evidence,))
    diagnosis = Diagnosis((verdict,), (Input("k.log", "text", 1),))

    quotes = [
        line for line in rendered(TerminalReporter(), diagnosis).splitlines() if "  | " in line
    ]
    assert len(quotes) == 3
    assert quotes[-1].endswith("…")
    verbose = rendered(TerminalReporter(verbose=True), diagnosis)
    assert "last." in verbose
    assert "…" not in verbose


def test_wrapping_counts_columns_not_letters() -> None:
    """Wide letters take two columns, and a word longer than the line is broken."""
    assert wrap("漢字漢字", 4) == ["漢字", "漢字"]
    assert wrap("a bb ccc", 4) == ["a bb", "ccc"]
    assert wrap("x" * 10_000, 80) == ["x" * 80] * 125
    assert cut("漢字漢字", 5) == "漢字…"
    assert wrap("漢", 1) == ["漢"]


def test_folding_keeps_blanks_of_a_quote() -> None:
    """A quote is not re-spaced."""
    assert fold("AER:   device [10de:2204] error", 80) == ["AER:   device [10de:2204] error"]
    assert fold("aaaa bbbb cccc", 10) == ["aaaa bbbb", "cccc"]
