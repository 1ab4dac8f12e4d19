"""What the relay of `gpuprobe run` costs: `python -m benchmarks.relay`.

Each way is measured in pairs, in turn: a flood paced at 100 MB/s, and one as fast as it goes, on a
pipe against `| cat` and on a terminal against `script -qc`; then the time of one line, and what
front and relay take while nothing happens. A terminal may not take 100 MB/s from anybody, so one
paced at 20 MB/s is measured as well. The probe is the one that only reads (`--probe full` reads as
`gpuprobe run` does).
"""

from __future__ import annotations

import argparse
import json
import os
import pty
import shlex
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from benchmarks.process_tree import cpu_s, pss_mib

ROOT = Path(__file__).parents[1]
PAIRS = 5
FLOODS = (("pipe", "cat", (100, 0)), ("terminal", "script -qc", (100, 20, 0)))
"""Where to, against what, and at which paces in MB/s; 0 for none."""

_FLOOD = """
import os, sys, time
size, rate = int(sys.argv[1]) << 20, float(sys.argv[2]) * 1e6
block = (b"x" * 99 + b"\\n") * 656
begin, done = time.perf_counter(), 0
while done < size:
    view = memoryview(block)
    while view: view = view[os.write(1, view):]
    done += len(block)
    ahead = done / rate - (time.perf_counter() - begin) if rate else 0
    if ahead > 0: time.sleep(ahead)
os.write(2, b"%.6f\\n" % (time.perf_counter() - begin))
"""

_LINES = """
import os, sys, time
for _ in range(int(sys.argv[1])):
    time.sleep(0.01)
    os.write(1, b"%d\\n" % time.monotonic_ns())
"""

_READER = """
import json, os, sys
told = json.loads(sys.argv[1])
while data := os.read(told["frames"], 1 << 18): pass
"""

_FULL = """
import sys, time
from gpuprobe.live.engine.process import EngineSource, Link
source = EngineSource(Link.from_argument(sys.argv[1]), 0)
source.start()
while source.exit is None:
    time.sleep(0.05)
    list(source.poll())
source.link.finish()
"""


def front(engine: Sequence[str], probe: str = "reads") -> list[str]:
    """The command line of a front for `engine`."""
    script = str(ROOT / "gpuprobe" / "live" / "engine" / "front_main.py")
    by = (
        [sys.executable, "-c", _FULL]
        if probe == "full"
        else [sys.executable, "-I", "-S", "-c", _READER]
    )
    told = json.dumps({"probe": by, "again": False, "held": False})
    return [sys.executable, "-I", "-S", script, str(ROOT), told, *engine]


def python(code: str, *arguments: object) -> list[str]:
    """A program of our own."""
    return [sys.executable, "-I", "-S", "-c", code, *map(str, arguments)]


def on_pipe(command: Sequence[str], errors: Path) -> None:
    """Run with its stdout read to the end from a pipe."""
    with errors.open("wb") as note:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=note, cwd=ROOT)
    assert process.stdout is not None
    while os.read(process.stdout.fileno(), 1 << 20):
        pass
    process.wait()
    process.stdout.close()


def on_terminal(command: Sequence[str]) -> None:
    """Run on a terminal that is read to its end."""
    pid, master = pty.fork()
    if pid == 0:
        os.execvp(command[0], list(command))  # noqa: S606 - as given below
    with suppress(OSError):
        while os.read(master, 1 << 20):
            pass
    os.waitpid(pid, 0)
    os.close(master)


def flood(kind: str, how: str, mib: int, rate: float, probe: str, note: Path) -> float:
    """Seconds that the writer needed: `how` is `relay`, or what it is compared with."""
    note.unlink(missing_ok=True)
    writer = python(_FLOOD, mib, rate)
    told = ["sh", "-c", f'exec "$@" 2>{shlex.quote(str(note))}', "sh", *writer]
    if kind == "pipe":
        plain = ["sh", "-c", f"{shlex.join(told)} | cat"]
        on_pipe(front(told, probe) if how == "relay" else plain, note.with_suffix(".err"))
    else:
        plain = ["script", "-qc", shlex.join(told), "/dev/null"]
        on_terminal(front(told, probe) if how == "relay" else plain)
    return float(note.read_text())


