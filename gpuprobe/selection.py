"""Leaving out what the user did not ask about: times, boots, devices."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from gpuprobe.clock_joining import parse_timezone
from gpuprobe.errors import UsageError
from gpuprobe.events import Event
from gpuprobe.options import Options
from gpuprobe.spoken_times import parse_time
from gpuprobe.timeline import Timeline


def select(timeline: Timeline, options: Options) -> Timeline:
    """The timeline without events that lie outside of what the options name.

    A stamp without zone or year is taken to mean the zone of the bound and the year nearest to
    it. An event without any time, boot or device stays: nothing is lost for want of a stamp.

    Raises:
        UsageError: `--since`, `--until`, `--boot` or `--device` name nothing.
    """
    since, until = _bound(options.since, options), _bound(options.until, options)
    if since and until and since > until:
        raise UsageError("--since is later than --until", hint="Swap them.")
    events = list(timeline.events)
    if since or until:
        events = [event for event in events if _within(timeline, event, since, until)]
    if options.boot is not None:
        wanted = _boots(timeline, options.boot)
        events = [event for event in events if timeline.boot_of(event) in wanted]
    if options.device is not None:
        slot = options.device.slot
        events = [event for event in events if event.device is None or event.device.slot == slot]
    return _with(timeline, events)


def left_out(whole: Timeline, chosen: Timeline) -> dict[str, tuple[str, ...]]:
    """A note for each input of which the options left out all that was read in it, by its path."""
    kept = {event.origin.input for event in chosen.events}
    lost: dict[str, list[Event]] = {}
    for event in whole.events:
        if event.origin.input not in kept:
            lost.setdefault(event.origin.input, []).append(event)
    return {path: (_left_out(whole, events),) for path, events in lost.items()}


def _left_out(timeline: Timeline, events: list[Event]) -> str:
    text = "nothing of what was read in it is in what was asked for"
    times = [at.astimezone(UTC) for event in events if (at := timeline.at(event)) is not None]
    if not times:
        return text
    begin, end = (f"{at:%Y-%m-%d %H:%M:%S}" for at in (min(times), max(times)))
    return f"{text}; it goes from {begin} to {end} UTC"


def in_boot(timeline: Timeline, boot: str) -> Timeline:
    """The timeline of one boot, by the name `Timeline.boot_of` gives it."""
    return _with(timeline, [e for e in timeline.events if timeline.boot_of(e) == boot])


def _with(timeline: Timeline, events: list[Event]) -> Timeline:
    if len(events) == len(timeline.events):
        return timeline
    return Timeline(
        events=events,
        inputs=timeline.inputs,
        host=timeline.host,
        program_text=timeline.program_text,
        clocks=timeline.clocks,
        boots=timeline.boots,
    )


def _bound(value: datetime | str | None, options: Options) -> datetime | None:
    if value is None:
        return None
    zone = parse_timezone(options.timezone) if options.timezone else None
    if isinstance(value, datetime):
        return value if value.tzinfo else parse_time(value.isoformat(), zone)
    return parse_time(value, zone)


def _within(
    timeline: Timeline, event: Event, since: datetime | None, until: datetime | None
) -> bool:
    at = timeline.at(event)
    stamp = event.stamp
    if at is None and stamp is not None and stamp.wall is not None:
        bound = since or until
        assert bound is not None
        wall = stamp.wall if stamp.year_known else _nearest_year(stamp.wall, bound)
        at = wall if wall.tzinfo else wall.replace(tzinfo=bound.tzinfo)
    if at is None:
        return True
    return (since is None or at >= since) and (until is None or at <= until)


def _nearest_year(wall: datetime, bound: datetime) -> datetime:
    """The date in the year that brings it closest to `bound`."""
    target = bound.replace(tzinfo=None)
    found = []
    for year in (target.year - 1, target.year, target.year + 1):
        try:
            found.append(wall.replace(year=year))
        except ValueError:  # 29 February
            found.append(wall.replace(year=year, day=28))
    return min(found, key=lambda date: abs(date.replace(tzinfo=None) - target) or timedelta())


def _boots(timeline: Timeline, wanted: str) -> set[str]:
    """Names of the boots meant: an id's, or the n-th of every input that holds several.

    An input of one boot fits whichever boot is asked for, as it does not say which it is.
    """
    by_input: dict[str, list[str]] = {}
    for event in timeline.events:
        names = by_input.setdefault(event.origin.input, [])
        if (name := timeline.boot_of(event)) not in names:
            names.append(name)
    everything = {name for names in by_input.values() for name in names}
    if len(wanted) >= 8 and (ids := {name for name in everything if name.startswith(wanted)}):
        return ids
    most = max((len(names) for names in by_input.values()), default=1)
    try:
        number = int(wanted)
        if number > 0 or -number >= most:
            raise IndexError
    except (ValueError, IndexError):
        raise UsageError(
            f"there is no boot {wanted!r} among the inputs",
            hint=f"They hold {most}: 0 is the last, -1 the one before; or give a boot id.",
        ) from None
    chosen = set()
    for names in by_input.values():
        if len(names) == 1:
            chosen.update(names)
        elif -number < len(names):
            chosen.add(names[number - 1])
    return chosen
