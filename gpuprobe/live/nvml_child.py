"""The process that owns NVML: the only door to it, and the only importer of pynvml.

Run as `python -I -m gpuprobe.live.nvml_child SETTINGS` by `gpuprobe.live.nvml.probe`; `nvml.wire`
says what is spoken. A call into a driver whose GPU has died may never return, and a process that is
killed inside one can take the machine with it. So this process

* makes its calls in a thread a device, and no call in the main thread, which watches the pipe;
* ignores SIGINT, SIGHUP and SIGTERM and asks for no signal at its parent's death;
* leaves when its standard input ends: at once when no thread is in a call, else when the last
  call has returned;
* makes no further call to a device that was lost, and none at all after a firmware hang.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import mmap
import os
import select
import signal
import sys
import threading
import time
import traceback
from typing import Any

import pynvml  # noqa: TID251 - this module is the door

from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.calls import number_of
from gpuprobe.live.nvml.device import Device
from gpuprobe.live.nvml.outbox import Outbox
from gpuprobe.live.nvml.plan import LOST, SHUT, DriverShut, Stopped

MISMATCH = 18
"""LIB_RM_VERSION_MISMATCH: the library in memory is another driver's; a new process is needed."""
NO_LIBRARY = 12
"""LIBRARY_NOT_FOUND: there is no driver on this machine, which changes seldom."""
NO_LIBRARY_FACTOR = 6


