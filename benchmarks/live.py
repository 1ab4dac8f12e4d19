"""What live sampling costs on a machine with an NVIDIA GPU: `python -m benchmarks.live`.

Each part is one program that runs alone: five seconds of start-up that do not count, then the
measured time. One JSON line a row as soon as it is measured, and a Markdown table at the end.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

from benchmarks.live_effect import LOADS, PAIRS, Effect, effect
from benchmarks.live_program import START_UP_S, Program, told_stamps
from benchmarks.process_tree import cpu_s, pss_mib
from benchmarks.table import circumstances
from gpuprobe.live.nvml.calls import CALLS, Group
from gpuprobe.pace import CALM_S, RARE_S, SELDOM_S, SLOW_S, USERS_S

MEMORY_EVERY_S = 5.0
RATES = (1, 4, 10, 100)
SMI_FIELDS = "power.draw,temperature.gpu,clocks.sm,pcie.link.gen.current"


@dataclass
class Row:
    """What one program took.

    Attributes:
        part: Its name. command: How it was run.
        cpu_percent: Percent of one core, user and system, all its processes.
        pss_mib: Largest proportional set size of all its processes together, MiB.
        samples: Samples taken of one GPU; None where the program does not show them.
        largest_gap_s: Longest time between two of them.
        seconds: Measured time.
        error: Why there is no figure, or "".
    """

    part: str
    command: str
    cpu_percent: float | None = None
    pss_mib: float | None = None
    samples: int | None = None
    largest_gap_s: float | None = None
    seconds: float = 0.0
    error: str = ""

    def cells(self) -> tuple[str, ...]:
        """The row of the table."""
        if self.error:
            return (self.part, f"not measured: {self.error}", "", "", "")
        return (
            self.part,
            _figure(self.cpu_percent, ".2f"),
            _figure(self.pss_mib, ".1f"),
            _figure(self.samples, "d"),
            _figure(None if self.largest_gap_s is None else self.largest_gap_s * 1000, ".1f"),
        )


def _figure(value: float | None, form: str) -> str:
    return "–" if value is None else format(value, form)


# --- measuring -------------------------------------------------------------------------------


Stamps = Callable[[Program], list[float] | None]


def measure(part: Part, seconds: float) -> Row:
    """Run a part's program so long, after its start-up."""
    row = Row(part.name, part.shown, seconds=seconds)
    if part.missing:
        row.error = part.missing
        return row
    program = Program(part.command, terminal=part.terminal)
    time.sleep(START_UP_S)
    cpu, begin, memory = cpu_s(program.pid), time.monotonic(), list[float]()
    while (left := begin + seconds - time.monotonic()) > 0 and not program.ended:
        time.sleep(min(left, MEMORY_EVERY_S))
        if (found := pss_mib(program.pid)) is not None:
            memory.append(found)
    taken, end = cpu_s(program.pid) - cpu, time.monotonic()
    died = program.ended
    said = program.end()
    if died:
        row.error = f"it ended by itself: {said}".replace("\n", " ").replace("|", "/")
        return row
    row.seconds = round(end - begin, 3)
    row.cpu_percent = round(100 * taken / (end - begin), 3)
    row.pss_mib = round(max(memory), 2) if memory else None
    try:
        stamps = part.stamps(program)
    except RuntimeError as error:
        row.error = f"{error}: {said}"
        return row
    if stamps is not None:
        within = [at for at in stamps if begin <= at <= end]
        row.samples = len(within)
        gaps = [b - a for a, b in pairwise(within)]
        row.largest_gap_s = round(max(gaps), 4) if gaps else None
    return row


def _arrivals(program: Program) -> list[float]:
    """When its lines came, one GPU's share of them."""
    lines = [at for at, text in program.lines if text and not text.startswith("#")]
    return lines[:: max(1, _gpus())]


def _unseen(program: Program) -> None:
    """A screen shows no samples."""


def _gpus() -> int:
    smi = shutil.which("nvidia-smi")
    if smi is None:
        return 1
    said = subprocess.run([smi, "-L"], capture_output=True, text=True, check=False).stdout
    return sum(line.startswith("GPU ") for line in said.splitlines())


# --- the parts -------------------------------------------------------------------------------


@dataclass(frozen=True)
class Part:
    """One program to measure."""

    name: str
    command: tuple[str, ...]
    stamps: Stamps
    shown: str
    terminal: bool = False
    missing: str = ""


