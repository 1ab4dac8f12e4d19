"""How long a scan of a large, healthy Triton cache takes, and what memory.

The row before it is the floor: one Python loop that lists each entry, and opens, reads and closes
those of its files that a scan reads.

`python -m benchmarks.jitcache [ENTRIES] [FOLDER]`
"""

from __future__ import annotations

import os
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from gpuprobe.testing.jitcache import elf, put, triton_entry

ENTRIES = 100_000
_KERNEL_BYTES = 12_000


def make(cache: Path, entries: int) -> None:
    """Make so many entries; children are hard links to one entry's, so that the disk bears it."""
    first = triton_entry(cache, seed="0")
    put(first, {"add.cubin": elf(code=b"\x18\x79\x00\x01" * (_KERNEL_BYTES // 4))})
    from gpuprobe.testing.jitcache import key

    children = sorted(first.iterdir())
    for number in range(1, entries):
        folder = cache / key(f"add{number}")
        folder.mkdir()
        for child in children:
            if child.stat().st_nlink > 50_000:
                fresh = child.with_suffix(child.suffix + ".new")
                shutil.copy2(child, fresh)
                fresh.replace(child)
            (folder / child.name).hardlink_to(child)


def read_once(cache: Path) -> None:
    """Read what a scan reads, without a look at it, and print a row."""
    began = time.perf_counter()
    top = os.open(cache, os.O_RDONLY)
    with os.scandir(top) as entries:
        names = [entry.name for entry in entries]
    for name in names:
        folder = os.open(name, os.O_RDONLY, dir_fd=top)
        with os.scandir(folder) as entries:
            children = [entry.name for entry in entries]
        for child in children:
            if child.endswith((".json", ".cubin")):
                file = os.open(child, os.O_RDONLY, dir_fd=folder)
                os.read(file, 1 << 20)
                os.close(file)
            else:
                os.stat(child, dir_fd=folder)
        os.close(folder)
    _tell("read alone", len(names), time.perf_counter() - began)


def scan_once(cache: Path) -> None:
    """Scan, and print a row."""
    from gpuprobe.jitcache.api import scan

    began = time.perf_counter()
    report = scan([cache])
    took = time.perf_counter() - began
    assert not report.bad
    assert not report.suspicious
    _tell("scan", report.checked, took)


def _tell(what: str, entries: int, took: float) -> None:
    """Print a row; a worker process has ended when its scan has, so that it is counted."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    cpu = sum(one.ru_utime + one.ru_stime for one in used)
    peaks = " + ".join(f"{one.ru_maxrss / 1024:.0f}" for one in used if one.ru_maxrss)
    print(
        f"{what}, {entries:,} entries: {took:.2f} s, {took / entries * 1e6:.0f} us an entry, "
        f"{cpu:.2f} s of CPU, {peaks} MB at most"
    )


def main() -> None:
    """Make the cache, and read and scan it in fresh processes, twice."""
    steps = {"--read": read_once, "--scan": scan_once}
    if sys.argv[1:2] and sys.argv[1] in steps:
        steps[sys.argv[1]](Path(sys.argv[2]))
        return
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES
    folder = Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None))
    try:
        make(folder / "cache", entries)
        for step in [*steps] * 2:
            command = [sys.executable, "-m", "benchmarks.jitcache", step]
            subprocess.run([*command, str(folder / "cache")], check=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
