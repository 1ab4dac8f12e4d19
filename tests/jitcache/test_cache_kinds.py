"""Caches other than Triton's: a healthy entry, a damaged file, what is moved for it."""

from __future__ import annotations

import json
import pickle  # noqa: TID251 - made here, never loaded
import platform
import zlib
from pathlib import Path
from typing import NamedTuple

import pytest

from gpuprobe.jitcache import elf, settle
from gpuprobe.jitcache.api import scan
from gpuprobe.jitcache.base import Harm
from gpuprobe.jitcache.locks import Holders
from gpuprobe.testing import jitcache as caches

HOST = elf.HOSTS.get(platform.machine(), caches.X86_64)
LIBRARY = caches.elf(machine=HOST)
PICKLE = pickle.dumps({"graph": "x" * 2000})
GRAPH = "fxgraph/kq/fkqabc/3f" + "a" * 40
GENERATED = "c" + "a" * 51
PTX = b"//\n.version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k(){\nret;\n}\n"
HASH = "0123456789abcdef" * 4


class Case(NamedTuple):
    """One entry of one kind, and its file that gets damaged."""

    cache: str
    root: str
    files: dict[str, bytes]
    damaged: str
    how: str
    harm: Harm
    moves: str
    kernel: str = ""


CASES = [
    Case("inductor", "torchinductor_svc", {GRAPH: PICKLE}, GRAPH, "half", Harm.REBUILT, GRAPH),
    Case(
        "inductor",
        "torchinductor_svc",
        {"aotautograd/akey/entry": PICKLE},
        "aotautograd/akey/entry",
        "empty",
        Harm.REBUILT,
        "aotautograd/akey/entry",
    ),
    Case(
        "inductor",
        "torchinductor_svc",
        {f"aa/{GENERATED}.py": b"def call(args):\n    return args\n"},
        f"aa/{GENERATED}.py",
        "zeros",
        Harm.FATAL,
        f"aa/{GENERATED}.py",
    ),
    Case(
        "inductor",
        "torchinductor_svc",
        {f"aa/{GENERATED}.best_config": b'{"XBLOCK": 64, "num_warps": 4}'},
        f"aa/{GENERATED}.best_config",
        "half",
        Harm.FATAL,
        f"aa/{GENERATED}.best_config",
    ),
    Case(
        "inductor",
        "torchinductor_svc",
        {f"aa/{GENERATED}.so": LIBRARY},
        f"aa/{GENERATED}.so",
        "half",
        Harm.FATAL,
        f"aa/{GENERATED}.so",
    ),
    Case(
        "vllm",
        "vllm/torch_compile_cache",
        {
            "0aa1bb/rank_0_0/backbone/vllm_compile_cache.py": b"{(None, 0): ('fk', '/x')}\n",
            "0aa1bb/rank_0_0/backbone/computation_graph.py": b"class G:\n    pass\n",
        },
        "0aa1bb/rank_0_0/backbone/vllm_compile_cache.py",
        "half",
        Harm.FATAL,
        "0aa1bb",
    ),
    Case(
        "vllm",
        "vllm",
        {f"torch_compile_cache/torch_aot_compile/{HASH}/rank_0_0/model": PICKLE},
        f"torch_compile_cache/torch_aot_compile/{HASH}/rank_0_0/model",
        "half",
        Harm.REBUILT,
        f"torch_compile_cache/torch_aot_compile/{HASH}",
    ),
    Case(
        "flashinfer",
        "flashinfer",
        {
            "0.2.5/90a/cached_ops/silu/build.ninja": b"rule cc\n",
            "0.2.5/90a/cached_ops/silu/silu.so": LIBRARY,
        },
        "0.2.5/90a/cached_ops/silu/silu.so",
        "empty",
        Harm.FATAL,
        "0.2.5/90a/cached_ops/silu",
    ),
    Case(
        "flashinfer",
        "flashinfer",
        {"cubins/ab/fmha.cubin": caches.elf()},
        "cubins/ab/fmha.cubin",
        "half",
        Harm.FATAL,
        "cubins/ab/fmha.cubin",
    ),
    Case(
        "deepgemm",
        "deep_gemm",
        {
            f"cache/kernel.fp8_gemm.{HASH}/kernel.cubin": caches.elf(),
            f"cache/kernel.fp8_gemm.{HASH}/kernel.cu": b"__global__ void k(){}\n",
        },
        f"cache/kernel.fp8_gemm.{HASH}/kernel.cubin",
        "half",
        Harm.FATAL,
        f"cache/kernel.fp8_gemm.{HASH}",
        "fp8_gemm",
    ),
    Case(
        "tilelang",
        "tilelang",
        {
            "0.1/linux/kernels/k1/kernel_lib.so": LIBRARY,
            "0.1/linux/kernels/k1/device_kernel.cu": b"x\n",
            "0.1/linux/kernels/k1/params.json": b"[]",
        },
        "0.1/linux/kernels/k1/kernel_lib.so",
        "half",
        Harm.FATAL,
        "0.1/linux/kernels/k1",
    ),
    Case(
        "tilelang",
        "tilelang",
        {
            "0.2/kernels/k1/kernel_lib.so": LIBRARY,
            "0.2/kernels/k1/device_kernel.cu": b"0123456789",
            "0.2/kernels/k1/manifest.json": json.dumps(
                {"files": {"device_kernel.cu": {"size": 10}}}
            ).encode(),
        },
        "0.2/kernels/k1/device_kernel.cu",
        "half",
        Harm.REBUILT,
        "0.2/kernels/k1",
    ),
    Case(
        "torch-extensions",
        "torch_extensions",
        {
            "py312_cu128/adam/build.ninja": b"rule cc\n",
            "py312_cu128/adam/adam.so": LIBRARY,
        },
        "py312_cu128/adam/adam.so",
        "half",
        Harm.FATAL,
        "py312_cu128/adam",
    ),
    Case(
        "torch-kernels",
        "kernels",
        {"gcd_int64_arch9.0_nvrtc12.8_ptx_123_4": PTX},
        "gcd_int64_arch9.0_nvrtc12.8_ptx_123_4",
        "half",
        Harm.FATAL,
        "gcd_int64_arch9.0_nvrtc12.8_ptx_123_4",
        "gcd_int64",
    ),
    Case(
        "jax",
        "jax",
        {f"jit_train_step-{HASH}-cache": zlib.compress(bytes(range(256)) * 50)},
        f"jit_train_step-{HASH}-cache",
        "half",
        Harm.REBUILT,
        f"jit_train_step-{HASH}-cache",
        "jit_train_step",
    ),
    Case(
        "numba",
        "numba",
        {
            "m.add-3.py312.nbi": pickle.dumps("0.61") + PICKLE,
            "m.add-3.py312.1.nbc": PICKLE,
        },
        "m.add-3.py312.1.nbc",
        "half",
        Harm.FATAL,
        "m.add-3.py312.1.nbc",
        "m.add",
    ),
    Case(
        "cuda",
        "ComputeCache",
        {"index": b"\1\2", "4/f/0b1c": b"\7" * 90},
        "4/f/0b1c",
        "zeros",
        Harm.UNKNOWN,
        "4/f/0b1c",
    ),
    Case(
        "triton",
        "sglang",
        {f"triton/{caches.key('k')}/k.cubin": caches.elf()},
        f"triton/{caches.key('k')}/k.cubin",
        "half",
        Harm.FATAL,
        f"triton/{caches.key('k')}",
    ),
    Case(
        "triton",
        "torchinductor_svc",
        {f"triton/0/{caches.key('k')}/k.cubin": caches.elf()},
        f"triton/0/{caches.key('k')}/k.cubin",
        "empty",
        Harm.FATAL,
        f"triton/0/{caches.key('k')}",
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case.cache}-{case.damaged[-20:]}")
def test_a_healthy_entry_is_fine_and_its_damaged_file_is_named(tmp_path: Path, case: Case) -> None:
    """Before, no alarm at all; after, that one file, its harm and what would be moved."""
    root = tmp_path / case.root
    caches.put(root, case.files)

    healthy = scan([root])
    assert healthy.checked >= 1
    assert (healthy.bad, healthy.suspicious, healthy.unreadable) == ((), (), ())

    caches.damage(root / case.damaged, case.how)
    (found,) = scan([root]).bad
    assert (found.cache, found.path) == (case.cache, root / case.damaged)
    assert found.harm is case.harm
    assert found.entry_path == root / case.moves
    assert found.kernel == case.kernel


def test_generated_python_that_seems_cut_is_only_suspicious(tmp_path: Path) -> None:
    """An open bracket hints at a cut, and is no proof."""
    root = tmp_path / "torchinductor_svc"
    caches.put(root, {f"aa/{GENERATED}.py": b"def call(args):\n    return (args,\n"})

    report = scan([root])

    assert report.bad == ()
    assert "bracket or string is open" in report.suspicious[0].why


def test_an_empty_index_of_the_driver_is_only_suspicious(tmp_path: Path) -> None:
    """Nobody knows what the driver makes of it."""
    root = caches.put(tmp_path / "ComputeCache", {"index": b""})

    report = scan([root])

    assert (len(report.bad), len(report.suspicious)) == (0, 1)


@pytest.fixture
def lock(tmp_path: Path) -> Path:
    """A lock in a folder of PyTorch's extensions, two hours old."""
    folder = caches.put(
        tmp_path / "torch_extensions/py312/adam", {"build.ninja": b"rule cc\n", "lock": b""}
    )
    caches.age(folder / "lock", 7200)
    return folder / "lock"


def test_a_lock_of_an_earlier_boot_is_bad_and_goes_alone(
    lock: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner cannot live any more; the rest of the folder stays."""
    monkeypatch.setattr(settle, "boot_time", lambda: lock.stat().st_mtime + 60)

    (found,) = scan([lock.parents[2]]).bad

    assert (found.path, found.harm) == (lock, Harm.HANGS)
    assert found.entry_path == lock
    assert "older than this boot" in found.why


def test_a_lock_that_a_process_holds_is_fine(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A build that goes on is nobody's fault."""
    held = (lock.stat().st_dev, lock.stat().st_ino)
    monkeypatch.setattr(settle, "boot_time", lambda: 0.0)
    monkeypatch.setattr(settle, "holders", lambda names: Holders(holding={held: 4711}))

    report = scan([lock.parents[2]])

    assert (report.bad, report.suspicious) == ((), ())


@pytest.mark.parametrize(("age_s", "all_seen"), [(60, True), (7200, False)])
def test_a_lock_of_this_boot_is_suspicious_where_its_owner_may_live(
    lock: Path, monkeypatch: pytest.MonkeyPatch, age_s: int, all_seen: bool
) -> None:
    """Young, or with processes that cannot be asked: it is not moved."""
    caches.age(lock, age_s)
    monkeypatch.setattr(settle, "boot_time", lambda: 0.0)
    monkeypatch.setattr(settle, "holders", lambda names: Holders(all_seen=all_seen))

    report = scan([lock.parents[2]])

    assert report.bad == ()
    assert [item.path for item in report.suspicious] == [lock]


def test_an_old_lock_that_nobody_holds_is_bad(lock: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After an hour no build is still at it."""
    monkeypatch.setattr(settle, "boot_time", lambda: 0.0)
    monkeypatch.setattr(settle, "holders", lambda names: Holders())

    assert [item.path for item in scan([lock.parents[2]]).bad] == [lock]


def test_who_has_a_file_open_is_found(tmp_path: Path) -> None:
    """Another process that writes a file is named with its pid."""
    import subprocess
    import sys

    path = tmp_path / "lock"
    script = f"f = open({str(path)!r}, 'w'); print(1, flush=True); input()"
    with subprocess.Popen(
        [sys.executable, "-c", script], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as writer:
        assert writer.stdout is not None
        writer.stdout.readline()
        who = settle.holders({"lock"})
        writer.communicate(b"\n")

    place = (path.stat().st_dev, path.stat().st_ino)
    assert who.writing.get(place) == writer.pid
