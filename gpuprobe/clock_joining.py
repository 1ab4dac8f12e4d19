"""Joining the clocks of several logs: zones, paired lines, the user's word, else nothing."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import MAXYEAR, MINYEAR, UTC, datetime, timedelta, timezone, tzinfo

from gpuprobe.clock import Stamp, in_year, offset_between
from gpuprobe.errors import UsageError
from gpuprobe.events import Event
from gpuprobe.lazy_regex import regex
from gpuprobe.values import Value

_OFFSET = regex(r"^(?:UTC|GMT)?([+-])(\d{1,2}):?(\d{2})?$", re.IGNORECASE)
_ZONES_SPAN_S = timedelta(hours=28).total_seconds()
"""More than any two zones can lie apart: from UTC-12 to UTC+14, and some slack."""
_MESSAGE = regex(r"(?:NVRM|pcieport|nvidia)\b.*")


class PairedStamps(Value):
    """Stamps of one line by different clocks.

    Attributes:
        input: Where the line stands.
        host: Its host field, or None.
        stamps: Outermost first; at least two.
    """

    input: str
    host: str | None
    stamps: tuple[Stamp, ...]


ClockKey = tuple[str, str]
"""One clock: `("host", name)` for lines with a host field, else `("input", path)`."""


def parse_timezone(text: str) -> tzinfo:
    """A zone by name (`Europe/Berlin`, `UTC`) or offset (`-07:00`).

    Raises:
        UsageError: Neither.
    """
    if match := _OFFSET.match(text.strip()):
        sign = -1 if match[1] == "-" else 1
        offset = sign * timedelta(hours=int(match[2]), minutes=int(match[3] or 0))
        if abs(offset) < timedelta(days=1):
            return timezone(offset)
    # Imported here: hardly a run needs it, and it takes its time.
    from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

    try:
        return ZoneInfo(text.strip())
    except (ZoneInfoNotFoundError, ValueError, OSError) as error:
        raise UsageError(
            f"unknown time zone {text!r}", hint="Write a name such as Europe/Berlin, or -07:00."
        ) from error


@dataclass(slots=True)
class Clocks:
    """Places events in time as far as the inputs, or the user, tie their clocks together.

    Attributes:
        zone: The user's `--timezone` for stamps without one, or None.
        boot_time: The user's `--boot-time`, aware, or None.
    """

    zone: tzinfo | None = None
    boot_time: datetime | None = None
    _offsets: dict[ClockKey, timedelta] = field(default_factory=dict)
    _years: dict[ClockKey, int] = field(default_factory=dict)
    _epochs: dict[str, datetime] = field(default_factory=dict)
    _cache: dict[int, tuple[Event, datetime | None]] = field(default_factory=dict)

    def learn(self, pairs: Iterable[PairedStamps], events: Sequence[Event]) -> None:
        """Take in lines that carry two clocks, and messages that two inputs share."""
        for pair in pairs:
            self._learn_pair(pair)
        for event in events:
            self._learn_epoch(event)
        self._learn_shared_messages(events)

    def _learn_pair(self, pair: PairedStamps) -> None:
        key = _key(pair.host, pair.input)
        aware = next((s.wall for s in pair.stamps if s.is_absolute), None)
        if aware is None:
            return
        for stamp in pair.stamps:
            if stamp.wall is None or stamp.wall.tzinfo is not None:
                continue
            if (offset := offset_between(stamp, aware)) is not None:
                self._offsets.setdefault(key, offset)
                self._years.setdefault(key, aware.year)

    def _learn_epoch(self, event: Event) -> None:
        stamp = event.stamp
        if stamp is None or stamp.monotonic_s is None:
            return
        at = self._wall(event)
        if at is not None:
            self._epochs.setdefault(event.origin.input, at - timedelta(seconds=stamp.monotonic_s))

    def _learn_shared_messages(self, events: Sequence[Event]) -> None:
        """One message that stands in two inputs, once with uptime and once with a date."""
        dated: dict[str, datetime] = {}
        for event in events:
            at = self._wall(event)
            message = _MESSAGE.search(event.origin.text)
            if at is not None and message:
                dated.setdefault(message[0].strip(), at)
        for event in events:
            stamp, path = event.stamp, event.origin.input
            if stamp is None or stamp.monotonic_s is None or stamp.wall is not None:
                continue
            message = _MESSAGE.search(event.origin.text)
            at = dated.get(message[0].strip()) if message else None
            if at is not None:
                self._epochs.setdefault(path, at - timedelta(seconds=stamp.monotonic_s))

    def at(self, event: Event) -> datetime | None:
        """When the event was written, in UTC; None where zone or year are not known."""
        if id(event) in self._cache:
            return self._cache[id(event)][1]
        found = self._wall(event)
        stamp = event.stamp
        if found is None and stamp is not None and stamp.monotonic_s is not None:
            epoch = self._epochs.get(event.origin.input) or (
                self.boot_time if stamp.wall is None else None
            )
            if epoch is not None:
                found = epoch + timedelta(seconds=stamp.monotonic_s)
        # The event is kept with its time, so that no other can come to have its id.
        self._cache[id(event)] = (event, found)
        return found

    def _wall(self, event: Event) -> datetime | None:
        stamp = event.stamp
        if stamp is None or stamp.wall is None:
            return None
        key = _key(event.host, event.origin.input)
        year = self._years.get(key)
        if not stamp.year_known and year is None:
            return None
        wall = in_year(stamp, year)
        if wall.tzinfo is not None:
            return wall.astimezone(UTC)
        if self.zone is not None:
            return wall.replace(tzinfo=self.zone).astimezone(UTC)
        offset = self._offsets.get(key)
        return None if offset is None else (wall - offset).replace(tzinfo=UTC)

    def seconds_between(self, first: Event, second: Event) -> float | None:
        """Seconds from `first` to `second`; None where nothing ties their clocks."""
        at_first, at_second = self.at(first), self.at(second)
        if at_first is not None and at_second is not None:
            return (at_second - at_first).total_seconds()
        a, b = first.stamp, second.stamp
        if a is None or b is None:
            return None
        same_input = first.origin.input == second.origin.input
        if same_input and a.monotonic_s is not None and b.monotonic_s is not None:
            same_boot = a.wall is not None or first.boot == second.boot
            if same_boot and a.wall is None and b.wall is None:
                return b.monotonic_s - a.monotonic_s
        if _key(first.host, first.origin.input) != _key(second.host, second.origin.input):
            return None
        if a.wall is None or b.wall is None or (a.wall.tzinfo is None) != (b.wall.tzinfo is None):
            return None
        return _gap(a, b).total_seconds()

    def days_apart(self, first: Event, second: Event) -> float | None:
        """Roughly the seconds between two dates so far apart that no zones bring them together.

        None where they are nearer, or where one has no date.
        """
        a, b = first.stamp, second.stamp
        if a is None or b is None or a.wall is None or b.wall is None:
            return None
        gap = _gap(_zoneless(a), _zoneless(b)).total_seconds()
        return gap if abs(gap) > _ZONES_SPAN_S else None


_HALF_YEAR = timedelta(days=180)


def _gap(first: Stamp, second: Stamp) -> timedelta:
    """From one wall clock's stamp to another; the nearest where a year is not known."""
    assert first.wall is not None
    assert second.wall is not None
    if first.year_known and second.year_known:
        return second.wall - first.wall
    if not first.year_known and not second.year_known:
        # No other year can bring them nearer.
        gap = second.wall - first.wall
        if abs(gap) < _HALF_YEAR:
            return gap
    fixed, loose = (second, first) if second.year_known else (first, second)
    assert fixed.wall is not None
    # Stamps without a year stand in 2000: December and January are a day apart, not a year.
    years = range(max(fixed.wall.year - 1, MINYEAR), min(fixed.wall.year + 1, MAXYEAR) + 1)
    gaps = [in_year(loose, year) - fixed.wall for year in years]
    gap = min(gaps, key=abs)
    return gap if loose is second else -gap


def _zoneless(stamp: Stamp) -> Stamp:
    assert stamp.wall is not None
    return Stamp("", wall=stamp.wall.replace(tzinfo=None), year_known=stamp.year_known)


def _key(host: str | None, path: str) -> ClockKey:
    return ("host", host) if host else ("input", path)
