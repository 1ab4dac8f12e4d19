"""What sampling 1, 2 and 8 GPUs costs: `python -m benchmarks.sampling [SECONDS]`.

The driver is the fake one, whose calls take next to nothing: what is measured is gpuprobe's own.
Processor time and memory are of the parent and the child, in the steady state; jitter is how far
the gaps between samples of one GPU are from the period asked for.
"""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import tempfile
import time
from itertools import pairwise
from pathlib import Path

from benchmarks.process_tree import cpu_s, pss_mib
from gpuprobe.events import GpuSampled, taken_apart
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.probe import NvmlProbe
from gpuprobe.testing.nvml import FakeNvml

SECONDS = 10.0
WARM_S = 2.0
GPUS = (1, 2, 8)
RATES_HZ = (1.0, 10.0, 100.0)


def measure(gpus: int, rate_hz: float, seconds: float) -> str:
    """One row."""
    devices = [PciAddress.parse(f"0000:{0x04 + number:02x}:00.0") for number in range(gpus)]
    with tempfile.TemporaryDirectory(prefix="gpuprobe-bench-") as name:
        fake = FakeNvml(Path(name), devices)
        probe = NvmlProbe(
            rate_hz=rate_hz, env={**os.environ, **fake.env}, root=Path(name) / "empty-root"
        )
        probe.start()
        try:
            _gather(probe, WARM_S, {})
            before = cpu_s(os.getpid())
            stamps: dict[str, list[float]] = {}
            _gather(probe, seconds, stamps)
            used = cpu_s(os.getpid()) - before
            memory = pss_mib(os.getpid()) or 0.0
        finally:
            probe.stop()
    gaps = [b - a for one in stamps.values() for a, b in pairwise(one)]
    off = sorted(abs(gap - 1 / rate_hz) * 1000 for gap in gaps) or [0.0]
    samples = sum(map(len, stamps.values()))
    return (
        f"| {gpus} | {rate_hz:g} | {samples / seconds / gpus:.1f} | {used / seconds:.2%} | "
        f"{memory:.0f} | {statistics.median(off):.2f} | {off[int(len(off) * 0.99)]:.2f} |"
    )


def _gather(probe: NvmlProbe, seconds: float, stamps: dict[str, list[float]]) -> None:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        time.sleep(0.1)
        for event in taken_apart(probe.poll()):
            stamp = event.stamp
            if isinstance(event, GpuSampled) and stamp and stamp.monotonic_s is not None:
                stamps.setdefault(str(event.device), []).append(stamp.monotonic_s)


def main() -> None:
    """Print one row a number of GPUs and a rate, each measured in a process of its own."""
    if sys.argv[1:2] == ["--row"]:
        print(measure(int(sys.argv[2]), float(sys.argv[3]), float(sys.argv[4])))
        return
    seconds = sys.argv[1] if len(sys.argv) > 1 else str(SECONDS)
    print("| GPUs | asked Hz | read Hz | of a core | PSS MiB | off by ms, median | 99 of 100 |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for gpus in GPUS:
        for rate in RATES_HZ:
            row = ["--row", str(gpus), str(rate), seconds]
            subprocess.run([sys.executable, "-m", "benchmarks.sampling", *row], check=True)


if __name__ == "__main__":
    main()