def latency_us(command: Sequence[str]) -> tuple[float, float]:
    """Median and 99th percentile from a line's writing to its reading, microseconds."""
    process = subprocess.Popen(command, stdout=subprocess.PIPE, cwd=ROOT)
    assert process.stdout is not None
    found = []
    pending = b""
    while data := os.read(process.stdout.fileno(), 65536):
        here = time.monotonic_ns()
        *lines, pending = (pending + data).split(b"\n")
        found += [(here - int(line)) / 1000 for line in lines]
    process.wait()
    process.stdout.close()
    return statistics.median(found), statistics.quantiles(found, n=100)[98]


def idle() -> str:
    """What front and relay take beside a silent engine: processor time in 5 s, and memory."""
    process = subprocess.Popen(
        front(["sleep", "8"]), stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT
    )
    time.sleep(1.5)
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
    parts = []
    before = {pid: _ticks(pid) for pid in (process.pid, int(children[0]))}
    time.sleep(5)
    for name, pid in zip(("front", "relay"), before, strict=True):
        parts.append(f"{name} {_ticks(pid) - before[pid]} ticks, PSS {_own_pss_mib(pid):.1f} MiB")
    total = f"all with the reading probe: {cpu_s(process.pid):.2f} s since the start"
    memory = pss_mib(process.pid)
    process.wait()
    return f"{'; '.join(parts)}; {total}, PSS {memory or 0:.1f} MiB"


def _ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def _own_pss_mib(pid: int) -> float:
    text = Path(f"/proc/{pid}/smaps").read_text()
    return sum(int(line.split()[1]) for line in text.splitlines() if line.startswith("Pss:")) / 1024


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.relay", description=__doc__)
    parser.add_argument("--pairs", type=int, default=PAIRS)
    parser.add_argument("--mib", type=int, default=200, help="of each flood")
    parser.add_argument("--probe", choices=("reads", "full"), default="reads")
    arguments = parser.parse_args()
    note = Path(f"/tmp/gpuprobe-bench-relay-{os.getpid()}")  # noqa: S108 - our own, by our id
    print("| flood | relay s | other s | ratio, median (least to most) |\n|---|---|---|---|")
    for kind, other, rates in FLOODS:
        for rate in rates:
            mib = arguments.mib if kind == "pipe" or not rate else arguments.mib // 2
            pairs = []
            for turn in range(arguments.pairs):
                both = {}
                for how in ("relay", other) if turn % 2 else (other, "relay"):
                    both[how] = flood(kind, how, mib, rate, arguments.probe, note)
                pairs.append((both["relay"], both[other]))
            ratios = [ours / theirs for ours, theirs in pairs]
            ours, theirs = (statistics.median(column) for column in zip(*pairs, strict=True))
            name = f"{kind}, {mib} MiB {f'at {rate} MB/s' if rate else 'unpaced'}, against {other}"
            print(
                f"| {name} | {ours:.2f} | {theirs:.2f} | {statistics.median(ratios):.3f} "
                f"({min(ratios):.3f} to {max(ratios):.3f}) |"
            )
    for name, command in (
        ("relay", front(python(_LINES, 300), arguments.probe)),
        ("cat", ["sh", "-c", f"{shlex.join(python(_LINES, 300))} | cat"]),
    ):
        median, late = latency_us(command)
        print(f"one line through {name}: median {median:.0f} µs, 99 of 100 under {late:.0f} µs")
    print(f"idle: {idle()}")
    note.unlink(missing_ok=True)
    note.with_suffix(".err").unlink(missing_ok=True)


if __name__ == "__main__":
    main()
