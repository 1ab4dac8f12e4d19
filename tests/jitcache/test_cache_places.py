"""Where caches are looked for."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuprobe.errors import InputUnreadableError, UsageError
from gpuprobe.jitcache import places
from gpuprobe.jitcache.api import scan
from gpuprobe.jitcache.base import Place
from gpuprobe.jitcache.gpus_here import capabilities
from gpuprobe.testing import jitcache as caches


def by_cache(found: list[Place]) -> dict[str, set[str]]:
    names: dict[str, set[str]] = {}
    for place in found:
        names.setdefault(place.cache, set()).add(str(place.path))
    return names


def test_defaults_lie_below_the_home_folder() -> None:
    """Each kind's default, as its own code has it."""
    found = by_cache(places.of_this_user({"HOME": "/home/svc", "USER": "svc"}))

    assert found == {
        "triton": {"/home/svc/.triton/cache"},
        "inductor": {"/tmp/torchinductor_svc"},
        "vllm": {
            "/home/svc/.cache/vllm/torch_compile_cache",
            "/home/svc/.cache/vllm/torch_aot_compile",
        },
        "sglang": {"/home/svc/.cache/sglang"},
        "flashinfer": {"/home/svc/.cache/flashinfer"},
        "deepgemm": {"/home/svc/.deep_gemm"},
        "tilelang": {"/home/svc/.tilelang/cache"},
        "torch-extensions": {"/home/svc/.cache/torch_extensions"},
        "torch-kernels": {"/home/svc/.cache/torch/kernels"},
        "cuda": {"/home/svc/.nv/ComputeCache"},
    }


@pytest.mark.parametrize(
    ("variable", "value", "cache", "path"),
    [
        ("TRITON_CACHE_DIR", "/c/t", "triton", "/c/t"),
        ("TRITON_HOME", "/c", "triton", "/c/.triton/cache"),
        ("TORCHINDUCTOR_CACHE_DIR", "/c/i", "inductor", "/c/i"),
        ("TMPDIR", "/scratch", "inductor", "/scratch/torchinductor_svc"),
        ("VLLM_CACHE_ROOT", "/c/v", "vllm", "/c/v/torch_compile_cache"),
        ("SGLANG_CACHE_DIR", "/c/s", "sglang", "/c/s"),
        ("FLASHINFER_WORKSPACE_BASE", "/c", "flashinfer", "/c/.cache/flashinfer"),
        ("FLASHINFER_CUBIN_DIR", "/c/cubins", "flashinfer", "/c/cubins"),
        ("DG_JIT_CACHE_DIR", "~/dg", "deepgemm", "/home/svc/dg"),
        ("TILELANG_CACHE_DIR", "/c/tl", "tilelang", "/c/tl"),
        ("TORCH_EXTENSIONS_DIR", "/c/te", "torch-extensions", "/c/te"),
        ("PYTORCH_KERNEL_CACHE_PATH", "/c/k", "torch-kernels", "/c/k"),
        ("JAX_COMPILATION_CACHE_DIR", "/c/j", "jax", "/c/j"),
        ("NUMBA_CACHE_DIR", "/c/n", "numba", "/c/n"),
        ("CUDA_CACHE_PATH", "/c/nv", "cuda", "/c/nv"),
    ],
)
def test_a_variable_moves_its_cache(variable: str, value: str, cache: str, path: str) -> None:
    """The folder that it names is looked at."""
    env = {"HOME": "/home/svc", "USER": "svc", variable: value}

    assert path in by_cache(places.of_this_user(env))[cache]


def test_a_cache_within_another_is_looked_at_once(tmp_path: Path) -> None:
    """Neither twice by two names, nor again inside its parent."""
    inner = tmp_path / "sglang" / "triton"
    caches.triton_entry(inner)
    (tmp_path / "link").symlink_to(inner)

    report = scan([tmp_path / "sglang", inner, tmp_path / "link"])

    assert report.checked == 1


def test_another_home_is_looked_at_without_this_environment(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """This process's variables say nothing of another user's caches."""
    monkeypatch.setenv("TRITON_CACHE_DIR", "/nowhere")
    caches.triton_entry(tmp_path / ".triton/cache")

    report = scan(home=tmp_path)

    assert [place.path for place in report.places] == [tmp_path / ".triton/cache"]


def test_all_homes_of_a_container_are_looked_at(tmp_path: Path) -> None:
    """Root's, every user's, and what lies in its /tmp."""
    caches.triton_entry(tmp_path / "root/.triton/cache")
    caches.triton_entry(tmp_path / "home/svc/.triton/cache")
    caches.triton_entry(tmp_path / "tmp/torchinductor_svc/triton/0")
    caches.triton_entry(tmp_path / "tmp/torchinductor_ghost/triton/0")

    report = scan(root=tmp_path)

    assert report.checked == 4
    assert len(report.places) == 4


def test_a_link_in_a_container_leads_nowhere(tmp_path: Path) -> None:
    """An absolute link inside means another file system's path, and is not followed."""
    outside = tmp_path / "outside"
    caches.damage(caches.triton_entry(outside) / "add.cubin", "half")
    root = tmp_path / "root-fs"
    (root / "root/.triton").mkdir(parents=True)
    (root / "root/.triton/cache").symlink_to(outside)

    report = scan(root=root)

    assert (report.checked, report.bad) == (0, ())
    assert [item.why for item in report.unreadable] == [
        "there is a link on the way, which is not followed"
    ]


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc")
def test_a_process_is_asked_by_its_environment(tmp_path: Path) -> None:
    """Its own variables say where its caches lie."""
    caches.triton_entry(tmp_path / "mine")
    env = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path / "mine"), "HOME": str(tmp_path)}
    with subprocess.Popen(
        [sys.executable, "-c", "print(1, flush=True); input()"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        env=env,
    ) as engine:
        assert engine.stdout is not None
        engine.stdout.readline()
        report = scan(pid=engine.pid)
        engine.communicate(b"\n")

    assert tmp_path / "mine" in [place.path for place in report.places]
    with pytest.raises(InputUnreadableError):
        scan(pid=engine.pid)


def test_a_path_that_is_no_folder_is_a_usage_error(tmp_path: Path) -> None:
    """A path that was given has to be there; a default need not."""
    with pytest.raises(UsageError):
        scan([tmp_path / "none"])
    assert scan(home=tmp_path).exit_code == 0


def test_the_gpus_here_are_known_by_their_chip(tmp_path: Path) -> None:
    """From sysfs alone; one unknown chip makes all unknown."""
    device = tmp_path / "sys/bus/pci/devices/0000:04:00.0"
    files = {"vendor": b"0x10de\n", "class": b"0x030200\n", "device": b"0x2335\n"}
    caches.put(device, files)
    assert capabilities(tmp_path) == {90}

    caches.put(device.with_name("0000:05:00.0"), {**files, "device": b"0x9999\n"})
    assert capabilities(tmp_path) == frozenset()


def test_kernels_for_other_gpus_are_a_note(tmp_path: Path) -> None:
    """They are no damage."""
    caches.triton_entry(tmp_path)

    report = scan([tmp_path], present=[89])

    assert (report.bad, report.suspicious) == ((), ())
    assert report.notes == ("holds kernels for sm_90 too; the GPUs here are sm_89",)
    assert scan([tmp_path], present=[90]).notes == ()
