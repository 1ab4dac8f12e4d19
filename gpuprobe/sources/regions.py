"""Which stretches of a plain input lie near words that matter, found while it streams by.

Lines farther than `CONTEXT` from every hit are dropped, those that only repeat what is known are
counted, and the rest is handed on as pieces of bytes with the number of their first line.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from gpuprobe.sources.lines import count_faster, count_line_ends, ends_line
from gpuprobe.sources.needles import Matcher
from gpuprobe.sources.record import Window

CONTEXT = Window.REACH + 2
"""Lines either side of a hit: what patterns see, and the line that a message may go on from."""

LONG_LINE = 1 << 20
"""Bytes without a line feed above which a line is handed on whatever it holds."""

SEARCHED = 256 << 10
"""Bytes searched at a time: few, so that what repeats is known soon."""

MANY_BYTES = 64 << 20
"""Input after which a faster way to count lines is worth its import."""

HELD_LIMIT = 4 << 20
"""Bytes of dropped lines kept back, as context of what may come."""

_OPEN_BRACE = re.compile(rb"\{[^\x21-\x7e\n]*\n")


class Known(Protocol):
    """What can be counted without being read; see `repeats.Repeats`."""

    marks: tuple[bytes, ...]
    mark_line: int | None
    line: re.Pattern[bytes] | None
    numbers: list[int]

    def skipped(self, number: int, times: int, line: int, text: bytes) -> None:
        """A known line came `times` times, the last time as line `line` with these bytes."""


@dataclass(frozen=True, slots=True)
class Piece:
    """Consecutive bytes to be read.

    Attributes:
        line: Number of their first line.
        data: Whole lines as a rule; of a very long line a part.
        continues: They follow the piece before without a gap.
    """

    line: int
    data: bytes
    continues: bool


@dataclass(slots=True)
class _Found:
    """What a search found in some bytes.

    Attributes:
        hits: Where lines begin that have to be read, ascending; None for all of them.
        starts: Where known lines begin, ascending.
        ends: Where they end.
        numbers: Which known lines they are.
    """

    hits: list[int] | None = None
    starts: list[int] = field(default_factory=list)
    ends: list[int] = field(default_factory=list)
    numbers: list[int] = field(default_factory=list)

    def moved(self, other: _Found, offset: int) -> _Found:
        """These known lines, with those of `other` behind them, `offset` bytes on."""
        return _Found(
            None if other.hits is None else [at + offset for at in other.hits],
            self.starts + [at + offset for at in other.starts],
            self.ends + [at + offset for at in other.ends],
            self.numbers + other.numbers,
        )

    def known_behind(self, start: int) -> _Found:
        """The known lines from `start` on, counted from there."""
        first = bisect_left(self.starts, start)
        return _Found(
            None,
            [at - start for at in self.starts[first:]],
            [at - start for at in self.ends[first:]],
            self.numbers[first:],
        )


class Regions:
    """The pieces of an input that have to be read.

    Attributes:
        line: Line ends passed so far; after the last piece, lines of the input.
    """

    def __init__(
        self, blocks: Iterable[bytes], matcher: Matcher, known: Known, *, objects: bool = False
    ) -> None:
        """Take the input's blocks.

        Args:
            blocks: Bytes in UTF-8 or another superset of ASCII, in blocks of any size.
            matcher: Finds what matters.
            known: What can be counted unread.
            objects: Hand on all from the first line that is a lone `{`.
        """
        self._blocks = blocks
        self._matcher = matcher
        self._known = known
        self._objects = objects
        self.line = 0
        self._held = b""
        self._held_found = _Found()
        self._after = 0
        self._all = False
        self._joined = False
        self._mark: int | None = None

    def __iter__(self) -> Iterator[Piece]:
        last = b""
        passed = 0
        for data, whole in _line_blocks(self._blocks):
            yield from self._feed(data, whole)
            last = data
            passed += len(data)
            if passed > MANY_BYTES:
                count_faster()
                passed = 0
        self._skip(self._held, 0, len(self._held), self._held_found)
        if last and not ends_line(last):
            self.line += 1

    def _feed(self, data: bytes, whole: bool) -> Iterator[Piece]:
        found = self._search(data) if whole and not self._all else _Found()
        if found.hits is None:
            self._pass_marks(data)
        elif not found.hits and not self._after:
            keep = _back(data, len(data), CONTEXT)
            if keep > 0 and len(data) - keep <= HELD_LIMIT:
                # The common case, without copying: nothing here, and nothing just before.
                self._skip(self._held, 0, len(self._held), self._held_found)
                self._skip(data, 0, keep, found)
                self._held, self._held_found = data[keep:], found.known_behind(keep)
                return
        if self._held:
            found = self._held_found.moved(found, len(self._held))
            data = self._held + data
        yield from self._give(data, self._spans(data, found.hits), found)

    def _spans(self, data: bytes, hits: list[int] | None) -> list[tuple[int, int]]:
        """Beginnings and ends of what has to be read, merged."""
        if hits is None:
            # A line that is cut here may go on, and the lines behind it are context.
            self._after = CONTEXT + 2
            return [(0, len(data))]
        spans: list[tuple[int, int]] = []
        if self._after:
            end, self._after = _forward(data, 0, self._after)
            spans.append((0, end))
        for hit in hits:
            start = _back(data, hit, CONTEXT)
            end, after = _forward(data, hit, CONTEXT + 1)
            self._after = max(self._after, after)
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        if self._all:
            spans[-1] = (spans[-1][0], len(data))
        return spans

    def _search(self, data: bytes) -> _Found:
        """Look for words in whole lines, and tell known lines from those to be read."""
        hits: list[int] = []
        # What is known holds up to the next boot mark, and again when that has been read.
        line = self._known.line if self._mark == self._known.mark_line else None
        matches, rest = _known_lines(line, data) if line is not None else ([], data)
        ends = self._matcher.hits(rest)
        if ends and matches:
            # Among the known lines stand others: tell them apart, in order.
            matches.clear()
            ends = self._matcher.hits(data)
        line_end = 0
        for end in ends:
            if end <= line_end:
                continue
            # A hit's last byte is in its line, even where it is the line feed.
            start = data.rfind(b"\n", 0, end - 1) + 1
            if line is not None and (match := line.match(data, start)):
                matches.append(match)
                line_end = match.end()
                continue
            hits.append(start)
            line_end = data.find(b"\n", end - 1) + 1 or len(data)
            if self._pass_marks(data, start, line_end):
                line = None
        numbers = self._known.numbers
        found = _Found(
            hits,
            [match.start() for match in matches],
            [match.end() for match in matches],
            [numbers[match.lastindex or 0] for match in matches],
        )
        if self._objects and (brace := _lone_brace(data)) is not None:
            self._all = True
            hits[:] = [*(hit for hit in hits if hit < brace), brace]
        return found

    def _pass_marks(self, data: bytes, start: int = 0, end: int | None = None) -> bool:
        """Note the last boot mark between two places of the new data; True if there is one."""
        place = max(data.rfind(mark, start, end) for mark in self._known.marks)
        if place < 0:
            return False
        held = count_line_ends(self._held)
        self._mark = self.line + held + count_line_ends(data[:place]) + 1
        return True

    def _give(self, data: bytes, spans: list[tuple[int, int]], found: _Found) -> Iterator[Piece]:
        self._held, self._held_found = b"", _Found()
        done = 0
        for start, end in spans:
            self._skip(data, done, start, found)
            yield from self._piece(data[start:end])
            done = end
        keep = max(done, _back(data, len(data), CONTEXT))
        self._skip(data, done, keep, found)
        if len(data) - keep > HELD_LIMIT:
            yield from self._piece(data[keep:])
        else:
            self._held, self._held_found = data[keep:], found.known_behind(keep)

    def _piece(self, data: bytes) -> Iterator[Piece]:
        if data:
            first = self.line + 1
            self.line += count_line_ends(data)
            continues, self._joined = self._joined, True
            yield Piece(first, data, continues)

    def _skip(self, data: bytes, start: int, end: int, found: _Found) -> None:
        """Pass over lines that need not be read; count those among them that are known."""
        if start >= end:
            return
        self._joined = False
        first, stop = bisect_left(found.starts, start), bisect_left(found.starts, end)
        numbers = found.numbers[first:stop]
        last = dict(zip(numbers, range(first, stop), strict=True))
        for number, times in sorted(Counter(numbers).items(), key=lambda item: last[item[0]]):
            place = found.starts[last[number]]
            self.line += count_line_ends(data[start:place])
            start = place
            text = data[place : found.ends[last[number]]]
            self._known.skipped(number, times, self.line + 1, text)
        self.line += count_line_ends(data[start:end])


def _line_blocks(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Blocks cut behind line feeds, with True; parts of lines too long to wait for with False."""
    rest = b""
    for block, start, end in _parts(blocks):
        cut = block.rfind(b"\n", start, end) + 1
        if cut:
            # Joined in one go, so that all is copied once.
            yield b"".join((rest, memoryview(block)[start:cut])), True
            rest = block[cut:end]
            continue
        rest += block[start:end]
        if len(rest) >= LONG_LINE:
            # Neither within a character nor between a carriage return and its line feed.
            cut = len(rest)
            while cut > len(rest) - 4 and (rest[cut - 1] >= 0x80 or rest[cut - 1] == 0x0D):
                cut -= 1
            yield rest[:cut], False
            rest = rest[cut:]
    if rest:
        yield rest, True


