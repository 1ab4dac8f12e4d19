"""A traceback in the minutes of an incident is one line that keeps all of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from gpuprobe.report.contents import IncidentLine
from gpuprobe.report.tracebacks import folded

LINE = IncidentLine(None, None, 0.0, "engine", "", "run.gpuprobe", None)
WORDS = (
    "Traceback (most recent call last):",
    '  File "/srv/load.py", line 11, in <module>',
    "    step()",
    "    ^^^^^^",
    '  File "/srv/model.py", line 7, in step',
    "    return run(x)",
)


def lines(*texts: str, **changed: str) -> list[IncidentLine]:
    return [replace(LINE, text=text, **changed) for text in texts]


@pytest.mark.parametrize("prefix", ["", "(EngineCore_0 pid=12) ERROR 10-10 12:00:00 [core.py:7] "])
def test_it_is_one_line_with_first_and_last_frame(prefix: str) -> None:
    """What stands before and after it stays; the exception is a line of its own."""
    words = [prefix + text for text in WORDS]

    found = list(folded(lines("before", *words, f"{prefix}ValueError: no", "after")))

    assert [line.text for line in found] == [
        "before",
        "Traceback of 6 lines: from /srv/load.py:11 in <module> to /srv/model.py:7 in step",
        f"{prefix}ValueError: no",
        "after",
    ]
    assert found[1].folded == tuple(words)


def test_a_kernel_line_between_stays_a_line() -> None:
    """What the kernel said meanwhile is not hidden in it."""
    (kernel,) = lines("NVRM: Xid", side="kernel")
    engine = lines(*WORDS)

    found = list(folded([*engine[:3], kernel, *engine[3:]]))

    assert [bool(line.folded) for line in found] == [True, False]
    assert found[0].folded == WORDS
    assert found[1] is kernel


def test_a_line_with_a_role_is_never_folded() -> None:
    """Evidence stands for itself."""
    proof = replace(LINE, text="    CUDA error", role="proof")

    found = list(folded([*lines(*WORDS), proof]))

    assert found[-1] is proof


def test_nothing_is_lost() -> None:
    """Every text is there once, in a line or in what it folds, also of one that is cut short."""
    texts = ["a", *WORDS[:2], "b", *WORDS]

    found = list(folded(lines(*texts)))

    assert [text for line in found for text in (line.folded or (line.text,))] == texts
