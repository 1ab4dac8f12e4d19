"""Times as people type them: ISO 8601, what journalctl takes, and a log's own stamps."""

from __future__ import annotations

from datetime import UTC, datetime, time, timedelta, tzinfo
from typing import Final

from gpuprobe.errors import UsageError
from gpuprobe.lazy_regex import regex

FORMS: Final = (
    "2026-09-22 07:44:58, 07:44, today, yesterday 21:30, now, -2h, '30min ago', 'Sep 22 07:44'"
)
"""An example of each form, for messages."""

_SECONDS: Final = {
    "s": 1, "sec": 1, "second": 1,
    "m": 60, "min": 60, "minute": 60,
    "h": 3600, "hr": 3600, "hour": 3600,
    "d": 86400, "day": 86400,
    "w": 7 * 86400, "week": 7 * 86400,
}  # fmt: skip
"""Seconds of a unit; as systemd has it, but for months and years, which no log goes back."""

_SPAN = r"(?:\d{1,9}\s{0,2}[a-z]{1,7}\s{0,2}){1,5}"
_AGO = regex(rf"-\s?(?P<minus>{_SPAN})|(?P<ago>{_SPAN})\bago")
_PART = regex(r"(\d+)\s*([a-z]+)")
_CLOCK = regex(
    r"(?:(?P<day>today|yesterday)\s{0,3})?(?P<clock>\d{1,2}:\d{2}(?::\d{2}(?:\.\d{1,6})?)?)?"
)
_EPOCH = regex(r"@(\d{1,11}(?:\.\d{1,6})?)")
_STAMP = regex(
    r"(?P<month>[A-Za-z]{3}) {1,3}(?P<day>\d{1,2})(?: {1,3}(?P<clock>\d{1,2}:\d{2}(?::\d{2})?))?"
)


def parse_time(text: str, zone: tzinfo | None = None, now: datetime | None = None) -> datetime:
    """A time, with a zone.

    Without one of its own, a whole date (ISO 8601) is in `zone`, else in UTC. What says less is
    meant as on a clock here: in `zone`, else in this machine's.

    Args:
        text: Of one of `FORMS`.
        zone: The zone that the user named, or None.
        now: The present, aware; read from the clock when None.

    Raises:
        UsageError: `text` is no such time.
    """
    said = text.strip()
    try:
        when = datetime.fromisoformat(said)
    except ValueError:
        pass
    else:
        return when if when.tzinfo else when.replace(tzinfo=zone or UTC)
    present = (now or datetime.now(UTC)).astimezone(zone)
    try:
        found = _relative(said, zone, present) or _stamp(said, zone, present)
    except (ValueError, OverflowError, OSError):
        found = None
    if found is None:
        raise UsageError(f"{text!r} is not a time", hint=f"Write it as one of these: {FORMS}.")
    return found


def _relative(said: str, zone: tzinfo | None, now: datetime) -> datetime | None:
    if said.lower() == "now":
        return now
    if match := _EPOCH.fullmatch(said):
        return datetime.fromtimestamp(float(match[1]), zone or UTC).astimezone(zone)
    if match := _AGO.fullmatch(said):
        span = _span(match["minus"] or match["ago"])
        return None if span is None else (now - span).astimezone(zone)
    match = _CLOCK.fullmatch(said.lower())
    if match is None or not said:
        return None
    day = now.date() - timedelta(days=match["day"] == "yesterday")
    return _placed(datetime.combine(day, _clock(match["clock"])), zone)


def _span(text: str) -> timedelta | None:
    """`1h 30min`, or None where a unit is none."""
    seconds = 0
    for number, unit in _PART.findall(text):
        worth = _SECONDS.get(unit) or _SECONDS.get(unit.removesuffix("s"))
        if worth is None:
            return None
        seconds += int(number) * worth
    return timedelta(seconds=seconds)


def _stamp(said: str, zone: tzinfo | None, now: datetime) -> datetime | None:
    """`Sep 22 07:44:58` as syslog and journalctl write it: the last time that it was that day."""
    match = _STAMP.fullmatch(said)
    if match is None:
        return None
    clock = _clock(match["clock"])
    for year in range(now.year, now.year - 9, -1):
        try:
            day = datetime.strptime(f"{year} {match['month']} {match['day']}", "%Y %b %d").date()
        except ValueError:  # 29 February, or no date at all
            continue
        when = _placed(datetime.combine(day, clock), zone)
        if when <= now + timedelta(days=1):
            return when
    return None


def _clock(text: str | None) -> time:
    """`7:44` or `07:44:58`; midnight without one."""
    if text is None:
        return time()
    hour, rest = text.split(":", 1)
    return time.fromisoformat(f"{hour:0>2}:{rest}")


def _placed(naive: datetime, zone: tzinfo | None) -> datetime:
    """On the clock of `zone`, or of this machine."""
    return naive.astimezone() if zone is None else naive.replace(tzinfo=zone)
