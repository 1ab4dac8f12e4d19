"""After an unclean end the JIT caches are looked at, before an engine starts or beside a record."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprobe.cli import unclean_end
from gpuprobe.cli.unclean_end import UncleanEnd, last_unclean_end, look_first
from gpuprobe.live.engine import cache_check
from gpuprobe.recording.writer import Recorder
from gpuprobe.testing import jitcache
from tests.cli.run_bench import RUN
from tests.live.nvml_bench import wait_until

NOW = UncleanEnd(time.time(), boot=False)


def cut_recording(folder: Path, name: str = "a.gpuprobe") -> Path:
    """A recording as `kill -9` leaves it."""
    aside = folder / "aside"
    aside.mkdir(parents=True)
    recorder = Recorder(aside / name, about={"command": "run"})
    recorder.describe("boot-id", "x")
    recorder.commit(())
    for side in ("", "-wal"):
        shutil.copy(aside / f"{name}{side}", folder / f"{name}{side}")
    recorder.end("stopped")
    shutil.rmtree(aside)
    return folder / name


def environment(folder: Path) -> dict[str, str]:
    return {
        **os.environ,
        "HOME": str(folder / "home"),
        "GPUPROBE_DIR": str(folder / "recordings"),
        "TRITON_CACHE_DIR": str(folder / "cache"),
    }


@pytest.fixture
def recordings(tmp_path: Path) -> Path:
    (tmp_path / "home").mkdir()
    (tmp_path / "recordings").mkdir()
    return tmp_path / "recordings"


@pytest.fixture
def poison(tmp_path: Path) -> Path:
    """A cut cubin in the cache, beside a good entry."""
    jitcache.triton_entry(tmp_path / "cache", "mul")
    entry = jitcache.triton_entry(tmp_path / "cache", "add")
    return jitcache.damage(entry / "add.cubin", "half")


def test_nothing_is_there(tmp_path: Path, recordings: Path) -> None:
    """No recording: nothing ended uncleanly."""
    assert last_unclean_end(environment(tmp_path)) is None


def test_a_cut_recording_is_noticed(tmp_path: Path, recordings: Path) -> None:
    """No end mark and nobody writes it; of this boot, so it was the run."""
    cut_recording(recordings)
    found = last_unclean_end(environment(tmp_path))

    assert found is not None
    assert not found.boot
    assert str(found).startswith("the last run ended uncleanly (")


def test_one_from_before_the_boot_is_the_boots(
    tmp_path: Path, recordings: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The machine started after the last sign of life."""
    cut_recording(recordings)
    monkeypatch.setattr("gpuprobe.jitcache.locks.boot_time", lambda: time.time() + 5)
    found = last_unclean_end(environment(tmp_path))

    assert found is not None
    assert found.boot


def test_a_later_end_in_order_settles_it(tmp_path: Path, recordings: Path) -> None:
    """The newest recording decides."""
    old = cut_recording(recordings)
    for side in ("", "-wal"):
        os.utime(f"{old}{side}", (time.time() - 60,) * 2)
    Recorder(recordings / "b.gpuprobe").end("engine-exited")

    assert last_unclean_end(environment(tmp_path)) is None


def test_one_that_is_being_written_has_not_ended(tmp_path: Path, recordings: Path) -> None:
    """A recorder beside this run is no unclean end."""
    recorder = Recorder(recordings / "b.gpuprobe")
    recorder.commit(())
    try:
        assert last_unclean_end(environment(tmp_path)) is None
    finally:
        recorder.end("stopped")


def test_a_slow_look_does_not_hold_the_engine(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is not done in time is said, and left to go on beside the engine."""
    said: list[str] = []
    monkeypatch.setattr(unclean_end, "HOLD_S", 0.1)
    monkeypatch.setattr(cache_check, "look", lambda **_: time.sleep(5.0))
    began = time.monotonic()

    assert not look_first(NOW, said.append, repair=True)
    assert time.monotonic() - began < 2.0
    assert len(said) == 1
    assert "looked at further beside the engine" in said[0]


def run(folder: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*RUN, "--no-nvml", *options, "--", sys.executable, "-c", "print('up')"],
        env=environment(folder), capture_output=True, text=True, timeout=30,
    )  # fmt: skip


def test_run_says_it_in_one_line(tmp_path: Path, recordings: Path, poison: Path) -> None:
    """The damaged file is named, nothing is moved, the engine runs; the next run is silent."""
    cut_recording(recordings)
    first, second = run(tmp_path), run(tmp_path)

    (line,) = first.stderr.splitlines()
    assert "the last run ended uncleanly" in line
    assert str(poison) in line
    assert "gpuprobe jitcache repair" in line
    assert poison.exists()
    assert (first.stdout, second.stdout, second.stderr) == ("up\n", "up\n", "")


@pytest.mark.slow
def test_run_repairs_where_asked(tmp_path: Path, recordings: Path, poison: Path) -> None:
    """--repair-caches: moved aside before the engine starts, the undo is told."""
    cut_recording(recordings)
    done = run(tmp_path, "--repair-caches")

    assert done.stdout == "up\n"
    assert f"moved aside: {poison.parent}" in done.stderr
    assert not poison.exists()


@pytest.mark.slow
def test_record_says_it(tmp_path: Path, recordings: Path, poison: Path) -> None:
    """A headless recorder tells it on stderr, and moves nothing."""
    cut_recording(recordings)
    with (tmp_path / "words").open("w") as words:
        process = subprocess.Popen(
            [sys.executable, "-m", "gpuprobe", "record", "--no-nvml"],
            env=environment(tmp_path), stdout=subprocess.DEVNULL, stderr=words,
        )  # fmt: skip
    try:
        assert wait_until(lambda: str(poison) in (tmp_path / "words").read_text(), 15.0)
    finally:
        process.send_signal(signal.SIGTERM)
        process.wait(15)
    assert poison.exists()
