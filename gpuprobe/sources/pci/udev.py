"""The kernel's uevents about PCI devices, as it sends them.

Listens to the kernel itself and not to udevd, which containers do not run. Needs pyudev (with
libudev) and no permission. Cost: nothing while nothing comes or goes. This is the one module that
imports pyudev.

A card that is cut off without hot-plug support gives no uevent at all, so silence proves nothing.

Source: the kernel's lib/kobject_uevent.c, `pci_uevent` in drivers/pci/pci-driver.c,
Documentation/gpu/drm-uapi.rst.
"""

from __future__ import annotations

import contextlib
import errno
import re
import select
from collections.abc import Iterator, Mapping
from typing import Any

from gpuprobe.events import AerRecoveryEnded, DeviceChanged, Event, GpuHung
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.threaded import ThreadedSource, Turn

SUBSYSTEMS = ("pci", "drm")

_BUFFER_BYTES = 1 << 20

_ACTIONS = {"add": "added", "remove": "removed", "bind": "bound", "unbind": "unbound"}

_ADDRESS = re.compile(r"/([0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7])(?=/|\Z)")


class UdevSource(ThreadedSource):
    """Listens to the kernel's uevents.

    Args:
        order: See `ThreadedSource`.
        pyudev: The module, imported when None.
    """

    name = "udev"

    def __init__(self, order: int = 0, *, pyudev: Any = None) -> None:
        super().__init__(order)
        self._pyudev = pyudev

    def available(self) -> Availability:
        """Whether uevents can be heard, or what is missing."""
        try:
            self._monitor()
        except ImportError as error:
            return Unavailable(
                Reason.NOT_THERE,
                f"pyudev cannot be used: {error}",
                "pip install pyudev, and install libudev (libudev1 on Debian and Ubuntu).",
            )
        except OSError as error:
            denied = error.errno in (errno.EPERM, errno.EACCES)
            return Unavailable(
                Reason.NOT_PERMITTED if denied else Reason.FAILED,
                f"no netlink socket for uevents: {error.strerror or error}",
                "In a container, allow AF_NETLINK sockets and mount the host's /sys.",
            )
        return Known("kernel uevents")

    def _monitor(self) -> Any:
        if self._pyudev is None:
            import pyudev  # only where it is used: it loads a C library

            self._pyudev = pyudev
        monitor = self._pyudev.Monitor.from_netlink(self._pyudev.Context(), source="kernel")
        for subsystem in SUBSYSTEMS:
            monitor.filter_by(subsystem)
        return monitor

    def _run(self, turn: Turn) -> None:
        access = self.available()
        if isinstance(access, Unavailable):
            turn.put(self._changed("unavailable", f"{access.detail}. {access.hint}"))
            return
        monitor = self._monitor()
        with contextlib.suppress(OSError):  # more than the default needs a capability
            monitor.set_receive_buffer_size(_BUFFER_BYTES)
        monitor.start()
        turn.put(self._changed("started", "listening to the kernel's uevents"))
        while not turn.over:
            mask = turn.wait(None, monitor.fileno())
            if mask & select.POLLNVAL:
                turn.put(self._changed("stopped", "the netlink socket was closed"))
                return
            if mask:
                self._take(turn, monitor)

    def _take(self, turn: Turn, monitor: Any) -> None:
        while not turn.over:
            try:
                device = monitor.poll(timeout=0)
            except OSError as error:
                if error.errno != errno.ENOBUFS:
                    raise
                turn.put(self._changed("gap", "uevents came faster than they were read"))
                continue
            if device is None:
                return
            for event in self.read(device.action or "", dict(device.properties)):
                turn.put(event)

    def read(self, action: str, properties: Mapping[str, str]) -> Iterator[Event]:
        """What one uevent says.

        Args:
            action: `add`, `remove`, `bind`, `unbind`, `change`.
            properties: As the kernel sends them: `DEVPATH`, `PCI_CLASS`, `ERROR_EVENT`, ...
        """
        device = _device(properties)
        if device is None:
            return
        base = self._base(
            _words(action, device, properties), properties.get("DEVPATH"), device=device
        )
        error = properties.get("ERROR_EVENT")
        if properties.get("SUBSYSTEM") == "drm":
            if "WEDGED" in properties:
                yield GpuHung(**base, driver="drm", what="wedged", recovered=None)
        elif error == "SUCCESSFUL_RECOVERY":
            yield AerRecoveryEnded(**base, outcome="recovered")
        elif error == "FAILED_RECOVERY":
            yield AerRecoveryEnded(**base, outcome="failed")
        elif action in _ACTIONS:
            yield DeviceChanged(
                **base,
                what=_ACTIONS[action],
                class_code=_hex(properties.get("PCI_CLASS")),
                driver=properties.get("DRIVER") if action == "bind" else None,
            )


def _device(properties: Mapping[str, str]) -> PciAddress | None:
    """The PCI function that a uevent is about; of a drm device the one below it."""
    if named := PciAddress.try_parse(properties.get("PCI_SLOT_NAME")):
        return named
    found = _ADDRESS.findall(properties.get("DEVPATH", ""))
    return PciAddress.try_parse(found[-1]) if found else None


def _hex(text: str | None) -> int | None:
    with contextlib.suppress(ValueError):
        return int(text or "", 16)
    return None


def _words(action: str, device: PciAddress, properties: Mapping[str, str]) -> str:
    kept = ("DRIVER", "PCI_CLASS", "PCI_ID", "ERROR_EVENT", "DEVICE_ONLINE", "WEDGED", "SEQNUM")
    told = " ".join(f"{key}={properties[key]}" for key in kept if key in properties)
    return f"uevent {action} {device} {told}".strip()
