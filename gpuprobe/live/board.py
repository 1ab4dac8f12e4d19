"""What a live view shows, as plain values: a row a GPU with its history, events, the verdict.

Nothing here draws, and nothing here judges: a board takes updates of a session, and reporters
read it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from gpuprobe.diagnosis import Diagnosis, Kind
from gpuprobe.events import (
    AerReported,
    BridgeLinked,
    ConfigSpaceUnreadable,
    DeviceChanged,
    DeviceIdentified,
    Event,
    FirmwareFaulted,
    GpuLostReported,
    GpuSampled,
    LinkStateReported,
    PowerReported,
    PresenceTested,
    ProbeStalled,
    SamplesTaken,
    Setting,
    SourceChanged,
    SystemDescribed,
    ThermalReported,
    XidReported,
    is_evidence,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.session import Update
from gpuprobe.live.sources import SourceState
from gpuprobe.reading import Unavailable

HISTORY: Final = 120
"""Buckets of one second that a sparkline can reach back."""

EVENTS: Final = 200
"""Lines of events that are kept."""

SHOWN: Final = (
    "power_w",
    "temp_c",
    "sm_clock_mhz",
    "link_gen",
    "link_width",
    "rx_bytes_per_s",
    "tx_bytes_per_s",
    "memory_used_bytes",
    "util_percent",
)
"""Values of a sample that have a history."""

REASONS: Final = (
    (0x1, "idle"),
    (0x2, "set clocks"),
    (0x4, "power cap"),
    (0x8, "HW slowdown"),
    (0x10, "sync boost"),
    (0x20, "SW thermal"),
    (0x40, "HW thermal"),
    (0x80, "power brake"),
    (0x100, "display clock"),
)
"""NVML's clock-event reasons, by bit."""

_GENERATIONS: Final = {2.5: 1, 5.0: 2, 8.0: 3, 16.0: 4, 32.0: 5, 64.0: 6}


class Series:
    """A value's history in buckets of one second, the highest reading of each."""

    def __init__(self) -> None:
        self._buckets: deque[tuple[int, float]] = deque(maxlen=HISTORY)

    def add(self, at_s: float, value: float) -> None:
        """Take a reading."""
        second, buckets = int(at_s), self._buckets
        if not buckets or buckets[-1][0] < second:
            buckets.append((second, value))
        elif value > buckets[-1][1]:
            buckets[-1] = (buckets[-1][0], value)

    def last(self, count: int, until_s: float) -> list[float | None]:
        """The last so many seconds, None where there was no reading."""
        found = dict(self._buckets)
        end = int(until_s)
        return [found.get(second) for second in range(end - count + 1, end + 1)]

    @property
    def high(self) -> float | None:
        """The highest reading kept."""
        return max((value for _, value in self._buckets), default=None)


@dataclass(slots=True)
class Row:
    """One GPU.

    Attributes:
        pci: Its address. name: Marketing name. index: NVML's index.
        state: `waiting`, `sampled`, `on the bus` (seen in sysfs alone), `asleep`, `stalled`,
            `not sampled`, `removed` or `lost`.
        why: The same in words.
        latest: The newest sample, or None.
        link: Generation and width, by NVML or else by sysfs; None where unknown.
        best: Best generation and width by sysfs.
        history: By the names in `SHOWN`.
        at_s: Time of the newest reading, seconds since 1970.
    """

    pci: PciAddress
    name: str | None = None
    index: int | None = None
    state: str = "waiting"
    why: str = ""
    latest: GpuSampled | None = None
    link: tuple[int | None, int | None] = (None, None)
    best: tuple[int | None, int | None] = (None, None)
    history: dict[str, Series] = field(default_factory=lambda: {name: Series() for name in SHOWN})
    at_s: float = 0.0

    @property
    def over(self) -> bool:
        """Whether it is gone: what is shown of it is from before."""
        return self.state in ("lost", "removed")

    @property
    def reasons(self) -> tuple[str, ...]:
        """Why its clocks are held back, in words."""
        mask = self.latest.clocks_event_reasons if self.latest is not None else None
        return tuple(words for bit, words in REASONS if (mask or 0) & bit)


@dataclass(frozen=True, slots=True)
class EventLine:
    """One line of the list of events.

    Attributes:
        at: When it was, aware. device: About which GPU or port. source: Who said it.
        text: What was read. level: `bad`, `warn` or `note`.
    """

    at: datetime
    device: PciAddress | None
    source: str
    text: str
    level: str


