"""From blocks of bytes to numbered lines of clean text.

Lines are counted as `str.splitlines` counts them, so that a line number means the same to every
Python reader of the file: a lone carriage return of a progress bar ends a line too.
"""

from __future__ import annotations

import codecs
import re
from collections.abc import Callable, Iterable, Iterator
from operator import methodcaller

from gpuprobe.lazy_regex import regex

PIECE_LIMIT = 65_536
"""Longest text given out at once, in characters; a longer line comes in several pieces."""

PIECE = 8192
"""Characters of such a piece. Few: all that can be found in a piece is looked for at once."""

SNIFFED = 64
"""Bytes that say which encoding it is."""

_BOMS = (
    (codecs.BOM_UTF32_LE, "utf-32"),
    (codecs.BOM_UTF32_BE, "utf-32"),
    (codecs.BOM_UTF8, "utf-8-sig"),
    (codecs.BOM_UTF16_LE, "utf-16"),
    (codecs.BOM_UTF16_BE, "utf-16"),
)

_ENDS = "\n\r\x0b\x0c\x1c\x1d\x1e\x85\u2028\u2029"

# The same ends as UTF-8 bytes. Each starts with a byte that starts a character wherever it
# stands, so counting bytes counts the ends even beside broken sequences.
_ASCII_ENDS = (b"\x0b", b"\x0c", b"\x1c", b"\x1d", b"\x1e")
_WIDE_ENDS = (b"\xe2\x80\xa8", b"\xe2\x80\xa9")

_ESCAPES = regex(
    r"""
    (?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]                     # CSI: colours, cursor moves
    | (?:\x1b\]|\x9d)[^\x07\x1b\x9c]{0,2048}(?:\x07|\x1b\\|\x9c)?  # OSC: titles, links
    | \x1b[PX^_][^\x1b]{0,2048}(?:\x1b\\)?               # DCS, SOS, PM, APC
    | \x1b[ -/]*[0-~]                                    # two-character escapes
    | (?:\\{1,2}u001[bB]|\\{1,2}x1[bB]|\\{1,2}033|\\{1,2}e|\#033)\[[0-9;:?]*[A-Za-z]
    | \^\[\[[0-9;]*[mK]                                  # as `cat -v` writes it
    """,
    re.VERBOSE,
)
# NUL and the other controls but tab, the byte order mark, and the marks that turn the writing
# direction (a log line could be made to read differently from what it says).
_CONTROLS = regex("[\x00-\x08\x0a-\x1f\x7f-\x9f\ufeff\u202a-\u202e\u2066-\u2069]")

# Line ends do not reach `strip_controls`.
_CONTROLS_IN_BLOCK = re.compile(
    "[\x00-\x08\x0e-\x1b\x1f\x7f-\x84\x86-\xa0\ufeff\u202a-\u202e\u2066-\u2069]"
)


_WRITTEN_ESCAPES = ("\\u001", "\\x1", "\\033", "\\e[")
"""What an escape begins with where a logger wrote it behind a backslash."""


def strip_controls(text: str) -> str:
    r"""The text without terminal escapes and control characters; tabs stay, and blanks are blanks.

    Escapes are taken off in the forms that loggers write them in, too: `\u001b[31m`, `\x1b[31m`,
    `#033[31m` (rsyslog) and `^[[31m`.
    """
    # Backslashes alone are in all JSON.
    written = "\\" in text and any(map(text.__contains__, _WRITTEN_ESCAPES))
    if text.isprintable() and not written and "#033" not in text and "^[" not in text:
        return text
    # Browsers and chats put no-break spaces in what is copied out of them.
    return _CONTROLS.sub("", _ESCAPES.sub("", text)).replace("\xa0", " ")


def _needs_cleaning(block: str) -> bool:
    """False when `strip_controls` would change no line of the block."""
    return (
        "\\" in block
        or "#033" in block
        or "^[" in block
        or _CONTROLS_IN_BLOCK.search(block) is not None
    )


def sniff_encoding(head: bytes) -> str:
    """The codec for an input that begins with `head`: UTF-8, or UTF-16 or 32 where it shows."""
    for bom, name in _BOMS:
        if head.startswith(bom):
            return name
    sample = head[:4096]
    half = len(sample) // 2
    if half >= 8:
        # Mostly Latin text in UTF-16 has a NUL in every second byte.
        even, odd = sample[0 : 2 * half : 2].count(0), sample[1 : 2 * half : 2].count(0)
        if odd > 0.4 * half and even < 0.05 * half:
            return "utf-16-le"
        if even > 0.4 * half and odd < 0.05 * half:
            return "utf-16-be"
    return "utf-8"


def in_utf8(blocks: Iterable[bytes], encoding: str) -> Iterator[bytes]:
    """The same text in UTF-8, in which words can be looked for as bytes."""
    decoder = codecs.getincrementaldecoder(encoding)(errors="replace")
    for block in blocks:
        yield decoder.decode(block).encode()
    yield decoder.decode(b"", final=True).encode()


