"""How long the command line takes to start, against an interpreter that does nothing."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.make_logs import make_log
from benchmarks.measure import Command, gpuprobe, interleave
from benchmarks.table import Row

SMALL_LOG_BYTES = 20_000


def run(rounds: int) -> Iterator[Row]:
    """Measure `--help` and a small log.

    Args:
        rounds: Runs of each command; their median counts.
    """
    with tempfile.TemporaryDirectory(prefix="gpuprobe-bench-") as name:
        log = Path(name, "small.log")
        make_log(log, "half-aer", 1)
        log.write_bytes(log.read_bytes()[:SMALL_LOG_BYTES])
        nothing = Command("python -c pass", [sys.executable, "-c", "pass"])
        help_ = Command("gpuprobe --help", gpuprobe("--help"))
        small = Command(
            "gpuprobe diagnose, small log", gpuprobe("diagnose", str(log)), ok=(0, 1, 3)
        )
        commands = [nothing, help_, small]
        interleave(commands, 1)  # compiles modules
        for command in commands:
            command.wall_s.clear()
            command.cpu_s.clear()
        interleave(commands, rounds)
    for command, limit_ms in ((help_, 120), (small, 250)):
        more_ms = (command.seconds - nothing.seconds) * 1000
        yield Row(
            command.name,
            f"{command.seconds * 1000:.0f} ms",
            f"{nothing.name}: {nothing.seconds * 1000:.0f} ms",
            f"+{more_ms:.0f} ms",
            f"+{limit_ms} ms",
            more_ms <= limit_ms,
        )