class Child:
    """What the threads share: the pipe to the parent, the shared memory, and when to stop.

    Attributes:
        nvml: The pynvml module.
        over: True when no thread may begin another call.
        skipped: Addresses that are not to be opened.
        tainted: A device was lost or hung, so nothing is shut down in an orderly way.
    """

    def __init__(self, settings: wire.Settings) -> None:
        self.nvml: Any = pynvml
        self.settings = settings
        self.over = False
        self.tainted = False
        self.reload = threading.Event()
        self.why = "pipe"
        self.skipped: set[str] = set()
        self.state = memoryview(mmap.mmap(settings.state_fd, wire.STATE_BYTES))
        self.out = Outbox(settings.batch_s, lambda: self.end("pipe"))
        self._wake_read, self._wake_write = os.pipe()
        self._devices: dict[int, Device] = {}
        self._devices_lock = threading.Lock()
        self._shut_code = 0

    # --- for every thread ----------------------------------------------------------------

    def send(self, kind: str, **fields: Any) -> None:
        """Write one message at once; a parent that is gone means that we leave."""
        self.out.send(kind, **fields)

    def enter(self, slot: int, number: int) -> None:
        """Note in the shared memory that this thread begins a call.

        Raises:
            Stopped: No call may begin any more.
        """
        if self.over:
            raise Stopped
        tid, now = threading.get_native_id(), time.monotonic_ns()
        wire.pack_state(self.state, slot * wire.STATE_SIZE, number, tid, now)

    def leave(self, slot: int, answered_ns: int = 0) -> None:
        """Note that this thread is outside of any call, and when its device answered last."""
        tid = threading.get_native_id()
        wire.pack_state(self.state, slot * wire.STATE_SIZE, 0, tid, answered_ns)

    def end(self, why: str) -> None:
        """Begin no further call; the process leaves when the running ones have returned."""
        if not self.over:
            self.why = why
        self.over = True
        self.reload.set()
        with contextlib.suppress(OSError):
            os.write(self._wake_write, b"x")

    def call(self, function: str, *args: Any) -> Any:
        """A call about no device, by the library's thread."""
        self.enter(wire.LIBRARY_SLOT, number_of(function))
        try:
            return getattr(self.nvml, function)(*args)
        finally:
            self.leave(wire.LIBRARY_SLOT)

    @staticmethod
    def give_back_memory() -> None:
        """Give the system what opening a device took for a moment: up to 15 MB with some drivers.

        It is a matter of chance whether the C library does so by itself. Only glibc can be asked.
        """
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).malloc_trim(0)

    # --- the main thread -----------------------------------------------------------------

    def serve(self) -> None:
        """Start the library's thread and obey the parent until the pipe ends."""
        library = threading.Thread(target=self._guarded, name="library")
        library.start()
        self._obey()
        self.end("pipe")
        library.join()
        for device in list(self._devices.values()):
            device.join()
        self.send("bye", why=self.why)

    def _obey(self) -> None:
        """Read commands until the pipe ends or a thread says that all is over."""
        poll = select.poll()
        poll.register(0, select.POLLIN)
        poll.register(self._wake_read, select.POLLIN)
        pending = b""
        while True:
            poll.poll()
            if self.over:
                return
            data = os.read(0, 65536)
            if not data:
                return
            *lines, pending = (pending + data).split(b"\n")
            for line in lines:
                command = wire.decode_command(line)
                if command is None or command["do"] == "stop":
                    return
                self._do(command)

    def _do(self, command: dict[str, Any]) -> None:
        match command:
            case {"do": "cease"}:
                self.tainted = True
                self.end("firmware")
            case {"do": "flush"}:
                self.out.flush()
            case {"do": "skip", "pci": str(pci)}:
                self.skipped.add(pci)
                for device in self._open_devices():
                    if device.pci == pci:
                        device.give_up("skipped")
            case {"do": "open", "pci": str(pci)}:
                self.skipped.discard(pci)
                if pci not in {device.pci for device in self._open_devices()}:
                    self._start_device(pci=pci)

    def _open_devices(self) -> list[Device]:
        with self._devices_lock:
            return [device for device in self._devices.values() if device.alive]

    # --- the library's thread ------------------------------------------------------------

    def _guarded(self) -> None:
        try:
            while not self.over:
                self._hold_library()
        except Stopped:
            pass
        except Exception:
            self.send("error", text=traceback.format_exc(limit=4))
            self.end("error")

    def _hold_library(self) -> None:
        """Open NVML, watch its devices until it is shut under us, close it."""
        self.reload.clear()
        opened = False
        code = 0
        try:
            self.call("nvmlInit")
            opened = True
            self._greet()
            self._watch_count()
        except pynvml.NVMLError as error:
            code = error.value
        except DriverShut as shut:
            code = shut.code
        finally:
            for device in self._open_devices():
                device.give_up("closed")
            for device in list(self._devices.values()):
                device.join()
            if opened and not self.tainted:
                self._shut()
        if code:
            self._say_closed(code)

    def shut_under_us(self, code: int) -> None:
        """A device's thread found the driver unloaded: close the library and try again."""
        self._shut_code = code
        self.reload.set()

    def _greet(self) -> None:
        """Say what is open, then open each device in a thread of its own."""
        versions = {}
        for name, function in (
            ("driver", "nvmlSystemGetDriverVersion"),
            ("nvml", "nvmlSystemGetNVMLVersion"),
            ("cuda", "nvmlSystemGetCudaDriverVersion"),
        ):
            try:
                versions[name] = self.call(function)
            except pynvml.NVMLError:
                versions[name] = None
        self._count = self.call("nvmlDeviceGetCount")
        self.send("hello", pid=os.getpid(), count=self._count, **versions)
        if self.settings.devices is None:
            for index in range(self._count):
                self._start_device(index=index)
        else:
            for pci in sorted(set(self.settings.devices) - self.skipped):
                self._start_device(pci=pci)

    def _start_device(self, *, index: int | None = None, pci: str | None = None) -> None:
        with self._devices_lock:
            slot = self._free_slot()
            if slot is None:
                self.send("error", text=f"more than {wire.MAX_DEVICES} devices are open")
                return
            device = Device(self, slot, index=index, pci=pci)
            device.start()  # before it is listed: what is listed can be joined
            self._devices[slot] = device

    def _free_slot(self) -> int | None:
        """A slot never used, so that what was said of another is not mixed up; else an idle one."""
        fresh = set(range(wire.MAX_DEVICES)) - set(self._devices)
        if fresh:
            return min(fresh)
        idle = [slot for slot, device in self._devices.items() if device.idle]
        return min(idle, default=None)

    def _watch_count(self) -> None:
        """Notice devices that come, and the driver's end; with `once`, wait for the devices."""
        if self.settings.once:
            for device in self._open_devices():
                device.join()
            self.end("done")
            return
        while True:
            called = self.reload.wait(self.settings.retry_s)
            if self.over:
                return
            if called:
                raise DriverShut(self._shut_code)
            try:
                count = self.call("nvmlDeviceGetCount")
            except pynvml.NVMLError as error:
                if error.value in SHUT:
                    raise DriverShut(error.value) from None
                if error.value == LOST:
                    self.tainted = True
                continue
            if count > self._count and self.settings.devices is None:
                for index in range(count):
                    self._start_device(index=index)
            self._count = count

    def is_open(self, pci: str, besides: Device) -> bool:
        """Whether another thread already samples this device."""
        return any(device.pci == pci for device in self._open_devices() if device is not besides)

    def _say_closed(self, code: int) -> None:
        """Say that NVML cannot be used now, and wait before the next try."""
        name = self.name_of(code)
        self.send("closed", code=code, name=name)
        if self.settings.once:
            self.end("done")
        elif code == MISMATCH:
            self.end("mismatch")
        elif not self.over:
            self.reload.clear()
            factor = NO_LIBRARY_FACTOR if code == NO_LIBRARY else 1
            self.reload.wait(self.settings.retry_s * factor)

    def _shut(self) -> None:
        """Close NVML. It is the last call, so it is made even when all is over."""
        state = wire.CallState(
            number_of("nvmlShutdown"), threading.get_native_id(), time.monotonic_ns()
        )
        wire.put_state(self.state, wire.LIBRARY_SLOT, state)
        with contextlib.suppress(pynvml.NVMLError):
            pynvml.nvmlShutdown()
        self.leave(wire.LIBRARY_SLOT)

    @staticmethod
    def name_of(code: int) -> str:
        """`GPU_IS_LOST` for 15; the number for a code that this pynvml does not know."""
        names: dict[str, Any] = vars(pynvml)
        for name, value in names.items():
            if name.startswith("NVML_ERROR_") and value == code:
                return name.removeprefix("NVML_ERROR_")
        return str(code)


def main() -> None:
    """Be the child until the parent's pipe ends."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    gc.freeze()  # the modules stay: not to be gone through again and again
    Child(wire.Settings.from_argument(sys.argv[1])).serve()


if __name__ == "__main__":
    main()
