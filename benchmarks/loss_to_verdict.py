"""From a loss to the verdict of `gpuprobe run`: median and worst of many, on the fake driver.

python -m benchmarks.loss_to_verdict [TIMES]

Each run is a whole one: an engine, its GPU lost while it works, the verdict on stderr. The clock
runs from the moment at which the fake device is lost (or the engine dies of it) to the moment at
which the verdict stands on stderr, read every 2 ms. Needs a C compiler.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Final

from gpuprobe.testing.nvml import FakeNvml
from gpuprobe.testing.sysfs import FakeSysfs
from tests.cli.run_bench import Run, running
from tests.live.nvml_bench import ONE, TWO
from tests.live.session_bench import machine

Lose = Callable[[Run, FakeNvml, FakeSysfs], None]


def dies(run: Run, fake: FakeNvml, tree: FakeSysfs) -> None:
    """The device goes and the engine dies of its CUDA error."""
    fake.lose(ONE)
    run.go()


def hangs(run: Run, fake: FakeNvml, tree: FakeSysfs) -> None:
    """The device goes and the engine hangs."""
    run.go()
    time.sleep(0.2)
    run.began = time.monotonic()
    fake.lose(ONE)


def driver_hangs(run: Run, fake: FakeNvml, tree: FakeSysfs) -> None:
    """The device goes, every NVML call hangs, and the engine dies: sysfs alone has the proof."""
    fake.hang()
    tree.lose(ONE)
    run.go()


CASES: Final[dict[str, tuple[str, Lose]]] = {
    "engine dies": ("cuda", dies),
    "engine hangs": ("hang", hangs),
    "engine dies, NVML hangs": ("cuda", driver_hangs),
}


def once(how: str, lose: Lose) -> float:
    """Seconds of one run."""
    with tempfile.TemporaryDirectory(prefix="gpuprobe-loss-") as name:
        folder = Path(name)
        tree = machine(folder)
        fake = FakeNvml(folder, [ONE, TWO])
        with running(folder, how, "--device", str(ONE), fake=fake, tree=tree) as run:
            run.until_ready(fake)
            lose(run, fake, tree)
            until = time.monotonic() + 10.0
            while "gpuprobe: [" not in run.words and time.monotonic() < until:
                time.sleep(0.002)
            return time.monotonic() - run.began


def main() -> None:
    """Print one row a case."""
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 50
    print(f"{'case':<26}{'runs':>6}{'median ms':>12}{'worst ms':>12}")
    for name, (how, lose) in CASES.items():
        took = [once(how, lose) * 1000 for _ in range(times)]
        print(f"{name:<26}{times:>6}{median(took):>12.0f}{max(took):>12.0f}", flush=True)


if __name__ == "__main__":
    main()