def _known_lines(line: re.Pattern[bytes], data: bytes) -> tuple[list[re.Match[bytes]], bytes]:
    """The known lines among whole lines, and what stays without them."""
    found: list[re.Match[bytes]] = []
    rest: list[bytes] = []
    done = 0
    for match in line.finditer(data):
        start = match.start()
        if start == done or data[start - 1] == 0x0A:
            found.append(match)
            if start != done:
                rest.append(data[done:start])
            done = match.end()
    rest.append(data[done:])
    return found, b"".join(rest)


def _parts(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int, int]]:
    for block in blocks:
        for start in range(0, len(block), SEARCHED):
            yield block, start, min(start + SEARCHED, len(block))


def _back(buffer: bytes, at: int, lines: int) -> int:
    """Where the line begins that is `lines` lines above the line that begins at `at`."""
    for _ in range(lines):
        if at <= 0:
            return 0
        at = buffer.rfind(b"\n", 0, at - 1) + 1
    return at


def _forward(buffer: bytes, at: int, lines: int) -> tuple[int, int]:
    """Where `lines` lines from `at` end, and how many of them are not in the buffer."""
    for done in range(lines):
        found = buffer.find(b"\n", at)
        if found < 0:
            return len(buffer), lines - done
        at = found + 1
    return at, 0


def _lone_brace(data: bytes) -> int | None:
    """Where the first line begins that has nothing but an opening brace, or None."""
    for match in _OPEN_BRACE.finditer(data):
        start = data.rfind(b"\n", 0, match.start()) + 1
        if all(not 0x21 <= byte <= 0x7E for byte in data[start : match.start()]):
            return start
    return None
