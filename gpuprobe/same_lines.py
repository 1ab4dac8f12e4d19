"""Lines that a recording holds and a log, or another recording, holds too.

A recorder listens to the kernel, so its recording has the lines that the journal has. One line
read twice is one line: it is cited where the log has it, and it ties the clocks of the two.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from datetime import UTC, timedelta
from typing import TYPE_CHECKING, Final

from gpuprobe.clock_joining import PairedStamps
from gpuprobe.events import Event

if TYPE_CHECKING:
    from gpuprobe.clock import Stamp
    from gpuprobe.sources.ingest import Reading

EXACT_S: Final = 0.0015
"""The kernel stamps a message once: whoever reads it has the same microsecond, or millisecond."""

NEAR_S: Final = 2.0
"""Loggers write whole seconds, and stamp a line when it reaches them."""

KEPT: Final = 2000
"""Lines of one text among which the same one is looked for."""

_QUARTER: Final = timedelta(minutes=15)
_ZONES: Final = timedelta(hours=14)

_Key = tuple[type[Event], object, str]


def find_doubles(readings: Sequence[Reading]) -> tuple[set[int], list[PairedStamps]]:
    """Events of recordings that another input has too.

    Args:
        readings: All inputs.

    Returns:
        Those events, by `id`, and the stamps of lines whose log has no zone or no year.
    """
    doubles: set[int] = set()
    pairs: list[PairedStamps] = []
    if len(readings) < 2 or not any(reading.recording for reading in readings):
        return doubles, pairs
    from gpuprobe.live.window import is_sample  # a post-mortem without recordings needs no `live`

    recorded = {
        id(event): _key(event)
        for reading in readings
        if reading.recording
        for event in reading.events
        if event.count == 1 and event.stamp is not None and not is_sample(event)
    }
    wanted = set(recorded.values())
    known: dict[_Key, list[Event]] = defaultdict(list)
    for reading in sorted(readings, key=lambda one: bool(one.recording)):
        if reading.recording:
            for event in reading.events:
                key = recorded.get(id(event))
                other = _taken(event, known[key]) if key in known else None
                if other is not None:
                    doubles.add(id(event))
                    pairs += _paired(event, other)
        for event in reading.events:
            if id(event) in doubles or event.stamp is None or event.count != 1:
                continue
            if (key := _key(event)) in wanted and len(known[key]) < KEPT:
                known[key].append(event)
    return doubles, pairs


def _key(event: Event) -> _Key:
    return (type(event), event.device, event.origin.text)


def _taken(event: Event, others: list[Event]) -> Event | None:
    """The one of the others that is this very line, taken off the list."""
    for same in (_same_stamp, _same_moment):
        for number, other in enumerate(others):
            if same(event, other):
                return others.pop(number)
    return None


def _same_stamp(event: Event, other: Event) -> bool:
    first, second = event.stamp, other.stamp
    if first is None or second is None or _other_boot(event, other):
        return False
    if first.monotonic_s is None or second.monotonic_s is None:
        return False
    return abs(first.monotonic_s - second.monotonic_s) <= EXACT_S


def _same_moment(event: Event, other: Event) -> bool:
    first, second = event.stamp, other.stamp
    if first is None or second is None or _other_boot(event, other):
        return False
    if not first.is_absolute or second.wall is None:
        return False
    assert first.wall is not None
    if second.is_absolute:
        return abs((first.wall - second.wall).total_seconds()) <= NEAR_S
    gap = _gap_to_local(first, second)
    # Zones lie quarters of an hour apart.
    return gap is not None and abs(gap - _QUARTER * round(gap / _QUARTER)).total_seconds() <= NEAR_S


def _gap_to_local(first: Stamp, second: Stamp) -> timedelta | None:
    """From an instant to a stamp without zone or year, where a zone can explain it."""
    assert first.wall is not None
    assert second.wall is not None
    instant = first.wall.astimezone(UTC).replace(tzinfo=None)
    local = second.wall.replace(tzinfo=None)
    if not second.year_known:
        try:
            local = local.replace(year=instant.year)
        except ValueError:  # 29 February in another year
            return None
    gap = local - instant
    return gap if abs(gap) <= _ZONES else None


def _other_boot(event: Event, other: Event) -> bool:
    ids = [boot for boot in (event.boot, other.boot) if boot is not None and len(boot) == 32]
    return len(set(ids)) > 1


def _paired(event: Event, other: Event) -> Iterable[PairedStamps]:
    first, second = event.stamp, other.stamp
    if first is None or second is None or second.wall is None:
        return
    if first.is_absolute and not second.is_absolute:
        yield PairedStamps(other.origin.input, other.host, (first, second))
