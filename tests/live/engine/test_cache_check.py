"""Which damaged files an engine died of, and what is remembered of them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprobe.live.engine.cache_check import MARKS, Looked, look, marks, move_aside
from gpuprobe.testing import jitcache


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"


@pytest.fixture
def looked(cache: Path) -> Looked:
    """Three entries: one good, a cut cubin, a cut group file."""
    jitcache.triton_entry(cache, "mul")
    jitcache.damage(jitcache.triton_entry(cache, "add") / "add.cubin", "half")
    jitcache.damage(jitcache.triton_entry(cache, "sub") / "__grp__sub.json", "half")
    return look()


def names(looked: Looked, named: list[tuple[str, str]], *, silent: bool) -> list[str]:
    return sorted(one.name for one in looked.met(named, silent=silent))


def test_a_silent_end_is_that_of_a_file_that_is_loaded(looked: Looked) -> None:
    """SIGSEGV without a word fits the cubin; the group file would have made a traceback."""
    assert len(looked.deadly) == 2
    assert names(looked, [], silent=True) == ["add.cubin"]


def test_a_named_entry_is_that_entry(looked: Looked, cache: Path) -> None:
    """By its key, by its folder, or by its cache alone where the log says no more."""
    key = jitcache.key("sub")
    folder = str(cache / key)

    assert names(looked, [("triton", key)], silent=False) == ["__grp__sub.json"]
    assert names(looked, [("triton", folder)], silent=True) == ["__grp__sub.json"]
    assert names(looked, [("triton", "")], silent=False) == ["__grp__sub.json", "add.cubin"]
    assert names(looked, [("vllm", "")], silent=False) == []


def test_nothing_named_and_no_silent_end_is_nothing(looked: Looked) -> None:
    """Damage alone is no death."""
    assert names(looked, [], silent=False) == []


def test_an_entry_is_known_again(looked: Looked) -> None:
    """Found by a scan or named by a log, it is the same; of many, some are remembered."""
    (cubin,) = looked.met([], silent=True)

    assert marks([cubin], []) == marks([], [("triton", cubin.key)])
    assert len(marks([], [("triton", str(n)) for n in range(100)])) == MARKS
    assert marks([], [("triton", "")]) == ()


def test_moved_aside_with_an_undo(looked: Looked, cache: Path) -> None:
    """The line names the entry and the command that puts it back."""
    lines, problem = move_aside(looked.met([], silent=True))

    assert problem == ""
    assert len(lines) == 1
    assert "undo: gpuprobe jitcache restore " in lines[0]
    assert not (cache / jitcache.key("add")).exists()
    assert (cache / jitcache.key("sub")).exists()
