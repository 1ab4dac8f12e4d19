"""A program that records and says what is on the disk, for tests that kill it."""

from __future__ import annotations

import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from gpuprobe.clock import Stamp
from gpuprobe.events import GpuSampled, Origin, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.recording.writer import Limits, Recorder

GPU = PciAddress(0, 0x41, 0)


def main(path: str, every_s: str) -> None:
    """Samples, and an event every 30 of them; each number is printed once it is committed."""
    recorder = Recorder(Path(path), limits=Limits(every_s=float(every_s), file_bytes=4 << 20))
    number = 0
    while True:
        wall = datetime.now(UTC)
        stamp = Stamp(wall.isoformat(), number / 10, wall, True, 0.001)
        base = {"origin": Origin("nvml", None, f"n {number}"), "stamp": stamp, "device": GPU}
        recorder.add([GpuSampled(**base, power_w=float(number))])
        if number % 30 == 0 and recorder.commit([XidReported(**base, code=13)], timeout_s=30):
            sys.stdout.write(f"{number}\n")
            sys.stdout.flush()
        number += 1
        time.sleep(0.002)  # as fast as it can, it would fill a folder that is copied 200 times


if __name__ == "__main__":
    main(*sys.argv[1:])
