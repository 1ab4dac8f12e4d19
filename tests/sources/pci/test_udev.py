"""The kernel's uevents about PCI devices."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections import deque
from pathlib import Path
from types import SimpleNamespace

import pytest

from gpuprobe.events import AerRecoveryEnded, DeviceChanged, GpuHung, SourceChanged
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Unavailable
from gpuprobe.sources.pci.udev import UdevSource

GPU = "0000:41:00.0"
PATH = f"/devices/pci0000:00/0000:00:03.1/{GPU}"
PCI = {"SUBSYSTEM": "pci", "DEVPATH": PATH, "PCI_SLOT_NAME": GPU, "PCI_CLASS": "30200"}


@pytest.mark.parametrize(
    ("action", "more", "kind", "fields"),
    [
        ("add", {}, DeviceChanged, {"what": "added", "class_code": 0x030200}),
        ("remove", {}, DeviceChanged, {"what": "removed", "driver": None}),
        ("bind", {"DRIVER": "nvidia"}, DeviceChanged, {"what": "bound", "driver": "nvidia"}),
        ("unbind", {}, DeviceChanged, {"what": "unbound"}),
        ("change", {"ERROR_EVENT": "SUCCESSFUL_RECOVERY", "DEVICE_ONLINE": "1"}, AerRecoveryEnded, {"outcome": "recovered"}),
        ("change", {"ERROR_EVENT": "FAILED_RECOVERY", "DEVICE_ONLINE": "0"}, AerRecoveryEnded, {"outcome": "failed"}),
        ("change", {"SUBSYSTEM": "drm", "PCI_SLOT_NAME": "", "DEVPATH": f"{PATH}/drm/card1", "WEDGED": "rebind"}, GpuHung, {"what": "wedged"}),
    ],
)  # fmt: skip
def test_a_uevent_says(action: str, more: dict[str, str], kind: type, fields: dict) -> None:
    """One event, about the right function, with what the kernel sent in its text."""
    (event,) = UdevSource().read(action, {**PCI, **more})

    assert isinstance(event, kind)
    assert event.device == PciAddress.parse(GPU)
    assert {name: getattr(event, name) for name in fields} == fields
    assert event.origin.input == "udev"
    assert event.origin.text.startswith(f"uevent {action} {GPU}")
    assert event.stamp.is_absolute


@pytest.mark.parametrize(
    ("action", "properties"),
    [
        ("change", PCI),
        ("change", {**PCI, "ERROR_EVENT": "BEGIN_RECOVERY", "DEVICE_ONLINE": "0"}),
        ("change", {**PCI, "SUBSYSTEM": "drm", "HOTPLUG": "1"}),
        ("add", {**PCI, "SUBSYSTEM": "drm"}),
        ("add", {"SUBSYSTEM": "pci", "DEVPATH": "/devices/pci0000:00"}),
        ("", {}),
    ],
)
def test_a_uevent_says_nothing(action: str, properties: dict[str, str]) -> None:
    """A plain change, a recovery that begins, a monitor plugged in, a bus: no event."""
    assert list(UdevSource().read(action, properties)) == []


class FakeMonitor:
    """What pyudev's monitor does, with a pipe for its socket."""

    def __init__(self) -> None:
        self.queue: deque = deque()
        self.subsystems: list[str] = []
        self._read, self._write = os.pipe()
        os.set_blocking(self._read, False)

    def filter_by(self, subsystem: str) -> None:
        self.subsystems.append(subsystem)

    def set_receive_buffer_size(self, size: int) -> None:
        raise OSError(errno.EPERM, "Operation not permitted")

    def start(self) -> None:
        pass

    def fileno(self) -> int:
        return self._read

    def send(self, item: object) -> None:
        self.queue.append(item)
        os.write(self._write, b"x")

    def poll(self, timeout: float) -> object:
        try:
            os.read(self._read, 1)
        except BlockingIOError:
            return None
        item = self.queue.popleft()
        if isinstance(item, Exception):
            raise item
        return item


def fake_pyudev(monitor: FakeMonitor | None, error: Exception | None = None) -> SimpleNamespace:
    def from_netlink(context: object, source: str) -> FakeMonitor:
        if error is not None:
            raise error
        assert source == "kernel"
        assert monitor is not None
        return monitor

    return SimpleNamespace(Context=lambda: None, Monitor=SimpleNamespace(from_netlink=from_netlink))


