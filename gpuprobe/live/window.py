"""What a live session remembers: a bounded, rolling part of everything that was observed.

Samples are kept at full rate for a while and one a second before that, by the age of each
device's own newest sample, so that the last seconds of a lost GPU stay. What identifies devices
and ties them to their ports is kept for good. Everything is bounded.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Final

from gpuprobe.events import (
    AdminActed,
    BridgeLinked,
    ConfigSpaceUnreadable,
    CountersSampled,
    DeviceChanged,
    DeviceIdentified,
    Event,
    GpuLostReported,
    GpuSampled,
    HostSampled,
    LinkStateReported,
    OutputWritten,
    PowerSampled,
    PresenceTested,
    ProbeStalled,
    ProcessesListed,
    SamplesTaken,
    SourceChanged,
    SystemDescribed,
    ThermalReported,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.rows import column, times_s

KEEP_S: Final = 120.0
"""How long samples are kept at full rate, seconds."""

THIN_S: Final = 600.0
"""How long they are kept at one a second before that, seconds."""

KEEP_EVENTS: Final = 2000
"""Events other than samples that are kept, decisive ones apart."""

SAMPLES_LIMIT: Final = 12_000
"""Samples kept over all devices; with many devices or a high rate the full-rate part is shorter."""

_DECISIVE = (
    AdminActed,
    ConfigSpaceUnreadable,
    DeviceChanged,
    GpuLostReported,
    PresenceTested,
    ProbeStalled,
    XidReported,
)
"""Few, and never to be pushed out by a link that reports an error a thousand times a second."""

HOST_KEPT: Final = 120
"""Samples of the host that are kept; one comes about every ten seconds."""

_OLDEST = datetime(1970, 1, 1, tzinfo=UTC)


class Samples:
    """The samples of one device.

    Args:
        keep_s: Seconds at full rate. thin_s: Seconds at one a second before that.
    """

    def __init__(self, keep_s: float, thin_s: float) -> None:
        self._keep_s = keep_s
        self._thin_s = thin_s
        self._full: deque[tuple[float, Sequence[GpuSampled]]] = deque()
        self._kept = 0
        self._thin: deque[tuple[float, GpuSampled]] = deque()
        self._power: deque[tuple[float, PowerSampled]] = deque()

    def add(self, samples: Sequence[GpuSampled], limit: int) -> None:
        """Take samples that came together; about `limit` are kept at full rate.

        Those that came together are kept or thinned out together, by the newest.
        """
        at = times_s(samples)[-1]
        self._full.append((at, samples))
        self._kept += len(samples)
        while at - self._full[0][0] > self._keep_s or (
            self._kept > max(2, limit) and len(self._full) > 1
        ):
            _, old = self._full.popleft()
            self._kept -= len(old)
            self._thin_out(old)
        while self._thin and at - self._thin[0][0] > self._keep_s + self._thin_s:
            self._thin.popleft()

    def add_power(self, samples: PowerSampled) -> None:
        """Take the driver's own power samples; they are kept at full rate alone."""
        at = _seconds(samples)
        self._power.append((at, samples))
        while at - self._power[0][0] > self._keep_s:
            self._power.popleft()

    def _thin_out(self, samples: Sequence[GpuSampled]) -> None:
        """Keep one a second: the one with the highest draw, so that no maximum is lost."""
        best: dict[int, tuple[float, int, float]] = {}
        for place, (at, draw) in enumerate(
            zip(times_s(samples), column(samples, "power_w"), strict=True)
        ):
            held = best.get(int(at))
            if held is None or (draw or 0.0) > held[0]:
                best[int(at)] = (draw or 0.0, place, at)
        for second, (draw, place, at) in best.items():
            if self._thin and int(self._thin[-1][0]) == second:
                if draw <= (self._thin[-1][1].power_w or 0.0):
                    continue
                self._thin.pop()
            self._thin.append((at, samples[place]))

    def __iter__(self) -> Iterator[Event]:
        for _, sample in self._thin:
            yield sample
        for _, samples in self._full:
            yield from samples
        for _, power in self._power:
            yield power

    def __len__(self) -> int:
        return len(self._thin) + self._kept + len(self._power)


class Counters:
    """Readings of one source's counters of one device: the first, those that changed, the last."""

    def __init__(self) -> None:
        self._first: CountersSampled | None = None
        self._last: CountersSampled | None = None
        self._changed: deque[CountersSampled] = deque(maxlen=120)

    def add(self, reading: CountersSampled, watched: frozenset[str]) -> bool:
        """Take a reading.

        Args:
            reading: The reading.
            watched: Names whose rise matters, beside every counter of AER.

        Returns:
            True where a counter that matters rose.
        """
        if self._first is None:
            self._first = reading
            return False
        before = dict((self._last or self._first).counters)
        rose = any(
            value > before.get(name, value)
            for name, value in reading.counters
            if name in watched or name.startswith("aer_")
        )
        if rose:
            if self._last is not None and (
                not self._changed or self._changed[-1] is not self._last
            ):
                self._changed.append(self._last)
            self._changed.append(reading)
        self._last = reading
        return rose

    def __iter__(self) -> Iterator[Event]:
        kept = (self._first, *self._changed, self._last)
        yield from {id(one): one for one in kept if one is not None}.values()


