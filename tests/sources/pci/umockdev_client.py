"""Runs under umockdev-wrapper: UdevSource with the real pyudev, and uevents from a test bed.

Prints a JSON list: for each action given as `action` or `action:NAME=VALUE`, the events it gave and
how long the first took. The library is called through ctypes, as its GObject bindings are not
importable in a virtual environment.
"""

import ctypes
import json
import sys
import time

from gpuprobe.sources.pci.udev import UdevSource

GPU = "0000:01:00.0"
PATH = f"/sys/devices/pci0000:00/0000:00:01.0/{GPU}".encode()
DEVICES = f"""\
P: /devices/pci0000:00/0000:00:01.0
E: SUBSYSTEM=pci
E: PCI_CLASS=60400
E: PCI_SLOT_NAME=0000:00:01.0
A: class=0x060400

P: /devices/pci0000:00/0000:00:01.0/{GPU}
E: SUBSYSTEM=pci
E: PCI_CLASS=30000
E: PCI_ID=10DE:2684
E: PCI_SLOT_NAME={GPU}
A: class=0x030000

P: /devices/virtual/net/lo
E: SUBSYSTEM=net
E: INTERFACE=lo
""".encode()


class TestBed:
    def __init__(self):
        self.library = ctypes.CDLL("libumockdev.so.0")
        self.library.umockdev_testbed_new.restype = ctypes.c_void_p
        self.bed = ctypes.c_void_p(self.library.umockdev_testbed_new())
        assert self.library.umockdev_testbed_add_from_string(self.bed, DEVICES, None)

    def set(self, name, value):
        self.library.umockdev_testbed_set_property(self.bed, PATH, name.encode(), value.encode())

    def uevent(self, path, action):
        self.library.umockdev_testbed_uevent(self.bed, path, action.encode())


def gather(source, wait_s, enough=1):
    began = time.monotonic()
    found = []
    while time.monotonic() < began + wait_s and len(found) < enough:
        found += source.poll()
        time.sleep(0.005)
    return found, round(time.monotonic() - began, 3)


def main():
    bed = TestBed()
    source = UdevSource()
    source.start()
    started, _ = gather(source, 10)
    assert [event.what for event in started] == ["started"]
    answers = []
    for argument in sys.argv[1:]:
        action, *properties = argument.split(":")
        for one in properties:
            bed.set(*one.split("="))
        path = b"/sys/devices/virtual/net/lo" if action == "net-change" else PATH
        bed.uevent(path, action.removeprefix("net-"))
        quiet = action.endswith("change") and not properties
        found, after_s = gather(source, 0.3 if quiet else 5.0)
        answers.append(
            {
                "after_s": after_s,
                "events": [
                    {
                        "type": type(event).__name__,
                        "what": getattr(event, "what", getattr(event, "outcome", None)),
                        "driver": getattr(event, "driver", None),
                        "device": str(event.device),
                    }
                    for event in found
                ],
            }
        )
    source.stop()
    sys.stdout.write(json.dumps(answers))


main()
