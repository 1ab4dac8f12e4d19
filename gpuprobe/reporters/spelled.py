"""Other spellings of a text: what hides a name from a search for it."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from urllib.parse import unquote

from gpuprobe.lazy_regex import regex

_COLOURS = regex(
    r"(?:\x1b|\x9b(?=[0-9;])|\\x1b|\\u001b|\\033|\\e|#033|\^\[|\u241b)(?:\[|(?<=\x9b))"
    r"[0-9;:]{0,40}[mK]|\x1b\[[0-?]{0,40}[ -/]{0,4}[@-~]|[\u200b\u2060\ufeff\u00ad]"
)
_WORD = regex(r"[^\s\"'<>]+")
_CODE = regex(r"%[0-9A-Fa-f]{2}")
_ESCAPE = regex(r"\\(?:u00([0-9a-fA-F]{2})|x([0-9a-fA-F]{2})|([\"'/\\nrt]|\n))")
_ENTITY = regex(r"&(?:quot|amp|lt|gt|apos|colon|equals|commat|sol|#\d{2,4}|#x[0-9a-fA-F]{2,4});")
_MEANS = {"n": "\n", "r": "\r", "t": "\t", "\n": " "}


def without_colours(text: str) -> str:
    """Return `text` without colour codes, written out or not, and without invisible blanks."""
    return _COLOURS.sub("", text)


def encoded(text: str) -> Iterator[re.Match[str]]:
    """The words of `text` in which something is percent-encoded."""
    if _CODE.search(text):
        for word in _WORD.finditer(text):
            if _CODE.search(word[0]):
                yield word


def percent_decoded(text: str) -> str:
    """Return `text` decoded, twice if it was encoded twice."""
    return unquote(unquote(text))


def unescaped(text: str) -> str:
    r"""Return `text` with one level of `\"`, `\n`, `\u0040` and `&quot;` undone."""
    if "&" in text and _ENTITY.search(text):
        text = html.unescape(text)
    return _ESCAPE.sub(_unescape, text) if "\\" in text else text


def _unescape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else _MEANS.get(match[3], match[3])
