"""Limits of a cgroup and what they did, of version 2 or of version 1's separate trees.

And which container a process is in, by the path of its cgroup as container runtimes name them.

Source: the kernel's Documentation/admin-guide/cgroup-v2.rst and cgroup-v1/memory.rst.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.figures import Figure, Number, entry, number
from gpuprobe.sources.pci.tree import ROOT, read_text

_UNLIMITED: Final = 1 << 60
"""cgroup v1 writes no limit as a number near 2^63."""


@dataclass(frozen=True, slots=True)
class CgroupReading:
    """Limits of a cgroup and what they did.

    Attributes:
        path: Its folder, or "" where it could not be found.
        memory_bytes: In use now.
        memory_limit_bytes: The tightest limit of it and the groups above; not-there for none.
        limit_path: The group that sets it, or "".
        oom_kills: Processes that the limit's OOM killer ended, since the group was made.
        cpu_limit_cores: Cores' worth of time it may use; not-there for no limit.
        throttled_periods: Periods in which the CPU limit held it up.
        throttled_us: For how long in all, microseconds.
    """

    path: str
    memory_bytes: Number
    memory_limit_bytes: Number
    limit_path: str
    oom_kills: Number
    cpu_limit_cores: Figure
    throttled_periods: Number
    throttled_us: Number


def read_cgroup(
    root: Path = ROOT, *, pid: int | None = None, folder: Path | None = None
) -> CgroupReading:
    """A cgroup's limits and counts, of version 2 or of version 1's memory and cpu trees."""
    base = root / "sys/fs/cgroup"
    if folder is not None:
        return _read_v2(folder, base)
    text = read_text(root / "proc" / ("self" if pid is None else str(pid)) / "cgroup")
    if isinstance(text, Unavailable):
        return CgroupReading("", text, text, "", text, text, text, text)
    paths: dict[str, str] = {}
    for line in text.value.splitlines():
        _, controllers, path = (*line.split(":", 2), "", "")[:3]
        paths.update(dict.fromkeys(controllers.split(","), path))
    if "memory" in paths:
        memory = _existing(base / "memory", paths["memory"])
        cpu = _existing(base / "cpu", paths.get("cpu", "/"))
        return _read_v1(memory, cpu, base / "memory")
    if "" in paths:
        return _read_v2(_existing(base, paths[""]), base)
    none = Unavailable(Reason.NOT_THERE, "no cgroup with a memory controller")
    return CgroupReading("", none, none, "", none, none, none, none)


def container_of(groups: str) -> tuple[str, str] | None:
    """The container that a process is in: `docker`, `podman`, `kubernetes` or `containerd`, and id.

    Of containers one in another, the innermost. Podman's own watcher (conmon) is in none.

    Args:
        groups: What /proc/PID/cgroup holds, seen from outside the container.
    """
    found = [match for line in groups.splitlines() if (match := _CONTAINER.search(line))]
    if not found:
        return None
    path = found[0]["path"]
    kinds = (kind for word, kind in _KINDS if word in path)
    return next(kinds, "containerd"), found[0]["id"]


_CONTAINER: Final = re.compile(
    r"^\d+:[^:]*:(?P<path>/.*[/:-](?<!conmon-)(?P<id>[0-9a-f]{64}))(?:\.scope)?(?:/(?!.*[0-9a-f]{64}).*)?$"
)
"""`0::/system.slice/docker-ID.scope`, `4:memory:/docker/ID`, `…slice:cri-containerd:ID`."""

_KINDS: Final = (("kubepods", "kubernetes"), ("libpod", "podman"), ("docker", "docker"))


def read_oom_kills(folder: Path) -> Number:
    """The one count that a watcher asks for often: see `CgroupReading.oom_kills`."""
    found = entry(folder / "memory.events", "oom_kill")
    return found if isinstance(found, Known) else entry(folder / "memory.oom_control", "oom_kill")


def _existing(base: Path, path: str) -> Path:
    """The group's folder; in a container without a namespace its own is mounted at the top."""
    folder = base / path.lstrip("/")
    return folder if ".." not in path and folder.is_dir() else base


def _up(folder: Path, base: Path) -> Iterator[Path]:
    yield folder
    if folder.is_relative_to(base):
        while folder != base:
            folder = folder.parent
            yield folder


def _limit(folder: Path, base: Path, name: str) -> tuple[Number, str]:
    """The tightest limit of a group and those above it, and which group sets it."""
    found: list[tuple[int, str]] = []
    first: Known[str] | Unavailable | None = None
    for group in _up(folder, base):
        text = read_text(group / name)
        first = text if first is None else first
        if isinstance(text, Known) and text.value.isdecimal() and int(text.value) < _UNLIMITED:
            found.append((int(text.value), str(group)))
    if found:
        value, where = min(found)
        return Known(value), where
    if isinstance(first, Unavailable) and first.reason is not Reason.NOT_SUPPORTED:
        return first, ""
    return Unavailable(Reason.NOT_THERE, "no limit is set"), ""


def _read_v2(folder: Path, base: Path) -> CgroupReading:
    limit, where = _limit(folder, base, "memory.max")
    return CgroupReading(
        path=str(folder),
        memory_bytes=number(read_text(folder / "memory.current")),
        memory_limit_bytes=limit,
        limit_path=where,
        oom_kills=entry(folder / "memory.events", "oom_kill"),
        cpu_limit_cores=_cores(read_text(folder / "cpu.max")),
        throttled_periods=entry(folder / "cpu.stat", "nr_throttled"),
        throttled_us=entry(folder / "cpu.stat", "throttled_usec"),
    )


def _read_v1(memory: Path, cpu: Path, base: Path) -> CgroupReading:
    limit, where = _limit(memory, base, "memory.limit_in_bytes")
    quota = read_text(cpu / "cpu.cfs_quota_us")
    period = read_text(cpu / "cpu.cfs_period_us")
    cores: Figure
    if isinstance(quota, Known) and isinstance(period, Known):
        unlimited = quota.value.startswith("-")
        cores = _cores(Known(f"{'max' if unlimited else quota.value} {period.value}"))
    else:
        cores = quota if isinstance(quota, Unavailable) else _cores(Known("max"))
    nanoseconds = entry(cpu / "cpu.stat", "throttled_time")
    return CgroupReading(
        path=str(memory),
        memory_bytes=number(read_text(memory / "memory.usage_in_bytes")),
        memory_limit_bytes=limit,
        limit_path=where,
        oom_kills=entry(memory / "memory.oom_control", "oom_kill"),
        cpu_limit_cores=cores,
        throttled_periods=entry(cpu / "cpu.stat", "nr_throttled"),
        throttled_us=(
            Known(nanoseconds.value // 1000) if isinstance(nanoseconds, Known) else nanoseconds
        ),
    )


def _cores(text: Known[str] | Unavailable) -> Figure:
    if isinstance(text, Unavailable):
        return text
    quota, _, period = text.value.partition(" ")
    if quota == "max":
        return Unavailable(Reason.NOT_THERE, "no limit is set")
    try:
        return Known(int(quota) / int(period or "100000"))
    except (ValueError, ZeroDivisionError):
        return Unavailable(Reason.FAILED, f"no quota: {text.value[:40]!r}")
