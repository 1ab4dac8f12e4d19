"""One command runs every benchmark that the machine allows."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import others
from benchmarks.make_logs import make_log
from benchmarks.table import Row

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("part", others.PARTS, ids=lambda part: part.name)
def test_each_part_is_a_program(part: others.Part) -> None:
    """What `python -m benchmarks` starts is there and can be started by itself."""
    text = (ROOT / "benchmarks" / f"{part.arguments[0]}.py").read_text("utf-8")

    assert 'if __name__ == "__main__":' in text


def test_what_the_machine_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part that cannot run has a section that names the reason."""
    lacking = others.Part("x", "Title", ("nothing",), lambda: "a unicorn")
    monkeypatch.setattr(others, "PARTS", (lacking,))

    assert list(others.run(frozenset({"x"}))) == [
        "## Title\n\nLeft out: this machine lacks a unicorn.\n"
    ]
    assert list(others.run(frozenset())) == []


def test_a_part_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    """The page shows its error instead of a figure."""
    monkeypatch.setattr(others, "PARTS", (others.Part("x", "Title", ("no_such_program",)),))

    (section,) = others.run(frozenset({"x"}))
    assert "ended with 1" in section


def test_an_unknown_part_is_a_usage_error() -> None:
    """A misspelt part is no empty table."""
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks", "--parts", "relais"], cwd=ROOT, capture_output=True
    )

    assert done.returncode == 2
    assert b"relais" in done.stderr


def test_a_figure_without_a_target_is_neither_met_nor_missed() -> None:
    """A limit is there to be compared with."""
    assert Row("limit", "2 s", "cat: 1 s", "2x", "-", None).cells()[-1] == "-"


def test_a_json_log_says_what_the_text_log_says(tmp_path: Path) -> None:
    """Both forms hold the same messages in the same order."""
    text, lines = tmp_path / "half-aer.log", tmp_path / "half-aer.json"
    make_log(text, "half-aer", 1)
    make_log(lines, "half-aer", 1)

    for line, entry in zip(text.open(), lines.open(), strict=True):
        fields = json.loads(entry)
        assert line.rstrip("\n").endswith(fields["MESSAGE"])
        assert fields["SYSLOG_IDENTIFIER"] in line
