"""The quick calls give what the binding's give, errors included."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))

SCRIPT = """
import json, pynvml
from gpuprobe.live.nvml_calls import CALLS
from gpuprobe.live.nvml_quick import GROUPS, quick, quick_samples
from gpuprobe.live.wire import SAMPLE

def told(ask, *arguments):
    try:
        found = ask(*arguments)
    except pynvml.NVMLError as error:
        return type(error).__name__, error.value
    if isinstance(found, int):
        return found
    if not hasattr(found, "_fields_"):
        return [(one.fieldId, one.nvmlReturn, one.valueType, one.value.ullVal) for one in found]
    return [getattr(found, name) for name, _ in found._fields_]

pynvml.nvmlInit()
handle = pynvml.nvmlDeviceGetHandleByIndex(0)
found = {}
for call in CALLS:
    ask = quick(pynvml, call)
    if call.group not in GROUPS or ask is None:
        continue
    fields = [(value.field, 0) for value in call.gives if value.field is not None]
    arguments = [fields] if fields else list(call.args)
    binding = told(getattr(pynvml, call.function), handle, *arguments)
    found[f"{call.function}{call.args}"] = [
        binding, told(ask, handle, *arguments), told(ask, handle, *arguments)
    ]
try:
    samples = [list(pair) for pair in SAMPLE.iter_unpack(quick_samples(pynvml)(handle, 0, 0))]
except pynvml.NVMLError as error:
    samples = error.value
print(json.dumps([found, samples]))
"""


def both(fake: FakeNvml) -> tuple[dict[str, list[object]], object]:
    """Each call's answer by the binding, then twice by the quick way; the driver's samples."""
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        env={**os.environ, **fake.env, "PYTHONPATH": str(Path(__file__).parents[2])},
        capture_output=True,
        text=True,
        check=True,
    )
    found, samples = json.loads(done.stdout)
    return found, samples


def test_each_gives_the_same(tmp_path: Path) -> None:
    """Every quick call, also when it is made again."""
    fake = FakeNvml(tmp_path, [ONE])
    fake.set(ONE, power_mw=123456)
    found, samples = both(fake)

    assert len(found) >= 10
    assert not {name: answers for name, answers in found.items() if answers.count(answers[0]) != 3}
    assert isinstance(samples, list)
    assert len(samples) > 50
    assert {watts for _, watts in samples} == {123456}


@pytest.mark.parametrize("code", [3, 15, 999])
def test_each_raises_the_same(tmp_path: Path, code: int) -> None:
    """The binding's own error classes, by the code."""
    fake = FakeNvml(tmp_path, [ONE])
    fake.error(code, ONE, after=1)  # it can be opened
    found, samples = both(fake)

    assert not {name: answers for name, answers in found.items() if answers.count(answers[0]) != 3}
    assert samples == code
    assert {answers[0][1] for answers in found.values()} == {code}  # type: ignore[index]
