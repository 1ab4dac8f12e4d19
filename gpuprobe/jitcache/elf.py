"""Whether an ELF file (a cubin, a shared library) is whole, without loading it.

A loader trusts these tables: a cut cubin ends the process with SIGSEGV inside the driver, a cut
library with SIGBUS. Layout: System V ABI, "Object Files"; the tables of a cubin lie at its end,
so a cut by one byte shows.
"""

from __future__ import annotations

import platform
import struct
from dataclasses import dataclass

from gpuprobe.jitcache import content
from gpuprobe.jitcache.tree import OpenFile

CUDA = 190
AMDGPU = 224
HOSTS = {"x86_64": 62, "aarch64": 183, "ppc64le": 21, "riscv64": 243}

_HEADER = struct.Struct("<16sHHIQQQIHHHHHH")
_SECTION = struct.Struct("<IIQQQQIIQQ")
_SEGMENT = struct.Struct("<IIQQQQQQ")
_NOBITS = 8
_DYNAMIC = 6
_TABLES = {2: "symbols", 3: "names", 4: "relocations", 11: "symbols"}
"""Sections that a loader or linker walks row by row, none of which is zeros for long."""
_ROWS = 256
"""So many bytes of zeros are no longer a row or two that a linker left empty."""
_NEEDED = {5, 6}
"""DT_STRTAB and DT_SYMTAB: the loader follows both without a look, and dies without them."""
_LOAD = 1
_EXECUTABLE = 4
_PAGE = 4096
_MAX_CODE = 4 << 20
"""Bytes of code that are looked through for zeros."""
_MAX_WHOLE = 1 << 20
"""Files up to this size are read in one go."""


@dataclass(frozen=True, slots=True)
class Fault:
    """What is wrong with an ELF file.

    Attributes:
        why: In a few words.
        loads: Whether a loader gets as far as mapping it, which is what kills.
        expected: Bytes that its tables say it has, or None.
    """

    why: str
    loads: bool = True
    expected: int | None = None


class _Whole(OpenFile):
    """A small file, read once; `told` is the size that it had when it was opened."""

    def __init__(self, data: bytes, told: int) -> None:
        super().__init__(-1, len(data))
        self.told = told
        self._data = data

    def at(self, offset: int, length: int) -> bytes:
        return self._data[offset : offset + length] if offset >= 0 else b""


def read_once(file: OpenFile) -> OpenFile:
    """The same file in memory where it is small, for several looks at it."""
    if file.size > _MAX_WHOLE or isinstance(file, _Whole):
        return file
    return _Whole(file.at(0, file.size), file.size)


def check(file: OpenFile, machine: int) -> Fault | None:
    """What is wrong with it, or None.

    Args:
        file: The file.
        machine: The e_machine it should have; 0 takes any.
    """
    file = read_once(file)
    if isinstance(file, _Whole) and file.size < file.told:
        return Fault(f"cut at {file.size} of {file.told} bytes", expected=file.told)
    if file.size == 0:
        return Fault(content.EMPTY, loads=False)
    raw = file.at(0, _HEADER.size)
    if raw[:4] != b"\x7fELF"[: len(raw)]:
        why = content.blank(file)
        return Fault(why or "does not begin as an ELF file", loads=False)
    if len(raw) < _HEADER.size:
        return Fault(f"cut at {file.size} bytes, inside its header", loads=False)
    head = _HEADER.unpack(raw)
    ident, _, found, _, _, phoff, shoff, _, _, phentsize, phnum, shentsize, shnum, shstrndx = head
    if ident[4] != 2 or ident[5] != 1:
        return None  # 32 bit or big-endian: no engine of today, and not ours to judge
    needed = max(shoff + shentsize * shnum, phoff + phentsize * phnum, _HEADER.size)
    if needed > file.size:
        return Fault(f"cut at {file.size} of {needed} bytes", expected=needed)
    if machine and found != machine:
        return Fault(f"is built for another machine (ELF {found}, not {machine})", loads=False)
    return _segments(file, phoff, phentsize, phnum) or _sections(
        file, shoff, shentsize, shnum, shstrndx
    )


