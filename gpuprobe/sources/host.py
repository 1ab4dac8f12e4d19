"""Watches the host beside the GPU: OOM kills of a cgroup, CPU heat, alarms of board sensors.

Cost: three small reads of open files every two seconds, for OOM kills and free memory; all else
every half minute. No permission needed.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gpuprobe.events import (
    Event,
    HostFaulted,
    HostSampled,
    OomKilled,
    PowerReported,
    SystemDescribed,
)
from gpuprobe.pace import HOST_S
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.cgroup import read_oom_kills
from gpuprobe.sources.figures import Number
from gpuprobe.sources.host_readings import (
    HostReading,
    MemoryReading,
    SensorReading,
    read_host,
    read_memory,
)
from gpuprobe.sources.kept_file import KeptFile
from gpuprobe.sources.pci.tree import ROOT, read_text
from gpuprobe.sources.threaded import Beat, ThreadedSource, Turn

__all__ = ["HostReading", "HostSource", "read_host"]

INTERVAL_S = 2.0
SLOW_EVERY = round(HOST_S / INTERVAL_S)
"""Looks at the OOM kills between two full readings."""

TOLD_PART = 0.05
"""A change of the available memory by this part of all of it is told between two samples."""

_LAPTOPS = frozenset({"8", "9", "10", "14", "31", "32"})
"""DMI chassis types: portable, laptop, notebook, sub notebook, convertible, detachable."""

_CONTAINERS = ("docker", "kubepods", "containerd", "libpod", "lxc", "garden")


class HostSource(ThreadedSource):
    """Watches the host.

    Attributes:
        latest: The last full reading with the newest OOM kills, or None before the first.

    Args:
        order: See `ThreadedSource`.
        root: Where /proc and /sys are looked for.
        pid: Whose cgroup is watched; this process's when None.
        cgroup: A cgroup's folder, instead of a process's.
        interval_s: Time between two readings, seconds.
    """

    name = "host"

    def __init__(
        self,
        order: int = 0,
        *,
        root: Path = ROOT,
        pid: int | None = None,
        cgroup: Path | None = None,
        interval_s: float = INTERVAL_S,
    ) -> None:
        super().__init__(order)
        self._root = root
        self._pid = pid
        self._cgroup = cgroup
        self._interval_s = interval_s
        self.latest: HostReading | None = None
        who = "self" if pid is None else str(pid)
        self._groups_file = KeptFile(f"{root}/proc/{who}/cgroup")
        self._groups = self._groups_file.read(4096)
        self._memory_file = KeptFile(f"{root}/proc/meminfo")
        self._kills_file = KeptFile("")
        self._kills_of = ""
        self._kills = b""
        self._told_bytes: int | None = None

    def available(self) -> Availability:
        """Whether /proc is there."""
        if not (self._root / "proc/meminfo").exists():
            return Unavailable(Reason.NOT_THERE, f"no {self._root / 'proc'}", "It needs Linux.")
        return Known(str(self._root / "proc"))

    def _run(self, turn: Turn) -> None:
        beat = Beat(self._interval_s)
        tick = 0
        self.latest = None
        turn.put(self._changed("started", f"reading {self._root / 'proc'}"))
        for event in self.describe():
            turn.put(event)
        while not turn.over:
            for event in self.look(slow=tick % SLOW_EVERY == 0):
                turn.put(event)
            tick += 1
            turn.wait(beat.pause())

    def describe(self) -> Iterator[Event]:
        """Facts about the machine that a verdict may need, told once."""
        files = {"kernel": "proc/sys/kernel/osrelease", "cmdline": "proc/cmdline"}
        for key, path in files.items():
            text = read_text(self._root / path)
            if isinstance(text, Known) and text.value:
                # What stands behind ` -- ` goes to init.
                yield self._fact(key, text.value.partition(" -- ")[0], path)
                if key == "kernel" and "microsoft" in text.value.lower():
                    yield self._fact("wsl", text.value, path)
        dmi = self._root / "sys/class/dmi/id"
        names = [read_text(dmi / name) for name in ("sys_vendor", "product_name")]
        words = " ".join(name.value for name in names if isinstance(name, Known)).strip()
        if words:
            yield self._fact("chassis", words, "sys/class/dmi/id")
        kind = read_text(dmi / "chassis_type")
        if isinstance(kind, Known) and kind.value in _LAPTOPS:
            yield self._fact("laptop", words or kind.value, "sys/class/dmi/id/chassis_type")
        if container := self._container():
            yield self._fact("container", container, "proc/self/cgroup")

    def _container(self) -> str:
        for mark, name in ((".dockerenv", "docker"), ("run/.containerenv", "podman")):
            if (self._root / mark).exists():
                return name
        groups = read_text(self._root / "proc/self/cgroup")
        text = groups.value if isinstance(groups, Known) else ""
        return next((name for name in _CONTAINERS if name in text), "")

    def _fact(self, key: str, value: str, path: str) -> SystemDescribed:
        base = self._base(f"{key}: {value}", str(self._root / path))
        return SystemDescribed(**base, key=key, value=value)

    def look(self, *, slow: bool) -> Iterator[Event]:
        """One reading: what changed since the last one.

        Args:
            slow: Read everything and not the OOM kills alone.
        """
        before = self.latest
        if before is not None and not slow and self._is_as(before):
            return
        now = read_host(self._root, pid=self._pid, cgroup=self._cgroup, slow=slow)
        if before is not None and not slow:
            now = dataclasses.replace(
                now,
                sensors=before.sensors,
                core_throttles=before.core_throttles,
                package_throttles=before.package_throttles,
            )
        self.latest = now
        yield from self._sample(now, due=slow)
        if before is None:
            yield from self._already_bad(now)
            return
        yield from self._oom(before, now)
        if slow:
            yield from self._heat(before, now)
            yield from self._alarms(before, now)

    def _is_as(self, before: HostReading) -> bool:
        """The usual case at the least cost: nothing killed, and about as much memory free."""
        changed = False
        if self._cgroup is None:
            groups, self._groups = self._groups, self._groups_file.read(4096)
            changed = groups != self._groups
        if changed or self._killed(before):
            return False
        available = _available(self._memory_file.read(512))
        if available is None:
            return not self._is_told(read_memory(self._root), due=False)
        total, told = before.memory.total_bytes, self._told_bytes
        if not isinstance(total, Known) or told is None:
            return False
        return abs(told - available) < TOLD_PART * total.value

    def _killed(self, before: HostReading) -> bool:
        """Whether the OOM killer ended something in the cgroup since."""
        path = before.cgroup.path
        if not path:
            return False
        if path != self._kills_of:
            name = "memory.events" if Path(path, "memory.events").exists() else "memory.oom_control"
            self._kills_of, self._kills_file = path, KeptFile(f"{path}/{name}")
            self._kills = b""
        kills = self._kills_file.read(4096)
        if kills == self._kills:
            return False
        self._kills = kills
        return read_oom_kills(Path(path)) != before.cgroup.oom_kills

    def _is_told(self, memory: MemoryReading, *, due: bool) -> bool:
        """Whether so much memory went or came, or so much time, that it is told."""
        free, total, told = memory.available_bytes, memory.total_bytes, self._told_bytes
        if not isinstance(free, Known) or not isinstance(total, Known):
            return False
        return due or told is None or abs(told - free.value) >= TOLD_PART * total.value

    def _sample(self, now: HostReading, *, due: bool) -> Iterator[Event]:
        """Memory and pressure: when it is time, or when much memory went or came."""
        free, total = now.memory.available_bytes, now.memory.total_bytes
        if not isinstance(free, Known) or not isinstance(total, Known):
            return
        if not self._is_told(now.memory, due=due):
            return
        self._told_bytes = free.value
        waits: dict[str, Any] = {
            f"{name}_pressure_percent": reading.some_avg10_percent.value
            for name, reading in now.pressure.items()
            if isinstance(reading.some_avg10_percent, Known)
        }
        text = f"{free.value >> 20} of {total.value >> 20} MiB available"
        yield HostSampled(
            **self._base(text, "proc/meminfo"),
            memory_available_bytes=free.value,
            memory_total_bytes=total.value,
            **waits,
        )

    def _oom(self, before: HostReading, now: HostReading) -> Iterator[Event]:
        if before.cgroup.path != now.cgroup.path:
            return
        more = _rise(before.cgroup.oom_kills, now.cgroup.oom_kills)
        if more:
            limit = now.cgroup.memory_limit_bytes
            words = f", limit {limit.value} bytes" if isinstance(limit, Known) else ""
            text = f"the OOM killer ended {more} processes of cgroup {now.cgroup.path}{words}"
            yield OomKilled(**self._base(text, now.cgroup.path), cgroup=True)

    def _heat(self, before: HostReading, now: HostReading) -> Iterator[Event]:
        more = _rise(before.package_throttles, now.package_throttles)
        if more:
            text = f"the CPU slowed down by heat {more} times since the last look"
            yield HostFaulted(**self._base(text, "thermal_throttle"), what="cpu-heat")

    def _already_bad(self, now: HostReading) -> Iterator[Event]:
        """What is wrong at the first look: limits passed, but no mere alarm bits."""
        for sensor in now.sensors:
            if _too_hot(sensor):
                yield self._sensor(sensor, "at its critical limit or above")
            if sensor.under and sensor.kind == "voltage_v":
                yield self._under_voltage(sensor)

    def _alarms(self, before: HostReading, now: HostReading) -> Iterator[Event]:
        known = {sensor.path: sensor for sensor in before.sensors}
        for sensor in now.sensors:
            old = known.get(sensor.path)
            if old is None:
                continue
            if _too_hot(sensor) and not _too_hot(old):
                yield self._sensor(sensor, "at its critical limit or above")
            elif sensor.kind == "fan_rpm" and sensor.alarm and old.alarm is False:
                yield self._sensor(sensor, "raised its alarm", "fan")
            elif sensor.kind == "voltage_v":
                if sensor.under and not old.under:
                    yield self._under_voltage(sensor)
                elif old.under and sensor.under is False:
                    text = f"{_name(sensor)} is above its lower limit again"
                    base = self._base(text, sensor.path, device=sensor.device)
                    yield PowerReported(**base, what="voltage-normal", gpu=False)

    def _under_voltage(self, sensor: SensorReading) -> Event:
        base = self._base(f"{_name(sensor)} is below its critical limit", sensor.path)
        return PowerReported(**base, what="under-voltage", gpu=False)

    def _sensor(self, sensor: SensorReading, words: str, what: str = "heat") -> Event:
        base = self._base(f"{_name(sensor)} {words}", sensor.path, device=sensor.device)
        return HostFaulted(**base, what=what)


def _available(memory: bytes) -> int | None:
    """Bytes that programs can still get, of the begin of /proc/meminfo."""
    _, found, rest = memory.partition(b"MemAvailable:")
    words = rest.split(None, 1)
    return int(words[0]) * 1024 if found and words and words[0].isdigit() else None


def _rise(before: Number, now: Number) -> int:
    """By how much a count rose; 0 where one of them is not known."""
    if isinstance(before, Known) and isinstance(now, Known):
        return max(0, now.value - before.value)
    return 0


def _too_hot(sensor: SensorReading) -> bool:
    """At its critical limit, where that is one: boards leave 0, 127 or less than the room has."""
    limit, value = sensor.critical, sensor.value
    return (
        sensor.kind == "temp_c"
        and limit is not None
        and 40.0 <= limit < 126.0
        and isinstance(value, Known)
        and limit <= value.value < 200.0
    )


def _name(sensor: SensorReading) -> str:
    unit = {"temp_c": "C", "voltage_v": "V", "fan_rpm": "rpm", "power_w": "W", "current_a": "A"}
    value = f"{sensor.value.value:g} {unit[sensor.kind]}" if isinstance(sensor.value, Known) else ""
    return f"{sensor.chip} {sensor.label} {value}".strip()
