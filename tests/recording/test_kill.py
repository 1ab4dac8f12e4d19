"""`kill -9`, and copies of a stopped recorder's files, at any moment."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprobe import load

ROOT = Path(__file__).parents[2]
SEED = 20260304


def started(path: Path) -> subprocess.Popen[str]:
    """A recorder in a process of its own, that has committed something."""
    process = subprocess.Popen(
        [sys.executable, "-m", "tests.recording.killed_recorder", str(path), "0.05"],
        cwd=ROOT,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "0\n"
    return process


def shown(process: subprocess.Popen[str]) -> list[int]:
    """What it said was on the disk."""
    assert process.stdout is not None
    return [0, *(int(line) for line in process.stdout.read().splitlines() if line.strip())]


def events(path: Path) -> tuple[set[int], int, str | None, tuple[str, ...]]:
    """Numbers of the events in all files of a recording, its samples, its end, its notes."""
    found: set[int] = set()
    samples = 0
    ended: str | None = None
    notes: tuple[str, ...] = ()
    for one in sorted(path.parent.glob("*.gpuprobe"), key=lambda p: p.stat().st_mtime):
        with load(one) as recording:
            found |= {int(text.split()[1]) for text in recording.events()["text"]}
            samples += len(recording.samples())
            ended, notes = recording.ended, recording.notes
    return found, samples, ended, notes


def kill_at(folder: Path, after_s: float) -> None:
    folder.mkdir()
    process = started(folder / "a.gpuprobe")
    time.sleep(after_s)
    process.kill()
    process.wait()
    said = shown(process)

    found, samples, ended, notes = events(folder / "a.gpuprobe")
    assert set(said) <= found
    assert samples > max(said)
    assert ended is None
    assert any("without an end mark" in note for note in notes)
    shutil.rmtree(folder)


def copies_of(folder: Path, count: int, chance: random.Random) -> None:
    """Copies, each from a moment at which the recorder stood still, open and hold what was said."""
    folder.mkdir()
    process = started(folder / "a.gpuprobe")
    try:
        for number in range(count):
            time.sleep(chance.uniform(0, 0.05))
            os.kill(process.pid, signal.SIGSTOP)
            copy = folder / f"copy{number}"
            copy.mkdir()
            for path in sorted(folder.glob("*.gpuprobe*")):
                if not path.name.endswith("-shm"):
                    shutil.copy(path, copy)
            os.kill(process.pid, signal.SIGCONT)
            found, samples, _, _ = events(copy / "a.gpuprobe")
            # An event is in the file with all the samples that were added before it.
            assert found
            assert samples > max(found) or max(found) == 0
            assert found >= set(range(0, max(found), 30))
            shutil.rmtree(copy)
    finally:
        os.kill(process.pid, signal.SIGCONT)
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


def test_a_kill_loses_no_event_that_was_shown(tmp_path: Path) -> None:
    """After `kill -9` the recording opens, holds every event that was said to be on the disk."""
    chance = random.Random(SEED)
    for number in range(2):
        kill_at(tmp_path / str(number), chance.uniform(0, 0.2))


def test_a_copy_of_a_stopped_recorder_opens(tmp_path: Path) -> None:
    """Both files of a recorder that stands still, copied at any moment, are a recording."""
    copies_of(tmp_path / "run", 5, random.Random(SEED))


@pytest.mark.slow
def test_two_hundred_kills(tmp_path: Path) -> None:
    """The same at 200 random moments."""
    chance = random.Random(SEED + 1)
    for number in range(200):
        kill_at(tmp_path / str(number), chance.uniform(0, 0.4))


@pytest.mark.slow
def test_two_hundred_copies(tmp_path: Path) -> None:
    """The same for copies at 200 random moments."""
    copies_of(tmp_path / "run", 200, random.Random(SEED + 1))
