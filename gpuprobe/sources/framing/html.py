"""HTML around log lines, as forums and e-mails leave it."""

from __future__ import annotations

import re

from gpuprobe.lazy_regex import regex

_TAG = regex(
    r"</?(?:font|b|strong|span|code|tt|em|td|tr|li|ul|ol|samp)(?:\s[^<>]{0,300})?\s*/?>",
    re.IGNORECASE,
)
_BREAK = regex(r"(?:</?(?:pre|p|br|div|blockquote)(?:\s[^<>]{0,300})?\s*/?>\s*)+", re.IGNORECASE)
_ENTITY = regex(r"&(?:lt|gt|amp|quot|apos|nbsp|#\d{1,6}|#x[0-9a-fA-F]{1,5});")


def clean_html(text: str) -> str:
    """The text without formatting tags and with its entities resolved.

    Tags that begin a paragraph or a line of their own become a line feed between two texts. Only tags that format text are known, so `name=<unknown>` and program text stay. Entities are
    resolved once: `&amp;lt;` becomes `&lt;`.
    """
    if "<" in text:
        text = _TAG.sub("", text)
        if _BREAK.search(text):
            text = _BREAK.sub("\n", text).strip("\n")
    if "&" in text and ";" in text:
        text = _ENTITY.sub(_resolved, text)
    return text


def _resolved(entity: re.Match[str]) -> str:
    import html  # a table of two thousand entities, which few logs need

    return html.unescape(entity[0]).replace("\xa0", " ")