def parts() -> Iterator[Part]:
    """All of them, each tool next to what it is compared with."""
    for rate in RATES:
        calls = json.dumps(list(sampled_calls()))
        bare = (sys.executable, "-m", "benchmarks.bare_nvml", str(rate), calls)
        yield _worker("gpuprobe", rate, f"gpuprobe watch --rate {rate} >/dev/null")
        yield Part(f"pynvml-{rate}", bare, told_stamps, f"the same calls at {rate} Hz, bare")
        yield _worker("record", rate, f"gpuprobe record --rate {rate} FILE")
        yield _worker("session", rate, f"gpuprobe.live.session.Session at {rate} Hz")
        yield _worker("probe", rate, f"gpuprobe.live.nvml.probe.NvmlProbe at {rate} Hz")
    for milliseconds in (100, 10):
        arguments = (f"--query-gpu={SMI_FIELDS}", "--format=csv,noheader", "-lms")
        command = ("nvidia-smi", *arguments, str(milliseconds))
        yield _tool(f"smi-{milliseconds}ms", command, _arrivals)
    yield _tool("dmon-1", ("nvidia-smi", "dmon", "-d", "1"), _arrivals)
    nvitop = (sys.executable, "-m", "nvitop", "--interval", "0.25")
    missing = "" if importlib.util.find_spec("nvitop") else "nvitop is not installed"
    yield Part("nvitop-4", nvitop, _unseen, "nvitop --interval 0.25", True, missing)


APART_S = {
    Group.FAST: 0.0,
    Group.CALM: CALM_S,
    Group.SLOW: SLOW_S,
    Group.USERS: USERS_S,
    Group.RARE: RARE_S,
    Group.SELDOM: SELDOM_S,
}


def sampled_calls() -> Iterator[tuple[str, list[Any], list[str], float]]:
    """What gpuprobe reads again and again, as often as gpuprobe reads it.

    Yields:
        Function, arguments, names of the values, and the seconds that two calls are apart at
        least.
    """
    for call in CALLS:
        if call.group in APART_S:
            fields = [value.field for value in call.gives if value.field is not None]
            arguments: list[Any] = [fields] if fields else list(call.args)
            if call.function == "nvmlDeviceGetSamples":
                arguments.append(0)  # all that the driver keeps
            names = [value.name for value in call.gives]
            yield call.function, arguments, names, APART_S[call.group]


def _worker(name: str, rate: int, shown: str) -> Part:
    command = (sys.executable, "-m", "benchmarks.live_workers", name, str(rate))
    return Part(f"{name}-{rate}", command, told_stamps, shown)


def _tool(name: str, command: tuple[str, ...], stamps: Stamps) -> Part:
    missing = "" if shutil.which(command[0]) else f"{command[0]} is not installed"
    return Part(name, command, stamps, " ".join(command), True, missing)


DEFAULT = "gpuprobe,pynvml,smi,dmon,nvitop,effect"


def chosen(names: Iterable[str]) -> list[Part]:
    """The parts of these names in their order, each once; `pynvml` means all of its rates.

    Raises:
        SystemExit: There is none of that name.
    """
    known = list(parts())
    wanted = list(names)
    for name in wanted:
        if name != "effect" and not any(_is(part, name) for part in known):
            every = ", ".join([part.name for part in known] + ["effect"])
            raise SystemExit(f"no part {name!r}; there are: {every}")
    found = {part.name: part for name in wanted for part in known if _is(part, name)}
    return list(found.values())


def _is(part: Part, name: str) -> bool:
    return name in (part.name, part.name.rpartition("-")[0])


# --- the program -----------------------------------------------------------------------------


def page(rows: Sequence[Row], effects: Sequence[Effect]) -> str:
    """What was measured as Markdown."""
    text = f"{circumstances()}\n"
    if rows:
        head = ("program", "CPU, % of one core", "PSS, MiB", "samples a GPU", "largest gap, ms")
        text += _table(head, (row.cells() for row in rows))
        text += f"\n{rows[0].seconds:.0f} s a row, after {START_UP_S:.0f} s of start-up.\n"
    if effects:
        loads = ("load", "alone", "beside gpuprobe at 10 Hz", "ratio (of the pairs)")
        text += "\n" + _table(loads, (one.cells() for one in effects))
    return text


def _table(head: tuple[str, ...], rows: Iterable[tuple[str, ...]]) -> str:
    lines = [head, ("---",) * len(head), *rows]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def main() -> None:
    """Measure what is asked for; what was measured is printed and written at once."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.live", description=__doc__)
    parser.add_argument("--seconds", type=float, default=90.0, help="of each row")
    parser.add_argument("--parts", default=DEFAULT, help=f"names with commas; default: {DEFAULT}")
    parser.add_argument("--pairs", type=int, default=PAIRS, help="pairs of `effect`")
    parser.add_argument("--write", type=Path, metavar="FILE", help="also write the page here")
    arguments = parser.parse_args()
    names = [name for name in arguments.parts.split(",") if name]
    rows: list[Row] = []
    effects: list[Effect] = []

    def tell(one: Row | Effect) -> None:
        told = asdict(one) | ({"ratio": one.ratio} if isinstance(one, Effect) else {})
        print(json.dumps(told), flush=True)
        if arguments.write:
            arguments.write.write_text(page(rows, effects), encoding="utf-8")

    for part in chosen(names):
        rows.append(measure(part, arguments.seconds))
        tell(rows[-1])
    for name in LOADS if "effect" in names else ():
        effects.append(effect(name, arguments.pairs))
        tell(effects[-1])
    print(f"\n{page(rows, effects)}", flush=True)


if __name__ == "__main__":
    main()
