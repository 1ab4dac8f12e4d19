"""Whether a zip archive is complete: its directory and where each member begins."""

from __future__ import annotations

import struct

from gpuprobe.jitcache import content
from gpuprobe.jitcache.tree import OpenFile

_END = struct.Struct("<4s4H2IH")
_ROW = struct.Struct("<4s6H3I5H2I")
_MAX_DIRECTORY = 8 << 20
_LARGE = 0xFFFFFFFF
"""A length that stands in the zip64 record instead."""


def check(file: OpenFile) -> str | None:
    """What is wrong with a zip archive, or None. Nothing is unpacked."""
    if (state := content.blank(file)) is not None:
        return state
    length = min(file.size, _END.size + 0xFFFF)
    tail = file.at(file.size - length, length)
    place = tail.rfind(b"PK\5\6")
    if place < 0 or place + _END.size > len(tail):
        return f"cut at {file.size} bytes: the directory at its end is missing"
    _, _, _, _, number, size, start, _ = _END.unpack_from(tail, place)
    if _LARGE in (size, start) or number == 0xFFFF:
        return None
    if start + size > file.size - length + place:
        return "its directory lies outside the file"
    return _members(file, start, min(size, _MAX_DIRECTORY))


def _members(file: OpenFile, start: int, size: int) -> str | None:
    table = file.at(start, size)
    place = 0
    while place + _ROW.size <= len(table):
        row = _ROW.unpack_from(table, place)
        if row[0] != b"PK\1\2":
            return "its directory is damaged"
        packed, name, extra, note, begin = row[8], row[10], row[11], row[12], row[16]
        if _LARGE not in (packed, begin):
            if begin + packed > start:
                return "a member reaches beyond the file"
            if file.at(begin, 4) != b"PK\3\4":
                return f"the member at byte {begin} is damaged"
        place += _ROW.size + name + extra + note
    return None
