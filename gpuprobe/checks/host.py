"""What this machine lets a probe see, and what it would keep of the next loss."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path

from gpuprobe.checks.scene import HostFacts
from gpuprobe.reading import Known, Reading, Reason, Unavailable
from gpuprobe.sources.pci.tree import read_text

GPU_SENSORS = frozenset({"amdgpu", "nouveau", "i915", "xe", "radeon"})
"""Sensor chips that belong to a GPU, not to the board or its supply."""

_CGROUP_KINDS = (
    ("kubepods", "kubernetes"),
    ("docker", "docker"),
    ("libpod", "podman"),
    ("containerd", "containerd"),
    ("lxc", "lxc"),
)
_VOLTAGE = re.compile(r"in\d+_input\Z")


def read_host(
    root: Path,
    *,
    kernel_log: Callable[[], Reading[str]],
    udev: Callable[[], Reading[str]],
    uid: int | None = None,
) -> HostFacts:
    """All of it, from files below `root`.

    Args:
        root: Where `proc`, `sys`, `run`, `var` and `etc` are looked for.
        kernel_log: Says how the kernel log can be followed.
        udev: Says how device events can be followed.
        uid: This process' user.
    """
    release = _there(read_text(root / "proc/sys/kernel/osrelease"))
    wsl = isinstance(release, Known) and "microsoft" in release.value.lower()
    container = read_container(root)
    return HostFacts(
        kernel=release,
        cmdline=_there(read_text(root / "proc/cmdline")),
        container=container,
        wsl=wsl,
        root=(os.geteuid() if uid is None else uid) == 0,
        kernel_log=_guarded(kernel_log),
        udev=_guarded(udev),
        journal=read_journal(root),
        pstore=read_pstore(root),
        recorders=read_recorders(root, own=container is None),
        sensors=read_sensors(root),
        systemd=(root / "run/systemd/system").is_dir(),
        efi=(root / "sys/firmware/efi").is_dir(),
    )


def _there(reading: Reading[str]) -> Reading[str]:
    """A missing file of /proc or /run is not there, rather than not supported by a GPU."""
    if isinstance(reading, Unavailable) and reading.reason is Reason.NOT_SUPPORTED:
        return Unavailable(Reason.NOT_THERE, reading.detail, reading.hint)
    return reading


def _guarded(read: Callable[[], Reading[str]]) -> Reading[str]:
    try:
        return read()
    except Exception as error:  # a broken source costs its own line alone
        return Unavailable(Reason.FAILED, f"{type(error).__name__}: {error}")


def read_container(root: Path) -> str | None:
    """The kind of container around this process, or None."""
    named = read_text(root / "run/systemd/container")
    if isinstance(named, Known) and named.value:
        return named.value
    if (root / "run/.containerenv").exists():
        return "podman"
    if root == Path("/") and "KUBERNETES_SERVICE_HOST" in os.environ:
        return "kubernetes"
    if (root / ".dockerenv").exists():
        return "docker"
    cgroup = read_text(root / "proc/1/cgroup")
    text = cgroup.value if isinstance(cgroup, Known) else ""
    return next((kind for word, kind in _CGROUP_KINDS if word in text), None)


def read_journal(root: Path) -> Reading[str]:
    """`persistent` where journald keeps files on disk, `volatile` where in memory alone."""
    if any((root / "var/log/journal").glob("*/*.journal")):
        return Known("persistent")
    if any((root / "run/log/journal").glob("*/*.journal")):
        return Known("volatile")
    for place in ("var/log/journal", "run/log/journal"):
        folder = root / place
        if folder.is_dir() and any(folder.iterdir()):
            # Its files may not be listed by everybody.
            return Known("persistent" if place.startswith("var") else "volatile")
    return Unavailable(Reason.NOT_THERE, "no systemd journal here")


def read_pstore(root: Path) -> Reading[str]:
    """The registered backend, such as `efi_pstore`."""
    if not (root / "sys/fs/pstore").is_dir():
        return Unavailable(Reason.NOT_THERE, "this kernel was built without pstore")
    backend = read_text(root / "sys/module/pstore/parameters/backend")
    if isinstance(backend, Unavailable):
        if backend.reason is Reason.NOT_PERMITTED:
            return backend
        return Unavailable(Reason.NOT_THERE, "no pstore backend is registered")
    if backend.value in ("", "(null)"):
        return Unavailable(Reason.NOT_THERE, "no pstore backend is registered")
    return Known(backend.value)


def read_recorders(root: Path, *, own: bool = True) -> Reading[tuple[str, ...]]:
    """Recorders that run: gpuprobe itself, and rasdaemon, which keeps AER.

    Args:
        root: Where `proc` is looked for.
        own: Whether all processes of the machine are in sight; in a container they are not.
    """
    found = set()
    try:
        processes = [entry for entry in (root / "proc").iterdir() if entry.name.isdecimal()]
    except OSError as error:
        return Unavailable(Reason.NOT_THERE, f"/proc: {error.strerror}")
    for entry in processes:
        if int(entry.name) == os.getpid():
            continue
        try:
            arguments = (entry / "cmdline").read_bytes().decode("utf-8", "replace").split("\0")
        except OSError:
            continue
        if name := _recorder(arguments):
            found.add(f"{name} (pid {entry.name})")
    if not found and not own:
        return Unavailable(
            Reason.NOT_THERE, "the host's processes are out of sight", "Run it on the host"
        )
    return Known(tuple(sorted(found)))


def _recorder(arguments: list[str]) -> str | None:
    programs = [Path(argument).name for argument in arguments[:5]]
    if not programs[0].startswith("python"):
        programs = programs[:1]
    if "rasdaemon" in programs[:1]:
        return "rasdaemon"
    if "gpuprobe" not in programs:
        return None
    rest = arguments[programs.index("gpuprobe") + 1 :]
    if rest[:1] in (["record"], ["run"]):
        return f"gpuprobe {rest[0]}"
    if rest[:1] == ["watch"] and any(word.startswith("--record") for word in rest):
        return "gpuprobe watch"
    return None


def read_sensors(root: Path) -> Reading[tuple[str, ...]]:
    """Names of sensor chips, other than a GPU's, that give voltages."""
    folder = root / "sys/class/hwmon"
    try:
        chips = sorted(folder.iterdir())
    except OSError:
        return Unavailable(Reason.NOT_THERE, "no /sys/class/hwmon here")
    found = []
    for chip in chips:
        name = read_text(chip / "name")
        if not isinstance(name, Known) or name.value in GPU_SENSORS:
            continue
        try:
            volts = any(_VOLTAGE.match(file.name) for file in chip.iterdir())
        except OSError:
            continue
        if volts:
            found.append(name.value)
    return Known(tuple(dict.fromkeys(found)))
