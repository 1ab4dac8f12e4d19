"""What people and tools put around a whole line: quotes, list marks, `grep -n`, `cat -n`, JSON's keys."""

from __future__ import annotations

import re

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.line_shapes import NUMBERED

_QUOTE = regex(r"\s*>{1,8} ?(?![>=])")
_LIST = regex(r"\s*(?:[-*+•‣◦] |\d{1,3}[.)] )(?=\S)")
# The number alone, or `name:number:`; the text behind must not make it a time or an address.
_GREP = regex(r"\s*\d{1,9}[:-](?=[^\d\s]|\d{4}-\d\d-\d\d[T ]|\d{4}/\d\d/\d\d |\d{1,4},\d+,\d+,)")
_GREP_FILE = regex(
    r"\s*(?:[\w.+-]{0,100}/){0,30}(?:[\w.+-]{0,100}\.(?:log|txt)|syslog|messages|dmesg|kern|journal)[\w.-]{0,40}:(?=[\d\[<{A-Z])"
)
_GREP_NUMBER = regex(r"\d{1,9}[:-](?=\D|\d{4}[-/])")
_TABLE = regex(r"\s*[|│┃] ?(?=\S)")
_CODE = regex(r"\s*(?:`{1,3})(?=[^`\s])")

# pdsh, clush and loops over ssh: the node's name before a line that has its own stamp.
_NODE = regex(
    r"[\w.-]{1,63}: (?=\[ *\d+\.\d{3,6}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d |\d{4}-\d\d-\d\dT\d\d:)"
)

# `ts`, chats and consoles: the time of day alone, before a line that has its own stamp.
_CLOCK = regex(
    r"\s*\[?\d\d:\d\d:\d\d(?:[.,]\d{1,6})?\]? +(?=\[ *\d+\.\d{3,6}\] |\[[A-Z][a-z]{2} [A-Z][a-z]{2} +\d|[A-Z][a-z]{2} +\d{1,2} \d\d:\d\d:\d\d |\d{4}-\d\d-\d\dT\d\d:|NVRM: )"
)

_MEMBER = regex(
    r"\s*\"(?:message|@message|Message|line|log|msg|text|body|textPayload)\"\s*:\s*(?=\".*\",?\s*\Z)"
)


def _mark(pattern: re.Pattern[str]) -> Framing:
    def peel(text: str) -> Peeled | None:
        match = pattern.match(text)
        if match is None or match.end() >= len(text):
            return None
        return Peeled(text[match.end() :], quoted=True)

    return Framing("mark", _STARTS[pattern], peel, outermost=True)


_STARTS = {
    _QUOTE: ">",
    _LIST: "-*+•‣◦0123456789",
    _GREP: "0123456789",
    _TABLE: "|│┃",
    _CODE: "`",
    _NODE: "",
    NUMBERED: "0123456789",
    _CLOCK: "[0123456789",
}


def _grep_file(text: str) -> Peeled | None:
    match = _GREP_FILE.match(text)
    if match is None:
        return None
    number = _GREP_NUMBER.match(text, match.end())
    return Peeled(text[number.end() if number else match.end() :], quoted=True)


def _member(text: str) -> Peeled | None:
    """The message in an object that a log store's tool printed over several lines."""
    match = _MEMBER.match(text)
    if match is None:
        return None
    import json  # slow to import, for logs that hold none

    try:
        value = json.loads(text[match.end() :].rstrip().removesuffix(","))
    except ValueError:
        return None
    return Peeled(value.rstrip("\r\n"), quoted=True) if value else None


FRAMINGS = (
    Framing("member", '"', _member, outermost=True),
    _mark(NUMBERED),
    _mark(_QUOTE),
    _mark(_LIST),
    _mark(_TABLE),
    _mark(_CODE),
    _mark(_GREP),
    _mark(_NODE),
    _mark(_CLOCK),
    Framing("grep-file", "/", _grep_file, outermost=True),
    Framing("grep-file", "", _grep_file, outermost=True),
)
