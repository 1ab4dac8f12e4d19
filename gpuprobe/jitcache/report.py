"""What a scan of caches found."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from pathlib import Path

from gpuprobe.jitcache.base import Harm, Place

Identity = tuple[int, int, int, int]
"""Device, inode, size and time of change (ns): equal means the same file, untouched."""


@dataclass(frozen=True, slots=True)
class CacheFinding:
    """One file that is damaged or worth a look.

    Attributes:
        path: The file.
        cache: Kind of cache by name.
        key: Name of the entry.
        why: What is wrong.
        harm: What it does.
        size: Bytes, None where the file is missing.
        expected: Bytes that it should have, or None where nothing says.
        mtime: When it was last written, UTC; of the folder where the file is missing.
        kernel: The kernel or shape it belongs to, or "".
        root: The cache's folder.
        below: What `repair` moves, as path below `root`.
        folder: Where the file lies, as path below `root`.
        name: Its name there.
        whole: The folder is one entry, and was checked as such.
        lock: It is a lock file.
        identity: What it was when it was looked at.
    """

    path: Path
    cache: str
    key: str
    why: str
    harm: Harm
    size: int | None
    expected: int | None
    mtime: datetime | None
    kernel: str
    root: Path
    below: tuple[str, ...]
    folder: tuple[str, ...]
    name: str
    whole: bool
    lock: bool
    identity: Identity | None

    @property
    def entry_path(self) -> Path:
        """What `repair` moves."""
        return self.root.joinpath(*self.below)


@dataclass(frozen=True, slots=True)
class Unreadable:
    """Something that could not be looked at."""

    path: Path
    why: str


@dataclass(frozen=True, slots=True)
class ScanReport:
    """All that a scan found.

    Attributes:
        places: The caches that were there, with what named them.
        absent: Those that were not.
        checked: Entries looked at.
        bad: Damaged files. suspicious: Those worth a look. unreadable: Those not seen.
        notes: What else a reader should know.
        architectures: Compute capabilities of the kernels met, as 90.
        complete: False where the time ran out.
        took_s: Seconds.
    """

    places: tuple[Place, ...] = ()
    absent: tuple[Place, ...] = ()
    checked: int = 0
    bad: tuple[CacheFinding, ...] = ()
    suspicious: tuple[CacheFinding, ...] = ()
    unreadable: tuple[Unreadable, ...] = ()
    notes: tuple[str, ...] = ()
    architectures: tuple[int, ...] = ()
    complete: bool = True
    took_s: float = 0.0

    @property
    def exit_code(self) -> int:
        """0 nothing is bad, 1 something is, 2 nothing known to be bad and not all was readable."""
        if self.bad:
            return 1
        return 2 if self.unreadable or not self.complete else 0
