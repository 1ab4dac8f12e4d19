"""When a line was written, by the clock it was written with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

_QUARTER = timedelta(minutes=15)
_SLACK = timedelta(minutes=2)


@dataclass(frozen=True, slots=True)
class Stamp:
    """One time stamp of one line, exactly as much of it as the line says.

    Attributes:
        raw: The stamp as it stands in the log.
        monotonic_s: Seconds since boot (dmesg, /dev/kmsg, `journalctl -o short-monotonic`), or
            None. This clock does not run in suspend.
        wall: Date and time, or None. Aware when the zone is known, naive when it is not.
        year_known: False when the stamp has no year (`Sep 22 07:44:58`); `wall` then stands in
            the leap year 2000 so that any day parses.
        resolution_s: How far apart two stamps of this clock can be told, in seconds.
    """

    raw: str
    monotonic_s: float | None = None
    wall: datetime | None = None
    year_known: bool = True
    resolution_s: float = 1.0

    @property
    def is_absolute(self) -> bool:
        """True when the stamp alone names one instant: year and zone are both known."""
        return self.wall is not None and self.wall.tzinfo is not None and self.year_known

    @property
    def is_live(self) -> bool:
        """True when this machine's own clocks made it, and no log wrote it."""
        if self.wall is None or self.monotonic_s is None:
            return False
        return self.raw in (self.wall.isoformat(), self.wall.isoformat(timespec="milliseconds"))


class LiveStamp(Stamp):
    """A stamp by both clocks of this machine: `raw` is written when somebody asks, as few do.

    Args:
        monotonic_s: As in `Stamp`.
        wall: Aware date and time.
    """

    __slots__ = ()

    def __init__(self, monotonic_s: float, wall: datetime) -> None:
        put = object.__setattr__
        put(self, "monotonic_s", monotonic_s)
        put(self, "wall", wall)
        put(self, "year_known", True)
        put(self, "resolution_s", 0.001)

    if not TYPE_CHECKING:

        @property
        def raw(self) -> str:
            """See `Stamp`."""
            return self.wall.isoformat()


def in_year(stamp: Stamp, year: int | None) -> datetime:
    """The date of a stamp that has one, in `year` where its own is not known."""
    assert stamp.wall is not None
    if stamp.year_known or year is None:
        return stamp.wall
    try:
        return stamp.wall.replace(year=year)
    except ValueError:  # 29 February in another year
        return stamp.wall.replace(year=year, day=28)


def offset_between(stamp: Stamp, aware: datetime) -> timedelta | None:
    """The zone's offset by which a date without a zone and an instant tell one moment.

    None where no zone does: then they are of two moments.
    """
    gap = in_year(stamp, aware.year) - aware.astimezone(UTC).replace(tzinfo=None)
    offset = _QUARTER * round(gap / _QUARTER)
    return offset if abs(gap - offset) <= _SLACK and abs(offset) <= timedelta(hours=14) else None


def of_one_moment(first: Stamp, second: Stamp) -> bool:
    """Whether two dates differ by no more than a zone: two clocks that were read at one moment."""
    year = second.wall.year if second.wall and second.year_known else None
    day = in_year(first, year)
    return offset_between(second, day if day.tzinfo else day.replace(tzinfo=UTC)) is not None


def now() -> Stamp:
    """This moment by both clocks of this machine: what a live reading is stamped with."""
    return LiveStamp(time.monotonic(), datetime.now(UTC))
