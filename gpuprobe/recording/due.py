"""When what waits is to be written: early enough that a kill costs a second, and no oftener.

Readings reach the writer in batches, so the oldest of a batch was taken when the batch before it
came. It is that reading which may wait a second at most, not the batch.
"""

from __future__ import annotations

from typing import Final

BATCH_S: Final = 0.8
"""How long sources that are recorded gather readings: the rest of the second is for the way."""

SHARE: Final = 0.9
"""The part of the second after which writing begins; the rest is for the disk."""


class Due:
    """The moment of the next transaction, in seconds of `time.monotonic`.

    Args:
        every_s: How long a reading may be lost after it was taken.
        now: The time.

    Attributes:
        at: The moment.
    """

    def __init__(self, every_s: float, now: float) -> None:
        self.at = now + every_s
        self._every_s = every_s
        self._heard_at: float | None = None

    def heard(self, now: float) -> bool:
        """Note that readings came; gives whether the moment is earlier for it."""
        taken = now if self._heard_at is None else self._heard_at
        self._heard_at = now
        before = self.at
        self.at = min(before, max(now, taken + SHARE * self._every_s))
        return self.at < before

    def written(self, now: float) -> None:
        """Note that everything which waited is being written."""
        self.at = now + self._every_s
