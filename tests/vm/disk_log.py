"""QEMU's log of what reached a disk (`blklogwrites`), and the disk as a power cut would leave it.

A disk may keep what was written in a cache of its own until it is told to flush. Killing QEMU does
not show what that costs, as this machine's page cache stays. So the log is played back up to the
last flush: the worst that a disk which honours flushes can do.

Format: dm-log-writes, Documentation/admin-guide/device-mapper/log-writes.rst of the kernel.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

MAGIC = 0x6A736677736872
FLUSH, FUA, DISCARD = 1, 2, 4

_SUPER = struct.Struct("<QQQI")
_ENTRY = struct.Struct("<QQQQ")


@dataclass(frozen=True)
class Entry:
    """One write or flush: `sector` and `data_at` in units of the log's sectors and in bytes."""

    sector: int
    sectors: int
    flags: int
    data_at: int


def entries(log: bytes) -> Iterator[Entry]:
    """What a log holds; the count in its head is behind when QEMU was killed, so it is not used."""
    magic, version, _, sector = _SUPER.unpack_from(log)
    assert (magic, version, sector) == (MAGIC, 1, 512)
    at = sector
    while at + sector <= len(log):
        place, sectors, flags, _ = _ENTRY.unpack_from(log, at)
        if (place, sectors, flags) == (0, 0, 0):
            return
        at += sector
        yield Entry(place, sectors, flags, at)
        if not flags & DISCARD:
            at += sectors * sector


def as_left_by_a_power_cut(before: Path, log: Path, made: Path) -> tuple[int, int]:
    """Make the image that holds what was flushed, and nothing else.

    Args:
        before: The image as it was when the machine started.
        log: The log. made: The image to make.

    Returns:
        How many writes were kept, and how many lost.
    """
    data = log.read_bytes()
    image = bytearray(before.read_bytes())
    found = list(entries(data))
    last = max((n for n, entry in enumerate(found) if entry.flags & FLUSH), default=-1)
    kept = lost = 0
    for number, entry in enumerate(found):
        if not entry.sectors or entry.flags & DISCARD:
            continue
        if number > last and not entry.flags & FUA:
            lost += 1
            continue
        size = entry.sectors * 512
        image[entry.sector * 512 : entry.sector * 512 + size] = data[
            entry.data_at : entry.data_at + size
        ]
        kept += 1
    made.write_bytes(image)
    return kept, lost
