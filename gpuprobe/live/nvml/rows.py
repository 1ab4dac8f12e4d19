"""The rows that the NVML child sends at the sampling rate, as samples."""

from __future__ import annotations

import binascii
import functools
import re
import struct
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from operator import itemgetter
from typing import Any, Final

from gpuprobe.clock import LiveStamp, Stamp
from gpuprobe.events import GpuSampled, Origin
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.packed import Packed

INPUT: Final = "nvml"
"""The source's name."""

FAST_NAMES: Final = wire.ROW_NAMES
"""What stands in a row behind its time."""

SAMPLED: Final = frozenset(GpuSampled.__dataclass_fields__)
"""Values that a sample has a field for."""

NUMBERS: Final = frozenset({int, float})
"""What a reading of a sample can be; anything else is no reading."""

_NAMES: Final = tuple(name for name in FAST_NAMES if name in SAMPLED)
_sampled_part = itemgetter(*(place for place, name in enumerate(FAST_NAMES, 1) if name in SAMPLED))
"""The fields of `GpuSampled` in a row."""

_TYPES: Final = tuple(
    NUMBERS if "float" in str(GpuSampled.__dataclass_fields__[name].type) else frozenset({int})
    for name in _NAMES
)


class Beside:
    """What every sample of some rows has beside its numbers.

    Args:
        device: Whose they are. slow: Values that are read less often, the newest. offset_ns: From
            the clock of the rows to nanoseconds since 1970. order: That of the first sample.
    """

    __slots__ = ("device", "offset_ns", "order", "slow")

    def __init__(
        self,
        device: PciAddress | None,
        slow: dict[str, Any],
        offset_ns: int,
        order: tuple[int, int],
    ) -> None:
        self.device = device
        self.slow = slow
        self.offset_ns = offset_ns
        self.order = order

    def sample(self, number: int, at_ns: int, values: dict[str, Any]) -> GpuSampled:
        """The sample with these values, the n-th of the rows, counted from 0."""
        known = {**self.slow, **values}
        order = (self.order[0], self.order[1] + number)
        known["origin"] = Origin(INPUT, None, in_words(known), "nvmlDeviceGet*", order)
        known["stamp"] = now_stamp(at_ns, at_ns + self.offset_ns)
        known["device"] = self.device
        known["source"] = INPUT
        return GpuSampled.trusted(known)


def now_stamp(monotonic_ns: int, wall_ns: int) -> Stamp:
    """A live event's stamp: both clocks, aware UTC."""
    return LiveStamp(monotonic_ns / 1e9, datetime.fromtimestamp(wall_ns / 1e9, UTC))


def read_row(row: list[Any]) -> dict[str, Any]:
    """The fields of a sample that a row has a reading for.

    Args:
        row: Its time, then a value for each of `FAST_NAMES`.
    """
    return {
        name: value
        for name, value, types in zip(_NAMES, _sampled_part(row), _TYPES, strict=True)
        if value.__class__ in types
    }


class _Layout:
    """Where the values of packed rows stand.

    Args:
        text: As in `wire`.

    Raises:
        ValueError: It is something else.
    """

    def __init__(self, text: str) -> None:
        size, *places = text.split(" ")
        if len(places) != len(FAST_NAMES):
            raise ValueError(f"{text!r} does not describe rows")
        found = {
            name: _place(place)
            for name, place in zip(FAST_NAMES, places, strict=True)
            if place != "-"
        }
        letters, end = ["=q"], 8
        self.columns: list[tuple[str, wire.Place]] = []
        for name, place in sorted(found.items(), key=lambda one: one[1].offset):
            if place.offset < end:
                raise ValueError(f"{text!r}: two values in one place")
            letters.append(f"{place.offset - end}x{place.code}")
            end = place.offset + struct.calcsize("=" + place.code)
            self.columns.append((name, place))
        letters.append(f"{int(size) - end}x")
        if not end <= int(size) <= ROW_LIMIT or int(size) % 8:
            raise ValueError(f"{text!r}: rows of {size} bytes")
        self.row = struct.Struct("".join(letters))
        types = dict(zip(_NAMES, _TYPES, strict=True))
        self.sampled = [
            (at, name, place)
            for at, (name, place) in enumerate(self.columns, 1)
            if name in types and type(place.scaled(0.0 if place.code == "d" else 0)) in types[name]
        ]
        """What samples have a field for: where in an unpacked row, the name, and its place."""


def _place(text: str) -> wire.Place:
    found = _PLACE.fullmatch(text)
    if found is None:
        raise ValueError(f"{text!r} is no place")
    place = wire.Place(int(found[1]), found[2], float(found[3] or 1))
    if place.offset % struct.calcsize("=" + place.code):
        raise ValueError(f"{text!r} is not aligned")
    return place