def _segments(file: OpenFile, offset: int, width: int, number: int) -> Fault | None:
    if number and width < _SEGMENT.size:
        return Fault("has a damaged program table")
    table = file.at(offset, width * number)
    for index in range(number):
        kind, _, start, _, _, length, _, _ = _SEGMENT.unpack_from(table, index * width)
        if kind == _LOAD and start + length > file.size:
            return Fault(f"cut at {file.size} of {start + length} bytes", expected=start + length)
    return None


def _sections(file: OpenFile, offset: int, width: int, number: int, names: int) -> Fault | None:
    if not number:
        return None
    if width < _SECTION.size or names >= number:
        return Fault("has a damaged section table")
    table = file.at(offset, width * number)
    left = _MAX_CODE
    for index in range(number):
        row = table[index * width : index * width + _SECTION.size]
        _, kind, flags, _, start, length, *_ = _SECTION.unpack(row)
        if index and not row.strip(b"\0"):
            return Fault(f"its section table holds zeros (row {index} of {number})")
        if index == 0 or kind == _NOBITS or length == 0:
            continue
        if start + length > file.size:
            return Fault(f"cut at {file.size} of {start + length} bytes", expected=start + length)
        if flags & _EXECUTABLE and left > 0:
            code = file.at(start, min(length, left))
            left -= len(code)
            if (hole := zero_hole(code, start)) is not None:
                return Fault(f"its code holds zeros from byte {hole} of {file.size}")
        elif (fault := _tables(file, kind, start, length)) is not None:
            return fault
    strings = _SECTION.unpack_from(table, names * width)
    if strings[5] and not file.at(strings[4], min(strings[5], 4096)).strip(b"\0"):
        return Fault("its table of names holds zeros")
    return None


def _tables(file: OpenFile, kind: int, start: int, length: int) -> Fault | None:
    """What is wrong with a table that the loader walks: a lost disk block leaves zeros in it."""
    if kind == _DYNAMIC:
        rows = file.at(start, min(length, _PAGE) // 16 * 16)
        tags = [tag for tag, _ in struct.iter_unpack("<qQ", rows)]
        told = tags[: tags.index(0)] if 0 in tags else tags
        return None if set(told) >= _NEEDED else Fault("its dynamic table holds zeros")
    if kind not in _TABLES:
        return None
    table = file.at(start, min(length, _MAX_CODE))
    first = start // _PAGE * _PAGE
    for block in range(first, start + len(table), _PAGE):
        part = table[max(block - start, 0) : block + _PAGE - start]
        if len(part) >= _ROWS and not part.strip(b"\0"):
            at = max(block, start)
            return Fault(f"its table of {_TABLES[kind]} holds zeros from byte {at} of {file.size}")
    return None


def zero_hole(code: bytes, start: int) -> int | None:
    """Offset in the file of code that is nothing but zeros: all of it, or a whole disk block."""
    if not code.strip(b"\0"):
        return start
    first = -start % _PAGE
    begins = code[first : len(code) - _PAGE + 1 : _PAGE] if len(code) >= _PAGE else b""
    index = begins.find(0)
    while index >= 0:
        inside = first + index * _PAGE
        if not code[inside : inside + _PAGE].strip(b"\0"):
            return start + inside
        index = begins.find(0, index + 1)
    return None


def architecture(file: OpenFile) -> int | None:
    """The compute capability that a cubin is built for, as 90 for sm_90; None where unclear.

    It stands in e_flags: in the lowest byte, or in the second one since the ABI of CUDA 13.
    """
    raw = file.at(0, _HEADER.size)
    if len(raw) < _HEADER.size or raw[:4] != b"\x7fELF":
        return None
    ident, _, machine, _, _, _, _, flags, *_ = _HEADER.unpack(raw)
    if machine != CUDA:
        return None
    number = flags & 0xFF if ident[7] == 51 else (flags >> 8) & 0xFF
    return number if 50 <= number <= 130 else None


def host_machine() -> int:
    """The e_machine of libraries that this machine can load; 0 where it is not known."""
    return HOSTS.get(platform.machine(), 0)
