"""Which lines of a program's output may hold anything, at the rate of a flood.

Looking for every needle costs a core at 6 MB/s. A program that writes fast writes much the same
again and again, so a line is known by its shape (every digit a zero), and looked through once.
What is new comes out of a budget; beyond that only the gravest words are looked for.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache
from typing import Final

from gpuprobe.sources.lines import strip_controls
from gpuprobe.sources.scanning.needles import HIDING, NEEDLES, tree

GRAVE: Final = (
    b"CUDA error",
    b"CUDA_ERROR",
    b"cudaError",
    b"Xid",
    b"out of memory",
    b"illegal memory",
    b"Traceback (most",
    b"Fatal Python",
    b"device-side assert",
    b"GPU is lost",
)
"""Looked for whatever the rate."""

FRESH_BYTES_PER_S: Final = 1 << 20
"""Bytes of unfamiliar lines that are looked through a second: a sixth of a core."""

KNOWN_BYTES: Final = 1 << 20
"""What the known shapes take up at most."""

SHAPE_LIMIT: Final = 1024
"""Longest line whose shape is remembered, in bytes."""

_ZEROS: Final = bytes.maketrans(b"123456789", b"000000000")


def shape(data: bytes) -> bytes:
    """The data with every digit a zero; line ends stay where they are."""
    return data.translate(_ZEROS)


class Familiar:
    """Remembers the shapes of lines that hold nothing."""

    def __init__(self) -> None:
        self._harmless: set[bytes] = set()
        self._bytes = 0
        self._hot: set[bytes] = set()
        self._left = float(FRESH_BYTES_PER_S)
        self._at = 0.0

    def hits(self, shapes: Iterable[bytes], now: float) -> set[bytes]:
        """Those of the shapes that may hold something.

        Args:
            shapes: Of lines, as `shape` gives them.
            now: `time.monotonic()`.
        """
        self._left = min(
            FRESH_BYTES_PER_S, self._left + max(0.0, now - self._at) * FRESH_BYTES_PER_S
        )
        self._at = now
        fresh = set(shapes) - self._harmless
        found = fresh & self._hot
        for one in fresh - found:
            if self._left > 0:
                self._left -= len(one)
                hit = _needles().search(_clean(one)) is not None
                self._note(one, hit=hit)
            else:
                hit = any(word in one for word in GRAVE)
            if hit:
                found.add(one)
        return found

    def _note(self, one: bytes, *, hit: bool) -> None:
        if len(one) > SHAPE_LIMIT:
            return
        self._bytes += len(one)
        if self._bytes > KNOWN_BYTES:
            self._bytes = len(one)
            self._harmless.clear()
            self._hot.clear()
        (self._hot if hit else self._harmless).add(one)


@lru_cache(1)
def _needles() -> re.Pattern[bytes]:
    """Any needle, its digits zeros as those of a shape are, or what can hide one."""
    words = {shape(needle.encode("ascii")).decode("ascii") for needle in NEEDLES}
    kept: list[str] = []
    for word in sorted(words, key=len):
        if not any(other in word for other in kept):
            kept.append(word)
    return re.compile(b"|".join((tree(kept).encode("ascii"), *HIDING, *_HIDING)))


_HIDING: Final = (rb"\\000", rb"\x23000\[")
"""Escapes whose own digits a shape makes zeros."""


def _clean(one: bytes) -> bytes:
    """The shape without colours, which would stand in the middle of words."""
    if one.isascii() and b"\x1b" not in one and b"\0" not in one:
        return one
    return strip_controls(one.decode("utf-8", "replace")).encode("utf-8", "replace")
