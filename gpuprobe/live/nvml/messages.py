"""The NVML child's messages as events and as readings."""

from __future__ import annotations

from typing import Any, Final

from gpuprobe.events import (
    CountersSampled,
    DeviceIdentified,
    Event,
    GpuLostReported,
    LossHinted,
    NvmlReturned,
    Origin,
    PowerSampled,
    ProcessesListed,
    SamplesTaken,
    SourceChanged,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.calls import UNAVAILABLE_EVENT, XID_EVENT, Group, values
from gpuprobe.live.nvml.described import described
from gpuprobe.live.nvml.driver_samples import DriverSamples
from gpuprobe.live.nvml.known import Device, as_reading
from gpuprobe.live.nvml.plan import REASONS
from gpuprobe.live.nvml.rows import (
    FAST_NAMES,
    INPUT,
    NUMBERS,
    SAMPLED,
    Beside,
    SampleRows,
    now_stamp,
    read_row,
)
from gpuprobe.reading import Known, Reading, Reason, Unavailable

OPENING: Final = ("nvmlDeviceGetHandleByIndex", "nvmlDeviceGetHandleByPciBusId")
_SELDOM: Final = tuple(
    value
    for group in (Group.SLOW, Group.USERS, Group.RARE, Group.SELDOM)
    for value in values(group)
)
COUNTED: Final = frozenset(
    value.name for value in _SELDOM if value.unit in {"count", "flag", "ns", "bytes", "action"}
)
"""Values behind the fast ones that are counts, flags or lifetime sums."""
_TRAFFIC: Final = frozenset({"pcie_rx_bytes", "pcie_tx_bytes"})
"""Counts that rise all the time."""
_HINTS: Final = {
    4: "Run as root, or give the user access to /dev/nvidia*.",
    9: "Load NVIDIA's driver (modprobe nvidia); it is looked for again every few seconds.",
    12: "Install NVIDIA's driver, or mount libnvidia-ml.so.1 into the container (--gpus all).",
    17: "The container may not open /dev/nvidia*: start it with --gpus all.",
    18: "The driver was updated while the old module is loaded: reboot, or reload the module.",
}
"""Return code of nvmlInit to what makes NVML available."""


class Translator:
    """Turns the messages of one child into events, and keeps the newest readings.

    Args:
        order: The source's number in `origin.order`.

    Attributes:
        devices: By slot.
        past: Those of children before this one, by address.
        system: Versions of driver, library and CUDA.
        closed: Why NVML cannot be used now, or None.
        count: How many devices NVML lists.
        bye: Why the child said that it leaves, or None.
    """

    def __init__(self, order: int = 0) -> None:
        self.devices: dict[int, Device] = {}
        self.past: dict[PciAddress, Device] = {}
        self.system: dict[str, Reading[Any]] = {}
        self.closed: Unavailable | None = None
        self.count = 0
        self.bye: str | None = None
        self._order = order
        self._number = 0

    def start_anew(self) -> None:
        """Another child begins: its slots are its own; readings of devices are kept."""
        devices, self.devices = self.devices, {}
        for device in devices.values():
            device.over = True
            if device.pci is not None:
                self.past[device.pci] = device

    def events(self, message: dict[str, Any]) -> list[Event]:
        """The events of one message; an unknown kind, or one that is damaged, gives none."""
        handle = getattr(self, f"_on_{message['t']}", None)
        if handle is None:
            return []
        try:
            found: list[Event] = handle(message)
        except (LookupError, TypeError, ValueError, AttributeError, OverflowError, OSError):
            return []  # OSError: what the C library says of a time that it cannot take apart
        return found

    def base(
        self, message: dict[str, Any], text: str, ref: str, device: PciAddress | None = None
    ) -> dict[str, Any]:
        """The fields that every event has."""
        self._number += 1
        return {
            "origin": Origin(INPUT, None, text, ref, (self._order, self._number)),
            "stamp": now_stamp(message["m"], message["w"]),
            "device": device,
            "source": INPUT,
        }

    def changed(self, message: dict[str, Any], what: str, text: str, **more: Any) -> SourceChanged:
        """Something about this source changed."""
        return SourceChanged(**self.base(message, text, INPUT, **more), name=INPUT, what=what)

    def _device(self, message: dict[str, Any]) -> Device:
        """The device of a message: by its address where it has one, else by its slot."""
        slot = message["slot"]
        device = self.devices.get(slot)
        pci = PciAddress.try_parse(message.get("pci"))
        if device is None or (pci is not None and device.pci not in (None, pci)):
            device = Device(slot, pci=pci, index=_index(message))
            self.devices[slot] = device
        if device.pci is None:
            device.pci = pci
        return device

    # --- one method a message ------------------------------------------------------------

    def _on_hello(self, message: dict[str, Any]) -> list[Event]:
        self.count = message["count"]
        self.closed = None
        self.system = {
            f"{name}_version": Known(message[name])
            if message[name] is not None
            else Unavailable(Reason.FAILED)
            for name in ("driver", "nvml", "cuda")
        }
        text = f"NVML is open: driver {message['driver']}, {message['count']} devices"
        return [self.changed(message, "started", text)]

    def _on_came(self, message: dict[str, Any]) -> list[Event]:
        before = self.devices.get(message["slot"])
        if before is not None and before.pci is not None:
            self.past[before.pci] = before
        device = Device(
            message["slot"],
            PciAddress.parse(message["pci"]),
            uuid=_text(message["uuid"]),
            name=_text(message["name"]),
            index=_index(message),
        )
        self.devices[device.slot] = device
        return []

    def _on_absent(self, message: dict[str, Any]) -> list[Event]:
        device = self._device(message)
        for name, value in message["values"].items():
            device.readings[name] = as_reading(value)
        return []

    def _on_sample(self, message: dict[str, Any]) -> list[Event]:
        device = self._device(message)
        found = message["values"]
        for name, value in found.items():
            device.readings[name] = as_reading(value)
        if message["group"] == "fast":
            return []  # the first ones, told ahead of their row
        if message["group"] == "once":
            base = self.base(message, "", "nvmlDeviceGet*", device.pci)
            return [self._identified(message, device, found), *described(base, found)]
        for name in SAMPLED & found.keys():
            if found[name].__class__ in NUMBERS:
                device.slow[name] = found[name]
            else:
                device.slow.pop(name, None)
        if _TRAFFIC & found.keys():
            self._set_rates(message, device, found)
        return self._counted(message, device, found)

    def _counted(
        self, message: dict[str, Any], device: Device, found: dict[str, Any]
    ) -> list[Event]:
        """All counts as one event, with the seldom ones or when another changed in between."""
        before = device.counters
        now = {name: found[name] for name in found if name in COUNTED}
        seldom = message["group"] == "seldom"
        names = now.keys() - _TRAFFIC
        if not seldom and all(now[name] == before.get(name) for name in names):
            before.update((name, now[name]) for name in now if isinstance(now[name], int))
            return []
        counters = {**before, **now}
        counters = {name: count for name, count in counters.items() if isinstance(count, int)}
        device.counters = counters
        changed = device.counted and any(counters.get(name) != before.get(name) for name in names)
        if not counters or not (seldom or changed):
            return []
        device.counted = True
        text = f"{len(counters)} counters of NVML"
        base = self.base(message, text, "nvmlDeviceGetFieldValues", device.pci)
        return [CountersSampled(**base, counters=tuple(counters.items()))]

    def _identified(
        self, message: dict[str, Any], device: Device, found: dict[str, Any]
    ) -> DeviceIdentified:
        ids = found.get("pci_device_id")
        driver = self.system.get("driver_version")
        return DeviceIdentified(
            **self.base(message, f"NVML lists {device.name}", "nvmlDeviceGetName", device.pci),
            uuid=device.uuid,
            name=device.name,
            index=device.index,
            serial=_text(found.get("serial")),
            is_gpu=True,
            driver_version=_text(driver.value) if isinstance(driver, Known) else None,
            vendor_id=ids & 0xFFFF if isinstance(ids, int) else None,
            device_id=ids >> 16 if isinstance(ids, int) else None,
        )

    @staticmethod
    def _set_rates(message: dict[str, Any], device: Device, found: dict[str, Any]) -> None:
        """PCIe bytes a second, from two readings of the lifetime counts."""
        for name in ("rx_bytes_per_s", "tx_bytes_per_s"):
            device.slow.pop(name, None)
        received, sent = found.get("pcie_rx_bytes"), found.get("pcie_tx_bytes")
        if not (isinstance(received, int) and isinstance(sent, int)):
            device.bytes_seen = None
            return
        before, device.bytes_seen = device.bytes_seen, (message["m"], received, sent)
        if before is None or received < before[1] or sent < before[2]:
            return  # first reading, or the counter wrapped or was reset
        seconds = (message["m"] - before[0]) / 1e9
        if seconds > 0:
            rates = {
                "rx_bytes_per_s": (received - before[1]) / seconds,
                "tx_bytes_per_s": (sent - before[2]) / seconds,
            }
            device.slow.update(rates)
            device.readings.update({name: Known(rate) for name, rate in rates.items()})

    def _on_samples(self, message: dict[str, Any]) -> list[Event]:
        """All rows as one event; slow values (limit, memory temperature, rates) are the newest."""
        device = self._device(message)
        base = self.base(message, "samples of the fast group", "nvmlDeviceGet*", device.pci)
        rows = SampleRows(message["layout"], message["rows"], self._beside(message, device))
        self._number += len(rows)
        device.keep(rows)
        return [SamplesTaken.trusted({**base, "samples": rows})] if rows.has_readings else []

    def _on_rows(self, message: dict[str, Any]) -> list[Event]:
        """One event a row that has a reading, where a value of some row failed."""
        device = self._device(message)
        rows, beside = message["rows"], self._beside(message, device)
        readings = [(row[0], read_row(row)) for row in rows]
        found: list[Event] = [
            beside.sample(number, at, values)
            for number, (at, values) in enumerate(readings)
            if values
        ]
        self._number += len(rows)
        device.keep(rows[-1])
        return found

    def _beside(self, message: dict[str, Any], device: Device) -> Beside:
        order = (self._order, self._number + 1)
        return Beside(device.pci, dict(device.slow), message["w"] - message["m"], order)

    def _on_power(self, message: dict[str, Any]) -> list[Event]:
        device = self._device(message)
        samples = DriverSamples(message["samples"])
        device.readings["power_samples"] = Known(samples)
        text = f"{len(samples)} power samples of the driver"
        base = self.base(message, text, "nvmlDeviceGetSamples", device.pci)
        return [PowerSampled.trusted({**base, "samples": samples})]

    def _on_processes(self, message: dict[str, Any]) -> list[Event]:
        device = self._device(message)
        pids = tuple(int(pid) for pid in message["pids"])
        named = ", ".join(map(str, pids[:10])) + (", ..." if len(pids) > 10 else "")
        text = f"NVML lists {len(pids)} processes{': ' if pids else ''}{named}"
        base = self.base(message, text, "nvmlDeviceGetComputeRunningProcesses", device.pci)
        return [ProcessesListed(**base, pids=pids)]

    def _on_event(self, message: dict[str, Any]) -> list[Event]:
        device = self._device(message)
        kind, data = message["type"], message["data"]
        if kind & XID_EVENT:
            text = f"NVML event: Xid {data}"
            base = self.base(message, text, "nvmlEventSetWait", device.pci)
            return [XidReported(**base, code=_whole(data), uuid=device.uuid, via=INPUT)]
        if kind & UNAVAILABLE_EVENT:
            text = "NVML event: GPU unavailable (type 0x4000)"
            base = self.base(message, text, "nvmlEventSetWait", device.pci)
            return [LossHinted(**base, what="unavailable", index=device.index)]
        return []  # a changed recovery action is read at once by the slow group

    def _on_lost(self, message: dict[str, Any]) -> list[Event]:
        device = self._device(message)
        if device.lost is not None:
            return []
        call = _word(message["call"])
        device.over = True
        device.fast = []
        text = f"{call} returned GPU_IS_LOST"
        gone = Unavailable(Reason.LOST, text)
        device.lost = gone
        if device.pci is None:
            device.not_opened = gone
        for name in (*FAST_NAMES, *(value.name for value in _SELDOM)):
            device.readings[name] = gone
        return [
            GpuLostReported(
                **self.base(message, text, call, device.pci),
                by="nvml",
                index=device.index if device.index is not None else _index(message),
                uuid=device.uuid,
            )
        ]

    def _on_gone(self, message: dict[str, Any]) -> list[Event]:
        device = self._device(message)
        device.over = True
        words = {
            "not-found": "NVML no longer knows the device",
            "unavailable": "the driver called the device unavailable; it is not asked any more",
            "skipped": "the device is asleep, or is to be left alone; it is not asked any more",
        }
        text = _word(words.get(message["why"], message["why"]))
        return [self.changed(message, "stopped", text, device=device.pci)]

    def _on_nvml(self, message: dict[str, Any]) -> list[Event]:
        device = self._device(message) if "slot" in message else None
        call, name, code = _word(message["call"]), _word(message["name"]), _whole(message["code"])
        text = f"{call} returned {name} ({code})"
        if device and (device.pci is None or call in OPENING):
            device.over = True
            device.not_opened = Unavailable(REASONS.get(code, Reason.FAILED), text)
        base = self.base(message, text, call, device.pci if device else None)
        index = device.index if device and device.index is not None else _index(message)
        return [NvmlReturned(**base, code=code, name=name, index=index)]

    def _on_closed(self, message: dict[str, Any]) -> list[Event]:
        code, name = message["code"], message["name"]
        reason = {4: Reason.NOT_PERMITTED, 17: Reason.NOT_PERMITTED}.get(code, Reason.NOT_THERE)
        before = self.closed
        self.closed = Unavailable(reason, f"nvmlInit returned {name}", _HINTS.get(code, ""))
        for device in self.devices.values():
            device.over = True
        if before == self.closed:
            return []
        text = f"NVML cannot be used: {name} ({code})"
        return [self.changed(message, "unavailable", text)]

    def init_failed(self, message: dict[str, Any]) -> NvmlReturned:
        """A driver that should be there and cannot be used."""
        code, name = message["code"], message["name"]
        text = f"nvmlInit returned {name} ({code})"
        return NvmlReturned(**self.base(message, text, "nvmlInit"), code=code, name=name)

    def _on_error(self, message: dict[str, Any]) -> list[Event]:
        last = message["text"].strip().splitlines()[-1]
        return [self.changed(message, "gap", f"the NVML process failed: {last}"[:500])]

    def _on_bye(self, message: dict[str, Any]) -> list[Event]:
        self.bye = message["why"]
        if self.bye != "firmware":
            return []
        text = "a GPU's firmware does not answer; no further NVML call is made"
        return [self.changed(message, "stopped", text)]


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _index(message: dict[str, Any]) -> int | None:
    index = message.get("index")
    return index if index.__class__ is int else None


def _word(value: Any) -> str:
    """A text that a message must have; without it the message is damaged."""
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is no text")
    return value


def _whole(value: Any) -> int:
    """A whole number that a message must have."""
    if value.__class__ is not int:
        raise TypeError(f"{value!r} is no whole number")
    return int(value)