class RollingWindow:
    """The bounded memory of a session.

    Args:
        keep_s: Seconds of samples at full rate.
        thin_s: Seconds of samples at one a second before that.
        keep_events: How many other events are kept.
        watched: Counters of NVML whose rise matters.
    """

    def __init__(
        self,
        *,
        keep_s: float = KEEP_S,
        thin_s: float = THIN_S,
        keep_events: int = KEEP_EVENTS,
        watched: frozenset[str] = frozenset(),
    ) -> None:
        self._keep_s = keep_s
        self._thin_s = thin_s
        self._watched = watched
        self._samples: dict[PciAddress | None, Samples] = {}
        self._counters: dict[tuple[str, PciAddress | None], Counters] = {}
        self._facts: dict[tuple[object, ...], Event] = {}
        self._host: deque[HostSampled] = deque(maxlen=HOST_KEPT)
        self._links: deque[LinkStateReported] = deque(maxlen=keep_events)
        self._events: deque[Event] = deque(maxlen=keep_events)
        self._decisive: deque[Event] = deque(maxlen=keep_events)

    def add(self, event: Event) -> bool:
        """Take an event.

        Returns:
            True where it is news: something that a verdict may rest on, no mere sample.
        """
        match event:
            case SamplesTaken():
                self._add(event.device, event.samples)
            case GpuSampled():
                self._add(event.device, (event,))
            case PowerSampled():
                self._of(event.device).add_power(event)
            case CountersSampled():
                key = (event.origin.input, event.device)
                return self._counters.setdefault(key, Counters()).add(event, self._watched)
            case LinkStateReported(what="sampled"):
                self._links.append(event)
                return event.width is not None and event.width < (event.max_width or 0)
            case HostSampled():
                self._host.append(event)
            case OutputWritten():
                pass  # the recording keeps it; a verdict rests on what was read in it
            case ProcessesListed():
                self._facts[ProcessesListed, event.device] = event
            case DeviceIdentified():
                self._facts[DeviceIdentified, event.origin.input, event.device, event.uuid] = event
            case BridgeLinked():
                self._facts[BridgeLinked, event.device] = event
            case SystemDescribed():
                self._facts[SystemDescribed, event.key, event.value] = event
            case ThermalReported(what="reading"):
                self._facts[ThermalReported, event.device] = event
            case SourceChanged():
                self._events.append(event)
            case _:
                decisive = isinstance(event, _DECISIVE)
                (self._decisive if decisive else self._events).append(event)
                return True
        return False

    def _add(self, device: PciAddress | None, samples: Sequence[GpuSampled]) -> None:
        self._of(device).add(samples, SAMPLES_LIMIT // max(1, len(self._samples)))

    def _of(self, device: PciAddress | None) -> Samples:
        found = self._samples.get(device)
        if found is None:
            found = self._samples[device] = Samples(self._keep_s, self._thin_s)
        return found

    def events(self) -> list[Event]:
        """Everything that is remembered, in order of time."""
        found: list[Event] = list(self._facts.values())
        for samples in self._samples.values():
            found.extend(samples)
        for counters in self._counters.values():
            found.extend(counters)
        found.extend(self._host)
        found.extend(self._links)
        found.extend(self._events)
        found.extend(self._decisive)
        found.sort(key=_place)
        return found

    @property
    def sampled(self) -> dict[PciAddress | None, int]:
        """How many samples are kept of each device."""
        return {device: len(samples) for device, samples in self._samples.items()}


_AT_A_RATE = (
    SamplesTaken,
    GpuSampled,
    PowerSampled,
    CountersSampled,
    OutputWritten,
    ProcessesListed,
)


def is_sample(event: Event) -> bool:
    """Whether an event comes at a sampling rate rather than because something happened."""
    return isinstance(event, _AT_A_RATE) or (
        isinstance(event, LinkStateReported) and event.what == "sampled"
    )


def _seconds(event: Event) -> float:
    """By the clock that nobody sets."""
    stamp = event.stamp
    return stamp.monotonic_s or 0.0 if stamp is not None else 0.0


def _place(event: Event) -> tuple[datetime, tuple[int, int]]:
    stamp = event.stamp
    wall = stamp.wall if stamp is not None else None
    return (wall if wall is not None and wall.tzinfo else _OLDEST, event.origin.order)
