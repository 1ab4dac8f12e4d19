"""A large cache is looked at by more than one process, with the same result."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from gpuprobe.jitcache import scan as scanning
from gpuprobe.jitcache.base import Place
from gpuprobe.jitcache.batch import Batch
from gpuprobe.jitcache.scan import ScanOptions, scan_places
from gpuprobe.jitcache.tree import Root
from gpuprobe.jitcache.workers import Workers
from gpuprobe.testing import jitcache as caches

ENTRIES = 200


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Entries of which some are damaged, beside what a scan must not follow."""
    cache = tmp_path / "cache"
    for number in range(ENTRIES):
        entry = caches.triton_entry(cache, seed=str(number))
        if number % 50 == 7:
            caches.damage(entry / "add.cubin", "half")
        if number % 50 == 9:
            caches.damage(entry / "add.ptx", "empty")
    caches.triton_entry(cache / "below" / os.fsdecode(b"odd\xff\nname"), seed="deeper")
    outside = caches.triton_entry(tmp_path / "outside", seed="not ours")
    caches.damage(outside / "add.cubin", "half")
    (cache / "link").symlink_to(outside)
    (cache / "below" / "link").symlink_to(outside)
    return cache


@pytest.fixture
def started(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[Workers]]:
    """Workers are started for a small cache too; those that were."""
    found: list[Workers] = []
    start = Workers.start

    def noted(self: Workers, number: int) -> None:
        found.append(self)
        start(self, number)

    monkeypatch.setattr(scanning, "MANY", 0)
    monkeypatch.setattr(Workers, "start", noted)
    yield found
    for workers in found:
        assert all(process.returncode is not None for process in workers._all)


def report(cache: Path, cores: int) -> Any:
    place = Place("triton", cache, "argument")
    return replace(scan_places([place], ScanOptions(cores=cores)), took_s=0.0)


def test_several_processes_find_what_one_finds(cache: Path, started: list[Workers]) -> None:
    """Entries, damage, links that are not followed, architectures: nothing depends on who looked."""
    alone = report(cache, 1)
    shared = report(cache, 3)

    assert shared == alone
    assert len(started[-1]._all) == 2
    assert shared.checked == ENTRIES + 1
    assert (len(shared.bad), len(shared.suspicious)) == (4, 4)
    assert shared.notes == ("2 links were not followed",)
    assert shared.architectures == (90,)


def test_a_worker_answers(cache: Path) -> None:
    """What it found clean is counted, and what lies below comes back by name."""
    root = Root(cache, cache="triton")
    names = sorted(path.name for path in cache.iterdir() if path.is_dir())
    with Workers([root]) as workers:
        workers.start(1)
        [process] = workers._all
        looked = workers._asked(process, Batch(root, (), names), None)
    root.close()

    assert looked is not None
    assert looked.seen.checked == ENTRIES
    assert looked.folders == [(("below",), [os.fsdecode(b"odd\xff\nname")])]
    assert {found.name for found in looked.seen.findings} == {"add.cubin"}


def test_workers_end_at_the_same_depth(tmp_path: Path, started: list[Workers]) -> None:
    """A folder that is too deep is named once, whoever comes to it."""
    cache = tmp_path / "cache"
    caches.put(cache.joinpath(*["d"] * 50), {"a.txt": b"a"})

    assert report(cache, 3) == report(cache, 1)
    assert started
    assert [item.why for item in report(cache, 3).unreadable] == ["lies too deep for a cache"]


def test_a_worker_that_dies_costs_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its batch is looked at here, and so is the rest."""
    start = Workers.start

    def killed(self: Workers, number: int) -> None:
        before = len(self._all)
        start(self, number)
        for process in self._all[before:]:
            process.kill()

    alone = report(cache, 1)
    monkeypatch.setattr(scanning, "MANY", 0)
    monkeypatch.setattr(Workers, "start", killed)

    assert report(cache, 3) == alone


def test_a_worker_that_cannot_be_started_costs_nothing(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One process does it all."""

    def refused(*_: Any, **__: Any) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    alone = report(cache, 1)
    monkeypatch.setattr(scanning, "MANY", 0)
    monkeypatch.setattr(subprocess, "Popen", refused)

    assert report(cache, 3) == alone


def test_a_deadline_waits_for_no_worker(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """One that does not answer, here since it is another program, is ended when the time is up."""
    monkeypatch.setattr(scanning, "MANY", 0)
    silent = tmp_path / "silent"
    silent.write_text("#!/bin/sh\nexec sleep 600\n")
    silent.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(silent))

    found = scan_places([Place("triton", cache)], ScanOptions(cores=3, deadline_s=1.0))

    assert not found.complete
    assert found.took_s < 300


def test_progress_names_folders_done_and_known(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Never more done than known, and both grow."""
    told: list[tuple[int, int]] = []
    clock = iter(range(10**6))
    monkeypatch.setattr(scanning.time, "monotonic", lambda: float(next(clock)))
    options = ScanOptions(cores=1, progress=lambda *numbers: told.append(numbers))

    scan_places([Place("triton", cache, "argument")], options)

    assert told[0] == (0, ENTRIES + 1)
    assert told[-1] == (ENTRIES + 3, ENTRIES + 3)
    assert told == sorted(told)
    assert all(done <= known for done, known in told)
