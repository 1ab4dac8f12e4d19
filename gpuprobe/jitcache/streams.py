"""Whether a zstd or zlib stream is complete."""

from __future__ import annotations

import zlib

from gpuprobe.jitcache import content
from gpuprobe.jitcache.tree import OpenFile

_ZSTD = b"\x28\xb5\x2f\xfd"
_PIECE = 1 << 20
_MAX_OUTPUT = 32 << 20
"""Bytes unpacked, and thrown away, before the rest is taken on trust."""


def check(file: OpenFile) -> str | None:
    """What is wrong with a compressed entry, or None."""
    if (state := content.blank(file)) is not None:
        return state
    head = file.at(0, 4)
    if head == _ZSTD:
        return _zstd(file)
    if head[:1] == b"\x78" and len(head) > 1 and (head[0] * 256 + head[1]) % 31 == 0:
        return _zlib(file)
    if _ZSTD.startswith(head) or head == b"\x78":
        return f"cut at {file.size} bytes"
    return "is neither zstd nor zlib"


def _zstd(file: OpenFile) -> str | None:
    """Step from block to block (RFC 8878, 3.1.1); nothing is unpacked."""
    cut = f"cut at {file.size} bytes, before its last block"
    flags = file.at(4, 1)
    if not flags:
        return cut
    single = flags[0] >> 5 & 1
    place = 5 + (0 if single else 1) + (0, 1, 2, 4)[flags[0] & 3]
    place += (single, 2, 4, 8)[flags[0] >> 6]
    while True:
        raw = file.at(place, 3)
        if len(raw) < 3:
            return cut
        block = int.from_bytes(raw, "little")
        kind, length = block >> 1 & 3, block >> 3
        if kind == 3:
            return f"holds a damaged block at byte {place} of {file.size}"
        place += 3 + (1 if kind == 1 else length)
        if place > file.size:
            return f"cut at {file.size} of {place} bytes or more"
        if block & 1:
            place += 4 if flags[0] & 4 else 0
            return None if place <= file.size else cut


def _zlib(file: OpenFile) -> str | None:
    stream = zlib.decompressobj()
    place = done = 0
    try:
        while not stream.eof and done < _MAX_OUTPUT:
            data = stream.unconsumed_tail
            if not data:
                data = file.at(place, _PIECE)
                place += len(data)
            if not data:
                return f"cut at {file.size} bytes, before its end"
            done += len(stream.decompress(data, _PIECE))
    except zlib.error:
        return "is damaged"
    return None
