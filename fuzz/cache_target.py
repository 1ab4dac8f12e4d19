"""The target of a cache of any kind, and the files that a cache of that kind may hold."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from gpuprobe.jitcache.look import look
from gpuprobe.jitcache.tree import Root

SPLIT: Final = b"\n--8<--\n"
"""Stands between the parts of an input that several files are made of."""

CACHE_NAMES: Final[dict[str, tuple[str, ...]]] = {
    "triton": (
        "{KEY}/__grp__add.json",
        "{KEY}/add.json",
        "{KEY}/add.cubin",
        "{KEY}/add.so",
        "{KEY}/tmp.pid_4194305_1/add.ptx",
        "{KEY}/add.json.tmp.4194305",
    ),
    "deepgemm": ("cache/kernel.add.{hash}/kernel.cubin", "cache/kernel.add.{hash}/kernel.cu"),
    "tilelang": ("{hash}/manifest.json", "{hash}/params.json", "{hash}/kernel_lib.so"),
    "flashinfer": ("flashinfer/op/build.ninja", "flashinfer/op/op.so", "flashinfer/a.cubin"),
    "torch-extensions": ("torch_extensions/x/build.ninja", "torch_extensions/x/x.so"),
    "vllm": (
        "torch_compile_cache/ab/rank_0_0/vllm_compile_cache.py",
        "torch_compile_cache/ab/rank_0_0/computation_graph.py",
        "torch_compile_cache/ab/rank_0_0/artifact_0",
        "torch_aot_compile/ab/rank_0_0/model",
    ),
    "inductor": (
        "fxgraph/ab/fab/graph",
        "ab/c{key}.py",
        "ab/c{key}.json",
        "ab/c{key}.pt2",
        "ab/c{key}.so",
    ),
    "jax": ("jit_add-{hash}-cache",),
    "numba": ("__pycache__/m.f-1.py312.nbi", "__pycache__/m.f-1.py312.1.nbc"),
    "torch-kernels": ("add_arch9.0_nvrtc12.8_ptx_1", "add_arch9.0_nvrtc12.8_sass_1"),
    "cuda": ("ComputeCache/index", "ComputeCache/a/b/entry"),
    "sglang": ("nv/ComputeCache/index", "a.so"),
}
"""A kind of cache to files that it may hold, below its folder."""

_KEY: Final = "a" * 51
_HASH: Final = "ab" * 32
_UNCLEAN_AT: Final = 30.0


def cache(kind: str, data: bytes) -> None:
    """A cache whose files hold any bytes is looked at; nothing of it changes."""
    parts = data.split(SPLIT)
    names = CACHE_NAMES[kind]
    with tempfile.TemporaryDirectory(prefix="gpuprobe-fuzz-") as folder:
        top = Path(folder) / "cache"
        for number, name in enumerate(names):
            path = top / name.format(key=_KEY, KEY=_KEY.upper() + "A", hash=_HASH)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_bytes(parts[number] if number < len(parts) else b"")
            # Long ago, so that nothing is still being written, and before an unclean end.
            os.utime(path, (0.0, 0.0))
        root = Root(top, cache=kind)
        try:
            for parts_of in _folders(top, ()):
                with root.folder(parts_of) as one:
                    seen = look(one, unclean_at=_UNCLEAN_AT)
                    for found in (*seen.findings, *seen.suspicious):
                        assert found.why
        finally:
            root.close()


def _folders(top: Path, parts: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
    yield parts
    for path in top.joinpath(*parts).iterdir():
        if path.is_dir():
            yield from _folders(top, (*parts, path.name))
