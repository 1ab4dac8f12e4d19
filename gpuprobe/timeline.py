"""Events of one host in order, on clocks joined as far as the inputs allow."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from operator import itemgetter
from typing import TYPE_CHECKING, TypeVar, overload

from gpuprobe.boot_numbers import number_boots
from gpuprobe.clock_joining import Clocks
from gpuprobe.diagnosis import Device, Input
from gpuprobe.events import (
    AdapterInitFailed,
    AerReported,
    BootStarted,
    BridgeLinked,
    DeviceIdentified,
    DpcTriggered,
    Event,
    FirmwareFaulted,
    GpuHung,
    GpuLostReported,
    LinkStateReported,
    LossHinted,
    Setting,
    SlotChanged,
    SourceChanged,
    SystemDescribed,
    XidReported,
    is_evidence,
)
from gpuprobe.identity import PciAddress
from gpuprobe.port_ties import ties

if TYPE_CHECKING:
    import pandas as pd

E = TypeVar("E", bound=Event)
F = TypeVar("F", bound=Event)
G = TypeVar("G", bound=Event)

GPU_DRIVERS = frozenset({"nvidia", "nouveau", "amdgpu", "radeon", "xe", "i915", "NovaCore"})
"""Drivers that bind GPUs: a PCI line with one of these names before the address is about a GPU."""

SAME_MOMENT_S = 2.0
"""Messages this close in time may be in any order: loggers write whole seconds and buffer."""


@dataclass(slots=True)
class Timeline:
    """What one host's inputs say, in order. Rules see nothing else.

    Attributes:
        events: In order of input and line; use `earlier` to compare two of them in time.
        inputs: The inputs they came from.
        host: The host's name, or None where no input names it.
        program_text: Paths of inputs that are programs or documents.
        clocks: Their clocks, joined as far as the inputs allow.
        boots: Name of each event's boot by `id(event)`; made from the events where not given.
    """

    events: Sequence[Event]
    inputs: Sequence[Input]
    host: str | None = None
    program_text: frozenset[str] = frozenset()
    clocks: Clocks | None = None
    boots: dict[int, str] = field(default_factory=dict)
    _gpus: frozenset[PciAddress] | None = None
    _parents: dict[PciAddress, PciAddress] | None = None
    _below: dict[PciAddress, tuple[PciAddress, ...]] = field(default_factory=dict)
    _by_type: dict[type[Event], list[tuple[int, Event]]] | None = None
    _kernel_inputs: list[str] | None = None

    def __post_init__(self) -> None:
        if not self.boots:
            self.boots = number_boots(self.events)

    # --- choosing -------------------------------------------------------------------------

    @overload
    def of(self, first: type[E], /) -> Iterator[E]: ...
    @overload
    def of(self, first: type[E], second: type[F], /) -> Iterator[E | F]: ...
    @overload
    def of(self, first: type[E], second: type[F], third: type[G], /) -> Iterator[E | F | G]: ...
    @overload
    def of(self, *types: type[Event]) -> Iterator[Event]: ...

    def of(self, *types: type[Event]) -> Iterator[Event]:
        """Events of these types whose words are evidence (a log's or a program's own)."""
        # Rules ask many times for few types among thousands of samples.
        if self._by_type is None:
            self._by_type = defaultdict(list)
            for place, event in enumerate(self.events):
                if is_evidence(event):
                    self._by_type[type(event)].append((place, event))
        chosen = [found for kind, found in self._by_type.items() if issubclass(kind, types)]
        if len(chosen) == 1:
            yield from (event for _, event in chosen[0])
        else:
            yield from (event for _, event in heapq.merge(*chosen, key=itemgetter(0)))

    def all_of(self, *types: type[E]) -> Iterator[E]:
        """Events of these types, prose and code included."""
        for event in self.events:
            if isinstance(event, types):
                yield event

    def between(self, start: Event, before_s: float, after_s: float) -> Iterator[Event]:
        """Evidence within so many seconds of `start`, where times can be compared."""
        for event in self.events:
            gap = self.seconds_between(start, event)
            if gap is not None and -before_s <= gap <= after_s and is_evidence(event):
                yield event

    # --- time -----------------------------------------------------------------------------

    def boot_of(self, event: Event) -> str:
        """Name of the boot an event belongs to; equal names are one boot."""
        return self.boots.get(id(event), "")

    def same_run(self, first: Event, second: Event) -> bool:
        """Whether two events can belong to one boot.

        Boots of two inputs are one unless both have ids that differ. In one input, a line without
        a stamp beside lines with stamps (a tool's output in a bug report) fits any boot.
        """
        if first.origin.input != second.origin.input:
            return not (first.boot and second.boot and first.boot != second.boot)
        if (first.stamp is None) != (second.stamp is None):
            return True
        return self.boot_of(first) == self.boot_of(second)

    def in_last_boot(self, event: Event) -> bool:
        """Whether no boot among the inputs is known to have begun after `event`."""
        return not any(
            self.precedes(event, start) and not self.same_run(event, start)
            for start in self.of(BootStarted)
        )

    def boots_in(self, path: str) -> int:
        """How many boots the events of this input belong to; at least 1."""
        names = {self.boot_of(event) for event in self.events if event.origin.input == path}
        return max(1, len(names))

    def at(self, event: Event) -> datetime | None:
        """When it was written, aware, or None where zone or year are neither known nor joined."""
        return self.clocks.at(event) if self.clocks else None

    def seconds_between(self, first: Event, second: Event) -> float | None:
        """Seconds from `first` to `second`, negative when it came before; None if unknown."""
        if self.clocks is None:
            return None
        if self.at(first) is None or self.at(second) is None:
            # Seconds since boot count anew in each boot.
            counted = not all(event.stamp and event.stamp.wall for event in (first, second))
            if counted and self.boot_of(first) != self.boot_of(second):
                return None
        gap = self.clocks.seconds_between(first, second)
        by_kernel = None if gap is None else self._counted(first, second)
        if gap is None or by_kernel is None:
            return gap
        # Lines that were passed on later all have the dates of then.
        return by_kernel if abs(by_kernel) > abs(gap) + SAME_MOMENT_S else gap

    def _counted(self, first: Event, second: Event) -> float | None:
        """Seconds by the kernel's own count, which runs in one boot and at most as fast as time."""
        a, b = first.stamp, second.stamp
        if a is None or b is None or a.monotonic_s is None or b.monotonic_s is None:
            return None
        one_boot = first.origin.input == second.origin.input and self.same_run(first, second)
        return b.monotonic_s - a.monotonic_s if one_boot else None

    def precedes(self, first: Event, second: Event) -> bool | None:
        """Whether `first` came before `second`; None when they cannot be placed on one clock.

        Two messages of one moment (`SAME_MOMENT_S`) count as neither.
        """
        gap = self.rough_gap(first, second)
        if gap is not None and abs(gap) > SAME_MOMENT_S:
            return gap > 0
        if first.origin.input == second.origin.input:
            if gap is not None:
                return None
            return first.origin.order < second.origin.order
        return None

    def rough_gap(self, first: Event, second: Event) -> float | None:
        """As `seconds_between`, and to a day where clocks that nothing ties are days apart."""
        gap = self.seconds_between(first, second)
        if gap is None and self.clocks is not None:
            return self.clocks.days_apart(first, second)
        return gap

    # --- devices --------------------------------------------------------------------------

    def gpus(self) -> frozenset[PciAddress]:
        """Slots that some line shows to hold a GPU."""
        if self._gpus is not None:
            return self._gpus
        found: set[PciAddress] = set()
        for event in self.events:
            if event.device is None or not is_evidence(event):
                continue
            driver = getattr(event, "driver", None)
            if (
                getattr(event, "is_gpu", None)
                or isinstance(event, _GPU_EVENTS)
                or (isinstance(event, LossHinted) and event.what in _GPU_HINTS)
                or (isinstance(driver, str) and driver in GPU_DRIVERS)
                or (getattr(event, "class_code", None) or 0) >> 8 in (0x0300, 0x0302)
            ):
                found.add(event.device.slot)
        self._gpus = frozenset(found)
        return self._gpus

    def is_gpu(self, address: PciAddress | None) -> bool:
        """Whether any function of this slot is known to be a GPU's."""
        return address is not None and address.slot in self.gpus()

    def parents(self) -> dict[PciAddress, PciAddress]:
        """Port above each device, where lines tie them together."""
        if self._parents is not None:
            return self._parents
        found: dict[PciAddress, PciAddress] = {}
        for event in self.events:
            if not is_evidence(event) or event.device is None:
                continue
            if isinstance(event, BridgeLinked):
                found.setdefault(event.device.slot, event.parent)
            elif isinstance(event, AerReported) and event.port and event.port != event.device:
                found.setdefault(event.device.slot, event.port)
            elif (
                isinstance(event, LinkStateReported)
                and event.limited_by
                and event.limited_by != event.device
            ):
                found.setdefault(event.device.slot, event.limited_by)
        for device, port in ties(self.events, SAME_MOMENT_S):
            found.setdefault(device, port)
        self._parents = found
        return found

    def gpus_below(self, port: PciAddress | None) -> tuple[PciAddress, ...]:
        """GPUs that lines show to lie below `port`, in order of address."""
        if port is None:
            return ()
        if port in self._below:
            return self._below[port]
        parents = self.parents()
        below = []
        for gpu in self.gpus():
            here: PciAddress | None = gpu
            for _ in range(8):
                here = parents.get(here.slot) if here else None
                if here is None:
                    break
                if here == port:
                    below.append(gpu)
                    break
        self._below[port] = tuple(sorted(below))
        return self._below[port]

    def concerns(self, event: Event, gpu: PciAddress | None) -> bool:
        """Whether an event is about this GPU or a port above it, or about no device in particular.

        Args:
            event: Any event.
            gpu: The GPU's slot; None fits every event.
        """
        if event.device is None or gpu is None:
            return True
        return event.device.slot == gpu or gpu in self.gpus_below(event.device)

    def identify(self, address: PciAddress | None, *, uuid: str | None = None) -> Device | None:
        """Everything the inputs say about the device's names; None where nothing names it."""
        slot = address.slot if address else None
        name: str | None = None
        index: int | None = None
        for event in self.all_of(DeviceIdentified):
            if event.setting in (Setting.PROSE, Setting.CODE):
                continue
            same = (slot and event.device and event.device.slot == slot) or (
                uuid and event.uuid == uuid
            )
            if not same:
                continue
            if slot is None and event.device is not None:
                slot = event.device.slot
            uuid = uuid or event.uuid
            name = name or event.name
            index = index if index is not None else event.index
        if slot is None and uuid is None:
            return None
        return Device(pci=slot, uuid=uuid, name=name, index=index)

    # --- the machine ----------------------------------------------------------------------

    def described(self, key: str) -> SystemDescribed | None:
        """The last line that describes this property of the machine."""
        found = None
        for event in self.of(SystemDescribed):
            if event.key == key:
                found = event
        return found

    def kernel_inputs(self) -> list[str]:
        """Paths of the inputs that hold kernel messages, in order."""
        if self._kernel_inputs is not None:
            return self._kernel_inputs
        found = {
            event.origin.input
            for event in self.events
            if is_evidence(event)
            and (
                event.source == "kernel"
                or (isinstance(event, _KERNEL_EVENTS) and not getattr(event, "by_board", False))
                or (isinstance(event, SourceChanged) and _listens(event))
            )
        }
        self._kernel_inputs = [
            item.path
            for item in self.inputs
            if item.path in found or item.format in _KERNEL_FORMATS
        ]
        return self._kernel_inputs

    def has_kernel_log(self) -> bool:
        """Whether any input holds kernel messages."""
        return bool(self.kernel_inputs())

    def to_frame(self) -> pd.DataFrame:
        """The events as a pandas frame, one row an event.

        Columns: `at` (datetime64[ns, UTC], NaT where unknown), `kind` (type of event), `device`,
        `host`, `boot`, `setting`, `input`, `line` (Int64), `count` (int64), `text`.
        """
        import pandas as pd

        frame = pd.DataFrame(
            {
                "at": [self.at(event) for event in self.events],
                "kind": [type(event).__name__ for event in self.events],
                "device": [str(event.device) if event.device else None for event in self.events],
                "host": [event.host for event in self.events],
                "boot": [self.boot_of(event) for event in self.events],
                "setting": [event.setting.value for event in self.events],
                "input": [event.origin.input for event in self.events],
                "line": [event.origin.line for event in self.events],
                "count": [event.count for event in self.events],
                "text": [event.origin.text for event in self.events],
            }
        )
        strings = ["kind", "device", "host", "boot", "setting", "input", "text"]
        return frame.astype(
            {
                "at": "datetime64[ns, UTC]",
                "line": "Int64",
                "count": "int64",
                **dict.fromkeys(strings, "string"),
            }
        )


_GPU_EVENTS = (XidReported, GpuLostReported, AdapterInitFailed, FirmwareFaulted, GpuHung)
_GPU_HINTS = frozenset({"no-handle", "cannot-attach", "status-lost", "remove-busy", "smi-error"})
"""Words of NVIDIA's driver and tools that name a GPU; a port or a sibling function has others."""

_KERNEL_EVENTS = (
    AdapterInitFailed,
    AerReported,
    BootStarted,
    DpcTriggered,
    FirmwareFaulted,
    SlotChanged,
)
_KERNEL_FORMATS = frozenset({"dmesg", "dmesg-time", "dmesg-iso", "kmsg", "bug-report"})


def _listens(event: SourceChanged) -> bool:
    """Whether a recording says that it listened to the kernel log, however quiet that was."""
    return event.name == "kernel-log" and event.what == "started"
