"""The host beside the GPU: memory, pressure, cgroup limits, CPU throttling, board sensors.

From /proc, /sys and the cgroup file system alone; no root. Every value is known or unavailable
for a reason: a container sees its own cgroup and often no sensors, an old kernel has no pressure.

Source: the kernel's Documentation/accounting/psi.rst, hwmon/sysfs-interface.rst, and
filesystems/proc.rst for /proc/meminfo.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.cgroup import CgroupReading, read_cgroup
from gpuprobe.sources.figures import Figure, Number, entry, figure, number
from gpuprobe.sources.pci.tree import ROOT, asleep, read_text

_KINDS: Final[Mapping[str, tuple[str, float]]] = {
    "temp": ("temp_c", 1e-3),
    "in": ("voltage_v", 1e-3),
    "fan": ("fan_rpm", 1.0),
    "power": ("power_w", 1e-6),
    "curr": ("current_a", 1e-3),
}
"""hwmon's prefix of a file to what it measures, and what makes its number that."""

_INPUT = re.compile(r"((temp|in|fan|power|curr)\d+)_input\Z")


@dataclass(frozen=True, slots=True)
class MemoryReading:
    """The machine's memory, bytes. `available` is what programs can still get without swapping."""

    total_bytes: Number
    available_bytes: Number


@dataclass(frozen=True, slots=True)
class PressureReading:
    """Time lost waiting for one resource.

    Attributes:
        some_avg10_percent: Share of the last 10 s in which some task waited, percent.
        full_avg10_percent: In which all did.
        some_total_us: Microseconds since boot in which some task waited.
    """

    some_avg10_percent: Figure
    full_avg10_percent: Figure
    some_total_us: Number


@dataclass(frozen=True, slots=True)
class SensorReading:
    """One sensor of the board, a drive or a power supply.

    Attributes:
        chip: The driver's name: `nct6798`, `corsairpsu`, `k10temp`.
        label: As the driver calls it, or `temp1` and the like.
        kind: `temp_c`, `voltage_v`, `fan_rpm`, `power_w`, `current_a`; gives the unit.
        value: The reading.
        critical: Its upper critical limit in the same unit, or None.
        alarm: The driver's alarm bit, None where there is none. Boards set up badly raise it
            from boot on, so only a change means something.
        under: The bit of a lower critical limit, as for under-voltage.
        path: Its `_input` file.
        device: The PCI function it belongs to, or None.
    """

    chip: str
    label: str
    kind: str
    value: Figure
    critical: float | None = None
    alarm: bool | None = None
    under: bool | None = None
    path: str = ""
    device: PciAddress | None = None


@dataclass(frozen=True, slots=True)
class HostReading:
    """The host at one moment.

    Attributes:
        memory: See `MemoryReading`.
        pressure: By resource: `cpu`, `memory`, `io`.
        cgroup: Of this process, or of the one asked for.
        load1: Mean number of runnable tasks over a minute.
        core_throttles: Times that cores slowed down by heat, since boot, summed.
        package_throttles: The same for whole packages.
        host_oom_kills: Processes ended by any OOM killer of this kernel since boot, cgroups' too.
        sensors: Those that could be read without waking anything; empty where not asked for.
    """

    memory: MemoryReading
    pressure: Mapping[str, PressureReading]
    cgroup: CgroupReading
    load1: Figure
    core_throttles: Number
    package_throttles: Number
    host_oom_kills: Number
    sensors: tuple[SensorReading, ...] = field(default=())


def read_host(
    root: Path = ROOT, *, pid: int | None = None, cgroup: Path | None = None, slow: bool = True
) -> HostReading:
    """The host now.

    Args:
        root: Where /proc and /sys are looked for.
        pid: Whose cgroup; this process's when None.
        cgroup: A cgroup's folder, instead of a process's.
        slow: Read the board's sensors, too, where slow chips take milliseconds each, and the heat
            counts of every CPU, of which a server has hundreds.
    """
    not_asked = Unavailable(Reason.NOT_ASKED, "read every few seconds only")
    load = read_text(root / "proc/loadavg")
    return HostReading(
        memory=read_memory(root),
        pressure={
            name: read_pressure(root / "proc/pressure" / name) for name in ("cpu", "memory", "io")
        },
        cgroup=read_cgroup(root, pid=pid, folder=cgroup),
        load1=figure(Known(load.value.partition(" ")[0]) if isinstance(load, Known) else load),
        core_throttles=_throttles(root, "core_throttle_count") if slow else not_asked,
        package_throttles=_throttles(root, "package_throttle_count") if slow else not_asked,
        host_oom_kills=entry(root / "proc/vmstat", "oom_kill"),
        sensors=tuple(read_sensors(root)) if slow else (),
    )


