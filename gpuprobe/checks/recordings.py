"""Recordings of this machine: one that is being written, and how the last one ended."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path

from gpuprobe.checks.base import CheckFinding, Status
from gpuprobe.checks.scene import RecordingSeen, Scene
from gpuprobe.reading import Known

name = "recordings"

RECENT_S = 7 * 86_400.0
"""Seconds for which a recording that was cut short is a warning."""

NEWEST = 20
"""Recordings that are looked at: the last one matters, and those that are being written."""


def run(scene: Scene) -> Iterator[CheckFinding]:
    """A finding for the end of the newest recording that nobody writes; none without one."""
    last = last_ended(scene)
    if last is None:
        return
    at = datetime.fromtimestamp(last.last_at, UTC)
    if last.ended is not None:
        yield CheckFinding(
            check=name,
            what="last recording",
            status=Status.OK,
            text=f"ended {at:%Y-%m-%d %H:%M} UTC: {last.ended}",
            at=at.isoformat(),
        )
        return
    yield CheckFinding(
        check=name,
        what="last recording",
        status=Status.WARN if is_recent(last) else Status.NOTE,
        text=f"breaks off {at:%Y-%m-%d %H:%M:%S} UTC without an end mark: the machine or the "
        "recorder was cut short",
        how=f"gpuprobe diagnose {last.path}",
        at=at.isoformat(),
    )


def is_recent(recording: RecordingSeen) -> bool:
    """Whether its end may still matter: what it left in a cache has been met by then."""
    return time.time() - recording.last_at < RECENT_S


def last_ended(scene: Scene) -> RecordingSeen | None:
    """The newest recording that nobody writes, or None."""
    seen = scene.recordings.value if isinstance(scene.recordings, Known) else ()
    return next((recording for recording in reversed(seen) if not recording.written), None)


def read_recordings(env: Mapping[str, str] | None = None) -> tuple[RecordingSeen, ...]:
    """The newest recordings in this user's folder and in the machine's, oldest first.

    Args:
        env: Where `GPUPROBE_DIR`, `XDG_STATE_HOME` and `HOME` are looked up; the process's own
            environment by default.
    """
    from gpuprobe.recording import places

    env = os.environ if env is None else env
    found = {path for folder in _folders(env) for path in places.find(folder)}
    seen = []
    for path in found:
        with contextlib.suppress(OSError):
            seen.append((_last_at(path), path))
    return tuple(_look(path, at) for at, path in sorted(seen)[-NEWEST:])


def _folders(env: Mapping[str, str]) -> list[Path]:
    """Those that are there: looking makes none."""
    state = env.get("XDG_STATE_HOME") or (f"{env['HOME']}/.local/state" if env.get("HOME") else "")
    named = [env.get("GPUPROBE_DIR", ""), "/var/lib/gpuprobe", f"{state}/gpuprobe" if state else ""]
    return [folder for text in named if text and (folder := Path(text)).is_dir()]


def _wal(path: Path) -> Path:
    return path.with_name(f"{path.name}-wal")


def _last_at(path: Path) -> float:
    times = [path.stat().st_mtime]
    with contextlib.suppress(OSError):
        times.append(_wal(path).stat().st_mtime)
    return max(times)


def _look(path: Path, last_at: float) -> RecordingSeen:
    from gpuprobe.errors import GpuprobeError
    from gpuprobe.recording.opening import is_written, opened

    if is_written(path):
        return RecordingSeen(path, written=True, ended=None, last_at=last_at)
    ended = None
    # An end empties the log beside it: where that holds something there was none, and the
    # recording need not be copied to look.
    with contextlib.suppress(OSError, GpuprobeError):
        if not _wal(path).exists() or not _wal(path).stat().st_size:
            with opened(path) as recording:
                ended = recording.meta.get("ended")
    return RecordingSeen(path, written=False, ended=ended, last_at=last_at)
