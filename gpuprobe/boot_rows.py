"""What one boot's log comes to, and the rows of several: losses, hangs, ends, what changed."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from enum import StrEnum

from gpuprobe.checks.previous_boot import spell_sign
from gpuprobe.diagnosis import Certainty, Diagnosis, Kind, Verdict
from gpuprobe.events import (
    AdminActed,
    DeviceChanged,
    Event,
    ShutdownStarted,
    SystemDescribed,
    UncleanEndFound,
    XidReported,
)
from gpuprobe.selection import in_boot
from gpuprobe.sources.files.machine import JournalBoot
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import diagnose

HANGS = frozenset({Kind.GPU_HANG, Kind.GPU_FIRMWARE_HANG})

NOT_FAULTS = frozenset({Kind.NO_FAULT, Kind.CANNOT_TELL, Kind.HOST_RESET})
"""Kinds that make no row's fault: how a boot ended is a column of its own."""

_BIOS = re.compile(r"BIOS (?P<bios>.+?)\s*$")
_UNTELLING = re.compile(r"^(?:BOOT_IMAGE|root|initrd|rootflags|resume|cryptdevice)=")
"""Words of a boot line that name files and disks."""


class End(StrEnum):
    """How a boot ended. The values are stable."""

    RUNNING = "running"
    SHUTDOWN = "shutdown"
    """In order: its log holds a shutdown."""
    UNCLEAN = "unclean"
    """The next boot found the journal, a file system or the firmware's note of a reset."""
    CUT_OFF = "cut-off"
    """Its log ends without a shutdown, and nothing else tells."""
    UNKNOWN = "unknown"
    """What would tell may not be read."""


@dataclass(frozen=True, slots=True)
class BootRow:
    """One boot.

    Attributes:
        boot_id: The journal's id.
        began: Its first entry, UTC, or None. ended: Its last entry so far, UTC, or None.
        end: How it ended.
        losses: GPUs that left the bus, at least likely.
        hangs: Hangs of GPUs or of their firmware.
        resets: Resets and removals on purpose.
        faults: Every verdict of this boot that is a fault, the gravest first.
        changed: What is not as in the boot before.
        signs: What the next boot found, for an unclean end.
    """

    boot_id: str
    began: datetime | None
    ended: datetime | None
    end: End
    losses: int = 0
    hangs: int = 0
    resets: int = 0
    faults: tuple[Verdict, ...] = ()
    changed: tuple[str, ...] = ()
    signs: tuple[str, ...] = ()

    @property
    def length(self) -> timedelta | None:
        """From its first entry to its last."""
        if self.began is None or self.ended is None:
            return None
        return self.ended - self.began


@dataclass(frozen=True, slots=True)
class Told:
    """What one boot's events come to, so that they need not be kept.

    Attributes:
        first, last: Times of its events. shut_down: Its log holds a shutdown.
        signs: What it found of an unclean end of the boot before.
        described: What it says of the machine. faults: Its verdicts. resets: Resets in it.
        owed: A reset that the driver asks for is still owed.
        read: False where its log was not read: then nothing of it is known.
    """

    first: datetime | None = None
    last: datetime | None = None
    shut_down: bool = False
    signs: tuple[str, ...] = ()
    described: Mapping[str, str] = field(default_factory=dict)
    faults: tuple[Verdict, ...] = ()
    resets: int = 0
    owed: bool = False
    read: bool = True


def make_rows(
    timeline: Timeline,
    boots: Sequence[JournalBoot],
    *,
    running: str | None = None,
    ends_known: bool = True,
) -> tuple[BootRow, ...]:
    """The rows of a timeline that holds all boots.

    Args:
        timeline: Events of all boots.
        boots: The boots that the journal lists, oldest first; where it lists none, those that
            the events name.
        running: Id of the boot that runs, or None where that is not known.
        ends_known: Whether lines of a shutdown would have been seen.
    """
    groups: dict[str, list[Event]] = {}
    for event in timeline.events:
        groups.setdefault(timeline.boot_of(event), []).append(event)
    spans = {boot.boot_id: (boot.first, boot.last) for boot in boots}
    names = list(spans) or list(groups) or ([running] if running else [])
    told = {name: tell(in_boot(timeline, name), groups.get(name, [])) for name in names}
    return rows_of(told, spans, running=running, listed=bool(boots), ends_known=ends_known)


def tell(timeline: Timeline, events: Sequence[Event]) -> Told:
    """What a boot's events come to.

    Args:
        timeline: A timeline of this boot alone.
        events: Its events.
    """
    first, last = _span(timeline, events)
    return Told(
        first=first,
        last=last,
        shut_down=any(isinstance(event, ShutdownStarted) for event in events),
        signs=tuple(_signs(events)),
        described=_described(events),
        faults=_faults(diagnose(timeline)) if events else (),
        resets=sum(_is_reset(event) for event in events),
        owed=_owed(events),
    )


