"""A cache that others write while it is scanned and repaired."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprobe.jitcache.api import repair, scan
from gpuprobe.testing import jitcache as caches

WRITER = """
import os, random, shutil, sys, time
from pathlib import Path
from gpuprobe.testing import jitcache as caches
cache, number, until = Path(sys.argv[1]), sys.argv[2], time.time() + float(sys.argv[3])
cubin = caches.elf(code=b"\\x18\\x79\\x00\\x01" * 4000)
random.seed(number)
n = 0
while time.time() < until:
    n += 1
    kernel = f"k{number}_{n % 40}"
    entry = cache / caches.key(kernel)
    if n % 7 == 0:
        shutil.rmtree(entry, ignore_errors=True)
    files = {f"{kernel}.json": b'{"name": "x"}', f"{kernel}.cubin": cubin}
    names = ", ".join(f'"{name}": "/old/{name}"' for name in files)
    files[f"__grp__{kernel}.json"] = ('{"child_paths": {%s}}' % names).encode()
    for name, data in files.items():
        left = entry / f"tmp.pid_{os.getpid()}_{n}"
        left.mkdir(parents=True, exist_ok=True)
        half = random.randrange(len(data))
        with (left / name).open("wb") as file:
            file.write(data[:half]); file.flush(); time.sleep(0.001)
            file.write(data[half:])
        os.replace(left / name, entry / name)
        os.rmdir(left)
    # As JAX and a linker do: in place, in pieces.
    for name in ("in-place.cubin",):
        place = cache / caches.key("place" + number)
        place.mkdir(exist_ok=True)
        with (place / name).open("wb") as file:
            for start in range(0, len(cubin), 3000):
                file.write(cubin[start:start + 3000]); file.flush(); time.sleep(0.002)
print(n)
"""

SECONDS = 25


@pytest.mark.slow
def test_a_cache_being_written_gives_no_alarm_and_takes_no_damage(tmp_path: Path) -> None:
    """Three writers, scans and repairs all the time: nothing good is called bad or moved.

    One entry was poisoned before: it alone is found, and moved once.
    """
    cache = tmp_path / "cache"
    for number in range(200):
        caches.triton_entry(cache, "steady", seed=str(number))
    caches.damage(caches.triton_entry(cache, "bad") / "bad.cubin", "half")
    writers = [
        subprocess.Popen(
            [sys.executable, "-c", WRITER, str(cache), str(number), str(SECONDS)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        for number in range(3)
    ]
    moved, scans = [], 0
    until = time.monotonic() + SECONDS - 2
    while time.monotonic() < until:
        report = scan([cache], settle_s=1.0)
        assert {item.key for item in report.bad} <= {caches.key("bad")}
        assert {item.key for item in report.suspicious} <= {
            caches.key(f"place{number}") for number in range(3)
        }
        moved += [item for item in repair(report.bad) if item.to is not None]
        scans += 1
    said = [writer.communicate(timeout=60) for writer in writers]

    assert [writer.returncode for writer in writers] == [0, 0, 0], said
    assert [item.entry for item in moved] == [cache / caches.key("bad")]
    assert scans >= 3
    assert scan([cache]).bad == ()
