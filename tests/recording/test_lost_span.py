"""How much of what was sampled a `kill -9` of the whole recorder costs."""

from __future__ import annotations

import random
import statistics
import time
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpuprobe import load
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.cli.test_record import Running
from tests.live.nvml_bench import ONE

KILLS = 20


def lost_s(folder: Path, after_s: float) -> float:
    """Seconds from the last sample that is on the disk to the kill."""
    folder.mkdir()
    fake = FakeNvml(folder, [ONE])
    running = Running(folder, env=fake.env)
    try:
        running.until(lambda: running.recording.exists() and fake.count(ONE) > 20)
        time.sleep(after_s)
    finally:
        killed_at = datetime.now(UTC)
        running.process.kill()
        running.process.wait()
    with load(running.recording) as recording:
        last = recording.samples()["at"].max()
    return float((killed_at - last.to_pydatetime()).total_seconds())


@pytest.mark.slow
@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_a_kill_costs_a_second_of_samples(tmp_path: Path) -> None:
    """At 10 Hz and at random moments: mostly less than a second, with the time to commit it."""
    chance = random.Random(20260306)
    spans = [lost_s(tmp_path / str(n), chance.uniform(1, 2.5)) for n in range(KILLS)]

    print("lost, s:", ", ".join(f"{span:.2f}" for span in sorted(spans)))  # noqa: T201
    assert statistics.median(spans) < 1.0
    # On a machine that does much else the writer has to wait for its turn.
    assert max(spans) < 3.0
