"""Which stretches of a plain input lie near words that matter, found while it streams by.

Lines farther than `CONTEXT` from every hit are dropped, those that only repeat what is known are
counted, and the rest is handed on as pieces of bytes with the number of their first line.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Protocol

from gpuprobe.sources.lines import count_line_ends, ends_line
from gpuprobe.sources.needles import Matcher
from gpuprobe.sources.record import Window

CONTEXT = Window.REACH + 2
"""Lines either side of a hit: what patterns see, and the line that a message may go on from."""

LONG_LINE = 1 << 20
"""Bytes without a line feed above which a line is handed on whatever it holds."""

HELD_LIMIT = 4 << 20
"""Bytes of dropped lines kept back, as context of what may come."""

_OPEN_BRACE = re.compile(rb"\{[^\x21-\x7e\n]*\n")


class Known(Protocol):
    """What can be counted without being read; see `repeats.Repeats`."""

    marks: tuple[bytes, ...]
    mark_line: int | None

    @property
    def any_known(self) -> bool:
        """True if there are known lines."""

    def find(self, data: bytes, start: int) -> tuple[int, int] | None:
        """The known line that stands at `start`: its number, and where it ends."""

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
class _Repeat:
    start: int
    number: int
    end: int


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
        self._repeats: list[_Repeat] = []
        self._after = 0
        self._all = False
        self._joined = False
        self._mark: int | None = None

    def __iter__(self) -> Iterator[Piece]:
        last = b""
        for data, whole in _line_blocks(self._blocks):
            yield from self._feed(data, whole)
            last = data
        self._skip(self._held, 0, len(self._held), self._repeats)
        if last and not ends_line(last):
            self.line += 1

    def _feed(self, data: bytes, whole: bool) -> Iterator[Piece]:
        offset = len(self._held)
        buffer = self._held + data if offset else data
        hits = self._hits(buffer, offset) if whole and not self._all else None
        self._pass_marks(buffer, offset)
        if hits is None:
            # The line that is cut here may go on, and the lines behind it are context.
            self._after = CONTEXT + 2
            yield from self._give(buffer, [(0, len(buffer))])
            return
        spans: list[tuple[int, int]] = []
        if self._after:
            end, self._after = _forward(buffer, 0, self._after)
            spans.append((0, end))
        for hit in hits:
            start = _back(buffer, hit, CONTEXT)
            end, after = _forward(buffer, hit, CONTEXT + 1)
            self._after = max(self._after, after)
            if spans and start <= spans[-1][1]:
                spans[-1] = (spans[-1][0], max(end, spans[-1][1]))
            else:
                spans.append((start, end))
        if self._all:
            spans[-1] = (spans[-1][0], len(buffer))
        yield from self._give(buffer, spans)

    def _hits(self, buffer: bytes, offset: int) -> list[int] | None:
        """Where in the new part of the buffer lines begin that have to be read; None for all."""
        found = self._matcher.hits(buffer[offset:] if offset else buffer)
        if found is None:
            return None
        brace = _lone_brace(buffer, offset) if self._objects else None
        hits: list[int] = []
        known, limit = self._known, self._mark_in(buffer, offset)
        counts = known.any_known and self._mark == known.mark_line
        line_end = 0
        for end in found:
            at = end + offset
            if at <= line_end:
                continue
            # A hit's last byte is in its line, even where it is the line feed.
            start = buffer.rfind(b"\n", 0, at - 1) + 1
            repeat = known.find(buffer, start) if counts and start < limit else None
            if repeat is None:
                hits.append(start)
                line_end = buffer.find(b"\n", at - 1) + 1 or len(buffer)
            else:
                self._repeats.append(_Repeat(start, *repeat))
                line_end = repeat[1]
        if brace is not None:
            self._all = True
            hits = sorted({*(hit for hit in hits if hit < brace), brace})
        return hits

    def _mark_in(self, buffer: bytes, offset: int) -> int:
        """Where the first boot mark begins; what stands behind it is not counted unread yet."""
        places = (buffer.find(mark, offset) for mark in self._known.marks)
        return min((at for at in places if at >= 0), default=len(buffer))

    def _pass_marks(self, buffer: bytes, offset: int) -> None:
        last = max(buffer.rfind(mark, offset) for mark in self._known.marks)
        if last >= 0:
            self._mark = self.line + count_line_ends(buffer[:last]) + 1

    def _give(self, buffer: bytes, spans: list[tuple[int, int]]) -> Iterator[Piece]:
        repeats, self._repeats, self._held = self._repeats, [], b""
        done = 0
        for start, end in spans:
            self._skip(buffer, done, start, repeats)
            yield from self._piece(buffer[start:end])
            done = end
        keep = max(done, _back(buffer, len(buffer), CONTEXT))
        self._skip(buffer, done, keep, repeats)
        if len(buffer) - keep > HELD_LIMIT:
            yield from self._piece(buffer[keep:])
            return
        self._held = buffer[keep:]
        self._repeats = [
            _Repeat(repeat.start - keep, repeat.number, repeat.end - keep)
            for repeat in repeats
            if repeat.start >= keep
        ]

    def _piece(self, data: bytes) -> Iterator[Piece]:
        if data:
            first = self.line + 1
            self.line += count_line_ends(data)
            continues, self._joined = self._joined, True
            yield Piece(first, data, continues)

    def _skip(self, buffer: bytes, start: int, end: int, repeats: list[_Repeat]) -> None:
        """Pass over lines that need not be read; count those among them that are known."""
        if start >= end:
            return
        self._joined = False
        last: dict[int, _Repeat] = {}
        times: dict[int, int] = {}
        for repeat in repeats:
            if start <= repeat.start < end:
                last[repeat.number] = repeat
                times[repeat.number] = times.get(repeat.number, 0) + 1
        for repeat in sorted(last.values(), key=lambda repeat: repeat.start):
            self.line += count_line_ends(buffer[start : repeat.start])
            start = repeat.start
            text = buffer[repeat.start : repeat.end]
            self._known.skipped(repeat.number, times[repeat.number], self.line + 1, text)
        self.line += count_line_ends(buffer[start:end])


def _line_blocks(blocks: Iterable[bytes]) -> Iterator[tuple[bytes, bool]]:
    """Blocks cut behind line feeds, with True; parts of lines too long to wait for with False."""
    rest = b""
    for block in blocks:
        data = rest + block if rest else block
        cut = data.rfind(b"\n") + 1
        if cut:
            yield data[:cut], True
            rest = data[cut:]
        elif len(data) < LONG_LINE:
            rest = data
        else:
            # Neither within a character nor between a carriage return and its line feed.
            cut = len(data)
            while cut > len(data) - 4 and (data[cut - 1] >= 0x80 or data[cut - 1] == 0x0D):
                cut -= 1
            yield data[:cut], False
            rest = data[cut:]
    if rest:
        yield rest, True


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


def _lone_brace(buffer: bytes, offset: int) -> int | None:
    """Where the first line begins that has nothing but an opening brace, or None."""
    for match in _OPEN_BRACE.finditer(buffer, offset):
        start = buffer.rfind(b"\n", 0, match.start()) + 1
        if all(not 0x21 <= byte <= 0x7E for byte in buffer[start : match.start()]):
            return start
    return None