def with_feeds(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same lines, where a carriage return ended one with a line feed in its place."""
    held = b""
    for block in blocks:
        text = held + block
        # Its line feed may be the first of the next block.
        held = b"\r" if text.endswith(b"\r") else b""
        text = text[: len(text) - len(held)]
        yield text.replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    if held:
        yield b"\n"


def shorten_nuls(block: bytes) -> bytes:
    """UTF-8 with one NUL for each run of many, as a crash leaves them in place of text.

    NULs are no text, so what the lines say stays, and so do their numbers.
    """
    return _MANY_NULS.sub(b"\0", block) if b"\0" in block else block


def decode(region: bytes, encoding: str = "") -> str:
    """Some bytes as text; what the codec does not know becomes U+FFFD.

    Args:
        region: Bytes that start at a character's start.
        encoding: As `sniff_encoding` said for the input; sniffed from the region when empty.
    """
    return region.decode(encoding or sniff_encoding(region), errors="replace")


_MANY_NULS = re.compile(rb"\0{2,}")

_count_feeds: Callable[[bytes], int] = methodcaller("count", b"\n")


def count_faster() -> None:
    """Count line feeds with numpy from now on: many times as fast, once it is imported."""
    global _count_feeds
    try:
        import numpy as np
    except ImportError:
        return

    def count(data: bytes) -> int:
        return int(np.count_nonzero(np.frombuffer(data, np.uint8) == 0x0A))

    _count_feeds = count


def count_line_ends(data: bytes) -> int:
    """How many lines end in these UTF-8 bytes, as `str.splitlines` counts.

    A carriage return at the very end counts, so cut blocks behind a line feed.
    """
    found = _count_feeds(data)
    # Looking for one byte is ten times as fast as counting it, and most are never there.
    if b"\r" in data:
        found += data.count(b"\r") - data.count(b"\r\n")
    for end in _ASCII_ENDS:
        if end in data:
            found += data.count(end)
    if not data.isascii():
        if b"\xc2" in data:
            found += data.count(b"\xc2\x85")
        if b"\xe2\x80" in data:
            found += sum(data.count(end) for end in _WIDE_ENDS)
    return found


def ends_line(data: bytes) -> bool:
    """True if these UTF-8 bytes end with a line's end."""
    return data[-4:].decode("utf-8", errors="replace")[-1:] in tuple(_ENDS)


class Lines:
    """Numbered lines of an input, made from its blocks with bounded memory.

    Iterating gives `(line number from 1, text without its end, clean)`. A line longer than
    `PIECE_LIMIT` characters comes as several texts of `PIECE` with the same number.

    Attributes:
        line: Number of the line given last; after the end, how many lines there were.
        encoding: The codec in use, known after the first block.
    """

    def __init__(
        self,
        blocks: Iterable[bytes],
        *,
        first_line: int = 1,
        encoding: str = "",
        clean: bool = True,
    ) -> None:
        self._blocks = blocks
        self._clean = clean
        self.line = first_line - 1
        self.encoding = encoding

    def __iter__(self) -> Iterator[tuple[int, str]]:
        number = self.line + 1
        pending = ""
        limit = PIECE_LIMIT
        for text in self._texts():
            text = pending + text
            # One look at the block spares most logs a look at each line.
            clean = strip_controls if self._clean and _needs_cleaning(text) else str
            pieces = text.splitlines(keepends=True)
            pending = ""
            # The last piece may go on in the next block, and so may a carriage return there.
            if pieces and (pieces[-1][-1] not in _ENDS or pieces[-1][-1] == "\r"):
                pending = pieces.pop()
            for piece in pieces:
                self.line = number
                for part in _parts(_without_end(piece), limit):
                    yield number, clean(part)
                number += 1
                limit = PIECE_LIMIT
            if len(pending) > 2 * PIECE_LIMIT:
                self.line = number
                done = 0
                # What stays is never empty, nor a line's end alone.
                while len(pending) - done > PIECE + 2:
                    yield number, clean(pending[done : done + PIECE])
                    done += PIECE
                pending = pending[done:]
                limit = PIECE
        if pending:
            self.line = number
            clean = strip_controls if self._clean else str
            for part in _parts(_without_end(pending), limit):
                yield number, clean(part)

    def _texts(self) -> Iterator[str]:
        blocks = iter(self._blocks)
        head = b""
        for block in blocks:
            head += block
            if len(head) >= SNIFFED:
                break
        if not self.encoding:
            self.encoding = sniff_encoding(head)
        decoder = codecs.getincrementaldecoder(self.encoding)(errors="replace")
        for start in range(0, len(head), 1 << 20):
            yield decoder.decode(head[start : start + (1 << 20)])
        for block in blocks:
            yield decoder.decode(block)
        yield decoder.decode(b"", final=True)


def _without_end(piece: str) -> str:
    if piece.endswith("\r\n"):
        return piece[:-2]
    return piece[:-1] if piece[-1] in _ENDS else piece


def _parts(line: str, limit: int) -> Iterator[str]:
    if len(line) <= limit:
        yield line
        return
    for start in range(0, len(line), PIECE):
        yield line[start : start + PIECE]
