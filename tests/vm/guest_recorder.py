"""Runs inside the virtual machine: records to its disk until the power is cut.

A sample every tenth of a second, given on in batches as the driver's are, and an event now and
then. On the console, a JSON object a line: each sample when it was taken, each event once it was
said to be on the disk.
"""

import json
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from gpuprobe.clock import Stamp
from gpuprobe.events import GpuSampled, Origin, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.recording.due import BATCH_S
from gpuprobe.recording.writer import Recorder

GPU = PciAddress(0, 0x41, 0)
EVERY_S = 0.1
EVENT_EVERY = 17


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


def base(number):
    wall = datetime.now(UTC)
    stamp = Stamp(wall.isoformat(), time.monotonic(), wall, True, 0.001)
    return {"origin": Origin("nvml", None, f"n {number}"), "stamp": stamp, "device": GPU}


def main():
    recorder = Recorder(Path("/run/disk/a.gpuprobe"), about={"hostname": "guest"})
    say(ready=True)
    sys.stdin.readline()
    batch, sent_at, number = [], time.monotonic(), 0
    due = time.monotonic()
    while True:
        batch.append(GpuSampled(**base(number), power_w=float(number)))
        say(sample=number)
        if time.monotonic() - sent_at >= BATCH_S - EVERY_S / 2:
            recorder.add(batch)
            batch, sent_at = [], time.monotonic()
        if number % EVENT_EVERY == 0:
            recorder.add(batch)
            batch = []
            if recorder.commit([XidReported(**base(number), code=13)], timeout_s=30):
                say(shown=number)
        number += 1
        due += EVERY_S
        time.sleep(max(0.0, due - time.monotonic()))


main()
