"""The NVML source: keeps the child that owns NVML, and turns what it says into events.

`NvmlProbe` never blocks and never signals a child that is inside a driver call. A call that does
not return is reported with its name and left alone; a lost device is asked nothing more; when the
whole library hangs, one second child takes the other devices, once.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from gpuprobe.events import Event, ProbeStalled, SamplesTaken, SourceChanged
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.messages import Translator
from gpuprobe.live.nvml.process import LeftBehind, NvmlProcess, missing_library
from gpuprobe.live.nvml.rows import INPUT
from gpuprobe.live.nvml.stall import Stall, Watchdog
from gpuprobe.reading import Known, Reading, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.pci.tree import ROOT, asleep, device_path, nvidia_gpus, read_bytes

GRACE_S: Final = 0.7
"""How long `stop` waits for the child at most."""
QUEUE: Final = 20_000
"""Readings kept between two polls; those beyond are dropped and counted."""
READINGS: Final = frozenset({"samples", "rows", "sample", "power", "processes", "absent"})
"""Messages that say nothing but values."""
TEND_EVERY_S: Final = 0.1
SLEEP_EVERY_S: Final = 2.0
RESTART_S: Final = 30.0
"""A child that died or met another driver's version is replaced after this long."""


class NvmlProbe:
    """Samples every NVIDIA GPU through a child process. A `Source`.

    Args:
        rate_hz: Rate of the fast group, 0.1 to 100.
        devices: Sample these alone; None for all that NVML lists.
        root: Where sysfs is looked for, to leave sleeping GPUs alone.
        order: The source's number in `origin.order`.
        env: The child's environment; None for this process's.
        deadlines_s: Deadline by group name for calls, to change the defaults of `calls`.
        retry_s: How often NVML is tried again while there is no driver, and asked whether
            devices came, seconds.
        batch_s: Readings come together after this long at most; what is no reading at once. Waking
            for each costs more than reading it.
        wake: Set when something has arrived, for a caller that sleeps.

    Attributes:
        left_behind: Children that were inside a call when they were let go of.
        wake: See above; may be set before `start`.
    """

    name = INPUT

    def __init__(
        self,
        *,
        rate_hz: float = 10.0,
        devices: Iterable[PciAddress] | None = None,
        root: Path = ROOT,
        order: int = 0,
        env: Mapping[str, str] | None = None,
        deadlines_s: Mapping[str, float] | None = None,
        retry_s: float = 5.0,
        batch_s: float = 0.5,
        wake: threading.Event | None = None,
    ) -> None:
        self.left_behind: list[LeftBehind] = []
        self._rate_hz = min(100.0, max(0.1, rate_hz))
        self._wanted = None if devices is None else tuple(devices)
        self._root = root
        self._env = env
        self._retry_s = retry_s
        self._batch_s = batch_s
        self._deadlines_s = dict(deadlines_s or {})
        self.wake = wake
        self._events: deque[Event] = deque()
        self._waiting = self._dropped = 0
        self._translator = Translator(order)
        self._process: NvmlProcess | None = None
        self._watchdog: Watchdog | None = None
        self._old: list[NvmlProcess] = []
        self._known: set[PciAddress] = set()
        self._untouchable: set[PciAddress] = set()
        self._held: dict[PciAddress, NvmlProcess] = {}
        self._asleep: set[PciAddress] = set()
        self._folders: dict[PciAddress, str] = {}
        self._second_used = False
        self._mode = "stopped"  # running, released, ceased
        self._restart_at: float | None = None
        self._tended = self._sleep_looked = 0.0

    # --- Source --------------------------------------------------------------------------

    def available(self) -> Availability:
        """Whether NVML can be used, as far as is known without opening it."""
        why = missing_library()
        if why is not None:
            return Unavailable(Reason.NOT_THERE, why, "pip install nvidia-ml-py")
        if self._translator.closed is not None:
            return self._translator.closed
        gpus = nvidia_gpus(self._root)
        if gpus and all(gpus.values()):
            return Unavailable(Reason.ASLEEP, "every NVIDIA GPU is asleep", "Use the GPU.")
        return Known("NVML")

    def start(self) -> None:
        """Start the child; where it cannot run, `poll` says so once."""
        if self._mode == "running":
            return
        self._mode = "running"
        self._second_used = False
        self._untouchable.clear()
        self._translator = Translator(self._translator._order)
        available = self.available()
        if isinstance(available, Unavailable) and available.reason is not Reason.ASLEEP:
            self._say("unavailable", available.detail)
            return
        self._start_child()

    def poll(self) -> list[Event]:
        """The events since the last call. Returns at once; also looks after the child."""
        now = time.monotonic()
        if now - self._tended >= TEND_EVERY_S:
            self._tended = now
            self._tend(now)
        found: list[Event] = []
        self._waiting = 0
        while self._events:
            found.append(self._events.popleft())
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            found.append(self._changed("gap", f"{dropped} samples came faster than they were read"))
        return found

    def stop(self) -> None:
        """Let go of the child: at most a second, and no signal to one that is inside a call."""
        self._mode = "stopped"
        self._restart_at = None
        process = self._process
        if process is None:
            return
        process.close()
        process.wait(GRACE_S)
        self._let_go()

    # --- more than a Source ---------------------------------------------------------------

    def release(self) -> None:
        """Let go of NVML without waiting, so that the driver can be unloaded; see `take`.

        `SourceChanged(what="released")` comes when the child has exited.
        """
        if self._mode == "running":
            self._mode = "released"
            self._restart_at = None
            if self._process is not None:
                self._process.close()

    def take(self) -> None:
        """Use NVML again after `release`, or after a firmware hang."""
        if self._mode in ("released", "ceased"):
            if self._process is not None:
                self._process.close()
                self._old.append(self._process)
                self._process = None
            self._mode = "stopped"
            self._say("taken", "NVML is used again")
            self.start()

    def cease(self, why: str) -> None:
        """Make no further call at all: for a firmware hang that another source saw."""
        if self._mode == "running":
            self._mode = "ceased"
            self._say("stopped", f"no further NVML call is made: {why}")
            if self._process is not None:
                self._process.tell(do="cease")
                self._process.close()

    def skip(self, device: PciAddress) -> None:
        """Make no further call to one device: for a loss that another source saw."""
        self._untouchable.add(device)
        if self._process is not None:
            self._process.tell(do="skip", pci=str(device))

    def flush(self) -> None:
        """Have the child send the readings that wait."""
        if self._process is not None:
            self._process.tell(do="flush")

    def give_back(self, device: PciAddress) -> None:
        """Sample a device again that was lost: it answers, and a driver was bound to it anew.

        In a new child, since a library that has seen a device lost goes on saying so.
        """
        self._untouchable.discard(device)
        if self._mode != "running":
            return
        if self._process is not None:
            self._process.close()
            self._old.append(self._process)
            self._process = None
        self._say("taken", f"{device} answers again; NVML is opened anew")
        self._start_child()

    @property
    def untouchable(self) -> frozenset[PciAddress]:
        """Devices that are asked nothing more, because they were lost."""
        return frozenset(self._untouchable)

    def readings(self) -> dict[PciAddress, Mapping[str, Reading[Any]]]:
        """The newest reading of each value, by device."""
        devices = [*self._translator.past.values(), *list(self._translator.devices.values())]
        return {device.pci: device.newest() for device in devices if device.pci is not None}

    def answered_s(self, device: PciAddress) -> float:
        """When NVML last had an answer from a device, seconds of `time.monotonic()`.

        0.0 where that is not known, as it is while a call is running.
        """
        process = self._process
        if process is not None:
            for slot, one in list(self._translator.devices.items()):
                if one.pci == device and not one.over:
                    return process.answered_ns(slot) / 1e9
        return 0.0

    def system(self) -> dict[str, Reading[Any]]:
        """Versions of driver, library and CUDA; empty before NVML was opened."""
        return dict(self._translator.system)

    @property
    def pid(self) -> int | None:
        """The child's process id while there is one."""
        return self._process.pid if self._process is not None else None

    # --- the child -----------------------------------------------------------------------

    def _start_child(self) -> None:
        self._restart_at = None
        devices = self._devices_to_open()
        if devices is not None and not devices:
            if self._asleep:
                self._say("unavailable", "every NVIDIA GPU is asleep; NVML is not opened")
            return
        self._translator.start_anew()
        names = None if devices is None else tuple(str(device) for device in devices)
        settings = wire.Settings(
            -1, self._rate_hz, names, retry_s=self._retry_s, batch_s=self._batch_s
        )
        try:
            self._process = NvmlProcess(settings, self._receive, self._env, self._awake)
        except OSError as error:
            self._say("unavailable", f"the NVML process could not be started: {error}")
            self._restart_at = time.monotonic() + RESTART_S
            return
        self._watchdog = Watchdog(
            self._process,
            self._translator,
            self._deadlines_s,
            period_s=max(1 / self._rate_hz, self._batch_s),
        )

    def _devices_to_open(self) -> list[PciAddress] | None:
        """Which devices the child may open; None for all, without asking who they are."""
        gpus = nvidia_gpus(self._root)
        self._asleep = {pci for pci, asleep in gpus.items() if asleep}
        held = {pci for pci, process in self._held.items() if not process.ended}
        without = self._asleep | self._untouchable | held
        if self._wanted is None and not without:
            return None
        wanted = set(self._wanted) if self._wanted is not None else self._known | set(gpus)
        return sorted(wanted - without)

    def _receive(self, process: NvmlProcess, message: dict[str, Any]) -> None:
        """In the reading thread: queue the events of one message."""
        if any(process is old for old in self._old):
            return  # an abandoned child's last words
        kind = message["t"]
        events = self._translator.events(message)
        if kind == "lost":
            self._untouchable.update(event.device for event in events if event.device)
        elif kind == "came":
            self._known.add(PciAddress.parse(message["pci"]))
        elif kind == "closed" and events and nvidia_gpus(self._root):
            # Without an NVIDIA GPU it is no fault that there is no driver.
            events = [*events, self._translator.init_failed(message)]
        if kind in READINGS:
            size = sum(map(_size, events))
            if self._waiting >= QUEUE:
                self._dropped += size
                return
            self._waiting += size
        self._events.extend(events)

    def _awake(self) -> None:
        """Once a read and not once a message: waking somebody costs more than reading it."""
        if self.wake is not None:
            self.wake.set()

    def _tend(self, now: float) -> None:
        """Look after the child: deadlines, its death, sleepers, what was let go of."""
        self._old = [process for process in self._old if not process.ended]
        process = self._process
        if process is None:
            due = self._restart_at is not None and now >= self._restart_at
            if due and self._mode == "running":
                self._start_child()
        elif process.ended:
            self._process = None
            self._after_death(process, now)
        elif self._watchdog is not None:
            for stall in self._watchdog.look(now):
                self._report(stall)
            for text in self._watchdog.returned():
                self._say("gap", text)
            if self._mode == "running" and self._watchdog.library_hangs(now):
                self._replace(process)
        if self._mode == "running" and now - self._sleep_looked >= SLEEP_EVERY_S:
            self._sleep_looked = now
            self._look_for_sleepers()
            self._look_for_returned()

    def _after_death(self, process: NvmlProcess, now: float) -> None:
        """The child has exited: say so, and decide whether another follows."""
        if self._mode == "released":
            self._say("released", "NVML is closed; the driver can be unloaded")
            return
        if self._mode != "running":
            return
        why = self._translator.bye
        self._translator.bye = None
        if why == "firmware":
            self._mode = "ceased"
            return
        if why != "mismatch":
            last = process.errors().splitlines()[-1:]
            text = f"the NVML process ended with {process.exit_code} {' '.join(last)}".strip()
            self._say("unavailable", text)
        self._restart_at = now + RESTART_S

    def _replace(self, process: NvmlProcess) -> None:
        """The whole library hangs: abandon the child; a second takes the other devices, once."""
        assert self._watchdog is not None
        stuck = self._watchdog.first_stuck()
        if self._second_used or stuck is None or stuck.pci is None:
            return
        self._second_used = True
        others = sorted(
            device.pci
            for device in self._translator.devices.values()
            if device.pci is not None and not device.over and device is not stuck
        )
        self._let_go()
        for pci in others:  # they hang because the first does; this once they get a second child
            self._held.pop(pci, None)
        self._held[stuck.pci] = process
        if not others:
            return
        self._say("gap", f"NVML hangs as a whole; a second process samples all but {stuck.pci}")
        self._start_child()

    def _let_go(self) -> None:
        """Close the child's pipe and name it if it is inside a call; no signal, no waiting."""
        process, self._process = self._process, None
        assert process is not None
        process.close()
        if process.ended:
            return
        self._old.append(process)
        held = Watchdog(process, self._translator).inside()
        for stall in held:
            if stall.device is not None:
                self._held[stall.device] = process
            self.left_behind.append(stall.left_behind())
            self._say("stopped", str(self.left_behind[-1]))
        if not held:
            process.kill_outside_calls()

    def _look_for_sleepers(self) -> None:
        """Leave alone what has fallen asleep, and open what has woken."""
        sampled = {
            device.pci: device
            for device in self._translator.devices.values()
            if device.pci is not None and not device.over
        }
        for pci in sampled:
            if pci not in self._asleep and self._sleeps(pci):
                self._asleep.add(pci)
                if self._process is not None:
                    self._process.tell(do="skip", pci=str(pci))
        for pci in [pci for pci in self._asleep if not self._sleeps(pci)]:
            self._asleep.discard(pci)
            self._open(pci)

    def _sleeps(self, device: PciAddress) -> bool:
        folder = self._folders.get(device)
        if folder is None:
            folder = self._folders[device] = str(device_path(device, self._root))
        with suppress(OSError):  # the usual case at the least cost
            if read_bytes(f"{folder}/power/runtime_status", 16) == b"active\n":
                return False
        return asleep(Path(folder)) is not None

    def _look_for_returned(self) -> None:
        """Open devices again whose call in an abandoned child has returned: it has left then."""
        for pci in [pci for pci, process in self._held.items() if process.ended]:
            del self._held[pci]
            self._say("gap", f"the call about {pci} has returned; it is sampled again")
            self._open(pci)

    def _open(self, device: PciAddress) -> None:
        """Have a device sampled from now on, unless it is to be left alone."""
        wanted = self._wanted is None or device in self._wanted
        if not wanted or device in self._untouchable:
            return
        if self._process is not None:
            self._process.tell(do="open", pci=str(device))
        elif self._restart_at is None:
            self._start_child()

    # --- events of our own ----------------------------------------------------------------

    def _report(self, stall: Stall) -> None:
        self._events.append(
            ProbeStalled(
                **self._base(str(stall), stall.call, stall.device),
                call=stall.call,
                pid=stall.pid,
                tid=stall.tid,
                state=stall.thread.state,
                wchan=stall.thread.wchan,
                waited_s=round(stall.waited_s, 3),
            )
        )
        self.flush()  # what was read before the call that hangs
        self._awake()

    def _say(self, what: str, text: str) -> None:
        self._events.append(self._changed(what, text))

    def _changed(self, what: str, text: str) -> SourceChanged:
        return SourceChanged(**self._base(text, INPUT, None), name=INPUT, what=what)

    def _base(self, text: str, ref: str, device: PciAddress | None) -> dict[str, Any]:
        at = {"m": time.monotonic_ns(), "w": time.time_ns()}
        return self._translator.base(at, text, ref, device)


def _size(event: Event) -> int:
    """How many readings an event holds."""
    return len(event.samples) if isinstance(event, SamplesTaken) else 1
