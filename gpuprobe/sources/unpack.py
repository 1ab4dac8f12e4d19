"""Decompression, tar and zip as streams: bounded memory, nothing written to disk.

Everything here turns blocks of bytes into blocks of bytes. What is damaged or cut off gives what
could be read, and a note.
"""

from __future__ import annotations

import bz2
import io
import lzma
import struct
import sys
import tarfile
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING or sys.version_info < (3, 14):
    from backports import zstd
else:  # pragma: no cover - other interpreters
    from compression import zstd

BLOCK = 1 << 20
"""Bytes given out at once, at most."""

RATIO_LIMIT = 500
"""Output bytes a byte of the input may become, once `RATIO_FREE` bytes have come out."""
RATIO_FREE = 256 << 20
TOTAL_LIMIT = 64 << 30
"""Bytes that one input may unpack to."""
MEMBER_LIMIT = 100_000
"""Members of one archive."""
_XZ_MEMORY = 128 << 20

Blocks = Iterator[bytes]


@dataclass(slots=True)
class Budget:
    """How much one input has become, to stop decompression bombs.

    Attributes:
        taken: Bytes read from the input itself.
        given: Bytes that came out of all decompressors.
        spent: True when a limit stopped the reading.
    """

    taken: int = 0
    given: int = 0
    spent: bool = False

    def allows(self, more: int) -> bool:
        """Count `more` bytes of output; False when they are too many."""
        self.given += more
        if self.given > TOTAL_LIMIT or (
            self.given > RATIO_FREE and self.given > RATIO_LIMIT * max(self.taken, 1)
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


class _Decompressor(Protocol):
    """What the decompressors of bz2, lzma and zstd have in common."""

    @property
    def eof(self) -> bool: ...
    @property
    def needs_input(self) -> bool: ...
    @property
    def unused_data(self) -> bytes: ...
    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes: ...


class _Zlib:
    """zlib's decompressor with the interface of the others."""

    def __init__(self, window_bits: int) -> None:
        self._inner = zlib.decompressobj(window_bits)
        self._full = False

    @property
    def eof(self) -> bool:
        return self._inner.eof

    @property
    def needs_input(self) -> bool:
        return not self._full and not self._inner.unconsumed_tail

    @property
    def unused_data(self) -> bytes:
        return self._inner.unused_data

    def decompress(self, data: bytes, max_length: int = -1, /) -> bytes:
        out = self._inner.decompress(self._inner.unconsumed_tail + data, max(max_length, 0))
        self._full = len(out) == max_length
        return out


@dataclass(frozen=True, slots=True)
class Compression:
    """A compressed format, known by how it starts."""

    name: str
    magic: bytes
    make: Callable[[], _Decompressor]


COMPRESSIONS = (
    Compression("gzip", b"\x1f\x8b\x08", lambda: _Zlib(31)),
    Compression("bzip2", b"BZh", lambda: bz2.BZ2Decompressor()),
    Compression(
        "xz", b"\xfd7zXZ\x00", lambda: lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY)
    ),
    Compression("zstd", b"\x28\xb5\x2f\xfd", lambda: zstd.ZstdDecompressor()),
)
_ERRORS = (zlib.error, lzma.LZMAError, zstd.ZstdError, OSError, EOFError, ValueError)


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


def decompress(
    blocks: Blocks, compression: Compression, notes: list[str], budget: Budget
) -> Blocks:
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
                        notes.append(
                            f"the {compression.name} data is cut off; what is there was read"
                        )
                    return
            else:
                data = b""
            started = False
            out = machine.decompress(data, BLOCK)
            if out:
                if not budget.allows(len(out)):
                    notes.append(budget.note)
                    return
                yield out
    except _ERRORS as error:
        notes.append(f"the {compression.name} data is damaged ({error}); what came before was read")
    finally:
        closer = getattr(blocks, "close", None)
        if closer is not None:
            closer()


@dataclass(slots=True)
class Member:
    """A file in an archive, to be read before the next one is asked for.

    Attributes:
        name: As the archive has it.
        blocks: Its contents.
        size: Its size where the archive says it before, else None.
        problem: Why it cannot be read, or an empty string.
    """

    name: str
    blocks: Blocks
    size: int | None = None
    problem: str = ""


def is_tar(head: bytes) -> bool:
    """True when `head` is the first block of a tar archive, by its check sum too."""
    if len(head) < 512:
        return False
    if head[257:262] != b"ustar" and (head[0] == 0 or not head[148:154].strip(b" 0")):
        return False
    try:
        said = int(head[148:156].strip(b" \0") or b"-1", 8)
    except ValueError:
        return False
    return said == sum(head[:148]) + 8 * 32 + sum(head[156:512])


def read_tar(blocks: Blocks, notes: list[str]) -> Iterator[Member]:
    """The members of a tar archive, in its order."""
    stream = io.BufferedReader(BlockStream(blocks), BLOCK)
    try:
        with tarfile.open(fileobj=stream, mode="r|", errorlevel=0, bufsize=BLOCK) as archive:
            count = 0
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined] # else every header is kept
                count += 1
                if count > MEMBER_LIMIT:
                    notes.append(f"more than {MEMBER_LIMIT} members; the others were left out")
                    return
                if info.isdir():
                    continue
                if not info.isreg():
                    kind = "a link" if info.issym() or info.islnk() else "no regular file"
                    yield Member(info.name, iter(()), problem=kind)
                    continue
                handle = archive.extractfile(info)
                if handle is not None:
                    yield Member(info.name, _read(handle, notes), info.size)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        notes.append(f"the tar archive is cut off or damaged ({error})")


