"""When there is something to tell about a watched engine, and what it is.

A verdict is due when the engine ended, when a worker inside it died, or when one of its GPUs left
the bus while it hangs. The kernel's words can come a moment after the engine's end, so a verdict
waits for them a little, and never as long as a second.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Protocol

from gpuprobe.diagnosis import Certainty, Diagnosis, Kind, Verdict
from gpuprobe.events import (
    ConfigSpaceUnreadable,
    EngineChanged,
    Event,
    PresenceTested,
    ProcessCrashed,
    ProcessesListed,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.engine.gpus import EngineGpus, Whose
from gpuprobe.live.engine.notes import EngineNotes
from gpuprobe.live.session import Session, Update
from gpuprobe.sources.pci.tree import ROOT, Presence, device_path, look

SETTLE_S: Final = 0.3
"""How long the kernel's words are waited for after the engine's end, or after a loss."""

PRESENCE_LIMIT_S: Final = 0.8
"""And how long for the test of presence, where a GPU reads all ones and is asked again."""

WORKER_SETTLE_S: Final = 0.5
"""After a worker's death: an engine that then ends as well gets one verdict, not two."""

DEATHS: Final = frozenset({"worker-exited", "engine-dead", "failed-to-start"})
"""What an engine's log says when a part of it died."""

_FIRST_PID_NAMESPACE: Final = Path("pid:[4026531836]")
"""The kernel's PROC_PID_INIT_INO."""


class Engine(Protocol):
    """The engine as this module needs it."""

    @property
    def ended_s(self) -> float | None:
        """When its end was seen, on the monotonic clock; None while it runs."""

    @property
    def code(self) -> int | None:
        """Its exit code as a shell gives it; None while it runs."""

    @property
    def asked_to_end(self) -> bool:
        """Whether somebody sent it a signal that ends programs."""

    def process_tree(self) -> Iterable[int]:
        """Ids of its processes."""


@dataclass(frozen=True, slots=True)
class Told:
    """Something to tell.

    Attributes:
        diagnosis: What failed.
        whose: The engine's GPUs.
        ended: The engine has ended; False where it still runs or hangs.
        loss: The verdict by which a GPU of this engine left the bus for certain, or None.
        again: The same was told before.
    """

    diagnosis: Diagnosis
    whose: Whose
    ended: bool
    loss: Verdict | None = None
    again: bool = False

    @property
    def failed(self) -> bool:
        """Whether anything failed."""
        return self.diagnosis.answer is not Kind.NO_FAULT