@dataclass(slots=True)
class Board:
    """What a live view shows.

    Attributes:
        rate_hz: The rate that was asked for.
        has_history: Whether rows keep one; without, of samples that came together only the newest
            is looked at.
        rows: By address. events: Oldest first. diagnosis: The newest that changed, or None.
        states: The sources. taken: Samples taken so far.
    """

    rate_hz: float = 10.0
    has_history: bool = True
    rows: dict[PciAddress, Row] = field(default_factory=dict)
    events: deque[EventLine] = field(default_factory=lambda: deque(maxlen=EVENTS))
    diagnosis: Diagnosis | None = None
    states: tuple[SourceState, ...] = ()
    taken: int = 0

    def take(self, update: Update, states: Iterable[SourceState] = ()) -> list[EventLine]:
        """Take what came.

        Returns:
            The lines that are new.
        """
        for event in update.events:
            if isinstance(event, DeviceIdentified):
                self._identify(event)
        for event in update.samples:
            if isinstance(event, SamplesTaken):
                self.taken += len(event.samples)
                for sample in event.samples if self.has_history else (event.samples[-1],):
                    self._sample(sample)
            else:
                self.taken += isinstance(event, GpuSampled)
                self._sample(event)
        new = []
        for event in update.events:
            self._change(event)
            level = level_of(event)
            if level is not None:
                new.append(_line(event, level))
        self.events.extend(new)
        if update.diagnosis is not None:
            self.diagnosis = update.diagnosis
        self.states = tuple(states) or self.states
        return new

    @property
    def in_order(self) -> list[Row]:
        """The rows by address."""
        return [self.rows[pci] for pci in sorted(self.rows)]

    @property
    def failed(self) -> Diagnosis | None:
        """The diagnosis, where something failed."""
        found = self.diagnosis
        return found if found is not None and found.answer is not Kind.NO_FAULT else None

    @property
    def unseen(self) -> list[tuple[SourceState, Unavailable]]:
        """Sources that cannot be used, with the reason."""
        return [
            (state, state.access) for state in self.states if isinstance(state.access, Unavailable)
        ]

    # --- rows -----------------------------------------------------------------------------

    def _row(self, pci: PciAddress) -> Row:
        row = self.rows.get(pci.slot)
        if row is None:
            row = self.rows[pci.slot] = Row(pci.slot)
        return row

    def _identify(self, event: DeviceIdentified) -> None:
        if event.device is None or not event.is_gpu:
            return
        row = self._row(event.device)
        row.name = event.name or row.name
        row.index = event.index if event.index is not None else row.index
        if row.state == "waiting" and event.origin.input == "sysfs":
            row.state = "on the bus"

    def _sample(self, event: Event) -> None:
        device = event.device
        if device is None:
            return
        if isinstance(event, LinkStateReported) and device.slot in self.rows:
            row = self.rows[device.slot]
            row.best = (_generation(event.max_speed_gts), event.max_width)
            if row.latest is None:
                row.link = (_generation(event.speed_gts), event.width)
                row.at_s = max(row.at_s, _seconds(event))
            return
        if not isinstance(event, GpuSampled):
            return
        row = self.rows.get(device) or self._row(device)
        if row.over:
            return
        row.state, row.why = "sampled", ""
        row.latest = event
        row.at_s = _seconds(event)
        if event.link_gen or event.link_width:
            row.link = (event.link_gen, event.link_width)
        if not self.has_history:
            return
        values = vars(event)
        for name, series in row.history.items():
            value = values[name]
            if value is not None:
                series.add(row.at_s, value)

    def _change(self, event: Event) -> None:
        if event.device is None or event.device.slot not in self.rows:
            return
        row = self.rows[event.device.slot]
        match event:
            case GpuLostReported() | XidReported(code=79) if event.setting is Setting.LOG:
                row.state, row.why = "lost", event.origin.text
            case ConfigSpaceUnreadable(how="all-ones"):
                row.state, row.why = "lost", "config space reads all ones"
            case DeviceChanged(what="removed"):
                was_lost = row.state == "lost"
                row.state = "lost" if was_lost else "removed"
                row.why = row.why if was_lost else "taken away while it still answered"
            case DeviceChanged(what="added" | "answered"):
                row.state, row.why = "on the bus", "it answers again"
            case PresenceTested(directory=True, config="not-asked"):
                row.state, row.why = "asleep", "left alone, so that it can sleep"
            case PresenceTested(directory=True, config="answers") if row.state == "asleep":
                row.state, row.why = "on the bus", ""
            case ProbeStalled(call=call, waited_s=waited_s) if not row.over:
                row.state, row.why = "stalled", f"{call} has not returned for {waited_s:.1f} s"
            case SourceChanged(what="stopped") if not row.over and row.state != "asleep":
                row.state, row.why = "not sampled", event.origin.text
            case _:
                return


_FACTS = (BridgeLinked, DeviceIdentified, SystemDescribed)


def level_of(event: Event) -> str | None:
    """How grave the line of an event is; None for what is no line."""
    match event:
        case _ if isinstance(event, _FACTS) or not is_evidence(event):
            return None
        case ThermalReported(what="reading") | PowerReported(what="reading"):
            return None
        case PresenceTested(directory=True, config="answers" | "not-asked", driver="not-asked"):
            return None
        case SourceChanged(what="started"):
            return None
        case GpuLostReported() | XidReported() | ConfigSpaceUnreadable() | FirmwareFaulted():
            return "bad"
        case AerReported() | ProbeStalled() | PowerReported() | ThermalReported():
            return "warn"
        case _:
            return "note"


def _line(event: Event, level: str) -> EventLine:
    text = event.origin.text
    gone = isinstance(event, DeviceChanged) and event.what == "removed" and event.driver is None
    if gone and event.origin.input == "sysfs":
        text += ", and it answered until then: removed on purpose"
    times = f" ({event.count} times)" if event.count > 1 else ""
    return EventLine(_when(event), event.device, event.origin.input, text + times, level)


def _when(event: Event) -> datetime:
    stamp = event.stamp
    if stamp is not None and stamp.wall is not None and stamp.wall.tzinfo is not None:
        return stamp.wall
    return datetime.now(UTC)


def _seconds(event: Event) -> float:
    return _when(event).timestamp()


def _generation(speed_gts: float | None) -> int | None:
    return _GENERATIONS.get(speed_gts) if speed_gts is not None else None


def unseen_lines(board: Board) -> Iterator[str]:
    """What cannot be seen, and how it could be, one line each."""
    for state, access in board.unseen:
        hint = f" -> {access.hint}" if access.hint else ""
        yield f"{state.name}: {access.detail or access.reason.value}{hint}"