def read_memory(root: Path = ROOT) -> MemoryReading:
    """The machine's memory; in a container this is still the whole machine's."""
    text = read_text(root / "proc/meminfo")

    def amount(name: str) -> Number:
        if isinstance(text, Unavailable):
            return text
        match = re.search(rf"^{name}:\s+(\d+) kB", text.value, re.MULTILINE)
        if match is None:
            return Unavailable(Reason.NOT_SUPPORTED, f"no {name} in /proc/meminfo")
        return Known(int(match[1]) * 1024)

    return MemoryReading(amount("MemTotal"), amount("MemAvailable"))


def read_pressure(path: Path) -> PressureReading:
    """One resource's pressure stall information.

    Missing: not-supported below kernel 4.20, or where it was built or booted without (`psi=0`).
    """
    text = read_text(path)
    if isinstance(text, Unavailable):
        return PressureReading(text, text, text)
    found = {
        (line.partition(" ")[0], name): value
        for line in text.value.splitlines()
        for name, _, value in (part.partition("=") for part in line.split()[1:])
    }

    def share(line: str, name: str) -> Known[str] | Unavailable:
        value = found.get((line, name))
        missing = Unavailable(Reason.NOT_SUPPORTED, f"no {line} line in {path}")
        return missing if value is None else Known(value)

    return PressureReading(
        figure(share("some", "avg10")),
        figure(share("full", "avg10")),
        number(share("some", "total")),
    )


# --- throttling and sensors -----------------------------------------------------------------


def _throttles(root: Path, name: str) -> Number:
    """A count summed over CPUs; of packages, each counted once."""
    found: dict[str, int] = {}
    for file in (root / "sys/devices/system/cpu").glob(f"cpu[0-9]*/thermal_throttle/{name}"):
        times = number(read_text(file))
        cpu = file.parents[1]
        place = read_text(cpu / "topology/physical_package_id")
        key = cpu.name
        if name.startswith("package") and isinstance(place, Known):
            key = place.value
        if isinstance(times, Known):
            found[key] = max(times.value, found.get(key, 0))
    if not found:
        return Unavailable(Reason.NOT_SUPPORTED, "this CPU, or a virtual machine, counts none")
    return Known(sum(found.values()))


def read_sensors(root: Path = ROOT) -> Iterator[SensorReading]:
    """The sensors that the kernel's hwmon drivers offer, but for those of sleeping devices."""
    try:
        chips = sorted((root / "sys/class/hwmon").iterdir())
    except OSError:
        return
    for chip in chips:
        device = (chip / "device").resolve()
        if asleep(device) is not None:
            continue
        yield from _chip(chip, PciAddress.try_parse(device.name))


def _chip(chip: Path, device: PciAddress | None) -> Iterator[SensorReading]:
    name = read_text(chip / "name")
    try:
        files = sorted(file.name for file in chip.iterdir())
    except OSError:
        return
    for file in files:
        match = _INPUT.match(file)
        if match is None:
            continue
        kind, scale = _KINDS[match[2]]
        label = read_text(chip / f"{match[1]}_label")
        critical = figure(read_text(chip / f"{match[1]}_crit"))
        value = figure(read_text(chip / file))
        yield SensorReading(
            chip=name.value if isinstance(name, Known) else chip.name,
            label=label.value if isinstance(label, Known) else match[1],
            kind=kind,
            value=Known(value.value * scale) if isinstance(value, Known) else value,
            critical=critical.value * scale if isinstance(critical, Known) else None,
            alarm=_any_bit(chip, match[1], files, ("alarm", "crit_alarm", "fault")),
            under=_any_bit(chip, match[1], files, ("lcrit_alarm",)),
            path=str(chip / file),
            device=device,
        )


def _any_bit(chip: Path, sensor: str, files: list[str], names: tuple[str, ...]) -> bool | None:
    bits = [
        read_text(chip / f"{sensor}_{name}") == Known("1")
        for name in names
        if f"{sensor}_{name}" in files
    ]
    return any(bits) if bits else None