class EngineWatch:
    """Says what is to be told about an engine, once for each thing that happens.

    Args:
        session: Where the events come from; `notes` is among its sources.
        engine: The engine.
        gpus: Which GPUs it uses.
        notes: Takes what is found out here.
        root: Where /sys is looked for.
        wake: Set when something is due; give the same to the session.
    """

    def __init__(
        self,
        session: Session,
        engine: Engine,
        gpus: EngineGpus,
        notes: EngineNotes,
        *,
        root: Path = ROOT,
        wake: threading.Event | None = None,
    ) -> None:
        self._session = session
        self._engine = engine
        self._gpus = gpus
        self._notes = notes
        self._root = root
        self._wake = wake or threading.Event()
        self._tree: set[int] = set()
        self._joined: list[Callable[[], Iterable[int]]] = []
        self._due: float | None = None
        self._latest: float = 0.0
        self._ended = False
        self._testing = False
        self._whose: Whose | None = None
        self._seen: tuple[PciAddress, ...] = ()
        self._told: list[object] = []
        self.over = False

    @property
    def whose(self) -> Whose:
        """The engine's GPUs as known now."""
        moment = self._engine.ended_s if self._ended else None
        return self._gpus.at(time.monotonic() if moment is None else moment, self._seen)

    def join(self, processes: Callable[[], Iterable[int]]) -> None:
        """Count these processes as the engine's too: those of a container it was asked for in."""
        self._joined.append(processes)

    def take(self, update: Update) -> Told | None:
        """Take what came; gives what is to be told now, if anything.

        After the last of it, `over` is true.
        """
        here = time.monotonic()
        for event in (*update.samples, *update.events):
            self._note(event, here)
        if update.diagnosis is not None:
            self._seen = self._session.devices
            if self._loss(update.diagnosis) is not None:
                self._testing = False  # what the test is to show is shown
                self._set_due(here + SETTLE_S, here + PRESENCE_LIMIT_S)
        if self._engine.ended_s is not None and not self._ended:
            self._on_end(here)
        self._name_gpus()
        if self._due is None or here < self._due or (self._testing and here < self._latest):
            return None
        self._due = None
        return self._tell()

    def _note(self, event: Event, here: float) -> None:
        if isinstance(event, ProcessesListed) and not self._ended:
            self._gpus.listed(event, self._processes())
        elif self._is_death(event) and not self._ended and not self._engine.asked_to_end:
            self._set_due(here + WORKER_SETTLE_S, here + PRESENCE_LIMIT_S)

    def _is_death(self, event: Event) -> bool:
        """Whether a part of the engine died: its own log says so, or the kernel of its process."""
        if isinstance(event, EngineChanged):
            return event.what in DEATHS
        return isinstance(event, ProcessCrashed) and not self._is_strangers(event)

    def _is_strangers(self, event: ProcessCrashed) -> bool:
        """Whether the kernel names a process that is none of the engine's; said once for each."""
        if event.source != "kernel" or event.pid is None or event.pid in self._processes():
            return False
        if not _counts_as_kernel():
            return False
        text = f"process {event.pid} is none of the engine's"
        self._notes.put(SystemDescribed, text, key="stranger-process", value=str(event.pid))
        return True

    def _processes(self) -> set[int]:
        """Every process id that the engine had so far."""
        for processes in (self._engine.process_tree, *self._joined):
            self._tree.update(processes())
        return self._tree

    def _on_end(self, here: float) -> None:
        self._ended = True
        self._seen = self._seen or self._session.devices
        self._due = None
        clean = self._engine.code == 0 and not self._told
        self._set_due(here if clean else here + SETTLE_S, here + PRESENCE_LIMIT_S)
        devices = self.whose.devices
        if self._gpus.none_on_bus and not devices and not clean:
            text = "sysfs lists no GPU on the PCI bus"
            self._notes.put(SystemDescribed, text, key="gpus-on-bus", value="none")
        if devices and not clean:
            self._testing = True
            threading.Thread(
                target=self._test, args=(devices,), name="presence", daemon=True
            ).start()

    def _set_due(self, due: float, latest: float) -> None:
        if self._due is None:
            self._due, self._latest = due, latest
            for moment in (due, latest):
                timer = threading.Timer(max(0.0, moment - time.monotonic()), self._wake.set)
                timer.daemon = True
                timer.start()

    def _test(self, devices: tuple[PciAddress, ...]) -> None:
        """Whether the engine's GPUs are there, right after its end; no call into the driver."""
        for device, found in look(devices, self._root).items():
            ref = str(device_path(device, self._root))
            if not found.directory and not self._gpus.was_listed(device):
                continue  # no sysfs here, or an address of another machine: nothing was tested
            self._notes.put(
                PresenceTested,
                f"{device}: {_words(found)} after the engine's end",
                ref,
                device=device,
                directory=found.directory,
                config=found.config,
            )
            if found.config == "all-ones":
                self._notes.put(
                    ConfigSpaceUnreadable,
                    f"{device} config space reads ff ff ff ff; runtime_status "
                    f"{found.runtime_status or 'unknown'}",
                    ref,
                    device=device,
                    how="all-ones",
                )
        self._testing = False
        self._wake.set()

    def _name_gpus(self) -> None:
        """Say which GPUs are the engine's whenever that changed, so that a recording knows too."""
        whose = self.whose
        if whose == self._whose or not whose.devices:
            return
        self._whose = whose
        self._notes.put(
            SystemDescribed,
            f"the engine uses {whose}",
            key="engine-gpus",
            value=" ".join(map(str, whose.devices)),
        )

    def _tell(self) -> Told | None:
        found = self._session.judge()
        loss = self._loss(found)
        gist = [(one.kind, one.certainty, one.device) for one in found.verdicts]
        again = gist in self._told
        self.over = self._ended
        if again and not self._ended:
            return None
        if not self._ended and found.answer is Kind.NO_FAULT:
            return None
        self._told.append(gist)
        return Told(found, self.whose, self._ended, loss, again)

    def _loss(self, found: Diagnosis) -> Verdict | None:
        """The verdict by which a GPU of the engine left the bus for certain."""
        devices = self.whose.devices
        return next(
            (
                one
                for one in found.verdicts
                if one.kind is Kind.DEVICE_LEFT_BUS
                and one.certainty is Certainty.CONFIRMED
                and one.device is not None
                and one.device.pci is not None
                and one.device.pci.slot in devices
            ),
            None,
        )


def _counts_as_kernel() -> bool:
    """Whether process ids here are those of the kernel's messages."""
    try:
        return Path("/proc/self/ns/pid").readlink() == _FIRST_PID_NAMESPACE
    except OSError:
        return False


def _words(found: Presence) -> str:
    if not found.directory:
        return "its directory in sysfs is gone"
    return f"directory there, config space {found.config} ({found.detail})"
