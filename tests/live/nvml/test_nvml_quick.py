"""What is read without the binding is what the binding gives, errors included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from gpuprobe.live.nvml import block as nvml_block
from gpuprobe.live.nvml.calls import CALLS, Group, number_of
from gpuprobe.live.nvml.plan import Step
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))

SCRIPT = """
import json, sys
import pynvml
from gpuprobe.live.nvml.block import GROUPS, Block, NotQuick
from gpuprobe.live.nvml.plan import DeviceLost, Plan
from gpuprobe.live.nvml.quick import quick_samples
from gpuprobe.live.nvml.rows import Beside, SampleRows
from gpuprobe.live.nvml.wire import ROW_NAMES, SAMPLE, to_text

pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)

def wait():
    print("ready", flush=True)
    input()

plans = {group: Plan(pynvml, group, lambda number: None) for group in GROUPS}

def by_binding():
    for group, plan in plans.items():
        plan.read(handle)
    return {name: value for plan in plans.values() for name, value in plan.read(handle).items()}

binding = by_binding()
entered = []
if "before" in sys.argv:
    wait()
try:
    block = Block(pynvml, handle, {g: p.answered for g, p in plans.items()}, entered.append)
except DeviceLost as lost:
    print(json.dumps({"lost": lost.function, "entered": len(entered)}))
    sys.exit()
entered.clear()
told = {"binding": binding}
wait()
try:
    told["read"] = [block.read(group) for group in GROUPS]
except DeviceLost as lost:
    told["lost"] = lost.function
told["entered"] = len(entered)
rows = SampleRows(block.layout, to_text(block.row(7)), Beside(None, {}, 0, (0, 0)))
told["block"] = dict(zip(ROW_NAMES, rows.newest_row()[1:]))
told["at"] = rows.newest_row()[0]
told["value"] = block.value("memory_used_bytes")
try:
    told["samples"] = list(SAMPLE.iter_unpack(quick_samples(pynvml)(handle, 0, 0)))
except pynvml.NVMLError as error:
    told["samples"] = error.value
print(json.dumps(told))
"""


def both(fake: FakeNvml, fails: int = 0, *options: str, call: str = "*") -> dict[str, Any]:
    """A device read by the binding, then by a block; its calls may fail from there on.

    With "before" they fail before there is a block.
    """
    process = subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *options],
        env={**os.environ, **fake.env, "PYTHONPATH": str(Path(__file__).parents[3])},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdin is not None
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n", process.communicate()[1]
    if fails:
        fake.error(fails, ONE, call)
    out, err = process.communicate("\n")
    assert process.returncode == 0, err
    found: dict[str, Any] = json.loads(out)
    return found


def test_a_block_holds_what_the_binding_gives(tmp_path: Path) -> None:
    """Every value of both groups, its type, and the driver's samples."""
    fake = FakeNvml(tmp_path, [ONE])
    fake.set(ONE, power_mw=123456, memory_used_bytes=2**40)
    found = both(fake)

    assert found["read"] == [True, True]
    assert found["block"] == found["binding"]
    assert found["block"]["power_w"] == 123.456
    assert found["value"] == 2**40
    assert found["at"] == 7
    assert len(found["samples"]) > 50
    assert {watts for _, watts in found["samples"]} == {123456}


def test_what_a_device_does_not_offer_is_left_out(tmp_path: Path) -> None:
    """Another call gives the same value, or none does."""
    fake = FakeNvml(tmp_path, [ONE])
    for name in ("field.186", "nvmlDeviceGetTemperatureV", "nvmlDeviceGetUtilizationRates"):
        fake.unsupported(name, ONE)
    found = both(fake)

    assert found["read"] == [True, True]
    known = {name: value for name, value in found["block"].items() if value is not None}
    assert known == found["binding"]
    assert "util_percent" not in known
    assert "temp_c" in known


def test_a_loss_ends_a_block_at_its_first_call(tmp_path: Path) -> None:
    """No further call is made to the device, and the call is named."""
    found = both(FakeNvml(tmp_path, [ONE]), fails=15)

    assert found["lost"] == "nvmlDeviceGetFieldValues"
    assert found["entered"] == 1
    assert found["samples"] == 15


@pytest.mark.parametrize(
    ("call", "named"),
    [("*", "nvmlDeviceGetFieldValues"), ("field.186", "nvmlDeviceGetFieldValues(186)")],
)
def test_a_loss_while_a_block_is_made_ends_it_too(tmp_path: Path, call: str, named: str) -> None:
    """Fields are read once to know their types; a second call would be one too many."""
    found = both(FakeNvml(tmp_path, [ONE]), 15, "before", call=call)

    assert found == {"lost": named, "entered": 1}


def test_without_the_library_everything_is_left_to_the_binding(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The binding may have opened it by another name."""
    monkeypatch.setattr(nvml_block, "library", lambda: None)
    nvml = SimpleNamespace()
    number = number_of("nvmlDeviceGetPowerUsage")
    step = Step(nvml, number, CALLS[number - 1])

    with pytest.raises(nvml_block.NotQuick):
        nvml_block.Block(nvml, None, {Group.FAST: [step], Group.CALM: []}, lambda _: None)


@pytest.mark.parametrize("code", [3, 999])
def test_a_call_that_fails_leaves_the_rest_to_the_binding(tmp_path: Path, code: int) -> None:
    """Which call it was, and for how long, is found out there."""
    found = both(FakeNvml(tmp_path, [ONE]), fails=code)

    assert found["read"] == [False, False]
    assert found["samples"] == code
