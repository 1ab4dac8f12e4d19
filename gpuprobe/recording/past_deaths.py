"""How an engine died before: kept in its recordings, so that a new gpuprobe knows it too."""

from __future__ import annotations

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Final

from gpuprobe.errors import RecordingError
from gpuprobe.live.engine.policy import REMEMBERED, Death, mark
from gpuprobe.recording import places
from gpuprobe.recording.opening import DAMAGED, is_written, opened
from gpuprobe.recording.secrets import mask_argv

ENGINE: Final = "restart.engine"
"""Key in `meta`: a mark of the engine's command line."""

DEATHS: Final = "restart.deaths"
"""Key in `meta`: the deaths known when the recording ended, those before it included."""

DAYS: Final = 7.0
"""An older death counts no more."""

NEWEST: Final = 20
"""Recordings that are looked at, the newest first."""

COPIED_BYTES: Final = 64 << 20
"""A recording that was cut short is copied to be read; a larger one is passed over."""

DEADLINE_S: Final = 3.0


def mark_of(
    argv: Sequence[str], env: Mapping[str, str], *, cwd: str = "", devices: Iterable[str] = ()
) -> str:
    """What tells engines apart: command line without secrets, folder, and its choice of GPUs."""
    visible = env.get("CUDA_VISIBLE_DEVICES", "")
    return mark(json.dumps([mask_argv(argv), cwd, visible, *devices]))


def to_text(deaths: Sequence[Death]) -> str:
    """The last deaths as JSON."""
    return json.dumps([one.to_list() for one in deaths[-REMEMBERED:]], separators=(",", ":"))


def from_text(text: str, now_s: float | None = None) -> list[Death]:
    """Deaths of a text that `to_text` made, those that still count; what it cannot read is none."""
    now_s = time.time() if now_s is None else now_s
    try:
        told = json.loads(text)
        found = [Death.from_list(one) for one in told]
    except (ValueError, TypeError, RecursionError):
        return []
    recent = [death for death in found if abs(now_s - death.at_s) < DAYS * 86_400]
    return recent[-REMEMBERED:]


def read(
    engine: str, folders: Iterable[Path | None] = (None,), *, deadline_s: float = DEADLINE_S
) -> list[Death]:
    """How this engine died before, in order of time.

    The newest recording that says anything says all, so few are opened.

    Args:
        engine: From `mark_of`.
        folders: Where its recordings lie; None stands for this user's usual place.
        deadline_s: Seconds after which the rest is left out.
    """
    until = time.monotonic() + deadline_s
    paths = {path for folder in folders for path in places.find(folder)}
    dated = sorted(((_written_at(path), path) for path in paths), reverse=True)
    for at, path in dated[:NEWEST]:
        if time.monotonic() > until or time.time() - at > DAYS * 86_400:
            break
        told = _told(path, engine)
        if told is not None:
            return from_text(told)
    return []


def _told(path: Path, engine: str) -> str | None:
    """What a recording of this engine says of deaths; None where it is another's, or silent."""
    wal = path.with_name(f"{path.name}-wal")
    try:
        cut = wal.exists() and wal.stat().st_size > 0 and not is_written(path)
        if cut and path.stat().st_size + wal.stat().st_size > COPIED_BYTES:
            return None
        with opened(path) as recording:
            same = recording.meta.get(ENGINE) == engine
            return recording.meta.get(DEATHS) if same else None
    except (RecordingError, OSError, *DAMAGED):
        return None


def _written_at(path: Path) -> float:
    times = []
    for side in (path, path.with_name(f"{path.name}-wal")):
        try:
            times.append(side.stat().st_mtime)
        except OSError:
            continue
    return max(times, default=0.0)
