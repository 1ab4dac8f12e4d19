"""Whether a pickle is complete, without unpickling: its opcodes are stepped over, not obeyed.

An unpickler would run what the file says. Here only the lengths of arguments are read, from the
table of opcodes that the standard library keeps for its disassembler.
"""

from __future__ import annotations

import pickletools

from gpuprobe.jitcache import content
from gpuprobe.jitcache.tree import OpenFile

_BLOCK = 256 * 1024
MAX_STEPS = 100_000
"""Opcodes stepped over in one file; behind them its frames and its end are looked at alone."""

_LINE = -1
_TAKES_1, _TAKES_4, _TAKES_4U, _TAKES_8 = -2, -3, -4, -5
_FRAME = b"\x95"[0]
_STOP = b"."[0]


def _lengths() -> dict[int, int]:
    """Opcode to the length of its argument, or one of the marks above."""
    found = {}
    for opcode in pickletools.opcodes:
        n = opcode.arg.n if opcode.arg is not None else 0
        found[ord(opcode.code)] = n
    return found


_ARGUMENT = _lengths()
_PREFIX = {_TAKES_1: 1, _TAKES_4: 4, _TAKES_4U: 4, _TAKES_8: 8}
_TWO_LINES = frozenset(b"ic")
"""INST and GLOBAL have two lines."""


class _Cursor:
    """Reads forward in blocks."""

    def __init__(self, file: OpenFile) -> None:
        self._file = file
        self._block = b""
        self._start = 0
        self.place = 0

    def take(self, length: int) -> bytes:
        offset = self.place - self._start
        if offset < 0 or offset + length > len(self._block):
            self._start, self._block = self.place, self._file.at(self.place, max(length, _BLOCK))
            offset = 0
        self.place += length
        return self._block[offset : offset + length]

    def skip_line(self) -> bool:
        for _ in range(64):
            block = self._file.at(self.place, 4096)
            end = block.find(b"\n")
            if end >= 0:
                self.place += end + 1
                return True
            if not block:
                return False
            self.place += len(block)
        return False


def check(file: OpenFile, *, several: bool = False) -> str | None:
    """What is wrong with a pickle, or None.

    Args:
        file: The file.
        several: Pickles may follow each other, as in an index that was dumped twice.
    """
    if (state := content.blank(file)) is not None:
        return state
    if file.at(0, 1) != b"\x80":
        return "does not begin as a pickle"
    cursor = _Cursor(file)
    steps = 0
    while True:
        why = _one(file, cursor, steps)
        if isinstance(why, str):
            return why
        steps = why
        if cursor.place >= file.size:
            return None
        if not several:
            return f"holds {file.size - cursor.place} bytes behind its end"


def _one(file: OpenFile, cursor: _Cursor, steps: int) -> str | int:
    """Step over one pickle: the number of steps so far, or what is wrong."""
    cut = f"cut at {file.size} bytes, before its end"
    while cursor.place < file.size:
        steps += 1
        here = cursor.place
        code = cursor.take(1)[0]
        if code == _STOP:
            return steps
        length = _ARGUMENT.get(code)
        if length is None:
            return f"holds what is no pickle at byte {here} of {file.size}"
        if length < _LINE:
            width = _PREFIX[length]
            raw = cursor.take(width)
            if len(raw) < width:
                return cut
            length = int.from_bytes(raw, "little")
        elif length == _LINE:
            if not cursor.skip_line() or (code in _TWO_LINES and not cursor.skip_line()):
                return cut
            continue
        if code == _FRAME:
            raw = cursor.take(8)
            end = cursor.place + int.from_bytes(raw, "little")
            if end > file.size:
                return f"cut at {file.size} of {end} bytes or more"
            if steps > MAX_STEPS:
                cursor.place = end if end < file.size else file.size - 1
            continue
        cursor.place += length
        if cursor.place > file.size:
            return f"cut at {file.size} of {cursor.place} bytes or more"
        if steps > MAX_STEPS * 2:
            whole = file.at(file.size - 1, 1) == b"."
            cursor.place = file.size
            return steps if whole else cut
    return cut
