"""What a recorder could not hear or read, so that its silence is not taken for quiet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Final

from gpuprobe.diagnosis import NotChecked
from gpuprobe.events import PresenceTested, SourceChanged
from gpuprobe.live.sources import WHAT
from gpuprobe.sources.lines import strip_controls
from gpuprobe.timeline import Timeline

if TYPE_CHECKING:
    from gpuprobe.sources.ingest import Reading

LONGEST: Final = 300
"""Characters of a reason that are shown: anybody can have written it."""

_Why = tuple[str, str]


def rows_of(timeline: Timeline, readings: Iterable[Reading]) -> list[NotChecked]:
    """A row for each source that none of the recordings in a timeline had.

    Args:
        timeline: What was joined.
        readings: All inputs; those of other timelines and those that are no recording say nothing.
    """
    paths = {item.path for item in timeline.inputs}
    told: dict[str, list[_Why | None]] = {}
    for reading in readings:
        if reading.input.path in paths:
            for name, why in _sources_of(reading):
                told.setdefault(name, []).append(why)
    return list(_rows(timeline, told))


def _rows(timeline: Timeline, told: dict[str, list[_Why | None]]) -> Iterator[NotChecked]:
    for name, found in told.items():
        reasons = [why for why in found if why is not None]
        if len(reasons) < len(found) or (name == "kernel-log" and timeline.has_kernel_log()):
            continue
        why, how = reasons[0]
        yield NotChecked(WHAT.get(name, name), f"it could not be recorded: {why}", how)


def _sources_of(reading: Reading) -> Iterator[tuple[str, _Why | None]]:
    """Names of the sources of a recording, each with why it was not there, or None where it was."""
    found: dict[str, _Why | None] = {}
    for key, value in reading.about.items():
        kind, _, name = key.partition(":")
        if kind == "source" and name:
            state, _, why = value.partition(": ")
            found[name] = _why(reading, name, why) if state == "unavailable" else None
    for event in reading.events:
        if isinstance(event, PresenceTested):
            found["sysfs"] = None
        if not isinstance(event, SourceChanged) or event.device is not None:
            continue
        if event.what == "started":
            # sysfs starts on a machine without a GPU too, and waits for one.
            if event.name != "sysfs":
                found[event.name] = None
        elif event.what == "unavailable" and found.get(event.name) is None:
            found[event.name] = _why(reading, event.name, event.origin.text)
    yield from found.items()


def _why(reading: Reading, name: str, why: str) -> _Why:
    hint = reading.about.get(f"hint:{name}") or "gpuprobe check"
    return strip_controls(why[:LONGEST]), strip_controls(hint[:LONGEST])
