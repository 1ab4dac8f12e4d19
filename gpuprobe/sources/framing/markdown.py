"""Backslashes that an editor of Markdown set before the signs of a log, as forums show them."""

from __future__ import annotations

from gpuprobe.lazy_regex import regex

_ESCAPED = regex(r"\\([\[\]()<>_*`~#|.:!+-])")
_SURE = regex(
    r"^\W{0,6}\\\[ *(?:\d{1,8}\.\d{3,6}|[A-Z][a-z]{2} [A-Z][a-z]{2} +\d[^\\\]]{8,24})\\?\]"
    r"|\bname=\\<unknown\\?>|\bpid='?\\<unknown"
)
"""What is no regular expression: a whole stamp, or the driver's word for nobody."""


def unescape(text: str) -> str:
    """The text without such backslashes, where it is sure that an editor set them."""
    if ("\\[" in text or "\\<" in text) and _SURE.search(text):
        return _ESCAPED.sub(r"\1", text)
    return text
