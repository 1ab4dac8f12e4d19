"""When a line was written, by the clock it was written with."""

from __future__ import annotations

import time
from dataclasses import dataclass
from datetime import UTC, datetime


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


def now() -> Stamp:
    """This moment by both clocks of this machine: what a live reading is stamped with."""
    wall = datetime.now(UTC)
    return Stamp(
        wall.isoformat(timespec="milliseconds"), time.monotonic(), wall, resolution_s=0.001
    )
