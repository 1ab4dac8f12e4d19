"""Text that is safe to show, cut and wrapped by what it takes up on a screen."""

from __future__ import annotations

import json
import unicodedata
from collections.abc import Callable
from typing import Any, TextIO

COLUMNS = 80
"""Where lines are folded, unless the terminal's width is asked for."""

MAX_COLUMNS = 120
"""Longer lines are hard to read, however wide the terminal."""

_BLANKS = str.maketrans({"\t": " ", "\n": " ", "\r": " ", "\v": " ", "\f": " "})
_UNSAFE = frozenset({"Cc", "Cf", "Cs", "Zl", "Zp"})


def printable(text: str) -> str:
    r"""Return `text` on one line with every control and formatting character written out.

    ESC becomes `\x1b` and a right-to-left override `\u202e`, as text: a log line can neither
    steer a terminal nor show words in another order than it holds them.
    """
    if text.isprintable():  # nothing of these categories is, and no blank but the space
        return text
    return "".join(_spell(letter) for letter in text.translate(_BLANKS))


def _spell(letter: str) -> str:
    if unicodedata.category(letter) not in _UNSAFE:
        return letter
    code = ord(letter)
    if code <= 0xFF:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def width(text: str) -> int:
    """Columns that `text` takes up: East Asian wide letters count two, combining marks none."""
    if text.isascii():
        return len(text)
    return sum(_columns(letter) for letter in text)


def _columns(letter: str) -> int:
    if unicodedata.combining(letter):
        return 0
    return 2 if unicodedata.east_asian_width(letter) in "WF" else 1


def cut(text: str, columns: int) -> str:
    """Return `text` in at most `columns` columns, with an ellipsis where something is missing."""
    if width(text) <= columns:
        return text
    return _head(text, columns - 1).rstrip() + "…"


def _head(text: str, columns: int) -> str:
    used = 0
    for index, letter in enumerate(text):
        used += _columns(letter)
        if used > columns:
            return text[:index]
    return text


def wrap(text: str, columns: int) -> list[str]:
    """Break `text` into lines of at most `columns` columns, at blanks where there are any."""
    lines: list[str] = []
    line = ""
    for word in text.split():
        if line and width(line) + 1 + width(word) <= columns:
            line = f"{line} {word}"
            continue
        if line:
            lines.append(line)
        while width(word) > columns:
            # A letter wider than the whole line still has to go somewhere.
            head = _head(word, columns) or word[:1]
            lines.append(head)
            word = word[len(head) :]
        line = word
    if line:
        lines.append(line)
    return lines


def fold(text: str, columns: int) -> list[str]:
    """Break a quote into lines of at most `columns` columns without changing its blanks."""
    lines = []
    while width(text) > columns:
        head = _head(text, columns) or text[:1]
        blank = head.rfind(" ")
        if blank > columns // 2:
            head = head[: blank + 1]
        lines.append(head.rstrip())
        text = text[len(head) :]
    return [*lines, text] if text else lines


def count(number: int, noun: str) -> str:
    """`1 line`, `2 lines`, `1,234 lines`."""
    return f"{number:,} {noun}" if number == 1 else f"{number:,} {noun}s"


def columns(*, fit_terminal: bool, least: int) -> int:
    """Where lines are folded: at the terminal's width within limits, or at `COLUMNS`."""
    if not fit_terminal:
        return COLUMNS
    import shutil  # imports three decompressors, for which every answer would wait

    return min(max(shutil.get_terminal_size((COLUMNS, 24)).columns, least), MAX_COLUMNS)


def write_json(document: Any, out: TextIO, plain: Callable[[Any], Any] | None = None) -> None:
    """Write one JSON document, indented, ending with a newline.

    Args:
        document: Plain values, in the order they are written.
        out: Where to.
        plain: Makes a plain value of what JSON has no form for.
    """
    text = json.dumps(document, ensure_ascii=False, indent=2, default=plain)
    # Lone surrogates have no UTF-8 form; they become the replacement character.
    out.write(text.encode("utf-8", "replace").decode("utf-8") + "\n")
