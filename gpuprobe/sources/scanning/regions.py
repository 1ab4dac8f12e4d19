"""Which stretches of a plain input lie near words that matter, found while it streams by.

Lines farther than `CONTEXT` from every hit are dropped, those that only repeat what is known are
counted, and the rest is handed on as pieces of bytes with the number of their first line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Protocol

from gpuprobe.sources.lines import count_faster, count_line_ends, ends_line
from gpuprobe.sources.record import Window
from gpuprobe.sources.scanning.ahead import usable_cores, work_ahead
from gpuprobe.sources.scanning.known_lines import KnownLines, Places
from gpuprobe.sources.scanning.needles import Matcher
from gpuprobe.sources.scanning.search import Found, search

CONTEXT = Window.REACH + 2
"""Lines either side of a hit: what patterns see, and the line that a message may go on from."""

LONG_LINE = 1 << 20
"""Bytes without a line feed above which a line is handed on whatever it holds."""

SEARCHED = 256 << 10
"""Bytes searched at a time: few, so that what repeats is known soon."""

SEARCHED_LATER = 1 << 20
"""The same once an input has proved long: each search has a price of its own."""

LONG_INPUT = 8 << 20
"""Input after which the search is given to other cores; most logs are shorter."""

MANY_BYTES = 64 << 20
"""Input after which a faster way to count lines is worth its import."""

HELD_LIMIT = 4 << 20
"""Bytes of dropped lines kept back, as context of what may come."""

_Block = tuple[bytes, bool]
"""Bytes, and True if they are whole lines."""


class CountedUnread(Protocol):
    """Lines that are counted without being read; see `repeats.Repeats`."""

    marks: tuple[bytes, ...]
    mark_line: int | None
    lines: KnownLines | None

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


class Regions:
    """The pieces of an input that have to be read.

    Attributes:
        line: Line ends passed so far; after the last piece, lines of the input.
    """

    def __init__(
        self,
        blocks: Iterable[bytes],
        matcher: Matcher,
        known: CountedUnread,
        *,
        objects: bool = False,
    ) -> None:
        """Take the input's blocks.

        Args:
            blocks: Bytes in UTF-8 or another superset of ASCII, in blocks of any size.
            matcher: Finds what matters, in any thread.
            known: What can be counted unread.
            objects: Hand on all from the first line that is a lone `{`.
        """
        self._blocks = blocks
        self._matcher = matcher
        self._known = known
        self._objects = objects
        self.line = 0
        self._held = b""
        self._held_known = Places()
        self._after = 0
        self._all = False
        self._joined = False
        self._mark: int | None = None

    def __iter__(self) -> Iterator[Piece]:
        last = b""
        for (data, whole), found in self._searched(_line_blocks(self._blocks)):
            yield from self._feed(data, whole, found)
            last = data
        self._skip(self._held, 0, len(self._held), self._held_known)
        if last and not ends_line(last):
            self.line += 1

    def _searched(self, blocks: Iterator[_Block]) -> Iterator[tuple[_Block, Callable[[], Found]]]:
        """Blocks, with what their search finds: of a long input by other cores, ahead of time."""
        passed = 0
        for block in blocks:
            yield block, self._task(block)
            passed += len(block[0])
            if passed > LONG_INPUT:
                break
        else:
            return
        if usable_cores() > 1:
            searched = work_ahead(blocks, self._task)
        else:
            searched = ((block, self._task(block)) for block in blocks)
        counts_fast = False
        for block, found in searched:
            yield block, found
            passed += len(block[0])
            if passed > MANY_BYTES and not counts_fast:
                counts_fast = True
                count_faster()

    def _task(self, block: _Block) -> Callable[[], Found]:
        data, whole = block
        if not whole or self._all:
            return Found
        return partial(
            search, data, self._matcher, self._lines(), self._known.marks, objects=self._objects
        )

    def _lines(self) -> KnownLines | None:
        # What is known holds up to the next boot mark, and again when that has been read.
        return self._known.lines if self._mark == self._known.mark_line else None

    def _feed(self, data: bytes, whole: bool, searched: Callable[[], Found]) -> Iterator[Piece]:
        found = searched() if whole and not self._all else Found()
        if found.hits is not None and found.asked is not self._lines():
            found = self._task((data, whole))()
        self._note(data, found)
        if found.hits is not None and not found.hits and not self._after:
            keep = _back(data, len(data), CONTEXT)
            if keep > 0 and len(data) - keep <= HELD_LIMIT:
                # The common case, without copying: nothing here, and nothing just before.
                self._skip(self._held, 0, len(self._held), self._held_known)
                self._skip(data, 0, keep, found.known, found.line_ends)
                self._held, self._held_known = data[keep:], found.known.behind(keep)
                return
        hits, known = found.hits, found.known
        if self._held:
            offset = len(self._held)
            hits = None if hits is None else [hit + offset for hit in hits]
            known = self._held_known.followed_by(known, offset)
            data = self._held + data
        yield from self._give(data, self._spans(data, hits), known)

    def _note(self, data: bytes, found: Found) -> None:
        """Note the last boot mark and whether all behind has to be read."""
        mark = found.mark
        if found.hits is None:
            place = max(data.rfind(mark) for mark in self._known.marks)
            mark = place if place >= 0 else None
        if mark is not None:
            held = count_line_ends(self._held)
            self._mark = self.line + held + count_line_ends(data[:mark]) + 1
        self._all = self._all or found.all_behind

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
        inside: int | None = None
        for hit in hits:
            # Of hits in what is read anyway only the last says how far that goes.
            if inside is not None and hit >= spans[-1][1]:
                self._widen(data, spans, inside)
                inside = None
            if spans and hit < spans[-1][1]:
                inside = hit
            else:
                self._widen(data, spans, hit)
        if inside is not None:
            self._widen(data, spans, inside)
        if self._all:
            spans[-1] = (spans[-1][0], len(data))
        return spans

    def _widen(self, data: bytes, spans: list[tuple[int, int]], hit: int) -> None:
        """Add what has to be read round a hit: to the last span where they meet."""
        end, after = _forward(data, hit, CONTEXT + 1)
        self._after = max(self._after, after)
        start = hit if spans and hit < spans[-1][1] else _back(data, hit, CONTEXT)
        if spans and start <= spans[-1][1]:
            spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
        else:
            spans.append((start, end))

    def _give(self, data: bytes, spans: list[tuple[int, int]], known: Places) -> Iterator[Piece]:
        self._held, self._held_known = b"", Places()
        done = 0
        for start, end in spans:
            self._skip(data, done, start, known)
            yield from self._piece(data[start:end])
            done = end
        keep = max(done, _back(data, len(data), CONTEXT))
        self._skip(data, done, keep, known)
        if len(data) - keep > HELD_LIMIT:
            yield from self._piece(data[keep:])
        else:
            self._held, self._held_known = data[keep:], known.behind(keep)

    def _piece(self, data: bytes) -> Iterator[Piece]:
        if data:
            first = self.line + 1
            self.line += count_line_ends(data)
            continues, self._joined = self._joined, True
            yield Piece(first, data, continues)

    def _skip(
        self, data: bytes, start: int, end: int, known: Places, line_ends: int | None = None
    ) -> None:
        """Pass over lines that need not be read; count those among them that are known.

        Args:
            data: What they stand in.
            start: Where they begin.
            end: Where they end.
            known: The known lines of the data.
            line_ends: How many there are from there to the end of the data, where that is known.
        """
        if start >= end:
            return
        self._joined = False
        if line_ends is None:
            behind = self.line + count_line_ends(data[start:end])
        else:
            behind = self.line + line_ends - count_line_ends(data[end:])
        for number, times, place, place_end in known.tally(start, end):
            # Nearly always it is at the end.
            line = behind - count_line_ends(data[place:end]) + 1
            self._known.skipped(number, times, line, data[place:place_end])
        self.line = behind


def _line_blocks(blocks: Iterable[bytes]) -> Iterator[_Block]:
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


def _parts(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, int, int]]:
    passed = 0
    for block in blocks:
        size = SEARCHED if passed < LONG_INPUT else SEARCHED_LATER
        for start in range(0, len(block), size):
            yield block, start, min(start + size, len(block))
        passed += len(block)


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
