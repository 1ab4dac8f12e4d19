"""What the tests of recordings share: a recorder on a temporary folder, and what it wrote."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from gpuprobe.events import Event
from gpuprobe.recording.writer import Limits, Recorder

BOOT = "0123456789abcdef0123456789abcdef"
ABOUT = {"hostname": "box", "boot-id": BOOT}


def record(
    path: Path, events: Iterable[Event], *, how: str | None = "stopped", **limits: Any
) -> Path:
    """A recording of these events; `how` None leaves it without an end, as a kill does."""
    recorder = Recorder(path, about=ABOUT, limits=Limits(**limits))
    recorder.add(events)
    assert recorder.commit((), timeout_s=10)
    if how is not None:
        recorder.end(how)
        assert recorder.problem is None
    return path


def rows(path: Path, query: str) -> list[tuple[Any, ...]]:
    """What a query gives, in any SQLite tool."""
    connection = sqlite3.connect(path)
    try:
        return connection.execute(query).fetchall()
    finally:
        connection.close()


def files(folder: Path) -> dict[str, bytes]:
    """Every file of a folder with its bytes."""
    return {path.name: path.read_bytes() for path in folder.iterdir() if path.is_file()}
