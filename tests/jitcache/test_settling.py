"""What is being written is not called damaged."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuprobe.jitcache import settle
from gpuprobe.jitcache.api import scan
from gpuprobe.jitcache.base import Place
from gpuprobe.jitcache.locks import Holders
from gpuprobe.jitcache.scan import ScanOptions, scan_places
from gpuprobe.reporters.jitcache_text import headline
from gpuprobe.testing import jitcache as caches


@pytest.fixture
def poisoned(tmp_path: Path) -> Path:
    """A cut cubin in a cache."""
    return caches.damage(caches.triton_entry(tmp_path / "cache") / "add.cubin", "half")


def with_pause(cache: Path, pause, settle_s: float = 5.0):
    """A scan whose pause is `pause(seconds)`."""
    real = settle.settle

    def patched(candidates, roots, **more):
        return real(candidates, roots, **more, sleep=pause)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("gpuprobe.jitcache.scan.settle", patched)
        return scan_places([Place("triton", cache)], ScanOptions(settle_s=settle_s))


def test_an_old_damaged_file_needs_no_pause(poisoned: Path) -> None:
    """It was untouched for long enough."""

    def pause(seconds: float) -> None:
        raise AssertionError(f"paused for {seconds}")

    assert len(with_pause(poisoned.parents[1], pause).bad) == 1


def test_a_young_damaged_file_is_waited_for(poisoned: Path) -> None:
    """If it is the same after the pause, it is bad."""
    caches.age(poisoned, 2)
    pauses: list[float] = []

    report = with_pause(poisoned.parents[1], pauses.append)

    assert len(report.bad) == 1
    assert len(pauses) == 1
    assert 1 < pauses[0] <= 3


def test_a_time_in_the_future_is_waited_for(poisoned: Path) -> None:
    """A clock that was set back says nothing of a file's age."""
    caches.age(poisoned, -9000)
    pauses: list[float] = []

    with_pause(poisoned.parents[1], pauses.append)

    assert pauses == [5.0]


@pytest.mark.parametrize("what", ["healed", "grown", "gone"])
def test_what_changes_in_the_pause_is_left_out(poisoned: Path, what: str) -> None:
    """Healed, still being written, or moved by its owner: no alarm."""
    caches.age(poisoned, 1)

    def pause(seconds: float) -> None:
        if what == "healed":
            poisoned.write_bytes(caches.elf())
        elif what == "grown":
            poisoned.write_bytes(caches.elf()[:-9])
        else:
            poisoned.parent.rename(poisoned.parents[1] / "other")

    report = with_pause(poisoned.parents[1], pause)

    assert (report.bad, report.suspicious) == ((), ())
    assert report.notes == ("1 files were being written and are left out",)


def test_without_time_for_the_pause_it_is_suspicious(poisoned: Path) -> None:
    """A deadline is kept, and nothing young is called bad."""
    caches.age(poisoned, 0)
    began = time.monotonic()

    report = scan([poisoned.parents[1]], deadline_s=1.0)

    assert time.monotonic() - began < 4
    assert report.bad == ()
    assert "look again" in report.suspicious[0].why


def test_a_file_open_for_writing_is_suspicious(
    poisoned: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its writer may only be slow."""
    place = (poisoned.stat().st_dev, poisoned.stat().st_ino)
    monkeypatch.setattr(settle, "holders", lambda names: Holders(writing={place: 4711}))

    report = scan([poisoned.parents[1]])

    assert report.bad == ()
    assert "process 4711 has it open for writing" in report.suspicious[0].why


def test_a_folder_without_a_cache_is_no_healthy_cache(tmp_path: Path) -> None:
    """A path with a typing error must not read like an all-clear."""
    assert headline(scan([tmp_path])).startswith("[fine] No entry of a known cache lies there")


def test_time_that_runs_out_is_told(tmp_path: Path) -> None:
    """The rest is left out with a note."""
    for number in range(80):
        caches.triton_entry(tmp_path / "cache", seed=str(number))

    report = scan([tmp_path / "cache"], deadline_s=0.0)

    assert not report.complete
    assert "ran out" in report.notes[0]
    assert report.exit_code == 2
    assert headline(report).startswith("[incomplete] Nothing damaged among what was looked at")
