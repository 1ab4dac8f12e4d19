"""Text that a camera's reader or somebody's keyboard has gone through: close to a log, and no copy.

A picture read by a program swaps letters and figures; East Asian keyboards and translators set
full-width signs. Such words still say what happened, but any figure in them may be another: the
address too.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.line_shapes import REACH

_MISREAD = regex(
    # A stamp since boot with a letter in it.
    r"\[ *(?=[\dlIOoS|]{1,7}[.,] ?\d{6}\])\d*[lIOoS|]"
    r"|\[ *\d{1,7}[.,] ?(?=[\dlIOoSB|]{6}\])\d*[lIOoSB|]"
    r"|\bX(?:[l1I|]d|i[ad0]l) ?\(|\bXid ?\([^)\n]{0,20}(?: :|: )[^)\n]{0,10}\)"
    r"|\bPC[1l|]:[0-9a-fA-FOlI]{2,8}:|\bN(?:VRN|URM|YRM|VRH)\b"
    r"|\b(?!fallen\b)[ft]a[l1I|iLt]{1,2}[ecao][nm] off\b|\b[6C]PU has [ft]allen\b"
    r"|\b(?:off|0ff|oif) (?:the|tbe|lhe|thc) (?!bus\b|bug\b)(?:[68bBhl][uvn][s5]|bu5|b0s)\b"
    r"|\b(?:0ff|oif) the bus\b|\b(?:tbe|lhe|thc) bus\b"
)
"""A letter read as a figure, or the other way round, where a log has no choice."""

_FULL_WIDTH = regex(r"\bXid ?（|\bNVRM ?：|\bXid ?\([^)]{0,40}[：．）]")
"""Full-width signs in the words of a driver that prints ASCII alone."""

_REPAIRS = (
    (regex(r"(?<![A-Za-z])X[l1I|]d(?= ?\()"), "Xid"),
    (regex(r"\bPC[1l|]:"), "PCI:"),
    (regex(r"(?<=Xid)(?=\()"), " "),
    (regex(r"(?<=\)) +(?=:)"), ""),
    (regex(r"(?<=[0-9a-fA-F])(?: :|: )(?=[0-9a-fA-F]{2}[ :.)])"), ":"),
)
_ASCII = str.maketrans("（）：，．；＜＞＝－＿　‘’“”。", "():,.;<>=-_ ''\"\".")


def looks_retyped(lines: Sequence[str]) -> bool:
    """True if some line holds what neither a driver nor a copy of its log would hold.

    Args:
        lines: Lines of one neighbourhood, as they stand.
    """
    return any(map(_is_retyped, lines))


@lru_cache(128)  # each line stands near many others
def _is_retyped(line: str) -> bool:
    line = line[:REACH]
    return _MISREAD.search(line) is not None or _FULL_WIDTH.search(line) is not None


def repaired(text: str) -> str:
    """The text with ASCII signs, and what is read wrongly in an Xid's head put right."""
    text = text.translate(_ASCII)
    for pattern, right in _REPAIRS:
        text = pattern.sub(right, text)
    return text