def _read(handle: object, notes: list[str]) -> Blocks:
    read = handle.read1  # type: ignore[attr-defined] # what is there, before an error
    while True:
        try:
            block = read(BLOCK)
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            notes.append(f"cut off ({error}); what is there was read")
            return
        if not block:
            return
        yield block


ZIP_MAGIC = b"PK\x03\x04"
_LOCAL = struct.Struct("<4s5H3L2H")


class _Reader:
    """Blocks read by exact counts, with the possibility to put some back."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self._held = b""

    def block(self) -> bytes:
        held, self._held = self._held, b""
        return held or next(self._blocks, b"")

    def back(self, data: bytes) -> None:
        self._held = data + self._held

    def exactly(self, size: int) -> bytes:
        parts: list[bytes] = []
        while size > 0:
            data = self.block()
            if not data:
                break
            parts.append(data[:size])
            self.back(data[size:])
            size -= len(parts[-1])
        return b"".join(parts)


def read_zip(blocks: Blocks, notes: list[str], budget: Budget) -> Iterator[Member]:
    """The members of a zip archive, by the headers that stand before each.

    The directory at the end is not needed, so an archive may come from a pipe, lie in another
    archive, or be cut off.
    """
    reader = _Reader(blocks)
    for _ in range(MEMBER_LIMIT):
        header = reader.exactly(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != ZIP_MAGIC:
            if header[:4] not in (b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x08"):
                notes.append("the zip archive is cut off or damaged")
            return
        fields = _LOCAL.unpack(header)
        flags, method, packed, size, name_length, extra_length = *fields[2:4], *fields[7:]
        raw_name = reader.exactly(name_length)
        extra = reader.exactly(extra_length)
        name = raw_name.decode("utf-8" if flags & 0x800 else "cp437", errors="replace")
        if packed == 0xFFFFFFFF or size == 0xFFFFFFFF:
            size, packed = _zip64(extra, size, packed)
        known = packed > 0 or not flags & 8
        contents = _zip_contents(reader, method, packed if known else None, budget, notes)
        problem = ""
        if flags & 1:
            problem = "encrypted"
        elif method not in _ZIP_METHODS and not (method == 0 and known):
            problem = f"zip method {method}"
        if problem:
            yield Member(name, iter(()), problem=problem)
            if not known:
                notes.append("members behind one that could not be read were not reached")
                return
            contents = _raw(reader, packed)
        elif not name.endswith("/"):
            yield Member(name, _kept_open(contents), size if known else None)
        for _ in contents:  # what nobody read
            pass
        if flags & 8:
            _skip_descriptor(reader)
    notes.append(f"more than {MEMBER_LIMIT} members; the others were left out")


_ZIP_METHODS: dict[int, Callable[[], _Decompressor]] = {
    8: lambda: _Zlib(-15),
    12: lambda: bz2.BZ2Decompressor(),
    93: lambda: zstd.ZstdDecompressor(),
}


def _kept_open(blocks: Blocks) -> Blocks:
    """The same blocks; a reader that stops early does not end them, as the rest is skipped."""
    yield from map(bytes, blocks)


def _zip64(extra: bytes, size: int, packed: int) -> tuple[int, int]:
    at = 0
    while at + 4 <= len(extra):
        kind, length = struct.unpack_from("<2H", extra, at)
        if kind == 1:
            count = min(length, len(extra) - at - 4) // 8
            values = list(struct.unpack_from(f"<{count}Q", extra, at + 4))
            if size == 0xFFFFFFFF and values:
                size = values.pop(0)
            if packed == 0xFFFFFFFF and values:
                packed = values.pop(0)
            break
        at += 4 + length
    return size, packed


def _raw(reader: _Reader, size: int | None) -> Blocks:
    left = sys.maxsize if size is None else size
    while left > 0:
        data = reader.block()
        if not data:
            return
        reader.back(data[left:])
        data = data[:left]
        left -= len(data)
        yield data


def _zip_contents(
    reader: _Reader, method: int, packed: int | None, budget: Budget, notes: list[str]
) -> Blocks:
    if method == 0:
        yield from _raw(reader, packed)
        return
    machine = _ZIP_METHODS[method]()
    source = _raw(reader, packed)
    try:
        while not machine.eof:
            data = next(source, b"") if machine.needs_input else b""
            if not data and machine.needs_input:
                notes.append("a member of the zip archive is cut off; what is there was read")
                return
            out = machine.decompress(data, BLOCK)
            if out:
                if not budget.allows(len(out)):
                    notes.append(budget.note)
                    break
                yield out
    except _ERRORS as error:
        notes.append(f"a member of the zip archive is damaged ({error})")
    if packed is None:
        reader.back(machine.unused_data)
    for _ in source if packed is not None else ():
        pass


def _skip_descriptor(reader: _Reader) -> None:
    """Step over the sizes that follow a member whose header had none."""
    data = reader.exactly(26)
    short = 16 if data[:4] == b"PK\x07\x08" else 12
    length = short if data[short : short + 2] == b"PK" or len(data) < short + 8 else short + 8
    reader.back(data[length:])
