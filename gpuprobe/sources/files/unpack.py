"""Decompression as streams: bounded memory, nothing written to disk.

Everything here turns blocks of bytes into blocks of bytes. What is damaged or cut off gives what
could be read, and a note.
"""

from __future__ import annotations

import io
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import ModuleType
from typing import TYPE_CHECKING, Protocol

from gpuprobe.values import Value

BLOCK = 1 << 20
"""Bytes given out at once, at most."""

RATIO_LIMIT = 500
"""Output bytes a byte of the input may become, once `RATIO_FREE` bytes have come out."""
RATIO_FREE = 256 << 20
SKIPPED_FREE = 4 << 30
"""The same for an archive: a member that becomes too much is stepped over, to reach the next."""
TOTAL_LIMIT = 64 << 30
"""Bytes that one input may unpack to."""
_XZ_MEMORY = 128 << 20

Blocks = Iterator[bytes]


@dataclass(slots=True)
class Budget:
    """How much one input has become, to stop decompression bombs.

    Attributes:
        taken: Bytes read from the input itself.
        given: Bytes that came out of all decompressors.
        spent: True when a limit stopped the reading.
        free: Bytes that may come out however few went in, if more than `RATIO_FREE`.
    """

    taken: int = 0
    given: int = 0
    spent: bool = False
    free: int = 0

    def allows(self, more: int) -> bool:
        """Count `more` bytes of output; False when they are too many."""
        self.given += more
        if self.given > TOTAL_LIMIT or (
            self.given > max(self.free, RATIO_FREE)
            and self.given > RATIO_LIMIT * max(self.taken, 1)
        ):
            self.spent = True
        return not self.spent

    def count(self, blocks: Blocks) -> Blocks:
        """The input's own blocks, counted as they are read."""
        for block in blocks:
            self.taken += len(block)
            yield block

    @property
    def note(self) -> str:
        """What to say when a limit was met."""
        return (
            f"expands to more than {RATIO_LIMIT} times its size (or {TOTAL_LIMIT >> 30} GiB); "
            f"reading stopped after {self.given >> 20} MiB"
        )


class BlockStream(io.RawIOBase):
    """Blocks as a binary stream that can only be read forwards."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._rest = memoryview(b"")

    def readable(self) -> bool:
        """It is."""
        return True

    def readinto(self, buffer: object) -> int:
        """See `io.RawIOBase.readinto`."""
        target = memoryview(buffer).cast("B")  # type: ignore[arg-type]
        while not self._rest:
            block = next(self._blocks, None)
            if block is None:
                return 0
            self._rest = memoryview(block)
        count = min(len(target), len(self._rest))
        target[:count] = self._rest[:count]
        self._rest = self._rest[count:]
        return count

    def close(self) -> None:
        """Close what the blocks come from as well."""
        if not self.closed:
            closer = getattr(self._blocks, "close", None)
            if closer is not None:
                closer()
        super().close()


class Notes(list[str]):
    """What a reader should know of how an input was read, a text each.

    Attributes:
        in_part: Something of the input is missing, so that it cannot show that nothing failed.
    """

    in_part = False

    def missing(self, why: str) -> None:
        """Note that the rest of some data could not be read."""
        self.stopped(f"{why}; what is there was read")

    def stopped(self, why: str) -> None:
        """Note that some of it was not read: at a limit, or behind what could not be."""
        self.append(why)
        self.in_part = True


def peek(blocks: Blocks, size: int) -> tuple[bytes, Blocks]:
    """The first `size` bytes, and the same blocks from the start."""
    held: list[bytes] = []
    length = 0
    while length < size:
        block = next(blocks, None)
        if block is None:
            break
        held.append(block)
        length += len(block)

    def again() -> Blocks:
        try:
            yield from held
            yield from blocks
        finally:
            closer = getattr(blocks, "close", None)
            if closer is not None:
                closer()

    return b"".join(held)[:size], again()


class Decompressor(Protocol):
    """What the decompressors of bz2, lzma and zstd have in common."""

    @property
    def eof(self) -> bool:
        """True behind the end of the compressed data."""

    @property
    def needs_input(self) -> bool:
        """True when nothing more comes out without more input."""

    @property
    def unused_data(self) -> bytes:
        """What was given to it beyond the end."""

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        """Some output, `max_length` bytes at most."""


class Zlib:
    """zlib's decompressor with the interface of the others."""

    def __init__(self, window_bits: int) -> None:
        self._inner = zlib.decompressobj(window_bits)
        self._full = False

    @property
    def eof(self) -> bool:
        """See `Decompressor`."""
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        """See `Decompressor`."""
        return not self._full and not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        """See `Decompressor`."""
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        """See `Decompressor`; damage raises `DamagedError`."""
        data = self._inner.unconsumed_tail + data
        before = self._inner.copy()
        try:
            out = self._inner.decompress(data, max(max_length, 0))
        except zlib.error as error:
            raise DamagedError(str(error), _salvage(before, data)) from error
        self._full = len(out) == max_length
        return out


