"""How long a scan of a large, healthy Triton cache takes, and what memory.

`python -m benchmarks.jitcache [ENTRIES] [FOLDER]`
"""

from __future__ import annotations

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


def scan_once(cache: Path) -> None:
    """Scan in this process and print a row."""
    from gpuprobe.jitcache.api import scan

    began = time.perf_counter()
    report = scan([cache])
    took = time.perf_counter() - began
    used = resource.getrusage(resource.RUSAGE_SELF)
    cpu = used.ru_utime + used.ru_stime
    print(
        f"{report.checked:,} entries: {took:.2f} s, {took / report.checked * 1e6:.0f} us an entry, "
        f"{cpu:.2f} s of CPU, {used.ru_maxrss / 1024:.0f} MB at most, "
        f"{len(report.bad)} bad, {len(report.suspicious)} suspicious"
    )


def main() -> None:
    """Make the cache, and scan it in fresh processes, twice."""
    if sys.argv[1:2] == ["--scan"]:
        scan_once(Path(sys.argv[2]))
        return
    entries = int(sys.argv[1]) if len(sys.argv) > 1 else ENTRIES
    folder = Path(tempfile.mkdtemp(dir=sys.argv[2] if len(sys.argv) > 2 else None))
    try:
        make(folder / "cache", entries)
        for _ in range(2):
            command = [sys.executable, "-m", "benchmarks.jitcache", "--scan"]
            subprocess.run([*command, str(folder / "cache")], check=True)
    finally:
        shutil.rmtree(folder)


if __name__ == "__main__":
    main()
