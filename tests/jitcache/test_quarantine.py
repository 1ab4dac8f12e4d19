"""Moving damaged entries aside, and back."""

from __future__ import annotations

import errno
import hashlib
import json
import os
from pathlib import Path

import pytest

from gpuprobe.errors import GpuprobeError, UsageError
from gpuprobe.jitcache import quarantine
from gpuprobe.jitcache.api import repair, restore, scan
from gpuprobe.testing import jitcache as caches


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Two kernels, of which `add` has a cut cubin and an empty group file."""
    folder = tmp_path / "cache"
    entry = caches.triton_entry(folder, "add")
    caches.triton_entry(folder, "mul")
    caches.damage(entry / "add.cubin", "half")
    caches.damage(entry / "__grp__add.json", "empty")
    return folder


def contents(folder: Path) -> dict[str, str]:
    """Every file below a folder with the hash of its bytes."""
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def test_the_whole_entry_is_moved_and_the_others_stay(cache: Path) -> None:
    """One move for two bad files of an entry; what is good is byte-identical; a scan is clean."""
    good, bad = contents(cache / caches.key("mul")), contents(cache / caches.key("add"))

    (moved,) = repair(scan([cache]).bad)

    assert moved.to is not None
    assert moved.to.parent == cache.with_name("cache.gpuprobe-quarantine")
    assert contents(moved.to / caches.key("add")) == bad
    assert contents(cache / caches.key("mul")) == good
    assert [path.name for path in cache.iterdir()] == [caches.key("mul")]
    assert scan([cache]).exit_code == 0
    reason = json.loads((moved.to / quarantine.REASON).read_text())
    assert {row["file"] for row in reason["bad"]} == {"add.cubin", "__grp__add.json"}
    assert (moved.to / quarantine.REASON).stat().st_mode & 0o777 == 0o600


def test_restore_puts_it_back_as_it_was(cache: Path) -> None:
    """Byte by byte, and nothing of the quarantine remains."""
    before = contents(cache)
    (moved,) = repair(scan([cache]).bad)
    assert moved.to is not None

    assert restore(moved.to) == cache / caches.key("add")
    assert contents(cache) == before
    assert not moved.to.parent.exists()


def test_restore_leaves_an_entry_that_was_built_anew(cache: Path) -> None:
    """The new one stays, and so does what is aside."""
    (moved,) = repair(scan([cache]).bad)
    assert moved.to is not None
    caches.triton_entry(cache, "add")
    fresh = contents(cache)

    with pytest.raises(GpuprobeError, match="there again"):
        restore(moved.to)

    assert contents(cache) == fresh
    assert (moved.to / caches.key("add")).is_dir()


def test_a_dry_run_changes_nothing(cache: Path) -> None:
    """It only says what would be moved."""
    before = contents(cache.parent)

    (moved,) = repair(scan([cache]).bad, dry_run=True)

    assert moved.entry == cache / caches.key("add")
    assert contents(cache.parent) == before
    assert len(list(cache.parent.iterdir())) == 1


@pytest.mark.parametrize("what", ["healed", "replaced", "gone", "touched"])
def test_what_is_no_longer_as_it_was_stays(cache: Path, what: str) -> None:
    """Between scan and repair an engine may build it anew: then nothing is moved."""
    entry = cache / caches.key("add")
    found = scan([cache]).bad
    if what == "gone":
        entry.rename(cache.parent / "elsewhere")
    elif what == "touched":
        for path in entry.iterdir():
            caches.age(path, 100)
    else:
        if what == "replaced":
            entry.rename(cache.parent / "elsewhere")
        caches.triton_entry(cache, "add")
    before = contents(cache)

    (moved,) = repair(found)

    assert moved.skipped
    assert not moved.problem
    assert contents(cache) == before


def test_a_link_put_in_its_place_leads_nowhere(cache: Path, tmp_path: Path) -> None:
    """Neither the entry nor a folder above it is followed through a link."""
    found = scan([tmp_path]).bad  # a cache given by its parent: the entry is two folders down
    outside = tmp_path.parent / f"{tmp_path.name}-outside"
    cache.rename(outside)
    cache.symlink_to(outside)
    before = contents(outside)

    (moved,) = repair(found)

    assert moved.to is None
    assert contents(outside) == before


def test_an_entry_swapped_at_the_last_moment_is_put_back(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A rename that caught what took the entry's place is undone."""
    entry = cache / caches.key("add")
    real = quarantine.move
    calls = []

    def swap(from_fd: int, name: str, to_fd: int, new_name: str) -> None:
        if not calls:
            entry.rename(cache.parent / "old")
            caches.triton_entry(cache, "add")
        calls.append(name)
        real(from_fd, name, to_fd, new_name)

    monkeypatch.setattr(quarantine, "move", swap)
    (moved,) = repair(scan([cache]).bad)

    assert moved.skipped
    assert scan([cache]).exit_code == 0
    assert entry.is_dir()


