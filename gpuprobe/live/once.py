"""One reading of everything that a live session can read, with the reason for what it cannot."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, fields, is_dataclass
from pathlib import Path
from typing import Any, Final

from gpuprobe.diagnosis import Diagnosis, Kind
from gpuprobe.identity import PciAddress
from gpuprobe.live.board import Board, Row
from gpuprobe.live.nvml.calls import Group, values
from gpuprobe.live.session import Session
from gpuprobe.live.sources import SourceState
from gpuprobe.reading import Known, Reading, Reason, Unavailable
from gpuprobe.sources.host import HostSource
from gpuprobe.sources.pci.readings import aer_counters, read_link, read_power
from gpuprobe.sources.pci.tree import (
    NVIDIA,
    ROOT,
    asleep,
    device_path,
    path_to_root,
    read_hex,
)

DEADLINE_S: Final = 4.0
"""How long one reading takes at most."""

SILENCE_S: Final = 1.5
"""And at least: a device that reads all ones is asked again for about a second."""

_UNITS: Final = {value.name: value.unit for group in Group for value in values(group)}
_WITHOUT: Final = frozenset(name for name, unit in _UNITS.items() if unit == "list")
"""Lists that are no single figure."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One value, or why there is none.

    Attributes:
        name: Its name; a function's address and a dot stand before what was read of a port.
        unit: Its unit, or "".
        reading: The value or the reason.
    """

    name: str
    unit: str
    reading: Reading[Any]


@dataclass(frozen=True, slots=True)
class OnceGpu:
    """One GPU.

    Attributes:
        pci: Its address. name: Marketing name. index: NVML's index. state: See `Row`.
        why: The state in words.
        looked_at: The driver answered for it or lost it; for a GPU that NVML was not asked about,
            its config space answers.
        nvml: What NVML says. bus: What sysfs says of it and of every port above it.
    """

    pci: PciAddress
    name: str | None
    index: int | None
    state: str
    why: str
    looked_at: bool = True
    nvml: tuple[Figure, ...] = ()
    bus: tuple[Figure, ...] = ()


@dataclass(frozen=True, slots=True)
class OnceReport:
    """One reading of everything.

    Attributes:
        gpus: By address. host: The host's memory, pressure and sensors.
        system: Versions of driver, NVML and CUDA. states: The sources. diagnosis: What the rules
            say of these seconds.
    """

    gpus: tuple[OnceGpu, ...]
    host: tuple[Figure, ...]
    system: tuple[Figure, ...]
    states: tuple[SourceState, ...]
    diagnosis: Diagnosis

    @property
    def answer(self) -> str:
        """A verdict kind; `cannot-tell` where no GPU could be looked at."""
        looked_at = any(gpu.looked_at for gpu in self.gpus)
        if self.diagnosis.answer is Kind.NO_FAULT and not looked_at:
            return Kind.CANNOT_TELL.value
        return self.diagnosis.answer.value

    @property
    def exit_code(self) -> int:
        """0 no fault, 3 cannot tell, 79 a GPU is off the bus, 1 anything else."""
        if self.answer == Kind.CANNOT_TELL:
            return 3
        return self.diagnosis.exit_code


def read_once(
    session: Session, board: Board, *, root: Path = ROOT, deadline_s: float = DEADLINE_S
) -> OnceReport:
    """Let a started session run until everything was read once.

    Args:
        session: The session.
        board: Takes its updates.
        root: Where /sys and /proc are looked for.
        deadline_s: Returns after that many seconds, whatever the driver does.
    """
    begin = time.monotonic()
    for update in session.updates(0.05):
        board.take(update, session.states)
        spent = time.monotonic() - begin
        if spent >= deadline_s or (spent >= SILENCE_S and _is_complete(session)):
            break
    board.diagnosis = diagnosis = session.judge()
    readings = session.nvml.readings() if session.nvml is not None else {}
    return OnceReport(
        gpus=tuple(_gpu(row, readings.get(row.pci), session, root) for row in board.in_order),
        host=tuple(_host(session)),
        system=tuple(_system(session)),
        states=session.states,
        diagnosis=diagnosis,
    )


def _is_complete(session: Session) -> bool:
    """Whether NVML gave every group of every device, or cannot give any."""
    probe = session.nvml
    if probe is None:
        return True
    state = next(state for state in session.states if state.name == probe.name)
    if isinstance(state.access, Unavailable):
        return True
    readings = probe.readings()
    slow = ("limit_w", "pcie_replay", "temp_c")
    return bool(readings) and all(
        all(name in device for name in slow) for device in readings.values()
    )


def _gpu(
    row: Row, readings: Mapping[str, Reading[Any]] | None, session: Session, root: Path
) -> OnceGpu:
    nvml = tuple(
        Figure(name, _UNITS.get(name, _unit(name)), reading)
        for name, reading in _in_order(readings or {})
        if name not in _WITHOUT
    )
    asked = session.nvml is not None and read_hex(device_path(row.pci, root) / "vendor") == NVIDIA
    answered = row.state in ("sampled", "stalled", "lost", "removed")
    return OnceGpu(
        pci=row.pci,
        name=row.name,
        index=row.index,
        state=row.state,
        why=row.why,
        looked_at=answered or (row.state == "on the bus" and not asked),
        nvml=nvml,
        bus=tuple(_bus(row.pci, root)),
    )


def _in_order(readings: Mapping[str, Reading[Any]]) -> Iterator[tuple[str, Reading[Any]]]:
    """In the order of the published list of calls, then the rest."""
    for name in _UNITS:
        if name in readings:
            yield name, readings[name]
    for name, reading in readings.items():
        if name not in _UNITS:
            yield name, reading


def _unit(name: str) -> str:
    return {"rx_bytes_per_s": "bytes/s", "tx_bytes_per_s": "bytes/s"}.get(name, "")


def _bus(gpu: PciAddress, root: Path) -> Iterator[Figure]:
    """Link, power state and AER counters of the GPU and of each port above it."""
    if not device_path(gpu, root).is_dir():
        yield Figure("directory", "", Unavailable(Reason.NOT_THERE, "not in sysfs"))
        return
    for address in (gpu, *path_to_root(gpu, root)):
        before = "" if address == gpu else f"{address}."
        power = read_power(address, root)
        yield Figure(f"{before}power_state", "", power.power_state)
        yield Figure(f"{before}runtime_status", "", power.runtime_status)
        why = asleep(device_path(address, root))
        link = read_link(address, root)
        units = {"speed_gts": "GT/s", "width": "lanes"}
        for one in fields(link):
            reading = why if why is not None else getattr(link, one.name)
            yield Figure(f"{before}{one.name}", units[one.name.removeprefix("max_")], reading)
        if why is not None:
            continue
        counted = [item for item in aer_counters(address, root) if "TOTAL" in item[0]]
        for name, value in counted:
            yield Figure(f"{before}{name}", "count", Known(value))
        if not counted:
            yield Figure(f"{before}aer", "count", Unavailable(Reason.NOT_SUPPORTED, "no AER files"))


def _host(session: Session) -> Iterator[Figure]:
    source = next((one for one in session.sources if isinstance(one, HostSource)), None)
    if source is None or source.latest is None:
        return
    yield from _flat("", source.latest)


def _flat(name: str, value: Any) -> Iterator[Figure]:
    """The readings inside of nested values, each by its path."""
    dot = f"{name}." if name else ""
    if isinstance(value, Known | Unavailable):
        yield Figure(name, "", value)
    elif isinstance(value, Mapping):
        for key, part in value.items():
            yield from _flat(f"{dot}{key}", part)
    elif is_dataclass(value):
        for one in fields(value):
            yield from _flat(f"{dot}{one.name}", getattr(value, one.name))


def _system(session: Session) -> Iterator[Figure]:
    if session.nvml is not None:
        for name, reading in session.nvml.system().items():
            yield Figure(name, "", reading)