_PLACE: Final = re.compile(r"(\d{1,4})([iIqQdH])(?:\*(\d{1,4}(?:\.\d{1,6})?))?")
ROW_LIMIT: Final = 4096
"""Bytes of a row; an H200's has 200."""

_layout = functools.lru_cache(maxsize=64)(_Layout)


class SampleRows(Packed[GpuSampled]):
    """Packed rows, which read like a tuple of samples.

    Args:
        layout: Where the values of a row stand; rows: in base64; both as in `wire`.
        beside: What the samples have beside these.

    Raises:
        ValueError: It is cut short, or no base64.
        OverflowError: A time is none.
    """

    __slots__ = ("_beside", "_layout", "_packed", "_whole")

    def __init__(self, layout: str, rows: str, beside: Beside) -> None:
        self._layout = _layout(layout)
        self._packed = binascii.a2b_base64(rows)
        self._beside = beside
        self._whole: tuple[GpuSampled, ...] | None = None
        if not self._packed or len(self._packed) % self._layout.row.size:
            raise ValueError("rows are cut short")
        times = self.times_s
        for at_s in (min(times), max(times)):
            datetime.fromtimestamp(at_s + beside.offset_ns / 1e9, UTC)

    @property
    def times_s(self) -> list[float]:
        """When each was taken, seconds of `time.monotonic()`."""
        return [at / 1e9 for at in self._column(wire.Place(0, "q"))]

    def column(self, name: str) -> list[Any]:
        """One value of all samples; None for each where it is not known."""
        for _, found, place in self._layout.sampled:
            if found == name:
                return self._column(place)
        return [None] * len(self)

    def newest_row(self) -> list[Any]:
        """The last row: its time, then a value for each of `FAST_NAMES`, None for none."""
        row = self._row(len(self) - 1)
        found = {
            name: place.scaled(row[at]) for at, (name, place) in enumerate(self._layout.columns, 1)
        }
        return [row[0], *map(found.get, FAST_NAMES)]

    @property
    def has_readings(self) -> bool:
        """Whether a row holds more than its time."""
        return bool(self._layout.sampled)

    def _column(self, place: wire.Place) -> list[Any]:
        packed: Any = memoryview(self._packed)
        numbers = packed.cast(place.code)  # all of them, of which a row has a whole number
        size = numbers.itemsize
        found: list[Any] = numbers[place.offset // size :: self._layout.row.size // size].tolist()
        return found if place.scale == 1 else list(map(place.scaled, found))

    def _row(self, number: int) -> tuple[Any, ...]:
        return self._layout.row.unpack_from(self._packed, number * self._layout.row.size)

    def _sample(self, number: int, row: tuple[Any, ...]) -> GpuSampled:
        known = {name: place.scaled(row[at]) for at, name, place in self._layout.sampled}
        return self._beside.sample(number, row[0], known)

    def _taken_apart(self) -> tuple[GpuSampled, ...]:
        if self._whole is None:
            rows = self._layout.row.iter_unpack(self._packed)
            self._whole = tuple(self._sample(number, row) for number, row in enumerate(rows))
        return self._whole

    def __iter__(self) -> Iterator[GpuSampled]:
        return iter(self._taken_apart())

    def __len__(self) -> int:
        return len(self._packed) // self._layout.row.size

    def __getitem__(self, place: Any) -> Any:
        if self._whole is not None or not isinstance(place, int):
            return self._taken_apart()[place]
        number = range(len(self))[place]
        return self._sample(number, self._row(number))


def in_words(known: dict[str, Any]) -> str:
    """The part of a sample that a person asks for first."""
    words = []
    if "power_w" in known:
        limit = f" of {known['limit_w']:.0f}" if "limit_w" in known else ""
        words.append(f"{known['power_w']:.1f}{limit} W")
    if "temp_c" in known:
        words.append(f"{known['temp_c']} C")
    if "sm_clock_mhz" in known:
        words.append(f"{known['sm_clock_mhz']} MHz")
    if "link_gen" in known and "link_width" in known:
        words.append(f"Gen{known['link_gen']} x{known['link_width']}")
    return ", ".join(words)


def times_s(samples: Sequence[GpuSampled]) -> list[float]:
    """When each was taken, seconds of `time.monotonic()`; 0.0 where that is not known."""
    if isinstance(samples, SampleRows):
        return samples.times_s
    return [(one.stamp.monotonic_s or 0.0) if one.stamp is not None else 0.0 for one in samples]


def column(samples: Sequence[GpuSampled], name: str) -> list[Any]:
    """One value of all samples, None where it is not known; packed ones are not taken apart."""
    if isinstance(samples, SampleRows):
        return samples.column(name)
    return [getattr(one, name) for one in samples]