def test_a_cache_on_a_disk_of_its_own_has_its_quarantine_inside(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside a mount point is another file system, so the folder lies in the cache."""
    real = quarantine.move
    calls = []

    def other_disk_first(from_fd: int, name: str, to_fd: int, new_name: str) -> None:
        calls.append(name)
        if len(calls) == 1:
            raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
        real(from_fd, name, to_fd, new_name)

    monkeypatch.setattr(quarantine, "move", other_disk_first)
    (moved,) = repair(scan([cache]).bad)

    assert moved.to is not None
    assert moved.to.parent == cache / ".gpuprobe-quarantine"
    assert scan([cache]).exit_code == 0
    assert restore(moved.to) == cache / caches.key("add")


def test_what_cannot_be_moved_is_a_problem_and_stays(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No permission: said so, and no empty box is left behind."""

    def refuse(*names: object) -> None:
        raise PermissionError(errno.EACCES, "Permission denied")

    monkeypatch.setattr(quarantine, "move", refuse)
    before = contents(cache)

    (moved,) = repair(scan([cache]).bad)

    assert moved.problem == "Permission denied"
    assert contents(cache) == before
    assert list(cache.with_name("cache.gpuprobe-quarantine").iterdir()) == []


def test_a_quarantine_that_is_a_link_is_not_used(cache: Path, tmp_path: Path) -> None:
    """Nothing is moved through it."""
    trap = tmp_path / "trap"
    trap.mkdir()
    cache.with_name("cache.gpuprobe-quarantine").symlink_to(trap)

    (moved,) = repair(scan([cache]).bad)

    assert list(trap.iterdir()) == []
    assert moved.to is None or moved.to.parent == cache / ".gpuprobe-quarantine"


def test_a_link_to_the_cache_has_its_quarantine_beside_the_real_one(
    cache: Path, tmp_path: Path
) -> None:
    """And the printed place is where it is."""
    (tmp_path / "home").mkdir()
    link = tmp_path / "home" / "link"
    link.symlink_to(cache)

    (moved,) = repair(scan([link]).bad)

    assert moved.to is not None
    assert moved.to.is_dir()
    assert moved.to.parent.parent == tmp_path


@pytest.mark.parametrize(
    "reason",
    [
        None,
        b"{",
        b'{"schema": "other"}',
        b'{"schema": "gpuprobe.quarantine/1", "cache": "/tmp", "entry": ["..", "etc"]}',
        b'{"schema": "gpuprobe.quarantine/1", "cache": "/tmp", "entry": []}',
    ],
)
def test_a_folder_that_repair_did_not_make_is_not_restored(
    tmp_path: Path, reason: bytes | None
) -> None:
    """No reason file, a damaged one, or one that leads elsewhere."""
    if reason is not None:
        (tmp_path / quarantine.REASON).write_bytes(reason)

    with pytest.raises(UsageError):
        restore(tmp_path)


def test_a_rename_never_replaces(tmp_path: Path) -> None:
    """A file of that name stays as it is."""
    caches.put(tmp_path / "a", {"x": b"old"})
    caches.put(tmp_path / "b", {"x": b"new"})
    first, second = (os.open(tmp_path / name, os.O_RDONLY) for name in "ab")
    try:
        with pytest.raises(FileExistsError):
            quarantine.move(first, "x", second, "x")
    finally:
        os.close(first)
        os.close(second)

    assert (tmp_path / "b/x").read_bytes() == b"new"
