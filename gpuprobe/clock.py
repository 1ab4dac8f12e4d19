"""When a line was written, by the clock it was written with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING


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


def now() -> Stamp:
    """This moment by both clocks of this machine: what a live reading is stamped with."""
    return LiveStamp(time.monotonic(), datetime.now(UTC))
