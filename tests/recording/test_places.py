"""Where recordings lie, and which of them are removed."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpuprobe.errors import RecordingError
from gpuprobe.events import EngineChanged
from gpuprobe.recording import places
from gpuprobe.recording.writer import Recorder
from tests.live_events import base, lost
from tests.recording.recording_bench import record

QUIET = [EngineChanged(**base(1), what="started")]


def test_the_named_folder_is_taken(tmp_path: Path) -> None:
    """`GPUPROBE_DIR` goes before everything, and is made."""
    path = places.new_path({"GPUPROBE_DIR": str(tmp_path / "here")})

    assert path.parent == tmp_path / "here"
    assert path.parent.stat().st_mode & 0o777 == 0o700
    assert path.name.endswith(f"Z-{os.getpid()}.gpuprobe")


def test_a_named_folder_that_cannot_be_made_is_an_error(tmp_path: Path) -> None:
    """It is not quietly another one."""
    (tmp_path / "file").touch()
    with pytest.raises(RecordingError, match="GPUPROBE_DIR"):
        places.new_path({"GPUPROBE_DIR": str(tmp_path / "file" / "x")})


def test_the_state_folder_of_a_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """XDG's, else the one in the home; a temporary one where neither can be written."""
    monkeypatch.setattr(os, "geteuid", lambda: 1000)
    (tmp_path / "file").touch()
    state = {"XDG_STATE_HOME": str(tmp_path / "state"), "HOME": str(tmp_path)}

    assert places.folder(state) == tmp_path / "state" / "gpuprobe"
    assert places.folder({"HOME": str(tmp_path)}) == tmp_path / ".local/state/gpuprobe"
    nowhere = places.new_path({"HOME": str(tmp_path / "file")})
    assert places.is_temporary(nowhere)
    assert not places.is_temporary(places.new_path(state))
    nowhere.parent.rmdir()


def test_a_name_is_never_given_twice(tmp_path: Path) -> None:
    """Two recordings of one process and second have two names."""
    env = {"GPUPROBE_DIR": str(tmp_path)}
    first = places.new_path(env)
    first.touch()

    assert places.new_path(env) != first


def aged(path: Path, days: float) -> Path:
    at = (datetime.now(UTC) - timedelta(days=days)).timestamp()
    os.utime(path, (at, at))
    return path


def test_the_oldest_go_first(tmp_path: Path) -> None:
    """Until what is left fits."""
    paths = [aged(record(tmp_path / f"{n}.gpuprobe", QUIET), 10 - n) for n in range(4)]
    size = paths[0].stat().st_size

    assert places.make_room(tmp_path, total_bytes=2 * size) == paths[:2]
    assert places.find(tmp_path) == paths[2:]


def test_a_fresh_fault_is_kept(tmp_path: Path) -> None:
    """One younger than thirty days stays, however large; an older one goes."""
    fault = aged(record(tmp_path / "a.gpuprobe", [lost(1)]), 10)
    quiet = aged(record(tmp_path / "b.gpuprobe", QUIET), 5)

    assert places.make_room(tmp_path, total_bytes=0) == [quiet]
    assert places.make_room(tmp_path, total_bytes=0, keep_days=0) == [fault]


def test_one_in_use_is_kept(tmp_path: Path) -> None:
    """Whoever writes it."""
    recorder = Recorder(tmp_path / "a.gpuprobe")
    assert recorder.commit(QUIET, timeout_s=10)

    assert places.make_room(tmp_path, total_bytes=0) == []
    recorder.end("stopped")


def test_only_parts_of_one_recording(tmp_path: Path) -> None:
    """In a folder that is not gpuprobe's own nothing else is touched."""
    mine = [record(tmp_path / name, QUIET) for name in ("run.gpuprobe", "run-2.gpuprobe")]
    other = [record(tmp_path / name, QUIET) for name in ("run-b.gpuprobe", "runs.gpuprobe")]

    assert set(places.make_room(tmp_path, total_bytes=0, only="run")) == set(mine)
    assert all(path.exists() for path in other)
