"""The kernel's own buffer: `dmesg` in its time formats, and raw `/dev/kmsg` records."""

from __future__ import annotations

import re

from gpuprobe.clock import Stamp
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import (
    OFFSET,
    clock_stamp,
    iso_stamp,
    monotonic_stamp,
    month_number,
)

_CALLER = r"(?: ?\[ *[TC]\d+\])?"

# `[  98.037735] `, with the thread or CPU of CONFIG_PRINTK_CALLER, or a host as
# `journalctl -o short-monotonic` puts it.
_PLAIN = regex(
    rf"\s*(?P<raw>\[ *(?P<s>\d{{1,10}}\.\d{{3,9}})\]){_CALLER}(?: |$)"
    r"(?:(?P<host>[A-Za-z0-9][\w.-]{0,63}|\.\.\.) (?P<ident>kernel|[A-Za-z_(/][\w.@/()+-]{0,63}\[(?P<pid>\d+)\]): ?)?"
)
# `dmesg -H`: a date where the minute changes, else seconds since the line before.
_HUMAN = regex(
    r"\s*(?P<raw>\[(?: *\+\d{1,6}\.\d{6}|(?P<month>[A-Z][a-z]{2}) ?(?P<day>\d{1,2}) (?P<clock>\d\d:\d\d))\])(?: |$)"
)
# Xorg writes its own clock in the same brackets, and says what kind of line follows.
_XORG = regex(r"\((?:II|EE|WW|--|\*\*|==|!!|\?\?|NI)\)")

_DATED = regex(
    r"\s*(?P<raw>\[(?:[^\W\d_]{1,10}\.?,? )?(?:(?P<month>[^\W\d_]{3,12}\.?|\d{1,2}[月월]) +(?P<day>\d{1,2})"
    r"|(?P<day2>\d{1,2})\.? +(?P<month2>[^\W\d_]{3,12}\.?)),? (?P<clock>\d\d:\d\d:\d\d(?:\.\d{1,9})?) (?P<year>\d{4})\])"
    rf"{_CALLER}(?: |$)"
)
_DATED_ISO = regex(
    rf"\s*(?P<raw>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d,\d{{3,9}}{OFFSET}){_CALLER} (?![\w.-]+ [\w./-]+(?:\[\d+\]): |(?:[\w.-]+ )?kernel: )"
)
# `talosctl dmesg` asks several nodes: `10.5.0.3: kern: warning: [2026-04-22T21:27:51.29Z]: `.
_TALOS = regex(
    r"\s*(?P<host>[A-Za-z0-9](?:[\w.-]|:(?=[0-9A-Fa-f:])){0,62}): (?P<facility>kern|user|daemon|syslog): +"
    rf"(?:emerg|alert|crit|err|warning|notice|info|debug): \[(?P<raw>\d{{4}}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{{1,9}}{OFFSET})\]: ?"
)
_DELTA = regex(r"\s*(?P<raw>\[ *(?P<s>\d{1,10}\.\d{6}) *< *\d+\.\d+ *>\])(?: |$)")
_RECORD = regex(
    r"\s*(?P<prio>\d{1,4}),(?P<seq>\d{1,20}),(?P<us>\d{1,18}),[-c+][^;\n]{0,200};(?P<text>.*)",
    re.DOTALL,
)
_DICTIONARY = regex(r" (?=(?:SUBSYSTEM|DEVICE)=)")
_ESCAPED = regex(r"\\x([0-9a-fA-F]{2})")
_RAW_LEVEL = regex(r"\s*<(?P<prio>\d{1,3})>(?=[\[A-Za-z ]|\d{4}-)")
_NAMED_LEVEL = regex(
    r"\s*(?P<facility>kern|user|mail|daemon|auth|syslog|lpr|news|uucp|cron|authpriv|ftp|local[0-7]) *:"
    r"(?:emerg|alert|crit|err|warn|notice|info|debug) *: "
)