def wait_for(source: UdevSource, number: int) -> list:
    found: list = []
    end = time.monotonic() + 5
    while len(found) < number and time.monotonic() < end:
        found += source.poll()
        time.sleep(0.005)
    return found


def test_uevents_arrive_as_they_come_and_an_overflow_is_a_gap() -> None:
    """Started without the right to a larger buffer; what comes behind the gap is still heard."""
    monitor = FakeMonitor()
    source = UdevSource(pyudev=fake_pyudev(monitor))
    source.start()
    wait_for(source, 1)
    monitor.send(OSError(errno.ENOBUFS, "No buffer space available"))
    monitor.send(SimpleNamespace(action="remove", properties=PCI))
    gap, removed = wait_for(source, 2)
    began = time.monotonic()
    source.stop()

    assert time.monotonic() - began < 1.0
    assert (gap.what, removed.what) == ("gap", "removed")
    assert {"pci", "drm"} <= set(monitor.subsystems)


def test_why_it_cannot_listen_is_said() -> None:
    """No pyudev or no socket: a reason and what helps; a source that is started anyway ends."""
    denied = UdevSource(pyudev=fake_pyudev(None, OSError(errno.EPERM, "Operation not permitted")))
    access = denied.available()
    assert isinstance(access, Unavailable)
    assert access.reason == "not-permitted"
    assert "AF_NETLINK" in access.hint
    denied.start()
    (event,) = wait_for(denied, 1)
    assert isinstance(event, SourceChanged)
    assert event.what == "unavailable"


def test_a_missing_library_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without pyudev the package that brings it is named."""
    monkeypatch.setitem(sys.modules, "pyudev", None)
    access = UdevSource().available()

    assert isinstance(access, Unavailable)
    assert "pip install pyudev" in access.hint


def test_another_error_stops_the_source_with_a_word() -> None:
    """The thread never dies in silence."""
    monitor = FakeMonitor()
    source = UdevSource(pyudev=fake_pyudev(monitor))
    source.start()
    monitor.send(OSError(errno.EBADF, "Bad file descriptor"))
    events = wait_for(source, 2)

    assert [event.what for event in events] == ["started", "stopped"]


UMOCKDEV = """
import ctypes, sys, time
from gpuprobe.sources.pci.udev import UdevSource

lib = ctypes.CDLL("libumockdev.so.0")
lib.umockdev_testbed_new.restype = ctypes.c_void_p
lib.umockdev_testbed_add_devicev.restype = ctypes.c_void_p
strings = lambda *texts: (ctypes.c_char_p * (len(texts) + 1))(*texts, None)
bed = ctypes.c_void_p(lib.umockdev_testbed_new())
path = lib.umockdev_testbed_add_devicev(
    bed, b"pci", b"0000:41:00.0", None,
    strings(b"class", b"0x030200"), strings(b"PCI_CLASS", b"30200", b"PCI_SLOT_NAME", b"0000:41:00.0"),
)
source = UdevSource()
print(source.available(), flush=True)
source.start()
while not list(source.poll()):
    time.sleep(0.01)
send = lambda action: lib.umockdev_testbed_uevent(bed, ctypes.c_void_p(path), action)
send(b"unbind")
lib.umockdev_testbed_set_property(bed, ctypes.c_void_p(path), b"ERROR_EVENT", b"FAILED_RECOVERY")
send(b"change")
lib.umockdev_testbed_set_property(bed, ctypes.c_void_p(path), b"ERROR_EVENT", b"")
send(b"remove")
found, end = [], time.monotonic() + 10
while len(found) < 3 and time.monotonic() < end:
    found += source.poll()
    time.sleep(0.01)
source.stop()
print([(type(e).__name__, getattr(e, "what", None) or e.outcome, str(e.device)) for e in found])
"""


@pytest.mark.skipif(shutil.which("umockdev-wrapper") is None, reason="needs umockdev")
def test_the_real_monitor_hears_them(tmp_path: Path) -> None:
    """pyudev and libudev, on umockdev's uevents."""
    script = tmp_path / "listen.py"
    script.write_text(UMOCKDEV)
    done = subprocess.run(
        ["umockdev-wrapper", sys.executable, str(script)],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert done.returncode == 0, done.stderr
    first, last = done.stdout.splitlines()

    assert first == str(Known("kernel uevents"))
    assert eval(last) == [
        ("DeviceChanged", "unbound", GPU),
        ("AerRecoveryEnded", "failed", GPU),
        ("DeviceChanged", "removed", GPU),
    ]
