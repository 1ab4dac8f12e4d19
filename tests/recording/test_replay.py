"""A recording as a live source, and `watch --record` and `--replay`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

import gpuprobe
from gpuprobe.cli import main
from gpuprobe.diagnosis import Kind
from gpuprobe.events import CudaFailed, GpuSampled, OutputWritten
from gpuprobe.live.session import Session
from gpuprobe.recording.replay import ReplaySource
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE
from tests.live_events import base, facts, lost, steady
from tests.recording.recording_bench import record

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


def test_everything_comes_once_and_in_order(tmp_path: Path) -> None:
    """A minute at a thousand times its pace, then it is over."""
    path = record(tmp_path / "a.gpuprobe", [*facts(), *steady(60), lost(60)])
    session = Session([ReplaySource(path, speed=1000.0)], root=tmp_path / "none")
    session.start()
    samples, kinds = [], []
    end = time.monotonic() + 20
    for update in session.updates(0.01):
        samples += [one for one in update.samples if isinstance(one, GpuSampled)]
        if update.verdict is not None:
            kinds.append(update.verdict.kind)
        if all(getattr(one, "over", False) for one in session.sources):
            break
        assert time.monotonic() < end
    session.stop()

    times = [one.stamp.monotonic_s for one in samples if one.stamp]
    assert len(times) == 600
    assert times == sorted(times)
    assert session.judge().answer is Kind.DEVICE_LEFT_BUS


def test_watch_replays_a_recording(tmp_path: Path) -> None:
    """Lines as of a live machine, and the exit code of its verdict."""
    path = record(tmp_path / "a.gpuprobe", [*facts(), *steady(3), lost(3)])

    done = CliRunner().invoke(main, ["watch", "--replay", str(path), "--speed", "50"])
    assert done.exit_code == 79, done.output
    assert "0000:41:00.0" in done.output


def test_a_recording_without_a_gpu_is_shown_as_it_is(tmp_path: Path) -> None:
    """It holds what became of the engine, which is not said of this machine."""
    words = "CUDA error: an illegal memory access was encountered"
    start = OutputWritten(**base(0, "2 lines", "engine", None), stream="stdout", lines=())
    failed = CudaFailed(**base(30, words, "engine", None), code=700, name=None, message=words[12:])
    path = record(tmp_path / "a.gpuprobe", [start, failed])

    done = CliRunner().invoke(main, ["watch", "--replay", str(path), "--speed", "20"])
    assert done.exit_code == 1, done.output
    assert "illegal memory access" in done.output
    assert "No GPU in sight" not in done.output


@pytest.mark.parametrize(
    "arguments", [["--replay", "x", "--once"], ["--record", "x", "--once"], ["--replay", "none"]]
)
def test_what_does_not_go_together_is_told(arguments: list[str]) -> None:
    """Code 2 and a sentence."""
    done = CliRunner().invoke(main, ["watch", *arguments])
    assert done.exit_code == 2, done.output


@needs_compiler
def test_watch_records_what_it_shows(tmp_path: Path) -> None:
    """The file is whole when it ends, and `diagnose` reads it."""
    fake = FakeNvml(tmp_path, [ONE])
    path = tmp_path / "w.gpuprobe"
    process = subprocess.Popen(
        [sys.executable, "-m", "gpuprobe", "watch", "--record", str(path)],
        env={**os.environ, **fake.env},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    for line in process.stdout:
        if str(ONE) in line:
            break
    time.sleep(1.0)
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=20)
    fake.heal()

    assert f"Recorded to {path}" in said
    with gpuprobe.load(path) as recording:
        assert recording.ended == "stopped"
        assert len(recording.samples()) > 0
        assert "source:nvml" in recording.about
        assert recording.about["hostname"]
