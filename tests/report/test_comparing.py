"""Which flag goes with the fault."""

from __future__ import annotations

from pathlib import Path

from gpuprobe.report.comparing import Run, compare, flags
from tests.report.report_bench import recorded, report_of


def runs(failed: int, of: int, *argv: str) -> list[Run]:
    return [Run(argv, number < failed) for number in range(of)]


def test_flags_in_every_spelling() -> None:
    """With `=`, with a blank, without a value, with a negative number."""
    found = flags(["x", "--a=1", "--b", "2", "--c", "--d", "-1", "-m", "n/m"])

    assert found == {"--a": "1", "--b": "2", "--c": "set", "--d": "-1", "-m": "n/m"}


def test_the_flag_that_differs_is_named_with_its_figures() -> None:
    """Five of six against none of nine is p = 0.002."""
    given = [*runs(5, 6, "vllm", "--len", "8192"), *runs(0, 9, "vllm", "--len", "2048")]

    assert compare(given, "the loss") == [
        "The loss came with --len 8192 in 5 of 6 recordings, with --len 2048 in 0 of 9 recordings "
        "(p = 0.002, Fisher, one-sided)."
    ]


def test_several_flags_are_not_told_apart() -> None:
    """Where two flags differ together, the sentences say that one may go along with the other."""
    given = [*runs(3, 3, "e", "--a", "1", "--b"), *runs(0, 3, "e", "--a", "2")]

    found = compare(given, "the loss")

    assert len(found) == 3
    assert "2 flags differ" in found[-1]


def test_nothing_is_made_of_nothing() -> None:
    """One run gives no sentence; runs that all failed, or are all alike, give no comparison."""
    assert compare(runs(1, 1, "e"), "the loss") == []
    assert "nothing to compare" in compare(runs(2, 2, "e"), "the loss")[0]
    assert "all ran with the same flags" in compare(runs(1, 2, "e", "--a"), "the loss")[0]


def test_recordings_given_together_are_compared(tmp_path: Path) -> None:
    """The maintainer's line comes from the recordings, never says innocent, and counts them."""
    paths = [
        recorded(tmp_path / f"{n}.gpuprobe", "vllm", "--len", length, fails=fails, seconds=5)
        for n, (length, fails) in enumerate([("8192", True), ("8192", True), ("2048", False)])
    ]
    report = report_of(*paths)

    said = " ".join(report.maintainer)
    assert "with --len 8192 in 2 of 2 recordings, with --len 2048 in 0 of 1 recording" in said
    assert "innocent" not in said
    answers = [one.answer for one in report.questions if "How often" in one.ask]
    assert answers == ["2 of 3 recordings given here show it"]
