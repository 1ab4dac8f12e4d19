"""A week of recording in a few minutes: memory and disk stay bounded."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuprobe.clock import Stamp
from gpuprobe.events import (
    AerReported,
    CountersSampled,
    EngineChanged,
    Event,
    GpuSampled,
    Origin,
    SourceChanged,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.metrics import Metrics
from gpuprobe.live.session import Session
from gpuprobe.reading import Known
from gpuprobe.recording.recorded import recorded
from gpuprobe.recording.writer import Limits, Recorder
from gpuprobe.sources.output import OutputReader

GPU = PciAddress.parse("0000:4b:00.0")
BEGIN = datetime(2026, 9, 22, tzinfo=UTC)
WEEK_S = 7 * 86_400
STEP_S = 20
"""Seconds that one poll brings."""


class Week:
    """A source that lives through a week: samples, output, restarts, errors, reloads."""

    name = "week"

    def __init__(self) -> None:
        self.at = 0.0
        self.numbers = 0
        self.reader = OutputReader("engine", 9)

    def available(self) -> Known[str]:
        return Known("a week")

    def start(self) -> None: ...

    def stop(self) -> None: ...

    def _base(self, text: str, at: float, device: PciAddress | None = GPU) -> dict[str, Any]:
        self.numbers += 1
        wall = BEGIN + timedelta(seconds=at)
        return {
            "origin": Origin(self.name, None, text, order=(1, self.numbers)),
            "stamp": Stamp(wall.isoformat(), at, wall),
            "device": device,
        }

    def poll(self) -> Iterable[Event]:
        found: list[Event] = []
        for second in range(STEP_S):
            at = self.at + second
            found.append(
                GpuSampled(**self._base("", at), power_w=300 + at % 50, temp_c=60, limit_w=700)
            )
        self.at += STEP_S
        at = self.at
        counters = (("pcie_replay", int(at // 3600)),)
        found.append(CountersSampled(**self._base("", at), counters=counters))
        text = f"INFO step {at:.0f} loss 0.12\nGET /v1/{self.numbers:x} 200\n"
        found.extend(self.reader.feed(text.encode(), at))
        if at % 600 == 0:
            words = f"PCIe Bus Error: severity=Corrected, {self.numbers}"
            found.append(AerReported(**self._base(words, at), severity="correctable"))
        if at % 3600 == 0:
            found.extend(self.reader.restart(at))
            for what in ("stopped", "started"):
                found.append(EngineChanged(**self._base(what, at, None), what=what, who="x"))
            for what in ("released", "taken"):
                base = self._base(what, at, None)
                found.append(SourceChanged(**base, name=self.name, what=what))
        return found


def resident_mib() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE") / 2**20


@pytest.mark.slow
def test_a_week_in_a_few_minutes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After the first day neither memory nor disk grows, through restarts and reloads."""
    monkeypatch.setenv("GPUPROBE_DIR", str(tmp_path))
    limits = Limits(file_bytes=1 << 20, log_bytes=1 << 20, total_bytes=4 << 20)
    recorder = Recorder(tmp_path / "w.gpuprobe", limits=limits)
    week = Week()
    session = Session([week], root=tmp_path)
    session.start()
    metrics = Metrics()
    days: list[float] = []
    files: list[float] = []
    updates = recorded((session.poll() for _ in range(WEEK_S // STEP_S)), recorder)
    for update in updates:
        metrics.take(update, session.states)
        if week.at % 600 == 0:
            # A whole week's time for the disk would be there; here it is waited for.
            recorder.commit((), timeout_s=5.0)
        if week.at % 86_400 == 0:
            metrics.render()
            days.append(resident_mib())
            files.append(size_mib(tmp_path))
    recorder.end("stopped")
    session.stop()

    print(f"resident by day, MiB: {list(map(round, days))}; files: {list(map(round, files))}")  # noqa: T201
    assert len(days) == 7
    assert recorder.problem is None
    assert days[-1] - days[0] < 20
    # Sizes are looked at by the clock, and here a week takes minutes: a file may be late to end.
    assert max(files) < 4 + 2
    assert len(list(tmp_path.glob("*.gpuprobe"))) > 1


def size_mib(folder: Path) -> float:
    """What the recordings take up; they come and go while it is counted."""
    total = 0
    for path in folder.iterdir():
        with contextlib.suppress(OSError):
            total += path.stat().st_size
    return total / 2**20
