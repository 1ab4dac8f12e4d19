"""Runs inside the virtual machine: gpuprobe's sources on a real kernel, told what to do by a test.

Messages, a JSON object a line: `begin` starts sources anew; `cut`, `remove` and `correctable` make
something happen; `look` says what sysfs shows; `watch` collects for some seconds and says what the
events were and what they come to.
"""

import json
import struct
import sys
import time
from pathlib import Path

from gpuprobe.clock_joining import Clocks
from gpuprobe.diagnosis import Input
from gpuprobe.events import SourceChanged
from gpuprobe.identity import PciAddress
from gpuprobe.sources.kernel_log import KernelLog
from gpuprobe.sources.pci.sysfs import SysfsSource
from gpuprobe.sources.pci.udev import UdevSource
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import diagnose

PORT = "0000:00:04.0"
DEVICE = "0000:01:00.0"
FOLDER = Path("/sys/bus/pci/devices") / DEVICE

SLOT_CONTROL_HIGH = 0x6D
POWER_OFF = 1 << 2
BAD_TLP = 1 << 6


def say(**message):
    sys.stdout.write(json.dumps(message) + "\n")
    sys.stdout.flush()


class Probe:
    """The sources, watching the one device as if it were a GPU."""

    def __init__(self):
        self.sources = [
            SysfsSource(1, devices=[PciAddress.parse(DEVICE)]),
            KernelLog(2),
            UdevSource(3),
        ]
        self.events = []
        self.seen_at = []
        self.acted_at = time.monotonic()
        for source in self.sources:
            source.start()
        self._wait_for_all()

    def _wait_for_all(self):
        """Until every source said that it began: under emulation, imports take seconds."""
        until = time.monotonic() + 30
        names = {source.name for source in self.sources}
        while names and time.monotonic() < until:
            self.watch(0.5)
            names -= {event.name for event in self.events if isinstance(event, SourceChanged)}
        self.watch(1.5)

    def watch(self, seconds):
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            for source in self.sources:
                for event in source.poll():
                    self.events.append(event)
                    self.seen_at.append(time.monotonic())
            time.sleep(0.02)

    def tell(self):
        clocks = Clocks()
        clocks.learn([], self.events)
        found = diagnose(Timeline(self.events, self._inputs(), clocks=clocks))
        say(
            answer=found.answer.value,
            verdicts=[
                {
                    "kind": verdict.kind.value,
                    "certainty": verdict.certainty and verdict.certainty.value,
                    "summary": verdict.summary,
                    "device": verdict.device and str(verdict.device.pci),
                    "evidence": [item.text for item in verdict.evidence],
                }
                for verdict in found.verdicts
            ],
            events=[
                {
                    "type": type(event).__name__,
                    "input": event.origin.input,
                    "text": event.origin.text,
                    "device": event.device and str(event.device),
                    "after_s": round(at - self.acted_at, 3),
                }
                for event, at in zip(self.events, self.seen_at, strict=True)
            ],
            available={source.name: repr(source.available()) for source in self.sources},
        )

    def _inputs(self):
        names = dict.fromkeys(event.origin.input for event in self.events)
        return [Input(path=name, format="text", lines=None, boots=1) for name in names]

    def stop(self):
        for source in self.sources:
            source.stop()


def look():
    def read(folder, name):
        try:
            return (folder / name).read_text().strip()
        except OSError as error:
            return f"{type(error).__name__}"

    names = ("vendor", "current_link_speed", "current_link_width", "power/runtime_status")
    found = {"there": FOLDER.is_dir()}
    if found["there"]:
        found |= {name: read(FOLDER, name) for name in names}
        found["config"] = (FOLDER / "config").read_bytes()[:4].hex()
        found["driver"] = (FOLDER / "driver").resolve().name
    say(**found)


def cut():
    """Switch the slot's power off behind the kernel's back, and say how soon the device is dumb."""
    with (FOLDER.parent / PORT / "config").open("r+b", buffering=0) as config:
        config.seek(SLOT_CONTROL_HIGH)
        value = config.read(1)[0]
        config.seek(SLOT_CONTROL_HIGH)
        config.write(bytes([value | POWER_OFF]))
    began = time.monotonic()
    while (FOLDER / "config").read_bytes()[:4] != b"\xff" * 4 and time.monotonic() < began + 2:
        pass
    return round(time.monotonic() - began, 4)


def correctable():
    """Inject a correctable error at the device through the kernel's aer_inject."""
    address = PciAddress.parse(DEVICE)
    with Path("/dev/aer_inject").open("wb", buffering=0) as inject:
        inject.write(
            struct.pack(
                "<BBBx7I",
                *(address.bus, address.device, address.function),
                *(0, BAD_TLP, 0, 0, 0, 0, address.domain),
            )
        )


def remove():
    (FOLDER / "remove").write_text("1")


def main():
    probe = Probe()
    say(ready=True)
    for line in sys.stdin:
        message = json.loads(line)
        match message["do"]:
            case "begin":
                probe.stop()
                probe = Probe()
                say(done=True)
            case "mark":
                probe.acted_at = time.monotonic()
                say(done=True)
            case "cut" | "correctable" | "remove" as what:
                probe.acted_at = time.monotonic()
                say(done=globals()[what]())
            case "look":
                look()
            case "watch":
                probe.watch(message["seconds"])
                probe.tell()


main()
