"""Fuzz the targets in turn, or those named: `python -m fuzz [--seconds 20] [TARGET …]`.

Each runs in a process of its own, over its seeds and what earlier runs kept in the folder of
inputs. A finding is an exception, a hang, a broken promise or memory beyond the limit: its input
is stored, and the exit code is 1. To keep it, put it into `fuzz/found/TARGET/` with the fix.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import re
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from fuzz.seeds import seeds, words_of
from fuzz.targets import TARGETS

HANG_S = 20
"""One input may take so long, instrumented."""

MEMORY_MB = 1024
"""Resident at most, instrumented."""

LONGEST = {"recording": 80_000, "archive": 16_384, "report-zip": 16_384, "report-json": 16_384}
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


def fuzz(target: str, seconds: int, corpus: Path, artefacts: Path) -> Outcome:
    """Run one target for so long."""
    folder = corpus / target
    folder.mkdir(parents=True, exist_ok=True)
    artefacts.mkdir(parents=True, exist_ok=True)
    for data in seeds(target):
        name = hashlib.sha256(data).hexdigest()[:20]
        (folder / name).write_bytes(data)
    dictionary = corpus / f"{target}.words"
    dictionary.write_text("".join(f'"{_spelt(word)}"\n' for word in words_of(target)))
    command = [
        *(sys.executable, "-m", "fuzz.drive", target, str(folder)),
        *(f"-max_total_time={seconds}", f"-timeout={HANG_S}", f"-rss_limit_mb={MEMORY_MB}"),
        *(f"-max_len={LONGEST.get(target, 4096)}", f"-artifact_prefix={artefacts / target}-"),
        f"-dict={dictionary}",
    ]
    began = time.monotonic()
    # Standard input is the archive of nobody: a target that reads it must not wait.
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    took = time.monotonic() - began
    states = [match.groupdict() for match in _STATE.finditer(done.stderr)]
    first = next((state for state in states if state["what"] == b"INITED"), None)
    last = states[-1] if states else None
    found = ""
    if done.returncode or last is None:
        words = (done.stdout[-3000:] + done.stderr[-3000:]).decode("utf-8", "replace")
        found = words.strip() or f"ended with {done.returncode}"
    figures = {name: int(last[name]) if last else 0 for name in ("runs", "cov", "corp", "rss")}
    return Outcome(
        target=target,
        runs=figures["runs"],
        first=int(first["cov"]) if first else 0,
        edges=figures["cov"],
        inputs=figures["corp"],
        memory_mb=figures["rss"],
        took_s=took,
        found=found,
    )


def _spelt(word: bytes) -> str:
    return "".join(
        chr(byte) if chr(byte).isalnum() and byte < 0x80 else f"\\x{byte:02x}" for byte in word
    )


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
    if given.list:
        print("\n".join(TARGETS))
        return 0
    unknown = sorted(set(given.targets) - TARGETS.keys())
    if unknown:
        parser.error(f"no target {', '.join(unknown)}; --list names them")
    if find_spec("atheris") is None:
        parser.error("atheris is not installed: pip install -e '.[fuzz]'")
    os.environ["PYTHONHASHSEED"] = "0"
    print("| target | inputs tried | edges of the seeds | edges | kept | MB | s | found |")
    print("|---|---|---|---|---|---|---|---|", flush=True)
    bad: list[Outcome] = []
    with tempfile.TemporaryDirectory(prefix="gpuprobe-fuzz-") as temporary:
        corpus = given.corpus or Path(temporary)
        with ThreadPoolExecutor(given.jobs) as pool:
            for one in pool.map(
                lambda name: fuzz(name, given.seconds, corpus, given.artefacts),
                given.targets or TARGETS,
            ):
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
