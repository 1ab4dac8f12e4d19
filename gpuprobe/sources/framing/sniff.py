"""The name of a whole input's format, from its first lines."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence

from gpuprobe.lazy_regex import regex

HEAD_LINES = 200
"""Lines worth giving to `sniff`."""

_CONTENTS = (
    ("bug-report", regex(r"Start of NVIDIA bug report log file|^nvidia-bug-report\.sh Version: ")),
    ("nvidia-smi-q", regex(r"=+NVSMI LOG=+")),
    ("nvidia-smi", regex(r"\| NVIDIA-SMI \S+ +(?:KMD |Driver )")),
    ("windows-event", regex(r"^\s*(?:<Events?\b|Log Name: +\S|Event\[\d+\])")),
    ("html", regex(r"^\s*(?:<!doctype html|<html\b)", re.IGNORECASE)),
)  # fmt: skip
_LSPCI = regex(
    r"(?:[0-9a-f]{4,8}:)?[0-9a-f]{2}:[01][0-9a-f]\.[0-7] (?:\"|[A-Z].*(?:\[[0-9a-f]{4}\]|controller|bridge|device|Bridge|Hub|USB).*: )"
)
_EXPORT = regex(r"__CURSOR=|__REALTIME_TIMESTAMP=\d+$")
_PRETTY = regex(r'"(?:__CURSOR|MESSAGE|__REALTIME_TIMESTAMP)" : ')


def sniff_with(lines: Sequence[str], outermost: Callable[[str], str]) -> str:
    """See `framing.sniff`.

    Args:
        lines: The input's first lines.
        outermost: Names the first framing of a line.
    """
    head = [line for line in lines[:HEAD_LINES] if line.strip()]
    for name, pattern in _CONTENTS:
        if any(pattern.search(line) for line in head):
            return name
    if any(_EXPORT.match(line) for line in head[:60]):
        return "journal-export"
    if any(_PRETTY.match(line.strip()) for line in head[:60]):
        return "journal-json"
    votes = Counter(outermost(line) for line in head)
    votes["lspci"] = sum(1 for line in head if _LSPCI.match(line))
    text = votes.pop("text", 0)
    if not votes:
        return "text"
    name, count = votes.most_common(1)[0]
    # A log's messages may span lines that have no prefix; a stray prefix makes no format.
    return name if count and count >= min(text / 8, 5) else "text"
