"""Where recordings lie, and making room for new ones."""

from __future__ import annotations

import contextlib
import os
import sqlite3
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

from gpuprobe.errors import RecordingError
from gpuprobe.recording import written_here

SUFFIX: Final = ".gpuprobe"
SYSTEM: Final = Path("/var/lib/gpuprobe")
"""Where root's recordings lie."""

TOTAL_BYTES: Final = 2 << 30
"""All recordings of the folder together; the oldest go first."""

KEEP_DAYS: Final = 30.0
"""A recording with a fault younger than this is never removed."""

_SIDE: Final = ("", "-wal", "-shm")


def folder(env: Mapping[str, str] | None = None) -> Path | None:
    """Where this user's recordings lie; None where only a temporary folder is left.

    Args:
        env: `GPUPROBE_DIR`, `XDG_STATE_HOME` and `HOME` are read from it; the process's own
            environment by default.

    Raises:
        RecordingError: `GPUPROBE_DIR` names a folder that cannot be made or written.
    """
    env = os.environ if env is None else env
    if named := env.get("GPUPROBE_DIR"):
        if not _usable(Path(named)):
            raise RecordingError(
                f"GPUPROBE_DIR names {named}, which cannot be written",
                hint="Make it, or set GPUPROBE_DIR to a folder of yours.",
            )
        return Path(named)
    places = [place for place in to_read(env) if place != SYSTEM or os.geteuid() == 0]
    return next((place for place in places if _usable(place)), None)


def to_read(env: Mapping[str, str] | None = None) -> list[Path]:
    """Folders in which recordings of this machine may lie, also another user's; none is made.

    Args:
        env: See `folder`.
    """
    env = os.environ if env is None else env
    if named := env.get("GPUPROBE_DIR"):
        return [Path(named)]
    places = [SYSTEM]
    if state := env.get("XDG_STATE_HOME"):
        places.append(Path(state) / "gpuprobe")
    elif home := env.get("HOME"):
        places.append(Path(home) / ".local/state/gpuprobe")
    return [place for place in places if place.is_absolute()]


def _usable(place: Path) -> bool:
    try:
        place.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        return False
    return os.access(place, os.W_OK | os.X_OK)


def new_path(env: Mapping[str, str] | None = None) -> Path:
    """A free name for a new recording; its folder is made where it is missing.

    Where no folder can be written it lies in a temporary one: see `is_temporary`, and say so.

    Raises:
        RecordingError: No folder can be written, not even a temporary one.
    """
    place = folder(env)
    if place is None:
        try:
            place = Path(tempfile.mkdtemp(prefix="gpuprobe-"))
        except OSError as error:
            raise RecordingError(
                f"no folder can be written: {error}", hint="Set GPUPROBE_DIR to one that can."
            ) from error
    stem = f"{datetime.now(UTC):%Y%m%dT%H%M%SZ}-{os.getpid()}"
    number, path = 1, place / f"{stem}{SUFFIX}"
    while path.exists() or path.with_name(f"{path.name}-wal").exists():
        number += 1
        path = place / f"{stem}.{number}{SUFFIX}"
    return path


def is_temporary(path: Path) -> bool:
    """Whether a path that `new_path` gave may be gone after a reboot."""
    return path.parent.name.startswith("gpuprobe-") and path.parent.parent == Path(
        tempfile.gettempdir()
    )


def is_ours(place: Path) -> bool:
    """Whether a folder is the one where recordings lie, which alone is tidied."""
    try:
        ours = folder()
        return ours is not None and place.samefile(ours)
    except (OSError, RecordingError):
        return False


def find(place: Path | None = None) -> list[Path]:
    """Recordings in a folder, by default of this user, oldest first."""
    try:
        place = place or folder()
        found = [] if place is None else list(place.glob(f"*{SUFFIX}"))
    except (OSError, RecordingError):
        return []
    dated = []
    for path in found:
        with contextlib.suppress(OSError):
            if path.is_file() and not path.is_symlink():
                dated.append((written_at(path), path))
    return [path for _, path in sorted(dated)]


def written_at(path: Path) -> float:
    """When it was written last: until a checkpoint that is the WAL's time."""
    times = [path.stat().st_mtime]
    with contextlib.suppress(OSError):
        times.append(path.with_name(f"{path.name}-wal").stat().st_mtime)
    return max(times)


def make_room(
    place: Path | None = None,
    *,
    total_bytes: int = TOTAL_BYTES,
    keep_days: float = KEEP_DAYS,
    only: str | None = None,
) -> list[Path]:
    """Remove the oldest recordings beyond the limit; never one in use, or with a fresh fault.

    Args:
        place: The folder; this user's by default.
        total_bytes: What may stay.
        keep_days: A fault younger than this keeps its recording.
        only: Where given, only the parts of the recording with this name (without its suffix)
            are counted and removed.

    Returns:
        Those that were removed.
    """
    from gpuprobe.recording.opening import is_written

    kept = [path for path in find(place) if only is None or _is_part_of(path.stem, only)]
    sizes = {path: _size(path) for path in kept}
    total = sum(sizes.values())
    removed = []
    for path in kept:
        if total <= total_bytes:
            break
        if (
            written_here.is_written_here(path)
            or is_written(path)
            or _has_fresh_fault(path, keep_days)
        ):
            continue
        for side in _SIDE:
            with contextlib.suppress(OSError):
                path.with_name(path.name + side).unlink()
        total -= sizes[path]
        removed.append(path)
    return removed


def _is_part_of(stem: str, first: str) -> bool:
    return stem == first or (
        stem.startswith(f"{first}-") and stem.removeprefix(f"{first}-").isdecimal()
    )


def _size(path: Path) -> int:
    size = 0
    for side in _SIDE:
        with contextlib.suppress(OSError):
            size += path.with_name(path.name + side).stat().st_size
    return size


def _has_fresh_fault(path: Path, keep_days: float) -> bool:
    """Whether it holds a fault younger than so many days; unreadable ones are kept as long."""
    from gpuprobe.recording.opening import opened

    since = datetime.now(UTC) - timedelta(days=keep_days)
    try:
        with opened(path) as recording:
            told = recording.meta.get("fault-at")
        return told is not None and datetime.fromisoformat(told) > since
    except (RecordingError, sqlite3.Error, ValueError, TypeError):
        return datetime.fromtimestamp(written_at(path), UTC) > since
