"""NVML asked once, from a process of its own."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import pytest

from gpuprobe.identity import PciAddress
from gpuprobe.inside import driver
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.testing.nvml import FakeNvml, why_unavailable

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
GPU = PciAddress.parse("0000:21:00.0")


def soon() -> float:
    return time.monotonic() + 5


@needs_compiler
def test_it_makes_three_calls_and_shuts_nothing_down(tmp_path: Path, monkeypatch) -> None:
    """Those that the script's page lists, in order."""
    fake = FakeNvml(tmp_path, [GPU])
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)

    assert driver.ask([GPU], soon()) == {GPU: Known(0)}
    assert [call.name for call in fake.calls()] == [
        "nvmlInitWithFlags",  # what nvmlInit_v2 is in the fake
        "nvmlDeviceGetHandleByPciBusId_v2",
        "nvmlDeviceGetPerformanceState",
    ]


@needs_compiler
def test_a_library_without_a_function_gives_a_reason(tmp_path: Path, monkeypatch) -> None:
    """Too old or too new: no answer, and no loss."""
    fake = FakeNvml(tmp_path, [GPU], without=["nvmlDeviceGetPerformanceState"])
    for name, value in fake.env.items():
        monkeypatch.setenv(name, value)
    found = driver.ask([GPU], soon())[GPU]

    assert isinstance(found, Unavailable)
    assert found.reason is Reason.FAILED


def test_a_machine_without_the_library_gives_a_reason(tmp_path: Path, monkeypatch) -> None:
    """`not-there`, as on a laptop."""
    script = tmp_path / "ask.py"
    text = driver.SCRIPT.read_text()
    script.write_text(text.replace("libnvidia-ml.so.1", "libno-such-library.so.1"))
    monkeypatch.setattr(driver, "SCRIPT", script)
    found = driver.ask([GPU], soon())[GPU]

    assert isinstance(found, Unavailable)
    assert found.reason is Reason.NOT_THERE


@pytest.mark.parametrize("executable", ["", "/opt/engine/engine", "/usr/bin/uwsgi"])
def test_a_frozen_engine_is_not_started_a_second_time(monkeypatch, executable: str) -> None:
    """Its interpreter is the engine itself."""
    monkeypatch.setattr(sys, "executable", executable)
    found = driver.ask([GPU], soon())[GPU]

    assert isinstance(found, Unavailable)
    assert found.reason is Reason.NOT_SUPPORTED


def test_what_another_thread_asks_is_not_waited_for_too_long() -> None:
    """Also where a fork left the lock closed for ever."""
    with driver._one_at_a_time:
        began = time.monotonic()
        found = driver.ask([GPU], began + 0.2)[GPU]

    assert time.monotonic() - began < 1.0
    assert isinstance(found, Unavailable)
    assert found.reason is Reason.TIMED_OUT
