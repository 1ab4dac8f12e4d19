"""The benchmarks that print rows of their own, each as a program, with what it needs."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
LONGEST_S: Final = 1800


@dataclass(frozen=True, slots=True)
class Part:
    """One program.

    Attributes:
        name: As it is chosen.
        title: Its heading on the page.
        arguments: Behind `python -m benchmarks.`.
        lacks: What it needs and this machine does not have, in words, or "".
    """

    name: str
    title: str
    arguments: tuple[str, ...]
    lacks: Callable[[], str] = lambda: ""


def _no_compiler() -> str:
    return "" if shutil.which("cc") or shutil.which("gcc") else "a C compiler for the fake driver"


def _no_gpu() -> str:
    return "" if Path("/dev/nvidiactl").exists() else "an NVIDIA GPU"


PARTS: Final = (
    Part("relay", "The engine's output through `run`", ("relay", "--pairs", "3")),
    Part("loss", "From a loss to the verdict", ("loss_to_verdict", "10"), _no_compiler),
    Part("sampling", "Sampling 1, 2 and 8 GPUs of the fake driver", ("sampling",), _no_compiler),
    Part("recording", "Writing and loading recordings", ("recording",)),
    Part("jitcache", "A scan of 100,000 cache entries", ("jitcache",)),
    Part("week", "The report of a week at 10 Hz", ("week",)),
    Part("live", "Sampling a real GPU", ("live", "--seconds", "30"), _no_gpu),
)


def run(names: frozenset[str]) -> Iterator[str]:
    """Run those chosen, one after another; each gives a section of the page."""
    for part in PARTS:
        if part.name not in names:
            continue
        lacks = part.lacks()
        yield f"## {part.title}\n\n" + (
            f"Left out: this machine lacks {lacks}.\n" if lacks else _output(part)
        )


def _output(part: Part) -> str:
    load = os.getloadavg()[0]
    command = [sys.executable, "-m", f"benchmarks.{part.arguments[0]}", *part.arguments[1:]]
    try:
        done = subprocess.run(
            command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, check=False
        )
    except subprocess.TimeoutExpired:
        return f"`{' '.join(part.arguments)}` took more than {LONGEST_S} s.\n"
    said = done.stdout.strip()
    if done.returncode:
        said = f"{said}\nended with {done.returncode}: {done.stderr.strip()[-500:]}".strip()
    if not said.startswith("|"):
        said = f"```text\n{said}\n```"
    return f"`python -m benchmarks.{' '.join(part.arguments)}`, load {load:.1f}.\n\n{said}\n"
