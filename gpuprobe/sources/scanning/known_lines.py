"""Lines that are known but for their stamps, and where they stand in a block of bytes.

A known line is a head, which is a pattern for any stamp, and a tail, which is literal. One
regular expression decides what is known. Where such lines come by the thousand, lines as long as
one that matched and the same but for the digits of its stamps are told from others all at once,
with numpy: they match as well.
"""

from __future__ import annotations

import re
import threading
from bisect import bisect_left
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from gpuprobe.sources.scanning.line_layouts import Integers, Layouts

DIGITS = rb"[0-9]{1,20}"
"""What stands in a head for each number of a stamp."""

MANY_LINES = 10_000
"""Known lines found one by one after which numpy is worth its import."""

Template = tuple[bytes, bytes]
"""A line's head as a pattern, and its tail as it stands."""


@dataclass(frozen=True, slots=True)
class Places:
    """Known lines among some bytes, ascending.

    Attributes:
        starts: Where they begin. ends: Where they end, line feed included.
        numbers: Which known lines they are.
    """

    starts: list[int] | Integers = field(default_factory=list)
    ends: list[int] | Integers = field(default_factory=list)
    numbers: list[int] | Integers = field(default_factory=list)

    def behind(self, start: int) -> Places:
        """Those from `start` on, counted from there."""
        first = bisect_left(self.starts, start)
        return Places(
            [int(at) - start for at in self.starts[first:]],
            [int(at) - start for at in self.ends[first:]],
            [int(number) for number in self.numbers[first:]],
        )

    def followed_by(self, other: Places, offset: int) -> Places:
        """These, with those of `other` behind them, `offset` bytes on."""
        return Places(
            [*self.starts, *(int(at) + offset for at in other.starts)],
            [*self.ends, *(int(at) + offset for at in other.ends)],
            [*self.numbers, *map(int, other.numbers)],
        )

    def tally(self, start: int, end: int) -> list[tuple[int, int, int, int]]:
        """What lies between two places, in the order of the last line of each number.

        Returns:
            Number, how many lines, where the last begins and where it ends.
        """
        first, stop = bisect_left(self.starts, start), bisect_left(self.starts, end)
        numbers = self.numbers[first:stop]
        if isinstance(numbers, list):
            times: dict[int, int] = Counter(numbers)
            last = dict(zip(numbers, range(first, stop), strict=True))
        else:
            from gpuprobe.sources.scanning.line_layouts import count

            times, last = count(numbers, first)
        return [
            (number, times[number], int(self.starts[place]), int(self.ends[place]))
            for number, place in sorted(last.items(), key=lambda item: item[1])
        ]


class KnownLines:
    """Some known lines. Safe to be used by several threads."""

    def __init__(self, templates: Sequence[Template]) -> None:
        """Take the lines; the number of each is its place."""
        self._templates = tuple(templates)
        tails: dict[bytes, list[int]] = {}
        for number, (head, _) in enumerate(templates):
            tails.setdefault(head, []).append(number)
        self._numbers = [-1, *(number for numbers in tails.values() for number in numbers)]
        # The empty group says which tail it was; a group around the tail would keep `re` from
        # trying what the tails begin with only once.
        heads = (
            head + b"(?:" + b"|".join(re.escape(templates[n][1]) + b"()" for n in numbers) + b")"
            for head, numbers in tails.items()
        )
        self._pattern = re.compile(b"(?:" + b"|".join(heads) + rb")\r?(?:\n|\Z)")
        self._lock = threading.Lock()
        self._seen = 0
        self._layouts: Layouts | None = None

    def match(self, data: bytes, start: int = 0) -> tuple[int, int] | None:
        """Number and end of the known line that begins at `start`; None if none does."""
        match = self._pattern.match(data, start)
        return None if match is None else (self._numbers[match.lastindex or 0], match.end())

    def layouts(self) -> Layouts | None:
        """What tells many of the lines from others at once; None while it is not worth it."""
        return self._layouts

    def learn(self, data: bytes, matches: Sequence[tuple[int, int, int]]) -> None:
        """Take note of lines that had to be matched one by one.

        Args:
            data: Where they stand.
            matches: Start, end and number of each.
        """
        with self._lock:
            self._seen += len(matches)
            if self._seen < MANY_LINES:
                return
            if self._layouts is None:
                try:
                    from gpuprobe.sources.scanning.line_layouts import Layouts
                except ImportError:
                    self._seen = 0
                    return
                self._layouts = Layouts()
            for number, place in {match[2]: match for match in matches}.items():
                self._learn(data[place[0] : place[1]], number, self._layouts)

    def _learn(self, line: bytes, number: int, layouts: Layouts) -> None:
        head, tail = self._templates[number]
        for other, (_, another) in enumerate(self._templates):
            if other != number and (another.endswith(tail) or tail.endswith(another)):
                # The same line could match both, and the pattern says which counts.
                return
        match = re.match(head.replace(DIGITS, b"(" + DIGITS + b")"), line)
        if match is not None and line.endswith(b"\n"):
            spans = [match.span(group) for group in range(1, match.re.groups + 1)]
            layouts.add(line[:-1], spans, number)
