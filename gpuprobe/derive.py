"""What follows from samples by arithmetic alone: rates, slopes, extremes, rises of counters.

Pure functions on readings and their times; nothing here judges. Times are seconds on any one
clock. A figure that the readings do not give is None, never zero.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise

from gpuprobe.events import CountersSampled
from gpuprobe.identity import PciAddress
from gpuprobe.values import Value

GAP_FACTOR = 5.0
"""A pause longer than this many sampling intervals ends what counts as one window."""

SHORTEST_PAUSE_S = 1.0
"""A pause below this is jitter, whatever the rate."""


class Extent(Value):
    """How one value moved through a window.

    Attributes:
        low: Smallest reading. high: Largest reading.
        first: Earliest reading. last: Latest reading.
        slope_per_s: Slope of the least-squares line, units a second; None below three readings.
        count: How many readings.
    """

    low: float
    high: float
    first: float
    last: float
    slope_per_s: float | None
    count: int


class Window(Value):
    """The readings right before a moment.

    Attributes:
        start: Index of its first reading. stop: Index behind its last one.
        span_s: Seconds from its first reading to its last.
        rate_hz: Readings a second, by the median interval.
        ended_s: Seconds from its last reading to the moment.
    """

    start: int
    stop: int
    span_s: float
    rate_hz: float
    ended_s: float


class Rise(Value):
    """A counter that went up.

    Attributes:
        device: The function that counts; None where the reading does not say.
        name: The counter's name in `CountersSampled.counters`.
        before: The value it first rose from. after: The last value.
        by: The sum of its steps up; more than the difference where it began anew in between.
        event: The reading that first showed a rise. last: The last reading that did.
    """

    device: PciAddress | None
    name: str
    before: int
    after: int
    by: int
    event: CountersSampled
    last: CountersSampled


def extent(points: Sequence[tuple[float, float]]) -> Extent | None:
    """How a value moved.

    Args:
        points: Times in seconds and values, in order of time.

    Returns:
        None where there is no point.
    """
    if not points:
        return None
    values = [value for _, value in points]
    return Extent(
        low=min(values),
        high=max(values),
        first=values[0],
        last=values[-1],
        slope_per_s=slope_per_s(points),
        count=len(values),
    )


def slope_per_s(points: Sequence[tuple[float, float]]) -> float | None:
    """Slope of the least-squares line through points of time and value, in units a second.

    Returns:
        None below three points, or where all are of one moment.
    """
    if len(points) < 3:
        return None
    middle = sum(at for at, _ in points) / len(points)
    mean = sum(value for _, value in points) / len(points)
    spread = sum((at - middle) ** 2 for at, _ in points)
    if spread == 0:
        return None
    return sum((at - middle) * (value - mean) for at, value in points) / spread


def window_before(times: Sequence[float], moment: float, longest_s: float) -> Window | None:
    """The unbroken run of readings that ends last before `moment`.

    Thinned or missing readings end it, so that a rate that is claimed for it was kept all along.

    Args:
        times: When the readings were taken, in order.
        moment: Readings after it do not count.
        longest_s: Seconds it reaches back at most.

    Returns:
        None below five readings.
    """
    stop = sum(1 for at in times if at <= moment)
    start = stop
    while start > 0 and moment - times[start - 1] <= longest_s:
        start -= 1
    gaps = [later - earlier for earlier, later in pairwise(times[start:stop])]
    if len(gaps) < 4:
        return None
    from statistics import median  # slow to import, and few logs hold samples

    usual = median(gaps[-50:])
    pause = max(GAP_FACTOR * usual, SHORTEST_PAUSE_S if usual < SHORTEST_PAUSE_S / 2 else 0.0)
    for place in range(len(gaps) - 1, -1, -1):
        # Readings that were thinned out lie further apart than those that were not.
        if gaps[place] > pause:
            start += place + 1
            break
    start = _without_thinned(times, start, stop, usual)
    if stop - start < 5:
        return None
    span = times[stop - 1] - times[start]
    interval = median([later - earlier for earlier, later in pairwise(times[start:stop])])
    if interval <= 0:
        return None
    return Window(start, stop, span, 1.0 / interval, moment - times[stop - 1])


def _without_thinned(times: Sequence[float], start: int, stop: int, usual: float) -> int:
    """Where readings begin to come at the usual rate: three long pauses in a row were thinned."""
    run = 0
    for place in range(stop - 1, start, -1):
        run = run + 1 if times[place] - times[place - 1] > 2.5 * usual else 0
        if run == 3:
            return place + 2
    return start


def rises(events: Iterable[CountersSampled]) -> list[Rise]:
    """Every counter that went up between two readings of one source.

    A first reading gives none: a counter holds its lifetime. A counter that fell began anew, and
    its later rises count from there.

    Args:
        events: Readings in order of time.
    """
    last: dict[tuple[str, PciAddress | None, str], int] = {}
    found: dict[tuple[str, PciAddress | None, str], Rise] = {}
    for event in events:
        for name, value in event.counters:
            key = (event.origin.input, event.device, name)
            before = last.get(key)
            last[key] = value
            if before is None or value <= before:
                continue
            known = found.get(key)
            step = value - before
            if known is None:
                found[key] = Rise(event.device, name, before, value, step, event, event)
            else:
                found[key] = replace(known, after=value, by=known.by + step, last=event)
    return list(found.values())