class DamagedError(ValueError):
    """Compressed data is damaged.

    Attributes:
        output: What could be read before the damage.
    """

    def __init__(self, message: str, output: bytes) -> None:
        super().__init__(message)
        self.output = output


def _salvage(machine: zlib._Decompress, data: bytes) -> bytes:
    """What the data gives up to its damage, found in small steps."""
    parts: list[bytes] = []
    length = 0
    try:
        for start in range(0, len(data), 64):
            parts.append(machine.decompress(data[start : start + 64]))
            length += len(parts[-1])
            if length > BLOCK:
                break
    except zlib.error:
        pass
    return b"".join(parts)


class Compression(Value):
    """A compressed format, known by how it starts."""

    name: str
    magic: bytes
    make: Callable[[], Decompressor]


def make_bzip2() -> Decompressor:
    """A decompressor for bzip2."""
    import bz2  # here and below: most inputs are plain text, and all would wait for it

    return bz2.BZ2Decompressor()


def _make_xz() -> Decompressor:
    import lzma

    return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)


def make_zstd() -> Decompressor:
    """A decompressor for zstd, with its default limit of 128 MiB for the window."""
    decompressor: Decompressor = _zstd().ZstdDecompressor()
    return decompressor


def _zstd() -> ModuleType:
    if TYPE_CHECKING or sys.version_info < (3, 14):
        from backports import zstd
    else:  # pragma: no cover - other interpreters
        from compression import zstd
    return zstd


COMPRESSIONS = (
    Compression("gzip", b"\x1f\x8b\x08", lambda: Zlib(31)),
    Compression("bzip2", b"BZh", make_bzip2),
    Compression("xz", b"\xfd7zXZ\x00", _make_xz),
    Compression("zstd", b"\x28\xb5\x2f\xfd", make_zstd),
)


def errors() -> tuple[type[Exception], ...]:
    """What decompressors raise at damaged data."""
    import lzma

    return (zlib.error, lzma.LZMAError, _zstd().ZstdError, OSError, EOFError, ValueError)


def compression_of(head: bytes) -> Compression | None:
    """The compression that an input starting with `head` has, or None."""
    for compression in COMPRESSIONS:
        if head.startswith(compression.magic):
            if compression.name == "bzip2" and head[4:10] not in (b"1AY&SY", b"\x17rE8P\x90"):
                continue
            return compression
    # A skippable zstd frame, as parallel compressors write first.
    if len(head) > 4 and head[1:4] == b"\x2a\x4d\x18" and head[0] >> 4 == 5:
        return COMPRESSIONS[-1]
    return None


def decompress(blocks: Blocks, compression: Compression, notes: Notes, budget: Budget) -> Blocks:
    """The decompressed blocks, over all members that follow one another.

    Args:
        blocks: The compressed blocks.
        compression: As `compression_of` said.
        notes: Gets a text when the data is cut off, damaged, or followed by something else.
        budget: Counts, and stops bombs.
    """
    machine = compression.make()
    data = b""
    started = True
    try:
        while True:
            if machine.eof:
                data = machine.unused_data or next(blocks, b"")
                # Tapes and disks fill up with zeros.
                while data and not data.strip(b"\0"):
                    data = next(blocks, b"")
                if not data:
                    return
                data = data.lstrip(b"\0") if compression.name == "gzip" else data
                if len(data) < 10:
                    data += next(blocks, b"")
                if compression_of(data) is not compression:
                    notes.append(f"other data follows the {compression.name} data, left out")
                    return
                machine, started = compression.make(), True
            elif machine.needs_input:
                data = next(blocks, b"")
                if not data:
                    if not started:
                        notes.missing(f"the {compression.name} data is cut off")
                    return
            else:
                data = b""
            started = False
            out = machine.decompress(data, BLOCK)
            if out:
                if not budget.allows(len(out)):
                    notes.stopped(budget.note)
                    return
                yield out
    except errors() as error:
        if isinstance(error, DamagedError) and error.output:
            yield error.output
        notes.missing(f"the {compression.name} data is damaged ({error})")
    finally:
        closer = getattr(blocks, "close", None)
        if closer is not None:
            closer()
