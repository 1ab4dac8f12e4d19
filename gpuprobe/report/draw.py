"""A picture of one Vega-Lite specification: as a program, from its input to its output."""

from __future__ import annotations

import struct
import sys
import zlib
from collections.abc import Iterator
from typing import Final

SCALE: Final = 1.5

_SIGNATURE: Final = b"\x89PNG\r\n\x1a\n"


def png(spec: str, scale: float = SCALE) -> bytes:
    """Draw a specification, given as JSON; nothing is fetched."""
    import vl_convert

    from gpuprobe.report.palette import LIGHT

    picture: bytes = vl_convert.vegalite_to_png(
        spec, scale=scale, allowed_base_urls=[], config=LIGHT
    )
    return packed(picture)


def packed(picture: bytes) -> bytes:
    """The same PNG, compressed as well as zlib can: what draws it is quick about that."""
    chunks = list(_chunks(picture))
    drawn = zlib.decompress(b"".join(data for name, data in chunks if name == b"IDAT"))
    done = [_SIGNATURE]
    for name, data in chunks:
        if name == b"IEND":
            done.append(_chunk(b"IDAT", zlib.compress(drawn, 9)))
        if name != b"IDAT":
            done.append(_chunk(name, data))
    smaller = b"".join(done)
    return smaller if len(smaller) < len(picture) else picture


def _chunks(picture: bytes) -> Iterator[tuple[bytes, bytes]]:
    place = len(_SIGNATURE)
    while place + 12 <= len(picture):
        (length,) = struct.unpack_from(">I", picture, place)
        name = picture[place + 4 : place + 8]
        yield name, picture[place + 8 : place + 8 + length]
        place += 12 + length


def _chunk(name: bytes, data: bytes) -> bytes:
    check = zlib.crc32(name + data)
    return struct.pack(">I", len(data)) + name + data + struct.pack(">I", check)


if __name__ == "__main__":
    sys.stdout.buffer.write(png(sys.stdin.read()))
