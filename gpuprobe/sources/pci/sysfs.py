"""Watches GPUs and the ports above them in sysfs.

Presence is tested four times a second, or once where somebody else had an answer from the device
just before; links and counters are read every three seconds. Needs no root and no driver. Cost: two
small reads of open files a GPU and test, some ten every three seconds for each function on its
path. Nothing is read from a device that is asleep, so none is kept awake.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuprobe.events import (
    BridgeLinked,
    ConfigSpaceUnreadable,
    DeviceChanged,
    DeviceIdentified,
    Event,
    LinkStateReported,
    PresenceTested,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable, value_or_none
from gpuprobe.sources.base import Availability
from gpuprobe.sources.pci.links import LinkSampler
from gpuprobe.sources.pci.readings import (
    LinkReading,
    read_aer_service,
    read_aspm_policy,
    read_driver,
    read_function,
    read_port_status,
    read_power,
)
from gpuprobe.sources.pci.tree import (
    ROOT,
    TRIES,
    TRIES_OVER_S,
    Presence,
    addresses,
    device_path,
    gpus,
    is_gpu,
    look_once,
    path_to_root,
)
from gpuprobe.sources.threaded import Beat, ThreadedSource, Turn

__all__ = ["LinkReading", "SysfsSource", "gpus", "path_to_root"]

PRESENCE_S = 0.25
SLOW_EVERY = 12
"""Presence ticks between two looks at links, counters and the list of devices."""

TESTED_S = 1.0
"""So often presence is tested although the device answered somebody else, seconds."""

ANSWERED_S = 0.25
"""An answer to somebody else counts for so long, seconds."""

_ONES = b"\xff\xff\xff\xff"


class _Files:
    """What tells that a function is still there, kept open: opening costs more than reading.

    Raises:
        OSError: One of the two is not there, or may not be read.
    """

    __slots__ = ("_config", "_status")

    def __init__(self, folder: Path) -> None:
        self._status = self._config = -1
        self._status = os.open(folder / "power/runtime_status", os.O_RDONLY | os.O_CLOEXEC)
        self._config = os.open(folder / "config", os.O_RDONLY | os.O_CLOEXEC)

    def awake_and_answering(self) -> bool:
        """Whether it is; False also where that takes a closer look.

        Raises:
            OSError: It is gone: ENODEV of a file in sysfs whose device is.
        """
        if os.pread(self._status, 16, 0) != b"active\n":
            return False
        return os.pread(self._config, 4, 0) not in (b"", _ONES)

    def __del__(self) -> None:
        for descriptor in (self._status, self._config):
            if descriptor >= 0:
                os.close(descriptor)


@dataclass(slots=True)
class _Watched:
    """What was last seen of one function.

    Attributes:
        path: The ports above it, nearest first; kept when it is gone.
        seen: The last presence that was reported.
        ones_since: When config space first read all ones, else None. ones: How often since.
        driver: The driver that was bound when it was last looked at.
        tested_s: When presence was last tested, seconds of `time.monotonic()`.
    """

    address: PciAddress
    path: list[PciAddress]
    seen: Presence | None = None
    ones_since: float | None = None
    ones: int = 0
    driver: str | None = None
    files: _Files | None = None
    tested_s: float = 0.0

    @property
    def in_doubt(self) -> bool:
        """It reads all ones, and not for long enough to believe it."""
        return self.ones_since is not None and (self.seen is None or self.seen.config != "all-ones")


class SysfsSource(ThreadedSource):
    """Watches functions in sysfs.

    A function that is removed while it answered gives `DeviceChanged(removed)` without a driver:
    the kernel unbinds in order, so this may have been asked for. One that read all ones before
    keeps its driver's name there.

    Args:
        order: See `ThreadedSource`.
        root: Where /sys is looked for.
        devices: Functions to watch as GPUs, whatever their class; None for all GPUs, those that
            come later included.
        presence_s: Time between two presence tests, seconds.

    Attributes:
        answered_s: Says when a device last answered somebody else, seconds of `time.monotonic()`,
            or 0.0; None where nobody else asks.
    """

    name = "sysfs"
    answered_s: Callable[[PciAddress], float] | None = None

    def __init__(
        self,
        order: int = 0,
        *,
        root: Path = ROOT,
        devices: Sequence[PciAddress] | None = None,
        presence_s: float = PRESENCE_S,
    ) -> None:
        super().__init__(order)
        self._root = root
        self._devices = devices
        self._presence_s = presence_s
        self._forget()

    def _forget(self) -> None:
        self._watched: dict[PciAddress, _Watched] = {}
        self._links = LinkSampler(self._root, self._at)
        self._known: dict[PciAddress, bool] = {}
        self._names: list[str] | None = None

    def available(self) -> Availability:
        """Whether sysfs lists PCI devices here, and a GPU among them."""
        where = self._root / "sys/bus/pci/devices"
        if not where.is_dir():
            return Unavailable(
                Reason.NOT_THERE,
                f"no {where}",
                "In a container, mount the host's /sys (read-only is enough).",
            )
        if self._devices is None and not gpus(self._root):
            return Unavailable(Reason.NOT_THERE, f"{where} lists no GPU")
        return Known(str(where))

    def _run(self, turn: Turn) -> None:
        self._forget()
        beat = Beat(self._presence_s)
        tick = 0
        turn.put(self._changed("started", f"watching {self._root / 'sys/bus/pci/devices'}"))
        policy = read_aspm_policy(self._root)
        if isinstance(policy, Known):
            text = f"pcie_aspm policy is {policy.value}"
            turn.put(SystemDescribed(**self._base(text), key="aspm", value=policy.value))
        while not turn.over:
            slow = tick % SLOW_EVERY == 0
            if slow or not self._all_answered_else():
                for event in self.look(slow=slow, first=tick == 0):
                    turn.put(event)
            while not turn.over and any(one.in_doubt for one in self._watched.values()):
                turn.wait(TRIES_OVER_S / (TRIES - 1))
                for event in self.look(slow=False):
                    turn.put(event)
            tick += 1
            turn.wait(beat.pause())
        self._forget()

    def look(self, *, slow: bool, first: bool = False) -> Iterator[Event]:
        """One tick: what changed since the last one.

        Args:
            slow: Look at the list of devices, links and counters, too.
            first: What is found was there before; else it came just now.
        """
        if slow:
            yield from self._list(first=first)
        here = time.monotonic()
        for watched in list(self._watched.values()):
            if self._answered_else(watched, here):
                continue
            watched.tested_s = here
            if not self._as_before(watched):
                yield from self._test(watched, here)
        if slow:
            yield from self._sample()

    # --- which ----------------------------------------------------------------------------

    def _list(self, *, first: bool) -> Iterator[Event]:
        if self._devices is None:
            names = _names(self._root / "sys/bus/pci/devices")
            if names == self._names:
                return
            self._names = names
        there = addresses(self._root) if self._devices is None else list(self._devices)
        for address in there:
            if address not in self._known:
                # Class and vendor are read once: a server has hundreds of functions.
                self._known[address] = self._devices is not None or is_gpu(address, self._root)
                if self._known[address]:
                    yield from self._welcome(address, new=not first)
        for address in self._known.keys() - set(there):
            if not self._known[address]:
                del self._known[address]

    def _welcome(self, address: PciAddress, *, new: bool) -> Iterator[Event]:
        path = path_to_root(address, self._root)
        folder = device_path(address, self._root)
        self._watched[address] = _Watched(address, path)
        if not folder.is_dir():
            return
        function = read_function(address, self._root)
        if new:
            yield DeviceChanged(
                **self._at(address, f"{address} came"), what="added", class_code=function.class_code
            )
        who = f"[{function.vendor_id or 0:04x}:{function.device_id or 0:04x}]"
        driver = value_or_none(function.driver)
        self._watched[address].driver = driver
        yield DeviceIdentified(
            **self._at(address, f"{address} {who}, driver {driver or 'none'}"),
            is_gpu=True,
            vendor_id=function.vendor_id,
            device_id=function.device_id,
        )
        below = address
        for port in path:
            yield BridgeLinked(**self._at(below, f"{below} is below {port}"), parent=port)
            below = port
        if path and read_aer_service(path[-1], self._root) == Known(True):
            text = f"the kernel's AER driver serves {path[-1]}"
            yield SystemDescribed(**self._at(path[-1], text), key="aer-granted", value=text)

    # --- presence -------------------------------------------------------------------------

    def _test(self, watched: _Watched, here: float) -> Iterator[Event]:
        found = look_once(watched.address, self._root)
        if found.config == "all-ones":
            if watched.ones_since is None:
                watched.ones_since, watched.ones = here, 0
            watched.ones += 1
            if watched.ones < TRIES or here - watched.ones_since < TRIES_OVER_S:
                return  # may be a reset or a recovery: ask again
        before = watched.seen
        if before is not None and (found.directory, found.config) == (
            before.directory,
            before.config,
        ):
            if found.config != "all-ones":
                watched.ones_since = None
            return
        watched.seen = found
        if before is None and not found.directory:
            return  # never seen: nothing left
        yield PresenceTested(
            **self._at(watched.address, f"{watched.address}: {_words(found)}"),
            directory=found.directory,
            config=found.config,
        )
        yield from self._changes(watched, before, found)
        if found.config != "all-ones":
            watched.ones_since = None

    def _all_answered_else(self) -> bool:
        """Whether there is nothing to do in this tick."""
        here = time.monotonic()
        return all(self._answered_else(watched, here) for watched in self._watched.values())

    def _answered_else(self, watched: _Watched, here: float) -> bool:
        """Whether a test can wait: a read of config space costs more than all else here."""
        if self.answered_s is None or here - watched.tested_s > TESTED_S - self._presence_s / 2:
            return False
        seen = watched.seen
        if seen is None or seen.config != "answers" or watched.ones_since is not None:
            return False
        return here - self.answered_s(watched.address) < ANSWERED_S

    def _as_before(self, watched: _Watched) -> bool:
        """The usual case at the least cost: awake, answering, and so it was."""
        seen = watched.seen
        if seen is None or seen.config != "answers" or watched.ones_since is not None:
            return False
        try:
            if watched.files is None:
                watched.files = _Files(device_path(watched.address, self._root))
            if watched.files.awake_and_answering():
                return True
        except OSError:
            pass
        watched.files = None
        return False

    def _changes(
        self, watched: _Watched, before: Presence | None, found: Presence
    ) -> Iterator[Event]:
        address = watched.address
        if not found.directory:
            self._links.forget_files(address)
            silent = watched.ones_since is not None
            text = f"{address} is gone from sysfs"
            text += f" while {watched.driver} was bound and it read all ones" if silent else ""
            yield DeviceChanged(
                **self._at(address, text),
                what="removed",
                driver=watched.driver if silent else None,
            )
        elif found.config == "all-ones":
            yield from self._silent(watched, found)
        elif before is not None and not before.directory:
            yield from self._welcome(address, new=True)
            self._watched[address].seen = found
        elif before is not None and before.config == "all-ones" and found.config == "answers":
            yield DeviceChanged(**self._at(address, f"{address} answers again"), what="answered")

    def _silent(self, watched: _Watched, found: Presence) -> Iterator[Event]:
        address = watched.address
        state = value_or_none(read_power(address, self._root).power_state)
        driver = value_or_none(read_driver(address, self._root))
        text = (
            f"{address} config space reads ff ff ff ff, {watched.ones} times in a row; "
            f"runtime_status {found.runtime_status or 'unknown'}, "
            f"power_state {state or 'unknown'}, driver {driver or 'none'}"
        )
        yield ConfigSpaceUnreadable(
            **self._at(address, text), how="all-ones", driver=driver, from_state=state
        )
        if watched.path:
            yield from self._port(watched.path[0])

    def _port(self, port: PciAddress) -> Iterator[Event]:
        """What the port above a silent function says of the link: the same link, other end."""
        status = read_port_status(port, self._root)
        if status.link_active == Known(False):
            text = f"{port}: Data Link Layer Link Active is not set"
            yield LinkStateReported(**self._at(port, text), what="inactive")

    # --- links and counters ---------------------------------------------------------------

    def _sample(self) -> Iterator[Event]:
        done: set[PciAddress] = set()
        for watched in self._watched.values():
            seen = watched.seen
            alive = seen is not None and seen.config == "answers" and watched.ones_since is None
            if alive:
                driver = read_driver(watched.address, self._root)
                watched.driver = value_or_none(driver)
            for address in (watched.address, *watched.path) if alive else watched.path:
                if address not in done and device_path(address, self._root).is_dir():
                    done.add(address)
                    yield from self._links.sample(address)

    def _at(self, address: PciAddress, text: str) -> dict[str, Any]:
        return self._base(text, str(device_path(address, self._root)), device=address)


def _names(folder: Path) -> list[str]:
    """What a folder holds, in any order; nothing where it cannot be read."""
    try:
        return os.listdir(folder)  # noqa: PTH208 - names alone, of which a server has hundreds
    except OSError:
        return []


def _words(found: Presence) -> str:
    if not found.directory:
        return "its directory in sysfs is gone"
    return f"directory there, config space {found.config} ({found.detail})"
