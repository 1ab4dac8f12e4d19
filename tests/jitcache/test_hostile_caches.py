"""Caches that mean harm: nothing is run, nothing outside is touched, the report is clean."""

from __future__ import annotations

import io
import json
import os
import pickle  # noqa: TID251 - made here, never loaded
import socket
import time
from pathlib import Path

import pytest

from gpuprobe.jitcache import look
from gpuprobe.jitcache.api import repair, scan
from gpuprobe.jitcache.report import ScanReport
from gpuprobe.reporters.jitcache_json import JitcacheJsonReporter
from gpuprobe.reporters.jitcache_text import JitcacheTextReporter
from gpuprobe.testing import jitcache as caches

KEY = caches.key("hostile")


def rendered(report: ScanReport) -> str:
    """Both forms of the report, checked for characters that could steer a terminal."""
    text, document = io.StringIO(), io.StringIO()
    JitcacheTextReporter().render(report, text)
    JitcacheJsonReporter().render(report, document)
    json.loads(document.getvalue())
    shown = text.getvalue() + document.getvalue()
    shown.encode("utf-8")
    assert "\x1b" not in shown
    assert "\u202e" not in text.getvalue()
    return shown


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A cache with one healthy entry."""
    folder = tmp_path / "cache"
    caches.triton_entry(folder)
    return folder


def test_links_are_not_followed(cache: Path, tmp_path: Path) -> None:
    """A linked folder is not entered and a linked file not read, whatever they lead to."""
    outside = tmp_path / "outside"
    entry = caches.triton_entry(outside, "out")
    caches.damage(entry / "out.cubin", "half")
    (cache / caches.key("linked")).symlink_to(entry)
    (cache / KEY).mkdir()
    (cache / KEY / "k.cubin").symlink_to(entry / "out.cubin")
    (cache / KEY / "k.json").symlink_to("/dev/zero")

    report = scan([cache], settle_s=0)

    assert report.bad == ()
    assert {item.why for item in report.suspicious} == {"is no plain file and was not opened"}
    assert "1 links were not followed" in report.notes
    rendered(report)


def test_loops_of_links_end(cache: Path) -> None:
    """A link to a parent is one link."""
    (cache / "loop").symlink_to(cache)
    (cache / "self").symlink_to("self")

    assert scan([cache]).checked == 1


def test_special_files_are_not_opened(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A FIFO without a writer, a socket and a device cost no time and give a line each."""
    folder = cache / KEY
    folder.mkdir()
    os.mkfifo(folder / "a.cubin")
    os.mkfifo(folder / "__grp__a.json")
    monkeypatch.chdir(folder)  # a socket's path is short
    with socket.socket(socket.AF_UNIX) as door:
        door.bind("b.json")
        began = time.monotonic()
        report = scan([cache], settle_s=0)

    assert time.monotonic() - began < 5
    assert report.bad == ()
    assert {item.name for item in report.suspicious} == {"a.cubin", "__grp__a.json", "b.json"}
    rendered(report)


def test_sparse_giants_are_read_in_part(cache: Path) -> None:
    """Ten gigabytes of nothing are named as zeros within moments."""
    names = ("a.cubin", "a.so", "a.json", "__grp__a.json", "a.ptx")
    for name in names:
        path = cache / KEY / name
        path.parent.mkdir(exist_ok=True)
        with path.open("wb") as file:
            file.truncate(10 << 30)
    graphs = cache.parent / "torchinductor_x" / "fxgraph/ab/fab"
    graphs.mkdir(parents=True)
    with (graphs / "graph").open("wb") as file:
        file.write(b"\x80\x04\x95\xff")
        file.truncate(10 << 30)
    began = time.monotonic()

    report = scan([cache, cache.parent / "torchinductor_x"], settle_s=0)

    assert time.monotonic() - began < 10
    assert {item.name for item in report.bad} == {*names[:4], "graph"}
    assert all(item.size == 10 << 30 for item in report.bad)


def test_names_that_would_steer_a_terminal_are_spelt_out(cache: Path) -> None:
    """Newlines, escapes and bytes that are no UTF-8 show as text, and can still be repaired."""
    folder = cache / "k\x1b[2J\u202e\nx" / KEY
    caches.put(folder, {"a\x1b]0;x\x07.cubin": b"", os.fsdecode(b"b\xff.cubin"): b""})

    report = scan([cache])
    moved = repair(report.bad)

    assert len(report.bad) == 2
    assert "\\xff" in rendered(report)
    (one,) = moved
    assert one.problem == ""
    assert not folder.exists()


def test_deep_nesting_ends(cache: Path) -> None:
    """Hundreds of folders in folders are given up with a line, not with an error."""
    here = os.open(cache, os.O_RDONLY)
    for _ in range(200):
        os.mkdir("d", dir_fd=here)
        below = os.open("d", os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = below
    os.close(here)

    report = scan([cache])

    assert report.checked == 1
    assert [item.why for item in report.unreadable] == ["lies too deep for a cache"]
    assert report.exit_code == 2


def test_hard_links_are_files_like_others(cache: Path, tmp_path: Path) -> None:
    """A file that also lies outside keeps its place there when the entry is moved."""
    outside = tmp_path / "precious"
    outside.write_bytes(b"\x7fELF and more")
    caches.age(outside)
    (cache / KEY).mkdir()
    (cache / KEY / "k.cubin").hardlink_to(outside)

    report = scan([cache])
    (moved,) = repair(report.bad)

    assert moved.to is not None
    assert outside.read_bytes() == b"\x7fELF and more"
    assert not (cache / KEY).exists()


class Bomb:
    """Unpickling it would leave a mark."""

    def __init__(self, mark: Path) -> None:
        self.mark = mark

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return (open, (str(self.mark), "w"))


def test_pickles_are_never_run(tmp_path: Path) -> None:
    """Entries that would run code when loaded, whole and cut, run none."""
    mark = tmp_path / "mark"
    data = pickle.dumps(Bomb(mark))
    root = tmp_path / "torchinductor_x"
    caches.put(root, {"fxgraph/ab/k/one": data, "fxgraph/ab/k/two": data[:-2]})

    report = scan([root])

    assert [item.name for item in report.bad] == ["two"]
    assert not mark.exists()


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_what_may_not_be_read_is_listed(cache: Path) -> None:
    """A folder and a file without permission are unreadable, not bad."""
    entry = cache / caches.key("add")
    (entry / "add.cubin").chmod(0)
    caches.triton_entry(cache, "mul").chmod(0)

    report = scan([cache])

    assert report.bad == ()
    assert len(report.unreadable) == 2
    assert report.exit_code == 2


def test_what_may_not_be_read_is_listed_whoever_looks(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that cannot be opened hides no other one."""
    entry = cache / caches.key("add")
    caches.damage(entry / "add.cubin", "half")
    real = os.open

    def refuse(path: str, *args: object, **more: object) -> int:
        if path == "add.json":
            raise PermissionError(13, "Permission denied", path)
        return real(path, *args, **more)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "open", refuse)
    report = scan([cache])

    assert [item.name for item in report.bad] == ["add.cubin"]
    assert [item.path.name for item in report.unreadable] == ["add.json"]


def test_a_quarantine_is_never_looked_into(cache: Path) -> None:
    """What was moved aside is bad, and no longer the cache's."""
    aside = cache / look.QUARANTINE / "box" / KEY
    caches.put(aside, {"k.cubin": b""})

    assert scan([cache]).bad == ()
