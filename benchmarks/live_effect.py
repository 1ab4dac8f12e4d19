"""What `gpuprobe watch` beside a load takes from it."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, field
from typing import IO, Any

from benchmarks.live_program import END_S, START_UP_S, Program, told_stamps

PAIRS = 5
LOAD_S = 6.0
LOADS = {"matmul": "TFLOP/s", "copies": "GB/s"}


@dataclass
class Effect:
    """Throughput of a load with and without `gpuprobe watch` at 10 Hz beside it."""

    part: str
    unit: str
    without: list[float] = field(default_factory=list)
    beside: list[float] = field(default_factory=list)
    error: str = ""

    @property
    def ratio(self) -> float | None:
        """Median with, over median without."""
        if not self.without or not self.beside:
            return None
        return statistics.median(self.beside) / statistics.median(self.without)

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        if self.error or self.ratio is None:
            return (self.part, f"not measured: {self.error}", "", "")
        medians = [f"{statistics.median(all_):.2f} {self.unit}" for all_ in _sides(self)]
        pairs = [b / w for w, b in zip(self.without, self.beside, strict=True)]
        return (self.part, *medians, f"{self.ratio:.4f} ({min(pairs):.4f} to {max(pairs):.4f})")


def _sides(effect: Effect) -> tuple[list[float], list[float]]:
    return effect.without, effect.beside


def effect(name: str, pairs: int) -> Effect:
    """A load with and without the probe, in pairs, the order turned round each time."""
    found = Effect(f"effect-{name}", LOADS[name])
    if importlib.util.find_spec("torch") is None:
        found.error = "torch is not installed"
        return found
    load = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.live_workers", name],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert load.stdin is not None
    assert load.stdout is not None
    try:
        if "ready" not in _answer(load.stdout):
            found.error = "the load did not start"
            return found
        for pair in range(pairs):
            for beside in (False, True) if pair % 2 == 0 else (True, False):
                (found.beside if beside else found.without).append(
                    _throughput(load.stdin, load.stdout, beside=beside)
                )
    except (RuntimeError, OSError, KeyError) as error:
        found.error = str(error)
    finally:
        with contextlib.suppress(OSError):
            load.stdin.close()
        try:
            load.wait(END_S)
        except subprocess.TimeoutExpired:
            load.kill()
            load.wait()
    return found


def _throughput(stdin: IO[str], stdout: IO[str], *, beside: bool) -> float:
    worker = [sys.executable, "-m", "benchmarks.live_workers", "gpuprobe", "10"]
    probe = Program(worker, terminal=False) if beside else None
    if probe is not None:
        time.sleep(START_UP_S)
    began = time.monotonic()
    stdin.write(f"{LOAD_S}\n")
    stdin.flush()
    rate = float(_answer(stdout)["rate"])
    if probe is not None:
        said = probe.end()
        stamps = told_stamps(probe)
        if not any(at > began for at in stamps):
            raise RuntimeError(f"gpuprobe took no sample beside the load: {said}")
    return rate


def _answer(stdout: IO[str]) -> dict[str, Any]:
    line = stdout.readline()
    if not line:
        raise RuntimeError("the load ended by itself")
    found: dict[str, Any] = json.loads(line)
    return found
