"""Backslashes of a Markdown editor are taken off, those of a regular expression stay."""

from __future__ import annotations

import pytest

from gpuprobe.sources.framing import peel
from gpuprobe.sources.framing.markdown import unescape


def test_an_escaped_line_is_the_drivers() -> None:
    """The stamp is read as well, and the line is quoted as it stands."""
    text = r"\[ 2211.000111\] NVRM: Xid \(PCI:0000:01:00\): 79, pid='\<unknown\>'"
    (record,) = peel(7, text)

    assert record.message == "NVRM: Xid (PCI:0000:01:00): 79, pid='<unknown>'"
    assert [stamp.monotonic_s for stamp in record.stamps] == [2211.000111]
    assert record.raw == text


@pytest.mark.parametrize(
    "text",
    [
        r"NVRM: Xid \(PCI:([0-9a-f:]+)\): (\d+)",
        r"^\[ *\d+\.\d+\] NVRM: Xid \(PCI",
        r"C:\[tmp]\(x86)",
        r"\[link\] to the log",
    ],
)
def test_other_backslashes_stay(text: str) -> None:
    """Regular expressions and paths hold them too."""
    assert unescape(text) == text
