"""A row a boot over all that this machine's journal keeps."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from pathlib import Path

from gpuprobe.boots import read_timeline
from gpuprobe.checks.report import exit_code
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
from gpuprobe.reading import Known, Unavailable
from gpuprobe.selection import in_boot
from gpuprobe.sources import machine
from gpuprobe.sources.machine import JournalBoot
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
class History:
    """All boots that are kept, oldest first.

    Attributes:
        rows: One a boot; empty where nothing could be read.
        answer: A verdict kind; of the boot that runs, as `check` speaks of the present.
        notes: What could not be read, and what would open it.
    """

    rows: tuple[BootRow, ...]
    answer: str
    notes: tuple[str, ...] = ()

    @property
    def exit_code(self) -> int:
        """0 nothing lasts, 1 a reset is owed, 3 nothing could be read, 79 a GPU is gone."""
        return exit_code(self.answer)


def read_history(root: Path = Path("/")) -> History:
    """Read this machine's journal; without one, the kernel's buffer gives this boot's row.

    Args:
        root: Where the id of the running boot is looked for.
    """
    boots = machine.list_boots()
    reading = read_timeline(machine.history_inputs())
    if isinstance(reading, Unavailable):
        missing = reading
        boots = Unavailable(missing.reason, missing.detail)
        reading = read_timeline(machine.boot_inputs(0))
        if isinstance(reading, Unavailable):
            note = f"{missing.detail}. {missing.hint or reading.hint}".strip()
            return History((), Kind.CANNOT_TELL.value, (note,))
        note = f"only this boot: {missing.detail}. {missing.hint}".strip()
        timeline, notes = reading.value
        notes = [note, *(other for other in notes if other not in note)]
    else:
        timeline, notes = reading.value
    partial = any("only part" in note for note in notes)
    rows = make_rows(
        timeline,
        boots.value if isinstance(boots, Known) else [],
        running=_running(root),
        ends_known=not partial,
    )
    return History(rows, _answer(timeline, rows), tuple(dict.fromkeys(notes)))


def _running(root: Path) -> str | None:
    try:
        text = (root / "proc/sys/kernel/random/boot_id").read_text("ascii")
    except OSError:
        return None
    return text.strip().replace("-", "")


def make_rows(
    timeline: Timeline,
    boots: Sequence[JournalBoot],
    *,
    running: str | None = None,
    ends_known: bool = True,
) -> tuple[BootRow, ...]:
    """The rows of a timeline.

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
    rows: list[BootRow] = []
    before: dict[str, str] = {}
    for place, name in enumerate(names):
        events = groups.get(name, [])
        later = groups.get(names[place + 1], []) if place + 1 < len(names) else []
        last = place + 1 == len(names)
        runs = name == running or (last and running in (None, name)) or (last and not boots)
        signs = _signs(later)
        began, ended = spans.get(name) or _span(timeline, events)
        described = _described(events)
        faults = _faults(diagnose(in_boot(timeline, name))) if events else ()
        rows.append(
            BootRow(
                boot_id=running if runs and running else name,
                began=began,
                ended=ended,
                end=_end(events, signs, runs=runs, ends_known=ends_known),
                changed=tuple(_changes(before, described)) if rows else (),
                signs=tuple(signs),
                losses=sum(_is_loss(verdict) for verdict in faults),
                hangs=sum(verdict.kind in HANGS for verdict in faults),
                resets=sum(_is_reset(event) for event in events),
                faults=faults,
            )
        )
        before = {**before, **described}
    return tuple(rows)


def _span(timeline: Timeline, events: Iterable[Event]) -> tuple[datetime | None, datetime | None]:
    times = [at for event in events if (at := timeline.at(event)) is not None]
    return (min(times), max(times)) if times else (None, None)


def _signs(events: Iterable[Event]) -> list[str]:
    found = [e.detail or e.what for e in events if isinstance(e, UncleanEndFound)]
    return list(dict.fromkeys(found))


def _end(events: Iterable[Event], signs: Sequence[str], *, runs: bool, ends_known: bool) -> End:
    if runs:
        return End.RUNNING
    if any(isinstance(event, ShutdownStarted) for event in events):
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


def _changes(before: dict[str, str], now: dict[str, str]) -> Iterable[str]:
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


def _answer(timeline: Timeline, rows: Sequence[BootRow]) -> str:
    """What lasts of the boot that runs: a loss, a hang of firmware, or a reset that is owed."""
    current = next((row for row in rows if row.end is End.RUNNING), None)
    if not rows:
        return Kind.CANNOT_TELL.value
    if current is None:
        return Kind.NO_FAULT.value
    if current.losses:
        return Kind.DEVICE_LEFT_BUS.value
    for verdict in current.faults:
        if verdict.kind is Kind.GPU_FIRMWARE_HANG and verdict.certainty is not Certainty.POSSIBLE:
            return verdict.kind.value
    owed: dict[object, int] = {}
    for event in timeline.of(XidReported):
        if event.code == 154 and timeline.in_last_boot(event):
            owed[event.device] = event.recovery_action or 0
    return Kind.GPU_HANG.value if any(owed.values()) else Kind.NO_FAULT.value
