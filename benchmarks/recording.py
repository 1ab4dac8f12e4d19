"""What it costs to write a recording and to load it: `python -m benchmarks.recording [SAMPLES]`."""

from __future__ import annotations

import sqlite3
import sys
import tempfile
import time
from contextlib import closing
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pandas as pd

from gpuprobe.api import diagnose, load
from gpuprobe.clock import Stamp
from gpuprobe.events import GpuSampled, Origin
from gpuprobe.identity import PciAddress
from gpuprobe.recording.writer import Recorder

SAMPLES = 100_000
COMMITS = 50


def made(number: int) -> list[GpuSampled]:
    """Samples of one GPU at 10 Hz that differ."""
    begin = datetime(2027, 3, 14, 6, tzinfo=UTC)
    device = PciAddress.parse("0000:5e:00.0")
    first = GpuSampled(
        origin=Origin("nvml", None, "", None, (0, 0)),
        stamp=Stamp("", 0.0, begin, True, 0.001),
        device=device,
        power_w=300.0,
        temp_c=60.0,
        util_percent=90.0,
    )
    found = []
    for n in range(number):
        wall = begin + timedelta(seconds=n / 10)
        stamp = Stamp(wall.isoformat(), n / 10, wall, True, 0.001)
        found.append(replace(first, stamp=stamp, power_w=300.0 + n % 977 / 10))
    return found


def main() -> None:
    """Print one row a figure."""
    number = int(sys.argv[1]) if len(sys.argv) > 1 else SAMPLES
    samples = made(number)
    print("| what | figure |\n|---|---|")
    with tempfile.TemporaryDirectory(prefix="gpuprobe-bench-") as folder:
        path = Path(folder) / "a.gpuprobe"
        recorder = Recorder(path)
        before, begin = time.process_time(), time.perf_counter()
        for start in range(0, number, 1000):
            recorder.add(samples[start : start + 1000])
            recorder.commit((), timeout_s=60)
        took, cpu = time.perf_counter() - begin, time.process_time() - before
        print(f"| written, {number:,} samples | {cpu / number * 1e6:.1f} us of a core a sample |")
        print(f"| the same, all in all | {took:.2f} s |")
        waited = []
        for sample in samples[:COMMITS]:
            at = time.perf_counter()
            recorder.commit([sample], timeout_s=60)
            waited.append((time.perf_counter() - at) * 1000)
        waited.sort()
        print(
            f"| one event on disk | median {waited[COMMITS // 2]:.1f} ms, {waited[-1]:.1f} most |"
        )
        recorder.end("stopped")
        print(f"| size | {path.stat().st_size / number:.0f} bytes a sample |")
        begin = time.perf_counter()
        with load(path) as recording:
            rows = len(recording.samples())
        print(f"| load().samples() of {rows:,} | {time.perf_counter() - begin:.2f} s |")
        begin = time.perf_counter()
        with closing(sqlite3.connect(path)) as database:
            pd.read_sql("SELECT * FROM samples", database)
        print(f"| pandas.read_sql of the same | {time.perf_counter() - begin:.2f} s |")
        begin = time.perf_counter()
        diagnose(path)
        print(f"| diagnose | {time.perf_counter() - begin:.2f} s |")


if __name__ == "__main__":
    main()
