"""The folder and the key come out of a log wherever it names them."""

from __future__ import annotations

import pytest

from gpuprobe.api import timelines
from gpuprobe.events import JitCacheFailed
from gpuprobe.testing import jitcache as caches

KEY = caches.key("k")
SITE = "/opt/env/lib/python3.12/site-packages"

LOGS = [
    (
        f'  File "{SITE}/torch/_inductor/codecache.py", line 3400, in load_by_key_path\n'
        '  File "/tmp/torchinductor_svc/qr/cqrg3jiiko.py", line 0\n'
        "SyntaxError: source code string cannot contain null bytes\n",
        "inductor",
        "/tmp/torchinductor_svc/qr/cqrg3jiiko.py",
        "",
    ),
    (
        f'  File "{SITE}/vllm/compilation/compiler_interface.py", line 480, in load\n'
        "vllm: using cache /home/svc/.cache/vllm/torch_compile_cache/0aa1bb/rank_0_0\n"
        "EOFError: Ran out of input\n",
        "vllm",
        "/home/svc/.cache/vllm/torch_compile_cache/0aa1bb/rank_0_0",
        "",
    ),
    (
        "OSError: /home/svc/.cache/flashinfer/0.2.5/90a/cached_ops/silu/silu.so: invalid ELF"
        " header\n",
        "flashinfer",
        "/home/svc/.cache/flashinfer/0.2.5/90a/cached_ops/silu/silu.so",
        "",
    ),
    (
        f'  File "{SITE}/triton/runtime/cache.py", line 81, in get_group\n'
        f"    # /scratch/triton/{KEY}/__grp__k.json\n"
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n",
        "triton",
        f"/scratch/triton/{KEY}/__grp__k.json",
        KEY,
    ),
    (
        '  File "/tmp/torchinductor_svc/qr/cqrg3jiiko.py", line 80, in call\n'
        f'  File "{SITE}/triton/compiler/compiler.py", line 450, in _init_handles\n'
        "RuntimeError: Triton Error [CUDA]: device kernel image is invalid\n",
        "triton",
        "",
        "",
    ),
]


@pytest.mark.parametrize(("text", "cache", "path", "key"), LOGS)
def test_what_a_log_names_is_kept(tmp_path, text: str, cache: str, path: str, key: str) -> None:
    """Path and key as the lines around name them; a frame of generated code is no entry."""
    log = tmp_path / "engine.log"
    log.write_text(f"Traceback (most recent call last):\n{text}")

    (timeline,) = timelines(log)
    (event,) = timeline.of(JitCacheFailed)

    assert (event.cache, event.path, event.key) == (cache, path, key)
