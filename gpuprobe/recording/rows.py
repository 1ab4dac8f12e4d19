"""From events to the rows of a recording's tables.

What comes at a rate gets a table with columns of its own; counters, links and lists of processes
are stored when they changed, and now and then when they did not. Everything else is a row of
`events` that gives the event back exactly.
"""

from __future__ import annotations

import struct
import zlib
from array import array
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import itemgetter, sub
from typing import Any, Final

from gpuprobe.events import (
    CountersSampled,
    DeviceIdentified,
    Event,
    GpuSampled,
    LinkStateReported,
    Origin,
    OutputWritten,
    PowerSampled,
    ProcessesListed,
    Setting,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.driver_samples import DriverSamples
from gpuprobe.recording.codec import dumps, encode
from gpuprobe.recording.schema import SAMPLE_COLUMNS

LONGEST_S: Final = 1e10
"""Three centuries: no clock that counts from a boot shows more."""

_FIRST_YEAR, _LAST_YEAR = 1900, 2200
"""A kernel without a battery says 1970; beyond these, arithmetic with dates overflows."""

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)

LINKS_EVERY_S: Final = 60.0
COUNTERS_EVERY_S: Final = 600.0
"""What did not change is stored this often all the same, so that a window finds a reading."""

LARGEST: Final = 2**63 - 1
"""The largest whole number of SQLite."""

_HEAD: Final = struct.Struct("<qI")
_LARGEST: Final = 0xFFFFFFFF

Row = tuple[str, tuple[Any, ...]]
"""A table's name, and the values of its columns behind the id."""


def to_ns(at: datetime) -> int:
    """Nanoseconds since 1970 of an aware time."""
    gap = at - EPOCH
    return ((gap.days * 86_400 + gap.seconds) * 1_000_000 + gap.microseconds) * 1000


def is_moment(at: datetime | None, monotonic_s: float | None) -> bool:
    """Whether a time can be reckoned with; digits of a damaged file need not be one."""
    near = at is None or _FIRST_YEAR <= at.year <= _LAST_YEAR
    return near and (monotonic_s is None or -LONGEST_S <= monotonic_s <= LONGEST_S)


def when(event: Event) -> int | None:
    """Nanoseconds since 1970, or None where the event's stamp does not say."""
    stamp = event.stamp
    if stamp is None or not stamp.is_absolute:
        return None
    assert stamp.wall is not None
    return to_ns(stamp.wall)


def fitting(value: Any) -> Any:
    """A number that SQLite can hold: a counter that reads all ones is larger than its largest."""
    return min(max(value, -LARGEST), LARGEST) if value.__class__ is int else value


def clean(text: str) -> str:
    """Text that SQLite takes: what is no Unicode is shown by its number."""
    return text.encode("utf-8", "backslashreplace").decode()


def pack(samples: Sequence[tuple[float, float]]) -> bytes | None:
    """Power samples as bytes: the first time in µs, steps in µs, milliwatts; compressed.

    Returns:
        None where that would not give them back exactly.
    """
    if not samples:
        return None
    if isinstance(samples, DriverSamples):
        times, watts = samples.whole()
    else:
        times = [round(at * 1e6) for at, _ in samples]
        watts = [round(value * 1e3) for _, value in samples]
        if [(at / 1e6, value / 1e3) for at, value in zip(times, watts, strict=True)] != [*samples]:
            return None
    steps = [0, *map(sub, times[1:], times)]
    if min(steps) < 0 or max(steps) > _LARGEST or not 0 <= min(watts) <= max(watts) <= _LARGEST:
        return None
    words = array("I", steps + watts)
    return zlib.compress(_HEAD.pack(times[0], len(times)) + words.tobytes(), 1)


def unpack(blob: bytes) -> tuple[tuple[float, float], ...]:
    """Power samples back.

    Raises:
        ValueError: They are no packed samples.
    """
    opened = zlib.decompressobj()
    try:
        data = opened.decompress(blob, 1 << 20)
        at, count = _HEAD.unpack_from(data)
    except (zlib.error, struct.error) as error:
        raise ValueError("no packed power samples") from error
    if len(data) != _HEAD.size + 8 * count:
        raise ValueError("packed power samples are cut short")
    words = array("I", data[_HEAD.size :])
    found = []
    for step, watts in zip(words[:count], words[count:], strict=True):
        at += step
        found.append((at / 1e6, watts / 1e3))
    return tuple(found)


