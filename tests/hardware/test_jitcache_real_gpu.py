"""Real caches of Triton and TorchInductor, poisoned one file at a time, on a real GPU."""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from gpuprobe.jitcache.api import repair, scan
from gpuprobe.testing.jitcache import damage

pytestmark = pytest.mark.hardware

TRITON = """
import torch, triton, triton.language as tl
@triton.jit
def add(x, y, o, n, B: tl.constexpr):
    i = tl.program_id(0) * B + tl.arange(0, B)
    tl.store(o + i, tl.load(x + i, i < n) + tl.load(y + i, i < n), i < n)
x = torch.ones(1000, device="cuda")
o = torch.empty_like(x)
add[(2,)](x, x, o, 1000, B=512)
print("sum", o.sum().item())
"""

INDUCTOR = """
import torch
@torch.compile
def f(x, w):
    return torch.nn.functional.gelu(x @ w).sum(dim=1).relu()
x = torch.ones(64, 64, device="cuda")
print("sum", f(x, x).sum().item())
"""


class Engine:
    """A program and its cache, healthy and aside."""

    def __init__(self, folder: Path, source: str, variable: str) -> None:
        self.script = folder / "program.py"
        self.script.write_text(source)
        self.cache = folder / "cache"
        self.healthy = folder / "healthy"
        self.variable = variable
        first = self.run()
        assert first.returncode == 0, first.stderr
        shutil.copytree(self.cache, self.healthy)
        self.answer = first.stdout

    def run(self) -> subprocess.CompletedProcess[str]:
        """Run the program in a fresh process on the cache as it is."""
        return subprocess.run(
            [sys.executable, str(self.script)],
            env={**os.environ, self.variable: str(self.cache)},
            capture_output=True,
            text=True,
            timeout=180,
        )

    def reset(self) -> None:
        """Put the healthy cache back at its place."""
        shutil.rmtree(self.cache, ignore_errors=True)
        shutil.rmtree(self.cache.with_name("cache.gpuprobe-quarantine"), ignore_errors=True)
        shutil.copytree(self.healthy, self.cache)

    def only(self, pattern: str) -> Path:
        """The first file that fits the pattern."""
        return sorted(self.cache.rglob(pattern))[0]


@pytest.fixture(scope="module")
def triton(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A Triton program with a cache."""
    pytest.importorskip("triton")
    return Engine(tmp_path_factory.mktemp("triton"), TRITON, "TRITON_CACHE_DIR")


@pytest.fixture(scope="module")
def inductor(tmp_path_factory: pytest.TempPathFactory) -> Engine:
    """A compiled PyTorch program with a cache; the folder has a name that Inductor gives."""
    pytest.importorskip("torch")
    folder = tmp_path_factory.mktemp("inductor") / "torchinductor_svc"
    folder.mkdir()
    return Engine(folder, INDUCTOR, "TORCHINDUCTOR_CACHE_DIR")


def contents(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in folder.rglob("*")
        if path.is_file()
    }


def heal(engine: Engine, poisoned: Path, dies: Callable[[int], bool]) -> None:
    """Dies as expected; the scan names that file alone; after the repair it runs again."""
    broken = engine.run()
    assert dies(broken.returncode), (broken.returncode, broken.stderr[-800:])
    report = scan([engine.cache])
    assert [item.path for item in report.bad] == [poisoned]
    kept = contents(engine.cache)

    (moved,) = repair(report.bad)

    assert moved.problem == ""
    gone = str(moved.entry.relative_to(engine.cache))
    assert contents(engine.cache) == {
        name: digest
        for name, digest in kept.items()
        if name != gone and not name.startswith(f"{gone}/")
    }
    healed = engine.run()
    assert (healed.returncode, healed.stdout) == (0, engine.answer), healed.stderr[-800:]
    assert scan([engine.cache]).bad == ()


@pytest.mark.parametrize("name", ["triton", "inductor"])
def test_a_real_healthy_cache_gives_no_alarm(name: str, request: pytest.FixtureRequest) -> None:
    """Nothing bad, suspicious or unreadable in what the libraries wrote."""
    engine = request.getfixturevalue(name)
    engine.reset()
    report = scan([engine.cache])
    sys.stdout.write(f"{name} {report.checked} {sorted(contents(engine.cache))}\n")

    assert report.checked > 2
    assert (report.bad, report.suspicious, report.unreadable) == ((), (), ())


def is_signal(number: int) -> bool:
    return number in (-11, -7)


def is_either(number: int) -> bool:
    return is_signal(number) or is_exception(number)


def is_exception(number: int) -> bool:
    return number == 1


@pytest.mark.parametrize(
    ("pattern", "how", "dies"),
    [
        ("add.cubin", "half", is_either),  # by what the cut took away
        ("add.cubin", "empty", is_exception),
        ("add.cubin", "zeros", is_exception),
        ("add.cubin", "missing", is_exception),
        ("__grp__add.json", "empty", is_exception),
        ("__grp__add.json", "half", is_exception),
        ("add.json", "empty", is_exception),
        ("__triton_launcher*.so", "half", is_signal),
    ],
)
def test_a_poisoned_triton_cache_is_healed(
    triton: Engine, pattern: str, how: str, dies: Callable[[int], bool]
) -> None:
    """It dies, the scan names the file, the repair heals it, the rest is byte-identical."""
    triton.reset()
    heal(triton, damage(triton.only(pattern), how), dies)


@pytest.mark.parametrize("pattern", ["add.ptx", "add.ttir"])
def test_harmless_damage_is_harmless_and_not_bad(triton: Engine, pattern: str) -> None:
    """The program runs, and nothing is called bad."""
    triton.reset()
    damage(triton.only(pattern), "empty")

    assert scan([triton.cache]).bad == ()
    assert triton.run().returncode == 0


@pytest.mark.parametrize(
    ("pattern", "how", "dies"),
    [
        ("triton/**/*.cubin", "half", lambda code: True),  # a bundled copy may be used
        ("triton/**/__grp__*.json", "empty", lambda code: True),
        ("fxgraph/**/*", "half", lambda code: code == 0),
        ("aotautograd/**/*", "half", lambda code: code == 0),
        ("*/c*.py", "zeros", lambda code: True),
    ],
)
def test_a_poisoned_inductor_cache_is_named_and_healed(
    inductor: Engine, pattern: str, how: str, dies: Callable[[int], bool]
) -> None:
    """The file alone is named, before the program meets it and may build it anew."""
    inductor.reset()
    files = sorted(path for path in inductor.cache.glob(pattern) if path.is_file())
    if not files:
        pytest.skip(f"this version writes no {pattern}")
    poisoned = damage(files[0], how)

    report = scan([inductor.cache])
    assert [item.path for item in report.bad] == [poisoned]
    harm = report.bad[0].harm
    broken = inductor.run()
    sys.stdout.write(f"{pattern} {how} {harm} {broken.returncode} {broken.stderr[-300:]}\n")
    assert dies(broken.returncode), broken.stderr[-800:]
    inductor.reset()
    damage(poisoned, how)
    (moved,) = repair(scan([inductor.cache]).bad)
    assert moved.problem == ""
    healed = inductor.run()
    assert (healed.returncode, healed.stdout) == (0, inductor.answer), healed.stderr[-800:]
