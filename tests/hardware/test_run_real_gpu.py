"""`gpuprobe run` beside real PyTorch programs: `pytest -m hardware -s tests/hardware`."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from gpuprobe.diagnosis import Certainty, Kind

pytestmark = [
    pytest.mark.hardware,
    pytest.mark.skipif(not Path("/dev/nvidiactl").exists(), reason="no NVIDIA GPU"),
    pytest.mark.skipif(importlib.util.find_spec("torch") is None, reason="no PyTorch"),
]

LOOP = """
import time, torch
x = torch.randn(4096, 4096, device="cuda", dtype=torch.bfloat16)
for _ in range(20): x @ x
torch.cuda.synchronize()
count, until = 0, time.monotonic() + {seconds}
while time.monotonic() < until:
    for _ in range(20): y = x @ x
    torch.cuda.synchronize()
    count += 20
print("RATE", count / {seconds})
"""

KERNEL = """
import torch, triton, triton.language as tl
@triton.jit
def fault(where, number: tl.constexpr):
    at = tl.arange(0, 32)
    {body}
where = torch.zeros(32, dtype=torch.int32, device="cuda")
torch.cuda.synchronize()
fault[(1,)](where, 1)
torch.cuda.synchronize()
"""
TRAP = """
    value = tl.load(where + at)
    value = tl.inline_asm_elementwise(
        "trap; mov.u32 $0, $1;", "=r,r", [value], dtype=tl.int32, is_pure=False, pack=1)
    tl.store(where + at, value)
"""
PROGRAMS = {
    "trap": KERNEL.format(body=TRAP.strip()),
    "illegal address": KERNEL.format(body="tl.store(where + at + (1 << 40), at)"),
    "assert": """
import torch
print(torch.zeros(4, device="cuda")[torch.tensor([9], device="cuda")])
""",
    "out of memory": "import torch; torch.empty(1 << 42, device='cuda')",
    "a profiler": """
import torch
from torch.profiler import profile, ProfilerActivity
x = torch.randn(512, 512, device="cuda")
with profile(activities=[ProfilerActivity.CUDA]) as found:
    (x @ x).sum().item()
print("profiled", len(found.key_averages()) > 0)
""",
}
EXPECTED = {
    "trap": (1, Kind.APPLICATION_FAULT),
    "illegal address": (1, Kind.APPLICATION_FAULT),
    "assert": (1, Kind.APPLICATION_FAULT),
    "out of memory": (1, Kind.GPU_OUT_OF_MEMORY),
    "a profiler": (0, Kind.NO_FAULT),
}


@dataclass(frozen=True)
class Ran:
    """One run of a program under `gpuprobe run`."""

    code: int
    out: str
    said: str
    took_s: float
    diagnosis: dict[str, Any]


def under_run(program: str, recording: Path) -> Ran:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    script = recording.with_suffix(".py")  # Triton reads the source of its kernels
    script.write_text(program)
    begin = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-m", "gpuprobe", "run", "--record", str(recording), "--",
         sys.executable, str(script)],
        capture_output=True, text=True, timeout=120, env=environment, check=False,
    )  # fmt: skip
    took = time.monotonic() - begin
    told = subprocess.run(
        [sys.executable, "-m", "gpuprobe", "diagnose", "--format", "json", str(recording)],
        capture_output=True, text=True, timeout=60, env=environment, check=False,
    )  # fmt: skip
    assert told.stdout, told.stderr
    return Ran(done.returncode, done.stdout, done.stderr, took, json.loads(told.stdout))


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_programs_end_is_told(name: str, tmp_path: Path) -> None:
    """The exit code is the program's; the verdict is right, and for a fault has the kernel's line."""
    if "triton" in PROGRAMS[name] and importlib.util.find_spec("triton") is None:
        pytest.skip("no Triton")
    ran = under_run(PROGRAMS[name], tmp_path / "run.gpuprobe")
    code, kind = EXPECTED[name]
    first = ran.diagnosis["verdicts"][0]
    found = {"name": name, "answer": ran.diagnosis["answer"], "xids": first["xids"]}
    sys.stdout.write(json.dumps({**found, "summary": first["summary"]}) + "\n")
    sys.stdout.write(ran.said[-1500:] + "\n")
    assert (ran.code, ran.diagnosis["answer"]) == (code, kind)
    if kind is Kind.APPLICATION_FAULT:
        assert first["xids"], first
        assert first["certainty"] == Certainty.CONFIRMED
        assert first["summary"] in ran.said
    if kind is Kind.NO_FAULT:
        assert "verdict" not in ran.said


def test_a_clean_loop_is_not_slower(tmp_path: Path) -> None:
    """A loop that keeps the GPU busy ends with 0 and says nothing; its rate is printed in pairs."""
    program = LOOP.format(seconds=4)

    def rate(out: str) -> float:
        found = re.search(r"RATE ([\d.]+)", out)
        assert found is not None, out
        return float(found[1])

    ratios = []
    for turn in range(3):
        alone = subprocess.run(
            [sys.executable, "-c", program], capture_output=True, text=True, check=True
        )
        ran = under_run(program, tmp_path / f"{turn}.gpuprobe")
        assert (ran.code, ran.diagnosis["answer"]) == (0, Kind.NO_FAULT), ran.said
        assert ran.said == ""
        ratios.append(rate(ran.out) / rate(alone.stdout))
    sys.stdout.write(json.dumps({"loop under run": ratios}) + "\n")
    assert statistics.median(ratios) > 0.9
