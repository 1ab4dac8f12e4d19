"""Fuzz the targets in turn, or those named: `python -m fuzz [--seconds 20] [TARGET …]`.

Each runs in a process of its own, over its seeds and what earlier runs kept in the folder of
inputs. A finding is an exception, a hang, a broken promise or memory beyond the limit: its input
is stored, and the exit code is 1. To keep it, put it into `fuzz/found/TARGET/` with the fix.
"""

from __future__ import annotations

import argparse
import importlib
import os
import platform
import re
import signal
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

HANG_S = 20
"""One input may take so long, instrumented."""

MEMORY_MB = 1024
"""Resident at most, instrumented."""

LONGEST = {
    "recording": 80_000,
    "archive": 16_384,
    "report-zip": 16_384,
    "report-json": 16_384,
    "scan": 8192,
}
"""Bytes of an input at most; 4096 for the others."""

_STATE = re.compile(
    rb"#(?P<runs>\d+)\t(?P<what>\w+)\s+cov: (?P<cov>\d+) ft: (?P<ft>\d+) corp: (?P<corp>\d+)"
    rb".*?rss: (?P<rss>\d+)Mb"
)


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run gave.

    Attributes:
        target: Its name.
        runs: Inputs tried.
        first: Edges that the seeds reached.
        edges: Edges reached at the end.
        inputs: Inputs kept.
        memory_mb: Resident at most.
        took_s: Seconds.
        found: The fuzzer's last words, where it found something.
    """

    target: str
    runs: int
    first: int
    edges: int
    inputs: int
    memory_mb: int
    took_s: float
    found: str = ""


def outcome(target: str, said: bytes, code: int, took_s: float) -> Outcome:
    """What a run gave, by what libFuzzer said and its exit code."""
    states = [match.groupdict() for match in _STATE.finditer(said)]
    first = next((state for state in states if state["what"] == b"INITED"), None)
    last = states[-1] if states else None
    found = ""
    if code or last is None:
        found = said[-3000:].decode("utf-8", "replace").strip() or f"ended with {code}"
    figures = {name: int(last[name]) if last else 0 for name in ("runs", "cov", "corp", "rss")}
    return Outcome(
        target=target,
        runs=figures["runs"],
        first=int(first["cov"]) if first else 0,
        edges=figures["cov"],
        inputs=figures["corp"],
        memory_mb=figures["rss"],
        took_s=took_s,
        found=found,
    )


def run(
    targets: Sequence[str], seconds: int, jobs: int, corpus: Path, artefacts: Path
) -> Iterator[Outcome]:
    """Run each target for so long, some at the same time; what each gave, as they end."""
    from fuzz.drive import start

    corpus.mkdir(parents=True, exist_ok=True)
    artefacts.mkdir(parents=True, exist_ok=True)
    waiting = list(reversed(targets))
    running: dict[int, tuple[str, float]] = {}
    try:
        while waiting or running:
            while waiting and len(running) < jobs:
                target = waiting.pop()
                options = (
                    *(f"-max_total_time={seconds}", f"-timeout={HANG_S}"),
                    *(f"-rss_limit_mb={MEMORY_MB}", f"-max_len={LONGEST.get(target, 4096)}"),
                )
                pid = start(target, corpus, artefacts, options)
                running[pid] = (target, time.monotonic())
            pid, status = os.wait()
            target, began = running.pop(pid)
            said = (corpus / f"{target}.log").read_bytes()
            code = os.waitstatus_to_exitcode(status)
            yield outcome(target, said, code, time.monotonic() - began)
    finally:
        for pid in running:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)


def has_wheels() -> bool:
    """Whether the extra `fuzz` installs atheris here: elsewhere it would have to be built."""
    here = sys.platform, platform.machine()
    return here == ("linux", "x86_64") and sys.version_info < (3, 15)


def main(arguments: Sequence[str] | None = None) -> int:
    """Fuzz, print a table, and give 1 where something was found."""
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="all of them by default")
    parser.add_argument("--seconds", type=int, default=20, help="for each target")
    parser.add_argument("--jobs", type=int, default=1, help="targets at the same time")
    parser.add_argument("--corpus", type=Path, help="folder of inputs that is kept and added to")
    parser.add_argument("--artefacts", type=Path, default=Path("fuzz-findings"))
    parser.add_argument("--list", action="store_true", help="name the targets and end")
    given = parser.parse_args(arguments)
    if not given.list and find_spec("atheris") is None:
        if not has_wheels():
            print(
                "skipped: the fuzzer (atheris) has no wheels for this Python, system or processor"
            )
            return 0
        parser.error("atheris is not installed: pip install -e '.[fuzz]'")
    if not given.list:
        # Before the targets: it instruments all that it imports.
        importlib.import_module("fuzz.drive")
    from fuzz.targets import TARGETS

    if given.list:
        print("\n".join(TARGETS))
        return 0
    unknown = sorted(set(given.targets) - TARGETS.keys())
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; --list names them")
    print("| target | inputs tried | edges of the seeds | edges | kept | MB | s | found |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    bad: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="gpuprobe-fuzz-") as temporary:
        corpus = given.corpus or Path(temporary)
        targets = given.targets or list(TARGETS)
        for one in run(targets, given.seconds, given.jobs, corpus, given.artefacts):
            print(
                f"| {one.target} | {one.runs:,} | {one.first:,} | {one.edges:,} | "
                f"{one.inputs:,} | {one.memory_mb} | {one.took_s:.0f} | "
                f"{'**yes**' if one.found else 'nothing'} |",
                flush=True,
            )
            bad += [one] if one.found else []
    for one in bad:
        print(f"\n{one.target}:\n{one.found}", file=sys.stderr)
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
