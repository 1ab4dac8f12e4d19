"""How programs date their own lines: Python's logging, vLLM, SGLang, glog, Go, logfmt."""

from __future__ import annotations

import re

from gpuprobe.clock import Stamp
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import ISO, OFFSET, clock_stamp, iso_stamp

_LEVEL = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|SUCCESS)"
_LEVEL_AFTER = regex(rf" *(?:\[ *{_LEVEL} *\]|{_LEVEL})(?= |$) *")

_PROCESS = regex(
    r"\s*\((?P<name>[A-Za-z][\w.:/ =-]{0,60}?) +(?:rank=\d+ +)?pid=(?P<pid>\d{1,10})[^()]{0,60}\)(?: |$)"
)
_VLLM = regex(
    rf"\s*{_LEVEL} +(?P<raw>(?P<month>\d\d)-(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d(?:[.,]\d+)?)) (?:\[[\w./-]+:\d+\]|[\w./-]+:\d+\]) "
)
_DASHED = regex(rf"\s*(?P<raw>{ISO})(?: - [\w.]{{1,100}})?(?: - \[?{_LEVEL}\]?) - ")
_DATED = regex(rf"\s*(?P<raw>{ISO})(?=[ \t]|$)[ \t]?")
_BRACKETED = regex(
    rf"\s*\[(?P<raw>{ISO}|\d{{4}}[-/]\d\d[-/]\d\d[ |]\d\d:\d\d:\d\d(?:[.,]\d{{1,9}})?(?: ?{OFFSET})?)(?P<more>[ |,][^\]\[]{{1,40}})?\] ?"
)
_LEVEL_FIRST = regex(rf"\s*\[?{_LEVEL}\]?[ :|]+(?P<raw>{ISO})(?: |$)")
_GLOG = regex(
    r"\s*[IWEF](?P<month>\d\d)(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?) +\d+ [\w./+-]+:\d+\] ?"
)
_RANKED = regex(
    r"\s*(?:\[\d+\] )?\[[\w.-]{1,30}\]:\[[IWEF] ?(?P<month>\d{1,2})(?P<day>\d\d) (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?) "
)
_GO = regex(r"\s*(?P<raw>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d(?:\.\d{1,9})?)(?: |$)(?!, )")
_DOTTED = regex(
    r"\s*(?P<raw>(?P<year>\d{4})\.(?P<month>\d\d)\.(?P<day>\d\d)[: ](?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)):? "
)
_LOGFMT = regex(
    rf"\s*(?:(?:level|lvl|severity)=\w{{4,8}} )?(?:time|ts|t)=\"?(?P<raw>{ISO})\"?(?: |$)"
)


def _dated(match: re.Match[str], text: str, stamp: Stamp | None) -> Peeled | None:
    """What stands behind a stamp, without the level word there."""
    if stamp is None:
        return None
    end = match.end()
    level = _LEVEL_AFTER.match(text, end)
    if level is not None and level.end() < len(text):
        end = level.end()
    return Peeled(text[end:], "engine", stamp)


def _process(text: str) -> Peeled | None:
    match = _PROCESS.match(text)
    if match is None:
        return None
    return Peeled(text[match.end() :], "engine", source=match["name"], pid=int(match["pid"]))


def _vllm(text: str) -> Peeled | None:
    match = _VLLM.match(text)
    if match is None:
        return None
    stamp = clock_stamp(match["raw"], int(match["month"]), int(match["day"]), match["clock"])
    return None if stamp is None else Peeled(text[match.end() :], "engine", stamp)


def _logging(text: str) -> Peeled | None:
    match = _DASHED.match(text)
    if match is not None:
        stamp = iso_stamp(match["raw"])
        return None if stamp is None else Peeled(text[match.end() :], "engine", stamp)
    match = _DATED.match(text)
    return match and _dated(match, text, iso_stamp(match["raw"]))


def _bracketed(text: str) -> Peeled | None:
    match = _BRACKETED.match(text)
    return match and _dated(match, text, iso_stamp(match["raw"]))


def _level_first(text: str) -> Peeled | None:
    match = _LEVEL_FIRST.match(text)
    if match is None:
        return None
    stamp = iso_stamp(match["raw"])
    return None if stamp is None else Peeled(text[match.end() :], "engine", stamp)


def _glog(text: str) -> Peeled | None:
    match = _GLOG.match(text)
    if match is None:
        return None
    raw = f"{match['month']}{match['day']} {match['clock']}"
    stamp = clock_stamp(raw, int(match["month"]), int(match["day"]), match["clock"])
    return None if stamp is None else Peeled(text[match.end() :], "engine", stamp)


def _ranked(text: str) -> Peeled | None:
    match = _RANKED.match(text)
    if match is None:
        return None
    raw = f"{match['month']}{match['day']} {match['clock']}"
    stamp = clock_stamp(raw, int(match["month"]), int(match["day"]), match["clock"])
    # Which rank speaks is part of the message.
    return None if stamp is None else Peeled(text, "engine", stamp, final=True)


def _go(text: str) -> Peeled | None:
    match = _GO.match(text)
    return match and _dated(match, text, iso_stamp(match["raw"]))


def _dotted(text: str) -> Peeled | None:
    match = _DOTTED.match(text)
    if match is None:
        return None
    month, day, year = int(match["month"]), int(match["day"]), int(match["year"])
    return _dated(match, text, clock_stamp(match["raw"], month, day, match["clock"], year=year))


def _logfmt(text: str) -> Peeled | None:
    match = _LOGFMT.match(text)
    if match is None:
        return None
    stamp = iso_stamp(match["raw"])
    return None if stamp is None else Peeled(text, "engine", stamp, final=True)


FRAMINGS = (
    Framing("engine-process", "(", _process),
    Framing("vllm", "TDINWECFS", _vllm),
    Framing("level-first", "TDINWECFS[", _level_first),
    Framing("glog", "IWEF", _glog),
    Framing("rank", "[", _ranked),
    Framing("bracketed", "[", _bracketed),
    Framing("go", "0123456789", _go),
    Framing("logging", "0123456789", _logging),
    Framing("dotted", "0123456789", _dotted),
    Framing("logfmt", "tls", _logfmt),
)
