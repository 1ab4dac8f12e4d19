"""The first pass: which stretches of an input are worth reading slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain, islice

from gpuprobe.options import Progress
from gpuprobe.sources.files.raw_input import RawInput
from gpuprobe.sources.files.unpack import peek
from gpuprobe.sources.lines import Lines, in_utf8, shorten_nuls, sniff_encoding, with_feeds
from gpuprobe.sources.scanning.needles import SHORT_BYTES, LazyMatcher
from gpuprobe.sources.scanning.regions import CountedUnread, Piece, Regions

HEAD_LINES = 200
"""Lines at an input's start that are always read, to name its format."""

PLAIN_ENCODINGS = ("utf-8", "utf-8-sig")
"""Encodings in which words can be looked for as bytes."""

START_BYTES = 4096
"""Bytes that say which encoding it is, and whether lines end with a carriage return alone."""

Numbered = tuple[int, str]


class Scan:
    """An input cut into runs of consecutive lines that may hold something.

    Attributes:
        head: The first lines of the input with their numbers, at most `HEAD_LINES`.
        line_count: Lines in the input, known when all runs are read.
    """

    def __init__(self, blocks: Iterable[bytes], *, prefilter: bool = True) -> None:
        start, stream = peek(iter(blocks), START_BYTES)
        self._encoding = sniff_encoding(start)
        if self._encoding not in PLAIN_ENCODINGS:
            stream = in_utf8(stream, self._encoding)
            self._encoding = "utf-8"
        start, stream = peek(stream, START_BYTES)
        if b"\r" in start and b"\n" not in start:
            stream = with_feeds(stream)
        self._blocks = map(shorten_nuls, stream)
        self._taken: list[bytes] = []
        self._prefilter = prefilter
        self.line_count: int | None = None
        self.head: list[Numbered] = []
        last = None
        for number, text in islice(Lines(self._take(), encoding=self._encoding), HEAD_LINES):
            # How a line begins says what it is.
            if number != last:
                self.head.append((number, text))
            last = number

    def _take(self) -> Iterator[bytes]:
        for block in self._blocks:
            self._taken.append(block)
            yield block

    def runs(
        self, known: CountedUnread | None = None, *, whole: bool = False, objects: bool = False
    ) -> Iterator[Iterable[Numbered]]:
        """Runs of consecutive lines, each to be read to its end before the next.

        Args:
            known: What can be counted without being read.
            whole: All in one run: the format's entries span lines.
            objects: All from the first lone `{` on in one run: such entries may follow.
        """
        whole = whole or self.is_short()
        taken, self._taken = self._taken, []
        blocks = chain(_given(taken), self._blocks)
        if not self._prefilter or known is None or whole:
            lines = Lines(blocks)
            yield lines
            self.line_count = lines.line
            return
        regions = Regions(blocks, LazyMatcher(), known, objects=objects)
        yield from _runs(iter(regions), self._encoding)
        self.line_count = regions.line

    def is_short(self) -> bool:
        """Whether it is so short that all of it is read, whatever it holds."""
        while sum(map(len, self._taken)) <= SHORT_BYTES:
            block = next(self._blocks, None)
            if block is None:
                return True
            self._taken.append(block)
        return False


def scan(
    raw: RawInput,
    *,
    prefilter: bool = True,
    progress: Callable[[Progress], None] | None = None,
) -> Scan:
    """Begin to read an input.

    Args:
        raw: The input.
        prefilter: Leave out lines that cannot matter, by a fast pass over the bytes.
        progress: Called now and then with how far the reading has come.
    """
    return Scan(_read(raw, progress), prefilter=prefilter)


def _read(raw: RawInput, progress: Callable[[Progress], None] | None) -> Iterator[bytes]:
    done = 0
    for block in raw.blocks():
        done += len(block)
        yield block
        if progress is not None:
            progress(Progress(done, None if raw.compressed else raw.size, raw.path))


def _given(blocks: list[bytes]) -> Iterator[bytes]:
    """The blocks, forgotten as they are given."""
    blocks.reverse()
    while blocks:
        yield blocks.pop()


def _runs(pieces: Iterator[Piece], encoding: str) -> Iterator[Iterable[Numbered]]:
    piece = next(pieces, None)

    def blocks() -> Iterator[bytes]:
        nonlocal piece
        while piece is not None:
            yield piece.data
            piece = next(pieces, None)
            if piece is None or not piece.continues:
                return

    while piece is not None:
        # Only the input's first line can begin with a byte order mark.
        codec = encoding if piece.line == 1 else "utf-8"
        yield from _drained(Lines(blocks(), first_line=piece.line, encoding=codec))


def _drained(lines: Lines) -> Iterator[Iterable[Numbered]]:
    numbered = iter(lines)
    yield numbered
    for _ in numbered:
        pass
