"""Recordings of this machine that bear on an incident, found by what each says of itself."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from gpuprobe.errors import RecordingError
from gpuprobe.recording import places
from gpuprobe.recording.opening import opened
from gpuprobe.sources.files.machine import boot_id

NEWEST: Final = 30
"""Recordings that are looked at: a supervisor that starts an engine again makes many."""

READ: Final = 4
"""Recordings of one incident that are read: a service's, an engine's, and what came before."""

AROUND: Final = timedelta(minutes=10)
"""How far from an incident a recording may begin or end."""


@dataclass(frozen=True, slots=True)
class Head:
    """What a recording says of itself.

    Attributes:
        path: The file. boot: Id of the boot, 32 hex digits, or "".
        started: When it began. last: When it was written last.
        fault_at: When something last failed, or None.
    """

    path: Path
    boot: str
    started: datetime
    last: datetime
    fault_at: datetime | None

    def holds(self, at: datetime) -> bool:
        """Whether it was written around that time."""
        return self.started - AROUND <= at <= self.last + AROUND


def heads(folders: Iterable[Path] | None = None) -> list[Head]:
    """The newest recordings of this machine, oldest first; what cannot be read is left out.

    Args:
        folders: Where to look; where recordings are put by default.
    """
    paths = [path for folder in folders or places.to_read() for path in places.find(folder)]
    found = []
    for path in sorted(set(paths), key=_written)[-NEWEST:]:
        with suppress(RecordingError, sqlite3.Error, OSError, ValueError, OverflowError):
            if (head := _head(path)) is not None:
                found.append(head)
    return sorted(found, key=lambda head: head.last)


def _written(path: Path) -> float:
    with suppress(OSError):
        return places.written_at(path)
    return 0.0


def _head(path: Path) -> Head | None:
    """What a recording says, or None where another machine made it."""
    with opened(path) as recording:
        meta = recording.meta
    boot = meta.get("boot-id", "").replace("-", "")
    here = meta.get("hostname") in (None, "", socket.gethostname())
    # A container has a name of its own; the boot is the machine's.
    if not here and boot != boot_id():
        return None
    last = datetime.fromtimestamp(places.written_at(path), UTC)
    return Head(
        path=path,
        boot=boot,
        started=_time(meta.get("started")) or last,
        last=_time(meta.get("ended-at")) or last,
        fault_at=_time(meta.get("fault-at")),
    )


def _time(text: str | None) -> datetime | None:
    if not text:
        return None
    at = datetime.fromisoformat(text)
    if at.tzinfo is None:
        raise ValueError(text)
    return at


def newest_fault(found: Sequence[Head]) -> Head | None:
    """The one in which something failed last."""
    failed = [head for head in found if head.fault_at is not None]
    return max(failed, key=lambda head: head.fault_at or head.last, default=None)


def around(found: Sequence[Head], at: datetime, boot: str = "") -> list[Head]:
    """Those that were written around a time, the newest few, oldest first.

    Args:
        found: All of them, oldest first.
        at: The time.
        boot: Only those of this boot; "" for any.
    """
    held = [head for head in found if head.holds(at) and boot in ("", head.boot)]
    return held[-READ:]


def of_boot(found: Sequence[Head], boot: str | None) -> list[Head]:
    """Those of one boot, by its id or the beginning of it, the newest few, oldest first.

    Args:
        found: All of them, oldest first.
        boot: The boot; None for any.
    """
    held = [head for head in found if boot is None or (head.boot and head.boot.startswith(boot))]
    return held[-READ:]
