"""One device inside the NVML child: the thread that waits for NVML's own events about it.

Each device has an event set of its own, so that one that is lost or hangs does not keep the
events of the others.
"""

from __future__ import annotations

import threading
import time
import traceback
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.calls import (
    EVENT_TYPES,
    EVENT_WAIT_MS,
    FIRMWARE_XIDS,
    RECOVERY_EVENT,
    UNAVAILABLE_EVENT,
    XID_EVENT,
)
from gpuprobe.live.nvml.plan import GPU_NOT_FOUND, LOST, SHUT, DeviceLost, Stopped
from gpuprobe.live.nvml.quick import quick_wait

if TYPE_CHECKING:
    from gpuprobe.live.nvml.device import Device
    from gpuprobe.live.nvml_child import Child

TRIES = 4
"""After so many failures in a row the wait is given up."""
PAUSE_S = 0.2


class EventWait:
    """Waits for a device's Xids, and for what else of `EVENT_TYPES` it offers.

    Args:
        child: What the threads share.
        device: The device.
    """

    def __init__(self, child: Child, device: Device) -> None:
        self._child = child
        self._device = device
        self._slot = device.slot + wire.EVENTS
        self._handle: Any = None
        self._thread = threading.Thread(target=self._guarded, name=f"events {device.slot}")

    def start(self, handle: Any) -> None:
        """Begin to wait."""
        self._handle = handle
        self._thread.start()

    @property
    def running(self) -> bool:
        """Whether its thread still lives."""
        return self._thread.is_alive()

    def join(self) -> None:
        """Wait until its thread is outside of any call; at once where it never began."""
        if self._thread.ident is not None:
            self._thread.join()

    def _guarded(self) -> None:
        try:
            self._run()
        except Stopped:
            pass
        except DeviceLost as lost:
            if self._device.alive:
                self._device.say_lost(lost.function)
        except Exception:
            self._child.send("error", text=traceback.format_exc(limit=4))
        finally:
            self._child.leave(self._slot)

    def _run(self) -> None:
        """Register for what the device offers and wait for it, until all is over."""
        error_type = self._child.nvml.NVMLError
        try:
            offered = self._call("nvmlDeviceGetSupportedEventTypes", self._handle)
            wanted = offered & EVENT_TYPES  # more than it offers, and all of it is refused
            if not wanted:
                return
            events = self._call("nvmlEventSetCreate")
            self._call("nvmlDeviceRegisterEvents", self._handle, wanted, events)
        except error_type as error:
            self._say_none(error.value)
            return
        wait = quick_wait(self._child.nvml)
        failures = 0
        while failures < TRIES:
            try:
                event = self._call("nvmlEventSetWait", events, EVENT_WAIT_MS, made_by=wait)
            except error_type as error:
                code = error.value
                failures += 1
                time.sleep(PAUSE_S)
                continue
            failures = 0
            if event is not None:
                self._take(int(event.eventType), int(event.eventData))
        self._say_none(code)

    def _call(self, function: str, *args: Any, made_by: Callable[..., Any] | None = None) -> Any:
        try:
            return self._device.call(function, *args, slot=self._slot, made_by=made_by)
        except self._child.nvml.NVMLError as error:
            if error.value == LOST:
                raise DeviceLost(function) from None
            if error.value == GPU_NOT_FOUND or error.value in SHUT:
                raise Stopped from None  # the sampling thread will find the same, and say so
            raise

    def _take(self, kind: int, data: int) -> None:
        """Pass an event on, and draw what it means for further calls."""
        self._child.send("event", slot=self._device.slot, type=kind, data=data)
        if kind & XID_EVENT and data in FIRMWARE_XIDS:
            self._child.tainted = True
            self._child.end("firmware")
        elif kind & UNAVAILABLE_EVENT:
            self._child.tainted = True
            self._device.ask_once_more()
        elif kind & RECOVERY_EVENT:
            self._device.read_slow_now()

    def _say_none(self, code: int) -> None:
        self._child.send(
            "nvml",
            slot=self._device.slot,
            call="nvmlEventSetWait",
            code=code,
            name=self._child.name_of(code),
        )
