"""Triton's cache: each kind of poison, and nothing else."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from gpuprobe.jitcache.api import scan
from gpuprobe.jitcache.base import Harm
from gpuprobe.testing import jitcache as caches

REAL = Path(__file__).parents[3] / "shared" / "real" / "triton-cache.tgz"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Two kernels and a launcher."""
    folder = tmp_path / "cache"
    caches.triton_entry(folder, "add")
    caches.triton_entry(folder, "mul")
    caches.triton_launcher(folder)
    return folder


def test_a_healthy_cache_that_was_moved_gives_no_alarm(cache: Path) -> None:
    """The paths in the group files lead nowhere, the children are there: all is fine."""
    report = scan([cache])

    assert (report.checked, report.bad, report.suspicious, report.unreadable) == (3, (), (), ())
    assert report.exit_code == 0
    assert report.architectures == (90,)


@pytest.mark.parametrize(
    ("name", "how", "harm", "said"),
    [
        ("__grp__add.json", "empty", Harm.FATAL, "is empty"),
        ("__grp__add.json", "half", Harm.FATAL, "is cut short"),
        ("__grp__add.json", "zeros", Harm.FATAL, "is filled with zeros"),
        ("add.json", "empty", Harm.FATAL, "is empty"),
        ("add.json", "half", Harm.FATAL, "is cut short"),
        ("add.cubin", "empty", Harm.FATAL, "is empty"),
        ("add.cubin", "half", Harm.FATAL, "cut at "),
        ("add.cubin", "zeros", Harm.FATAL, "is filled with zeros"),
        ("add.cubin", "tail", Harm.FATAL, "zeros"),
        ("add.cubin", "missing", Harm.FATAL, "is listed in the group file and missing"),
    ],
)
def test_each_poison_is_named_exactly(
    cache: Path, name: str, how: str, harm: Harm, said: str
) -> None:
    """The damaged file, its entry, its kernel and its harm, and no other file."""
    poisoned = caches.damage(cache / caches.key("add") / name, how)

    report = scan([cache])

    (found,) = report.bad
    assert report.suspicious == ()
    assert found.path == poisoned
    assert found.key == caches.key("add")
    assert found.kernel == "add"
    assert found.harm is harm
    assert said in found.why
    assert found.entry_path == poisoned.parent
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("how", "harm"), [("empty", Harm.REBUILT), ("zeros", Harm.REBUILT), ("half", Harm.FATAL)]
)
def test_a_refused_launcher_is_rebuilt_and_a_cut_one_kills(
    cache: Path, how: str, harm: Harm
) -> None:
    """What the loader refuses is built anew; what it maps ends the process."""
    (launcher,) = (cache / caches.key("launcher")).iterdir()
    caches.damage(launcher, how)

    (found,) = scan([cache]).bad

    assert (found.path, found.harm) == (launcher, harm)


@pytest.mark.parametrize(
    ("name", "how"),
    [("add.ptx", "empty"), ("add.ttir", "empty"), ("add.ptx", "missing"), ("add.llir", "half")],
)
def test_damage_that_does_no_harm_is_never_bad(cache: Path, name: str, how: str) -> None:
    """The intermediate texts are at most worth a look."""
    caches.damage(cache / caches.key("add") / name, how)

    report = scan([cache])

    assert report.bad == ()
    assert report.exit_code == 0
    assert {item.harm for item in report.suspicious} <= {Harm.NONE}


def test_an_unfinished_write_is_no_fault(cache: Path) -> None:
    """Without a group file the entry is a miss, and is built."""
    (cache / caches.key("add") / "__grp__add.json").unlink()

    assert scan([cache]).bad == ()


def test_a_damaged_autotune_file_is_bad(cache: Path) -> None:
    """It is read without a guard."""
    caches.put(cache / caches.key("add"), {"add.autotune.json": b'{"timings": ['})

    (found,) = scan([cache]).bad

    assert found.name == "add.autotune.json"


def test_a_group_file_that_names_another_folder_is_not_followed(cache: Path) -> None:
    """A child's name with a slash is worth a look, and is looked for nowhere."""
    names = {"../../etc/passwd": "/etc/passwd", "add.cubin": "/x"}
    caches.put(
        cache / caches.key("add"),
        {"__grp__add.json": json.dumps({"child_paths": names}).encode()},
    )

    report = scan([cache])

    assert report.bad == ()
    assert [item.why for item in report.suspicious] == ["lists what is no name: ../../etc/passwd"]


def test_what_a_killed_writer_left_is_harmless(cache: Path) -> None:
    """Its temporary folder is worth a line, unless it is young or its process lives."""
    left = cache / caches.key("add") / "tmp.pid_4194999_ab12"
    caches.put(left, {"add.cubin": b"half"})

    report = scan([cache])

    assert report.bad == ()
    assert [(item.path, item.harm) for item in report.suspicious] == [(left, Harm.NONE)]


def test_a_single_entry_can_be_given(cache: Path) -> None:
    """What is moved then is still that entry, in the cache above it."""
    poisoned = caches.damage(cache / caches.key("add") / "add.cubin", "half")

    for path in (poisoned.parent, poisoned):
        (found,) = scan([path]).bad

        assert found.root == cache
        assert found.entry_path == poisoned.parent


def test_entries_written_just_before_an_unclean_end_are_suspicious(cache: Path) -> None:
    """They are listed although no damage shows, and others are not."""
    entry = cache / caches.key("add")
    written = (entry / "add.cubin").stat().st_mtime
    for name in (caches.key("mul"), caches.key("launcher")):
        for path in (cache / name).iterdir():
            caches.age(path, 9000)

    report = scan([cache], unclean_at=written + 12)

    assert report.bad == ()
    assert [(item.key, item.harm) for item in report.suspicious] == [
        (caches.key("add"), Harm.UNKNOWN)
    ]
    assert "12 s before an unclean end" in report.suspicious[0].why
    assert scan([cache], unclean_at=written + 600).suspicious == ()


@pytest.mark.skipif(not REAL.exists(), reason="the cache that Triton wrote is not here")
@pytest.mark.parametrize("how", ["", "half", "empty", "zeros", "missing"])
def test_a_cache_that_triton_wrote(tmp_path: Path, how: str) -> None:
    """A real healthy cache is fine, and a damaged cubin in it is named."""
    with tarfile.open(REAL) as archive:
        archive.extractall(tmp_path, filter="data")
    (cubin,) = tmp_path.glob("triton/*/add.cubin")
    if how:
        caches.damage(cubin, how)

    report = scan([tmp_path / "triton"], settle_s=0)

    assert report.checked == 3
    assert [item.path for item in report.bad] == ([cubin] if how else [])
    assert report.suspicious == ()
