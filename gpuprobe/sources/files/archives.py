"""Tar and zip archives as streams: members in order, one at a time, never on disk."""

from __future__ import annotations

import io
import struct
import sys
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from gpuprobe.sources.files.unpack import (
    BLOCK,
    SKIPPED_FREE,
    TOTAL_LIMIT,
    Blocks,
    BlockStream,
    Budget,
    DamagedError,
    Decompressor,
    Notes,
    Zlib,
    errors,
    make_bzip2,
    make_zstd,
)

MEMBER_LIMIT = 100_000
"""Members of one archive."""

BOMBS_LIMIT = 8
"""Members that expand too much, after which the rest of an archive is left out."""


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


def read_tar(blocks: Blocks, notes: Notes, budget: Budget) -> Iterator[Member]:
    """The members of a tar archive, in its order.

    Args:
        blocks: The archive, decompressed.
        notes: Gets a text for what could not be read.
        budget: What the decompression is counted in.
    """
    import tarfile  # here and below: most inputs are no archive, and all would wait for it

    budget.free = SKIPPED_FREE
    stream = io.BufferedReader(BlockStream(blocks), BLOCK)
    try:
        with tarfile.open(fileobj=stream, mode="r|", errorlevel=0, bufsize=BLOCK) as archive:
            count = 0
            while (info := archive.next()) is not None:
                archive.members.clear()  # type: ignore[attr-defined] # else every header is kept
                count += 1
                if count > MEMBER_LIMIT:
                    notes.stopped(f"more than {MEMBER_LIMIT} members; the others were left out")
                    return
                if info.isdir():
                    continue
                if not info.isreg():
                    kind = "a link" if info.issym() or info.islnk() else "no regular file"
                    yield Member(info.name, iter(()), problem=kind)
                    continue
                handle = archive.extractfile(info)
                if handle is not None:
                    contents = _bounded(_read(handle, notes), info.name, notes, budget)
                    yield Member(info.name, contents, info.size)
    except (tarfile.TarError, OSError, EOFError, ValueError, zlib.error) as error:
        notes.missing(f"the tar archive is cut off or damaged ({error})")


def _read(handle: object, notes: Notes) -> Blocks:
    import tarfile

    read = handle.read1  # type: ignore[attr-defined] # what is there, before an error
    while True:
        try:
            block = read(BLOCK)
        except (tarfile.TarError, OSError, EOFError, ValueError) as error:
            notes.missing(f"cut off ({error})")
            return
        if not block:
            return
        yield block


def _bounded(blocks: Blocks, name: str, notes: Notes, budget: Budget) -> Blocks:
    """A member's blocks, as long as they came out of enough bytes of the input."""
    given, taken = budget.given, budget.taken
    for block in blocks:
        own = Budget(budget.taken - taken, budget.given - given)
        if not own.allows(0):
            notes.stopped(f"{name} {own.note}")
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


def read_zip(blocks: Blocks, notes: Notes, budget: Budget) -> Iterator[Member]:
    """The members of a zip archive, by the headers that stand before each.

    The directory at the end is not needed, so an archive may come from a pipe, lie in another
    archive, or be cut off.
    """
    budget.free = TOTAL_LIMIT
    reader = _Reader(blocks)
    bombs = 0
    for _ in range(MEMBER_LIMIT):
        header = reader.exactly(_LOCAL.size)
        if len(header) < _LOCAL.size or header[:4] != ZIP_MAGIC:
            if header[:4] not in (b"PK\x01\x02", b"PK\x05\x06", b"PK\x06\x06", b"PK\x06\x08"):
                notes.missing("the zip archive is cut off or damaged")
            return
        fields = _LOCAL.unpack(header)
        flags, method, crc, packed, size, name_length, extra_length = *fields[2:4], *fields[6:]
        raw_name = reader.exactly(name_length)
        extra = reader.exactly(extra_length)
        name = raw_name.decode("utf-8" if flags & 0x800 else "cp437", errors="replace")
        if packed == 0xFFFFFFFF or size == 0xFFFFFFFF:
            size, packed = _zip64(extra, size, packed)
        known = packed > 0 or not flags & 8
        own = Budget()
        told = len(notes)
        summed = _Summed(_zip_contents(reader, name, method, packed if known else None, own, notes))
        contents: Blocks = summed
        problem = ""
        if flags & 1:
            problem = "encrypted"
        elif method not in _ZIP_METHODS and not (method == 0 and known):
            problem = f"zip method {method}"
        if problem:
            yield Member(name, iter(()), problem=problem)
            if not known:
                notes.stopped("members behind one that could not be read were not reached")
                return
            contents = _raw(reader, packed)
        elif not name.endswith("/"):
            yield Member(name, _kept_open(contents), size if known else None)
        for _ in contents:  # what nobody read
            pass
        budget.given += own.given
        bombs += own.spent
        if bombs > BOMBS_LIMIT or own.given > SKIPPED_FREE or not budget.allows(0):
            budget.spent = True
            notes.stopped("too many members expand too much; the others were left out")
            return
        if flags & 8:
            crc = _skip_descriptor(reader)
        # Of what is said to be not whole, or ends with the archive, the sum tells nothing more.
        cut = method == 0 and summed.length < packed
        if not problem and len(notes) == told and not cut and summed.crc != crc:
            notes.missing(f"{name} is damaged (its check sum is wrong)")
    notes.stopped(f"more than {MEMBER_LIMIT} members; the others were left out")


_ZIP_METHODS: dict[int, Callable[[], Decompressor]] = {
    8: lambda: Zlib(-15),
    12: make_bzip2,
    93: make_zstd,
}


class _Summed(Iterator[bytes]):
    """The same blocks, with the length and the CRC-32 of those given out so far."""

    def __init__(self, blocks: Blocks) -> None:
        self._blocks = blocks
        self.length = 0
        self.crc = 0

    def __next__(self) -> bytes:
        block = next(self._blocks)
        self.length += len(block)
        self.crc = zlib.crc32(block, self.crc)
        return block


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
    reader: _Reader,
    name: str,
    method: int,
    packed: int | None,
    budget: Budget,
    notes: Notes,
) -> Blocks:
    """What a member holds; `budget` is its own."""
    if method == 0:
        yield from _raw(reader, packed)
        return
    machine = _ZIP_METHODS[method]()
    source = budget.count(_raw(reader, packed))
    try:
        while not machine.eof:
            data = next(source, b"") if machine.needs_input else b""
            if not data and machine.needs_input:
                notes.missing("a member of the zip archive is cut off")
                return
            out = machine.decompress(data, BLOCK)
            if out:
                stopped = budget.spent
                if budget.allows(len(out)):
                    yield out
                    continue
                if not stopped:
                    notes.stopped(f"{name} {budget.note}")
                # Where no header says how long it is, its end has to be looked for.
                if packed is not None or budget.given > SKIPPED_FREE:
                    break
    except errors() as error:
        if isinstance(error, DamagedError) and error.output:
            yield error.output
        notes.missing(f"a member of the zip archive is damaged ({error})")
    if packed is None:
        reader.back(machine.unused_data)
    for _ in source if packed is not None else ():
        pass


def _skip_descriptor(reader: _Reader) -> int:
    """Step over the sizes that follow a member whose header had none; its check sum."""
    data = reader.exactly(26)
    short = 16 if data[:4] == b"PK\x07\x08" else 12
    length = short if data[short : short + 2] == b"PK" or len(data) < short + 8 else short + 8
    reader.back(data[length:])
    return int.from_bytes(data[short - 12 : short - 8], "little")
