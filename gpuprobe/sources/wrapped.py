"""Lines that a browser, a mail program, a terminal or a table's cell wrapped."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.sources.record import Record
from gpuprobe.sources.scanning.needles import Matcher

JOINED_LENGTH = 4096
"""Longest text that is tried joined with its neighbours: what wraps lines wraps them short."""

_CUT = 64
"""Characters either side of a line's end in which the words of a message may stand."""

_NARROWEST = 40
"""What wraps lines leaves them longer than this."""

_BARS = "|│┃║"
"""What tables set between cells."""


def cuts_words(records: Sequence[Record], matcher: Matcher) -> bool:
    """True if words that a pattern needs stand in none of two lines, but over the end of the first.

    Args:
        records: A line and the next.
        matcher: Knows the words.
    """
    if len(records) < 2 or records[1].framed or not is_short(records[1]):
        return False
    if not _NARROWEST <= len(records[0].raw) <= JOINED_LENGTH:
        return False
    first, second = records[0].message.rstrip(), records[1].message
    # What is indented further, as in a traceback, was not wrapped.
    if second[:1] == " " and second.startswith(first[: _indent(first)] + " "):
        return False
    second = second.strip()[:_CUT]
    return not matcher.present(second) and matcher.present(f"{first[-_CUT:]} {second}")


def _indent(text: str) -> int:
    return len(text) - len(text.lstrip())


def cell(message: str) -> str:
    """What a wrapped line adds to its neighbour: of a table's row the text in the last cell.

    Where a cell holds a table, the bars that end both rows stand side by side.
    """
    text = message.strip()
    end = len(text)
    while end and text[end - 1] in _BARS:
        end -= 2 if text[end - 2 : end - 1] == " " else 1
    if end == len(text):
        return text
    row = text[: max(end, 0)]
    return row[max(map(row.rfind, _BARS)) + 1 :].strip()


def is_short(record: Record) -> bool:
    """True for text that may be part of a wrapped line."""
    return len(record.message) <= JOINED_LENGTH and bool(record.message.strip())
