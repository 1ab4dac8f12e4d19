"""`gpuprobe diagnose` of a large log against ripgrep looking for the same words."""

from __future__ import annotations

import gzip
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

from benchmarks.make_logs import make_log
from benchmarks.measure import Command, gpuprobe, interleave
from benchmarks.table import Row

TARGETS = {"clean": 1.0, "half-aer": 3.0}
"""At most so many times ripgrep's time, by kind of log."""

MEMORY_MIB = 200.0
"""Peak resident memory over all processes, for any input."""

FREE_FACTOR = 3
"""So many times the log's size has to be free on the disk."""


def run(size_mib: int, rounds: int) -> Iterator[Row]:
    """Measure logs of a size.

    Args:
        size_mib: Of each log, MiB.
        rounds: Runs of each command; their median counts.
    """
    with tempfile.TemporaryDirectory(prefix="gpuprobe-bench-") as name:
        folder = Path(name)
        if shutil.disk_usage(folder).free < FREE_FACTOR * size_mib << 20:
            print(f"too little disk space for logs of {size_mib} MiB: skipped")
            return
        words = folder / "needles"
        words.write_text("\n".join(_needles()) + "\n", encoding="utf-8")
        for kind, target in TARGETS.items():
            log = folder / f"{kind}.log"
            make_log(log, kind, size_mib << 20)
            yield from _against_ripgrep(log, words, kind, target, rounds)
            log.unlink()
        yield _bomb(folder / "zeros.log.gz", size_mib)


def _needles() -> tuple[str, ...]:
    from gpuprobe.sources.needles import NEEDLES

    return NEEDLES


def _against_ripgrep(
    log: Path, words: Path, kind: str, target: float, rounds: int
) -> Iterator[Row]:
    size = f"{log.stat().st_size / 1e9:.2f} GB"
    ours = Command("gpuprobe", gpuprobe("diagnose", str(log)), ok=(0, 1, 3))
    commands = [ours]
    if shutil.which("rg"):
        prints = Command("rg", ["rg", "-F", "-f", str(words), str(log)], ok=(0, 1))
        counts = Command("rg -c", ["rg", "-c", "-F", "-f", str(words), str(log)], ok=(0, 1))
        commands += [prints, counts]
    else:
        print("ripgrep (rg) is not installed: its column is left out")
    interleave(commands, rounds)
    for theirs in commands[1:]:
        yield Row(
            f"diagnose of a {kind} log of {size}",
            f"{ours.seconds:.2f} s ({ours.cpu:.2f} s of a core)",
            f"{theirs.name}: {theirs.seconds:.2f} s ({theirs.cpu:.2f} s)",
            f"{ours.seconds / theirs.seconds:.2f}x",
            f"{target:g}x",
            ours.seconds <= target * theirs.seconds,
        )
    yield _memory(f"memory for a {kind} log of {size}", ours)


def _bomb(path: Path, size_mib: int) -> Row:
    """A file that unpacks to a thousand times its size."""
    with gzip.open(path, "wb", compresslevel=9) as out:
        zeros = b"\n" * (1 << 20)
        for _ in range(size_mib):
            out.write(zeros)
    command = Command("gpuprobe", gpuprobe("diagnose", str(path)), ok=(0, 1, 2, 3))
    command.run()
    return _memory(f"memory for a gzip bomb of {size_mib} MiB", command)


def _memory(what: str, command: Command) -> Row:
    peak = command.peak_mib
    return Row(what, f"{peak:.0f} MiB", "-", "-", f"{MEMORY_MIB:.0f} MiB", peak <= MEMORY_MIB)
