"""Which recordings this process itself is writing.

To open and close a file takes away every lock that the process holds on it (POSIX), so a file
that is being written here must be opened by SQLite alone.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_WRITTEN: Final[set[tuple[int, int]]] = set()


def begin(path: Path) -> tuple[int, int]:
    """Note that this process writes `path`; gives what `end` takes."""
    found = path.stat()
    key = (found.st_dev, found.st_ino)
    _WRITTEN.add(key)
    return key


def end(key: tuple[int, int]) -> None:
    """Note that it no longer does."""
    _WRITTEN.discard(key)


def is_written_here(path: Path) -> bool:
    """Whether this process writes `path`, found out without opening it."""
    if not _WRITTEN:
        return False
    try:
        found = path.stat()
    except (OSError, ValueError):
        return False
    return (found.st_dev, found.st_ino) in _WRITTEN
