"""A file in memory, for checks that read by place."""

from __future__ import annotations

from gpuprobe.jitcache.tree import OpenFile


class Bytes(OpenFile):
    """A file in memory."""

    def __init__(self, data: bytes) -> None:
        super().__init__(-1, len(data))
        self.data = data

    def at(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]
