"""Leaving out what the user did not ask about: times, boots, devices."""

from __future__ import annotations

from datetime import datetime

from gpuprobe.clocks import parse_time, parse_timezone
from gpuprobe.errors import UsageError
from gpuprobe.events import Event
from gpuprobe.options import Options
from gpuprobe.timeline import Timeline


def select(timeline: Timeline, options: Options) -> Timeline:
    """The timeline without events that are known to lie outside of what the options name.

    An event whose time, boot or device is not known stays: nothing is lost for want of a stamp.

    Raises:
        UsageError: `--since`, `--until` or `--boot` name nothing.
    """
    since, until = _bound(options.since, options), _bound(options.until, options)
    events = list(timeline.events)
    if since or until:
        events = [
            event
            for event in events
            if (at := timeline.at(event)) is None
            or ((since is None or at >= since) and (until is None or at <= until))
        ]
    if options.boot is not None:
        boot = _boot(timeline, options.boot)
        events = [event for event in events if timeline.boot_of(event) == boot]
    if options.device is not None:
        slot = options.device.slot
        events = [event for event in events if event.device is None or event.device.slot == slot]
    return _with(timeline, events)


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


def _boot(timeline: Timeline, wanted: str) -> str:
    names = list(dict.fromkeys(timeline.boot_of(event) for event in timeline.events))
    matches = [name for name in names if name == wanted or name.startswith(wanted)]
    if len(wanted) >= 8 and matches:
        return matches[0]
    try:
        number = int(wanted)
        return names[number - 1]
    except (ValueError, IndexError):
        raise UsageError(
            f"there is no boot {wanted!r} among the inputs",
            hint=f"They hold {len(names)}: 0 is the last, -1 the one before; or give a boot id.",
        ) from None
