"""Lines of a certain length that are the same but for some digits, found all at once with numpy."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
_Bytes = npt.NDArray[np.uint8]
_Words = npt.NDArray[np.uint64]

LIMIT = 512
"""Layouts at most: a known line has as many as its stamps have lengths."""

_WORD = 8
"""Bytes at the end of a line that, with its length, say which layouts it may have."""

_SPREAD = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True, slots=True)
class _Layout:
    number: int
    length: int
    literal: _Bytes
    most: _Bytes


@dataclass(frozen=True, slots=True)
class Sorted:
    """Some bytes with the lines taken out that were found.

    Attributes:
        starts: Where the found lines begin, ascending. ends: Where they end, line feed included.
        numbers: Which they are.
        rest: What is left.
        rest_starts: Where the stretches of the rest begin in it. data_starts: Where in the data.
    """

    starts: Integers
    ends: Integers
    numbers: Integers
    rest: bytes
    rest_starts: list[int]
    data_starts: list[int]

    def in_data(self, place: int) -> int:
        """Where a place of the rest is in the data."""
        stretch = bisect_right(self.rest_starts, place) - 1
        return place - self.rest_starts[stretch] + self.data_starts[stretch]


class Layouts:
    """The layouts known so far. Adding one leaves a search that another thread does alone."""

    def __init__(self) -> None:
        self._layouts: dict[int, list[_Layout]] = {}
        self._keys: _Words = np.empty(0, np.uint64)
        self._count = 0

    def add(self, line: bytes, spans: Sequence[tuple[int, int]], number: int) -> None:
        """Take lines like this one, with any digits in these spans.

        Args:
            line: The line without its line feed.
            spans: Where it has digits that may differ.
            number: Which known line it is.
        """
        if self._count >= LIMIT or len(line) < _WORD:
            return
        literal = np.frombuffer(line, np.uint8).copy()
        most = np.zeros(len(line), np.uint8)
        for start, end in spans:
            # Exclusive or with "0" leaves the value of a digit, and more than nine of all else.
            literal[start:end] = ord("0")
            most[start:end] = 9
        if most[-_WORD:].any():
            return
        key = int(_keys(np.array([len(line)]), literal[-_WORD:].view("<u8"))[0])
        same = self._layouts.get(key, [])
        if any(np.array_equal(literal, layout.literal) for layout in same):
            return
        self._layouts = {**self._layouts, key: [*same, _Layout(number, len(line), literal, most)]}
        self._keys = np.array(sorted(self._layouts), np.uint64)
        self._count += 1

    def sort(self, data: bytes) -> Sorted | None:
        """Find the lines of these layouts; None if there are none."""
        keys, layouts = self._keys, self._layouts
        if not len(keys) or len(data) <= _WORD:
            return None
        octets = np.frombuffer(data, np.uint8)
        ends = np.flatnonzero(octets == 0x0A)
        starts = np.empty_like(ends)
        starts[:1] = 0
        starts[1:] = ends[:-1] + 1
        words = np.ndarray((len(data) - _WORD + 1,), "<u8", data, strides=(1,))
        # A line shorter than a word gets one that is not its own, but no layout is as short.
        found_keys = _keys(ends - starts, words[np.maximum(ends - _WORD, 0)])
        places = np.searchsorted(keys, found_keys)
        places[places == len(keys)] = 0
        numbers = np.full(len(ends), -1, np.int64)
        maybe = keys[places] == found_keys
        for place in np.flatnonzero(np.bincount(places[maybe])).tolist():
            candidates = np.flatnonzero(maybe & (places == place))
            for layout in layouts.get(int(keys[place]), ()):
                candidates = _match(octets, starts, ends, candidates, layout, numbers)
        known = np.flatnonzero(numbers >= 0)
        return _sorted(data, starts, ends + 1, numbers, known) if len(known) else None


def count(numbers: Integers, first: int) -> tuple[dict[int, int], dict[int, int]]:
    """How often each number comes, and its last place.

    Args:
        numbers: Small ones.
        first: Place of the first.
    """
    times = np.bincount(numbers)
    last = np.zeros(len(times), np.int64)
    last[numbers] = np.arange(first, first + len(numbers))
    present = np.flatnonzero(times).tolist()
    return {n: int(times[n]) for n in present}, {n: int(last[n]) for n in present}


def _keys(lengths: Integers, words: _Words) -> _Words:
    return words ^ (lengths.astype(np.uint64) * _SPREAD)


def _match(
    octets: _Bytes,
    starts: Integers,
    ends: Integers,
    candidates: Integers,
    layout: _Layout,
    numbers: Integers,
) -> Integers:
    """Number the candidates that have this layout; what comes back are the others."""
    length = layout.length
    candidates_here = candidates[ends[candidates] - starts[candidates] == length]
    if not len(candidates_here):
        return candidates
    windows = np.lib.stride_tricks.as_strided(
        octets, (len(octets) - length + 1, length), (1, 1), writeable=False
    )
    rows = windows[starts[candidates_here]]
    rows ^= layout.literal
    matches = (rows <= layout.most).all(axis=1)
    numbers[candidates_here[matches]] = layout.number
    return candidates[numbers[candidates] < 0]


def _sorted(
    data: bytes, starts: Integers, ends: Integers, numbers: Integers, known: Integers
) -> Sorted:
    # A stretch of the rest begins behind a known line that no known line follows.
    stretch_ends = np.append(starts[known], len(data))
    stretch_starts = np.insert(ends[known], 0, 0)
    filled = stretch_starts < stretch_ends
    data_starts = stretch_starts[filled].tolist()
    data_ends = stretch_ends[filled].tolist()
    view = memoryview(data)
    rest = b"".join([view[a:b] for a, b in zip(data_starts, data_ends, strict=True)])
    lengths = stretch_ends[filled] - stretch_starts[filled]
    rest_starts = (np.cumsum(lengths) - lengths).tolist()
    return Sorted(starts[known], ends[known], numbers[known], rest, rest_starts, data_starts)
