"""The first pass: which stretches of an input are worth reading slowly."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO

from gpuprobe.options import Progress
from gpuprobe.sources.inputs import RawInput
from gpuprobe.sources.lines import Lines

HEAD_LINES = 200
"""Lines at an input's start that are always read, to name its format."""

BLOCK_BYTES = 1 << 20
"""Bytes read at a time."""

Numbered = tuple[int, str]


class Scan:
    """An input cut into runs of consecutive lines that may hold something.

    Attributes:
        head: The first lines of the input with their numbers, at most `HEAD_LINES`.
        line_count: Lines in the input, or None where they were not counted.
    """

    def __init__(self, lines: Lines) -> None:
        self._source = lines
        self._lines = iter(lines)
        self.line_count: int | None = None
        self.head: list[Numbered] = []
        for numbered in self._lines:
            self.head.append(numbered)
            if len(self.head) >= HEAD_LINES:
                break

    def runs(self) -> Iterator[Iterable[Numbered]]:
        """Runs of consecutive lines; here the whole input is one."""
        yield self._all()
        self.line_count = self._source.line

    def _all(self) -> Iterator[Numbered]:
        yield from self.head
        yield from self._lines


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
    return Scan(Lines(_blocks(raw.open(), raw, progress)))


def _blocks(
    stream: BinaryIO, raw: RawInput, progress: Callable[[Progress], None] | None
) -> Iterator[bytes]:
    done = 0
    with stream:
        while block := stream.read(BLOCK_BYTES):
            done += len(block)
            yield block
            if progress is not None:
                progress(Progress(done, None if raw.compressed else raw.size, raw.path))