class Rows:
    """Makes rows, and remembers what it needs to store changes alone."""

    def __init__(self) -> None:
        self.devices: dict[PciAddress, int] = {}
        self.read_until: dict[tuple[int, str], tuple[int, float | None]] = {}
        self._counters: dict[tuple[int, str], tuple[int, dict[str, int]]] = {}
        self._unchanged: dict[tuple[object, ...], tuple[int, object]] = {}

    def of(self, event: Event) -> Iterator[Row]:
        """The rows of one event, in the order in which they are to be written."""
        at = when(event)
        device = event.device
        if device is not None and device not in self.devices:
            self.devices[device] = len(self.devices) + 1
            yield "devices", (self.devices[device], str(device), None, None)
        if isinstance(event, DeviceIdentified) and device is not None:
            names = tuple(None if one is None else clean(one) for one in (event.uuid, event.name))
            yield "devices", (self.devices[device], str(device), *names)
        if isinstance(event, OutputWritten):
            yield from _output(event, at)
        elif at is None or device is None or not _is_plain(event):
            yield _event(event, at)
        elif isinstance(event, GpuSampled) and not event.lost:
            yield _sample(event, at, self.devices[device])
        elif isinstance(event, PowerSampled) and (packed := pack(event.samples)) is not None:
            monotonic = event.stamp.monotonic_s if event.stamp else None
            row = (at, monotonic, self.devices[device], len(event.samples), packed)
            yield "power_samples", row
        elif isinstance(event, CountersSampled):
            yield from self._counted(event, at, self.devices[device])
        elif not self._is_old_news(event, at):
            yield _event(event, at)

    def _counted(self, event: CountersSampled, at: int, device: int) -> Iterator[Row]:
        monotonic = event.stamp.monotonic_s if event.stamp else None
        key = (device, event.origin.input)
        self.read_until[key] = (at, monotonic)
        full_at, last = self._counters.get(key, (0, {}))
        again = at - full_at >= COUNTERS_EVERY_S * 1e9
        if again:
            self._counters[key] = (at, last)
        for name, value in event.counters:
            if again or last.get(name) != value:
                last[name] = value
                yield (
                    "counters",
                    (at, monotonic, device, clean(key[1]), clean(name), fitting(value)),
                )

    def _is_old_news(self, event: Event, at: int) -> bool:
        """Whether a reading says what the last one of its kind said, and that a short time ago."""
        match event:
            case LinkStateReported(what="sampled"):
                said: object = (event.speed_gts, event.width, event.max_speed_gts, event.max_width)
            case ProcessesListed():
                said = event.pids
            case _:
                return False
        key = (type(event), event.device, event.origin.input)
        before, told = self._unchanged.get(key, (0, None))
        if told == said and 0 <= at - before < LINKS_EVERY_S * 1e9:
            return True
        self._unchanged[key] = (at, said)
        return False


def _is_plain(event: Event) -> bool:
    """Whether an event has nothing but what a live reading has, so that columns can hold it."""
    return (
        event.origin.line is None
        and event.setting is Setting.LOG
        and event.count == 1
        and event.last is None
        and event.host is None
        and event.machine_id is None
    )


_columns_of = itemgetter(*SAMPLE_COLUMNS)


def _sample(event: GpuSampled, at: int, device: int) -> Row:
    monotonic = event.stamp.monotonic_s if event.stamp else None
    columns = _columns_of(vars(event))
    if any(one.__class__ is int and abs(one) > LARGEST for one in columns):
        columns = tuple(map(fitting, columns))
    return "samples", (at, monotonic, device, *columns)


def _output(event: OutputWritten, at: int | None) -> Iterator[Row]:
    path, stream = clean(event.origin.input), clean(event.stream)
    for number, text in event.lines:
        yield "engine_log", (at, path, stream, number, clean(text))
    if event.dropped:
        moment = at or 0
        yield "gaps", (moment, moment, "output", event.dropped, "bytes that came too fast")


def _event(event: Event, at: int | None) -> Row:
    origin = event.origin
    more = encode(event)
    del more["origin"]
    more.pop("device", None)
    if event.device is not None and event.device.domain_assumed:
        more["domain_assumed"] = True
    for name, value, default in (
        ("ref", origin.ref, None),
        ("order", list(origin.order), [0, 0]),
        ("text", origin.text, clean(origin.text)),
        ("input", origin.input, clean(origin.input)),
    ):
        if value != default:
            more[name] = value
    device = None if event.device is None else str(event.device)
    monotonic = event.stamp.monotonic_s if event.stamp is not None else None
    kind = type(event).__name__
    path, text = clean(origin.input), clean(origin.text)
    return "events", (at, monotonic, kind, device, path, origin.line, text, dumps(more))


def more_of(values: tuple[Any, ...], more: dict[str, Any]) -> dict[str, Any]:
    """What `codec.decode` takes, from a row of `events` and its `more`.

    Args:
        values: `device`, `input`, `line`, `text`.
        more: The JSON of its column `more`.
    """
    device, path, line, text = values
    found = dict(more)
    order = found.pop("order", [0, 0])
    ref = found.pop("ref", None)
    found["origin"] = [found.pop("input", path), line, found.pop("text", text), ref, order]
    assumed = found.pop("domain_assumed", False)
    if device is not None:
        found["device"] = str(device).partition(":")[2] if assumed else device
    return found


def words_of(event: GpuSampled) -> str:
    """The part of a sample that a person asks for first."""
    words = []
    if event.power_w is not None:
        limit = f" of {event.limit_w:.0f}" if event.limit_w is not None else ""
        words.append(f"{event.power_w:.1f}{limit} W")
    if event.temp_c is not None:
        words.append(f"{event.temp_c:g} C")
    if event.sm_clock_mhz is not None:
        words.append(f"{event.sm_clock_mhz:g} MHz")
    if event.link_gen is not None and event.link_width is not None:
        words.append(f"Gen{event.link_gen} x{event.link_width}")
    return ", ".join(words)


def origin_of(path: str, table: str, row: int, text: str) -> Origin:
    """Where a row stands, as evidence is cited."""
    return Origin(path, None, text, f"{table}:{row}")