def _plain(text: str) -> Peeled | None:
    match = _PLAIN.match(text)
    if match is None:
        delta = _DELTA.match(text)
        if delta is None:
            return None
        stamp = monotonic_stamp(delta["raw"], delta["s"])
        return Peeled(text[delta.end() :], "dmesg", stamp, kernel=True)
    rest = text[match.end() :]
    stamp = monotonic_stamp(match["raw"], match["s"])
    host = match["host"]
    if host is None:
        return Peeled(rest, "dmesg", stamp, kernel=_XORG.match(rest) is None)
    ident = match["ident"].partition("[")[0]
    return Peeled(
        rest,
        "journal-short-monotonic",
        stamp,
        host=None if host == "..." else host,
        source=ident,
        pid=int(match["pid"]) if match["pid"] else None,
        kernel=ident == "kernel",
    )


def _human(text: str) -> Peeled | None:
    match = _HUMAN.match(text)
    if match is None or (match["month"] and month_number(match["month"]) is None):
        return None
    # Without the lines before it neither form says when; the words are kept.
    return Peeled(text[match.end() :], "dmesg", Stamp(raw=match["raw"].strip("[] ")), kernel=True)


def _dated(text: str) -> Peeled | None:
    match = _DATED.match(text)
    if match is None:
        return None
    month = month_number(match["month"] or match["month2"])
    if month is None:
        return None
    day = int(match["day"] or match["day2"])
    stamp = clock_stamp(match["raw"], month, day, match["clock"], year=int(match["year"]))
    if stamp is None:
        return None
    return Peeled(text[match.end() :], "dmesg-time", stamp, kernel=True)


def _dated_iso(text: str) -> Peeled | None:
    match = _DATED_ISO.match(text)
    if match is None:
        return None
    stamp = iso_stamp(match["raw"])
    return None if stamp is None else Peeled(text[match.end() :], "dmesg-iso", stamp, kernel=True)


def _talos(text: str) -> Peeled | None:
    match = _TALOS.match(text)
    stamp = match and iso_stamp(match["raw"])
    if match is None or stamp is None:
        return None
    rest, kernel = text[match.end() :], match["facility"] == "kern"
    return Peeled(rest, "dmesg-iso", stamp, host=match["host"], kernel=kernel)


def _unescape(text: str) -> str:
    return _ESCAPED.sub(lambda match: chr(int(match[1], 16)), text) if "\\x" in text else text


def _record(text: str) -> Peeled | None:
    if text[:1] == " ":
        dictionary = _DICTIONARY.match(text)
        return dictionary and Peeled(text[1:], "kmsg", kernel=True, final=True)
    match = _RECORD.match(text)
    if match is None:
        return None
    figure = match["us"]
    stamp = Stamp(raw=figure, monotonic_s=int(figure) / 1e6, resolution_s=1e-6)
    kernel = int(match["prio"]) >> 3 == 0
    return Peeled(_unescape(match["text"]), "kmsg", stamp, kernel=kernel, ref=match["seq"])


def _raw_level(text: str) -> Peeled | None:
    match = _RAW_LEVEL.match(text)
    if match is None or int(match["prio"]) > 191:
        return None
    return Peeled(text[match.end() :], "dmesg", kernel=int(match["prio"]) < 8)


def _named_level(text: str) -> Peeled | None:
    match = _NAMED_LEVEL.match(text)
    return match and Peeled(text[match.end() :], "dmesg", kernel=match["facility"] == "kern")


FRAMINGS = (
    Framing("dmesg", "[", _plain),
    Framing("dmesg", "[", _human),
    Framing("dmesg-time", "[", _dated),
    Framing("dmesg-iso", "0123456789", _dated_iso),
    Framing("dmesg-iso", "0123456789", _talos, outermost=True),
    Framing("dmesg-iso", "", _talos, outermost=True),
    Framing("kmsg", "0123456789DS", _record),
    Framing("dmesg-level", "<", _raw_level),
    Framing("dmesg-level", "kumdaslncf", _named_level),
)
