"""The example engine: what it prints, how it ends, and what its health endpoint says."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest

from gpuprobe.testing.sysfs import FakeSysfs

ROOT = Path(__file__).parents[1]
ENGINE = ROOT / "examples" / "engine" / "engine.py"
GPU = "0000:21:00.0"


@pytest.fixture
def machine(tmp_path: Path) -> FakeSysfs:
    made = FakeSysfs(tmp_path)
    made.gpu(GPU, bridges=["0000:20:01.0"])
    return made


def started(machine: FakeSysfs, *options: str) -> subprocess.Popen[str]:
    """The engine on that machine."""
    environment = {
        name: value for name, value in os.environ.items() if not name.endswith("VISIBLE_DEVICES")
    }
    environment |= {"GPUPROBE_ROOT": str(machine.root), "PYTHONPATH": str(ROOT)}
    command = [sys.executable, str(ENGINE), "--step-s", "0", *options]
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, env=environment)


def ended(machine: FakeSysfs, *options: str) -> tuple[int, str, str]:
    engine = started(machine, *options)
    out, errors = engine.communicate(timeout=30)
    return engine.returncode, out, errors


def test_it_works_through_its_requests(machine: FakeSysfs) -> None:
    """And ends with 0."""
    code, out, errors = ended(machine, "--requests", "2")

    assert (code, errors) == (0, "")
    assert out.splitlines() == ["loading the model", "ready", "request 1", "request 2"]


def test_three_leaf_frames_and_one_verdict(machine: FakeSysfs) -> None:
    """On a GPU that reads all ones the traceback differs each time, the last line does not."""
    machine.lose(GPU)
    leaves, last = set(), set()
    for engine in [started(machine, "--die-after", "1", "--leaf", leaf) for leaf in "012"]:
        _, errors = engine.communicate(timeout=30)
        assert engine.returncode == 1
        cause = errors.partition("The above exception was the direct cause")[0]
        leaves.add(re.findall(r"in (\w+)\n", cause)[-1])
        last.add(errors.splitlines()[-1])

    assert leaves == {"prepare_indices", "invalidate_buffer", "synchronise"}
    (line,) = last
    assert line.startswith(f"gpuprobe.errors.DeviceLostError: GPU {GPU} left the bus")


def test_on_a_gpu_that_is_there_the_error_stays_what_it_was(machine: FakeSysfs, tmp_path) -> None:
    """A sentence stands behind the traceback, and the code is the one asked for."""
    trigger = tmp_path / "fail"
    trigger.touch()
    code, out, errors = ended(machine, "--fail-when", str(trigger), "--exit", "9")

    assert code == 9
    assert "request" not in out
    assert "torch.AcceleratorError: CUDA error: unspecified launch failure" in errors
    assert "DeviceLostError" not in errors
    assert errors.splitlines()[-1].startswith("gpuprobe: It cannot be told what CUDA error 719")


def test_a_cut_cache_entry_ends_it_while_it_loads(machine: FakeSysfs, tmp_path: Path) -> None:
    """As Triton's JSON does, and gpuprobe has nothing to say about that."""
    (tmp_path / "entry.json").write_text('{"name": "kern')
    code, _, errors = ended(machine, "--cache", str(tmp_path))

    assert code == 1
    assert "JSONDecodeError" in errors.splitlines()[-1]


@pytest.fixture
def serving(machine: FakeSysfs) -> Iterator[str]:
    """The address of an engine that serves, and fails at its second request."""
    engine = started(machine, "--serve", "0", "--die-after", "1")
    assert engine.stdout is not None
    for line in engine.stdout:
        if found := re.search(r"serving on port (\d+)", line):
            break
    else:
        raise AssertionError(engine.communicate())
    yield f"http://127.0.0.1:{found[1]}"
    engine.terminate()
    engine.communicate(timeout=10)


def asked(address: str, data: bytes | None = None) -> tuple[int, str]:
    try:
        with urllib.request.urlopen(address, data, timeout=10) as answer:
            return answer.status, answer.read().decode()
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read().decode()


def test_health_fails_closed_when_the_device_is_lost(machine: FakeSysfs, serving: str) -> None:
    """200 while it is there or asleep; 503 from the loss on, also if it should come back."""
    assert asked(f"{serving}/health") == (200, "ok\n")
    assert asked(serving, b"a request") == (200, "1\n")
    machine.suspend(GPU)
    assert asked(f"{serving}/health")[0] == 200

    machine.recover(GPU)
    machine.lose(GPU)
    began = time.monotonic()
    assert asked(f"{serving}/health")[0] == 503
    assert time.monotonic() - began < 5
    machine.recover(GPU)
    assert asked(f"{serving}/health")[0] == 200

    machine.remove(GPU)
    assert asked(f"{serving}/health")[0] == 503
    status, said = asked(serving, b"a request")
    assert status == 503
    assert f"GPU {GPU} left the bus: its directory in sysfs is gone" in said
    assert asked(f"{serving}/health")[0] == 503


def test_health_of_a_machine_without_sysfs_is_not_ok(tmp_path: Path) -> None:
    """What cannot be seen is not healthy."""
    program = "import engine; print(engine.health())"
    environment = {**os.environ, "GPUPROBE_ROOT": str(tmp_path), "PYTHONPATH": str(ENGINE.parent)}
    done = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, env=environment, cwd=ROOT
    )

    assert done.stdout.startswith("(503,"), done.stderr
