"""The hook in a program whose CUDA context really died: `pytest -m hardware tests/hardware`."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = [
    pytest.mark.hardware,
    pytest.mark.skipif(shutil.which("nvidia-smi") is None, reason="no nvidia-smi"),
]

PROGRAM = r'''
import ctypes, json, os, time
began = time.perf_counter()
import gpuprobe.hook
imported_s = time.perf_counter() - began
from gpuprobe import explain_exception, guard
from gpuprobe.inside.whose import gpus_of_this_process, open_minors
from gpuprobe.live import presence

cuda = ctypes.CDLL("libcuda.so.1")
PTX = b""".version 7.0
.target sm_52
.address_size 64
.visible .entry fault() { trap; }
"""

def check(code):
    if code:
        name = ctypes.c_char_p()
        cuda.cuGetErrorName(code, ctypes.byref(name))
        raise RuntimeError(f"CUDA error: {name.value.decode()}")

before = len(open_minors())
check(cuda.cuInit(0))
context, module, function = (ctypes.c_void_p() for _ in range(3))
check(cuda.cuCtxCreate_v2(ctypes.byref(context), 0, 0))
check(cuda.cuModuleLoadData(ctypes.byref(module), PTX))
check(cuda.cuModuleGetFunction(ctypes.byref(function), module, b"fault"))
seen, times = [], []
for _ in range(5):
    try:
        with guard():
            check(cuda.cuLaunchKernel(function, *[1] * 6, 0, None, None, None))
            check(cuda.cuCtxSynchronize())
    except Exception as error:
        began = time.perf_counter()
        verdict = explain_exception(error)
        times.append(round(time.perf_counter() - began, 4))
        seen.append(type(error).__name__)
print(json.dumps({
    "raised": seen, "kind": verdict.kind, "certainty": verdict.certainty,
    "summary": verdict.summary, "seconds": times, "imported_s": round(imported_s, 4),
    "opened": [before, len(open_minors())], "gpus": len(presence.AT_IMPORT.gpus),
    "whose": gpus_of_this_process(presence.AT_IMPORT).why,
    "not_checked": [row.why for row in verdict.not_checked],
}))
'''


def test_a_trap_on_a_healthy_gpu_is_the_programs(tmp_path: Path) -> None:
    """The context is dead, the bus and the driver answer: it passes, and is explained in time."""
    root = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(root)},
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    sys.stdout.write(done.stdout)
    found = json.loads(done.stdout)

    assert found["raised"] == ["RuntimeError"] * 5
    assert (found["kind"], found["certainty"]) == ("application-fault", "possible")
    assert max(found["seconds"]) < 2.0
    assert "/dev/nvidia" in found["whose"]