Spans = Mapping[str, tuple[datetime | None, datetime | None]]


def rows_of(
    told: Mapping[str, Told],
    spans: Spans,
    *,
    running: str | None,
    listed: bool,
    ends_known: bool,
) -> tuple[BootRow, ...]:
    """The rows of boots, each compared with the one before it.

    Args:
        told: What each boot comes to, by its id, oldest first.
        spans: First and last entry of each, where a journal lists them.
        running: Id of the boot that runs, or None where that is not known.
        listed: Whether a journal lists the boots.
        ends_known: Whether lines of a shutdown would have been seen.
    """
    names = list(told)
    rows: list[BootRow] = []
    before: dict[str, str] = {}
    for place, name in enumerate(names):
        own = told[name]
        last = place + 1 == len(names)
        runs = name == running or (last and running in (None, name)) or (last and not listed)
        signs = () if last else told[names[place + 1]].signs
        began, ended = spans.get(name) or (own.first, own.last)
        known = ends_known and own.read
        rows.append(
            BootRow(
                boot_id=running if runs and running else name,
                began=began,
                ended=ended,
                end=_end(own, signs, runs=runs, ends_known=known),
                changed=tuple(_changes(before, own.described)) if rows else (),
                signs=tuple(signs),
                losses=sum(_is_loss(verdict) for verdict in own.faults),
                hangs=sum(verdict.kind in HANGS for verdict in own.faults),
                resets=own.resets,
                faults=own.faults,
            )
        )
        before = {**before, **own.described}
    return tuple(rows)


def _span(timeline: Timeline, events: Iterable[Event]) -> tuple[datetime | None, datetime | None]:
    times = [at for event in events if (at := timeline.at(event)) is not None]
    return (min(times), max(times)) if times else (None, None)


def _signs(events: Iterable[Event]) -> list[str]:
    return list(dict.fromkeys(spell_sign(e) for e in events if isinstance(e, UncleanEndFound)))


def _end(told: Told, signs: Sequence[str], *, runs: bool, ends_known: bool) -> End:
    if runs:
        return End.RUNNING
    if told.shut_down:
        return End.SHUTDOWN
    if signs:
        return End.UNCLEAN
    return End.CUT_OFF if ends_known else End.UNKNOWN


def _faults(diagnosis: Diagnosis) -> tuple[Verdict, ...]:
    return tuple(verdict for verdict in diagnosis.verdicts if verdict.kind not in NOT_FAULTS)


def _is_loss(verdict: Verdict) -> bool:
    return verdict.kind is Kind.DEVICE_LEFT_BUS and verdict.certainty is not Certainty.POSSIBLE


def _is_reset(event: Event) -> bool:
    if isinstance(event, AdminActed):
        return event.what in ("reset", "remove", "slot-power")
    return isinstance(event, DeviceChanged) and event.what == "reset-done"


def _described(events: Iterable[Event]) -> dict[str, str]:
    """What the boot's log says of the machine, by name; the last word counts."""
    found: dict[str, str] = {}
    for event in events:
        if not isinstance(event, SystemDescribed):
            continue
        if event.key in ("kernel", "driver", "cmdline"):
            found[event.key] = event.value
        elif event.key == "chassis" and (match := _BIOS.search(event.value)):
            found["BIOS"] = match["bios"]
        elif event.key == "power-cap":
            found[f"power cap of {event.device}"] = event.value
    return found


def _changes(before: Mapping[str, str], now: Mapping[str, str]) -> Iterable[str]:
    for key, value in now.items():
        was = before.get(key)
        if was == value:
            continue
        if key == "cmdline":
            if was is not None and (words := _words_changed(was, value)):
                yield f"boot line {words}"
        elif was is not None:
            yield f"{key} {was} -> {value}"
        elif key.startswith("power cap"):
            yield f"{key} {value}"


def _words_changed(before: str, now: str) -> str:
    old, new = ([w for w in t.split() if not _UNTELLING.match(w)] for t in (before, now))
    added = [f"+{word}" for word in new if word not in old]
    gone = [f"-{word}" for word in old if word not in new]
    return " ".join((*added, *gone))


def _owed(events: Iterable[Event]) -> bool:
    """Whether the last Xid 154 of a GPU asks for something."""
    owed: dict[object, int] = {}
    for event in events:
        if isinstance(event, XidReported) and event.code == 154:
            owed[event.device] = event.recovery_action or 0
    return any(owed.values())
