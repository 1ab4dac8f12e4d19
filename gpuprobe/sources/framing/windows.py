"""Windows events as text: `wevtutil /f:xml` on one line, and the date line of a copied event."""

from __future__ import annotations

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import clock_stamp, iso_stamp

_XML = regex(r"\s*<Event\b[^>]*>")
_CREATED = regex(r"<TimeCreated SystemTime=['\"](?P<raw>[^'\"]{10,40})['\"]")
_COMPUTER = regex(r"<Computer>(?P<name>[^<]{1,255})</Computer>")
_DATE = regex(
    r"\s*Date: +(?P<raw>(?P<a>\d{1,2})(?P<sep>[/.])(?P<b>\d{1,2})[/.](?P<year>\d{4}) (?P<h>\d{1,2}):(?P<rest>\d\d:\d\d)(?: (?P<half>[AP])M)?)\s*$"
)


def _xml(text: str) -> Peeled | None:
    if _XML.match(text) is None:
        return None
    created, computer = _CREATED.search(text), _COMPUTER.search(text)
    return Peeled(
        text,
        "windows-event",
        iso_stamp(created["raw"]) if created else None,
        host=computer["name"] if computer else None,
        final=True,
    )


def _date(text: str) -> Peeled | None:
    match = _DATE.match(text)
    if match is None:
        return None
    first, second = int(match["a"]), int(match["b"])
    # Month first is American, which writes AM and PM; a full stop means day first.
    month, day = (
        (first, second)
        if (match["sep"] == "/" and second > 12) or match["half"]
        else (second, first)
    )
    if month > 12:
        month, day = day, month
    hour = int(match["h"])
    if match["half"]:
        hour = hour % 12 + (12 if match["half"] == "P" else 0)
    clock = f"{hour:02d}:{match['rest']}"
    stamp = clock_stamp(match["raw"], month, day, clock, year=int(match["year"]))
    return None if stamp is None else Peeled(text, "windows-event", stamp, final=True)


FRAMINGS = (Framing("windows-xml", "<", _xml), Framing("windows-date", "D", _date))
