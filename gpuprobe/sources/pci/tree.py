"""PCI devices in sysfs: which are GPUs, the ports above them, and whether one is still there.

The lowest layer of what reads sysfs: standard library alone, so that it can be used inside an
engine. Nothing here wakes a device that is suspended: `power/runtime_status` is the kernel's own
note and is read first; newer kernels resume a device when its config space is read.

Source: the kernel's drivers/pci/pci-sysfs.c and Documentation/ABI/testing/sysfs-bus-pci.
"""

from __future__ import annotations

import errno
import os
import re
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable

ROOT = Path("/")

CONFIG_HEAD_BYTES = 64
"""Of config space, what anybody may read."""

TRIES = 4
"""Times that config space must read all ones before the device counts as silent: one such
read may fall into a reset or a recovery."""

TRIES_OVER_S = 0.6
"""Time from the first to the last try."""

NVIDIA = 0x10DE
AMD = 0x1002

_NO_GPUS = frozenset(
    {
        0x1A03,  # ASPEED: a board's management controller
        0x102B,  # Matrox: the same, older
        0x1234,  # QEMU's standard display
        0x1AF4,  # virtio
        0x1B36,  # QXL
        0x1013,  # Cirrus, emulated
        0x15AD,  # VMware
        0x80EE,  # VirtualBox
        0x1414,  # Hyper-V and WSL2: a channel to the host's GPU, not the GPU
    }
)
"""Vendors of displays that compute nothing."""

_ADDRESS = re.compile(r"[0-9a-f]{4,8}:[0-9a-f]{2}:[01][0-9a-f]\.[0-7]\Z")

Config = Literal["answers", "all-ones", "unreadable", "not-asked"]


@dataclass(frozen=True, slots=True)
class Presence:
    """What two tests without the driver say: the directory, then config space.

    Attributes:
        directory: The device's directory in sysfs exists.
        config: `answers`, `all-ones`, `unreadable`, or `not-asked` (suspended or powered off, or
            no directory).
        runtime_status: `active`, `suspended`, `unsupported` and so on; "" where it has none.
        detail: What was read, in few words.
    """

    directory: bool
    config: Config
    runtime_status: str = ""
    detail: str = ""

    @property
    def gone(self) -> bool:
        """True when the directory is gone, or config space reads all ones while it is powered."""
        return not self.directory or self.config == "all-ones"


def device_path(address: PciAddress, root: Path = ROOT) -> Path:
    """The device's directory, whether it exists or not."""
    return root / "sys/bus/pci/devices" / str(address)


def addresses(root: Path = ROOT) -> list[PciAddress]:
    """All PCI functions that sysfs lists, in order of their addresses; none without sysfs."""
    try:
        names = [entry.name for entry in (root / "sys/bus/pci/devices").iterdir()]
    except OSError:
        return []
    # As texts they are nearly in order, which is compared faster.
    return sorted(PciAddress.parse(name) for name in sorted(names) if _ADDRESS.match(name))


def gpus(root: Path = ROOT) -> list[PciAddress]:
    """The GPUs that sysfs lists, of any vendor, in order of their addresses.

    Display controllers of a board's management chip and emulated ones are left out. Class and
    vendor are the kernel's cached values: right even for a GPU that stopped answering.
    """
    return [address for address in addresses(root) if is_gpu(address, root)]


def is_gpu(address: PciAddress, root: Path = ROOT) -> bool:
    """Whether a function is a GPU, by its class and vendor."""
    folder = f"{root}/sys/bus/pci/devices/{address}"
    code = read_hex(f"{folder}/class")
    kind = (code or 0) >> 8
    if kind not in (0x0300, 0x0302, 0x0380, 0x1200):
        return False  # most functions: half of the reading is saved, which counts at an import
    vendor = read_hex(f"{folder}/vendor")
    if vendor in _NO_GPUS:
        return False
    # AMD's accelerators are "display, other" or "processing accelerator".
    return kind in (0x0300, 0x0302) or (vendor == AMD and kind in (0x0380, 0x1200))


def nvidia_gpus(root: Path = ROOT) -> dict[PciAddress, bool]:
    """NVIDIA's GPUs in sysfs, and whether each is asleep; see `asleep`."""
    return {
        address: asleep(device_path(address, root)) is not None
        for address in gpus(root)
        if read_hex(device_path(address, root) / "vendor") == NVIDIA
    }


def path_to_root(address: PciAddress, root: Path = ROOT) -> list[PciAddress]:
    """The ports above a function, nearest first, the root port last; empty if it is gone."""
    try:
        folder = device_path(address, root).resolve(strict=True)
    except OSError:
        return []
    names = [parent.name for parent in folder.parents if _ADDRESS.match(parent.name)]
    return [PciAddress.parse(name) for name in names]


def read_text(path: Path | str) -> Known[str] | Unavailable:
    """A small file's text without its end.

    Missing: not-supported where the kernel has no such file, not-permitted, lost where the kernel
    knows that the device is disconnected (EINVAL, ENODEV).
    """
    try:
        return Known(read_bytes(path, 65_536).decode("utf-8", "replace").strip())
    except OSError as error:
        return failed(error, path)


def read_bytes(path: Path | str, size: int) -> bytes:
    """The first bytes of a file.

    Raises:
        OSError: It is not there, may not be read, or the device behind it is gone.
    """
    # Half the cost of a file object, and reading is most of what sampling costs.
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        return os.read(descriptor, size)
    finally:
        os.close(descriptor)


def failed(error: OSError, path: Path | str) -> Unavailable:
    """Why a file of sysfs, procfs or a cgroup could not be read."""
    detail = f"{path}: {error.strerror or error}"
    match error.errno:
        case errno.ENOENT | errno.ENOTDIR | errno.EOPNOTSUPP:
            return Unavailable(Reason.NOT_SUPPORTED, detail)
        case errno.EACCES | errno.EPERM:
            return Unavailable(Reason.NOT_PERMITTED, detail, "Run it with sudo.")
        case errno.EINVAL | errno.ENODEV | errno.ENXIO:
            return Unavailable(Reason.LOST, detail)
        case _:
            return Unavailable(Reason.FAILED, detail)


def read_hex(path: Path | str) -> int | None:
    """A file such as `vendor` (`0x10de`), or None."""
    found = read_text(path)
    if isinstance(found, Unavailable):
        return None
    try:
        return int(found.value, 16)
    except ValueError:
        return None


def read_config(
    address: PciAddress, root: Path = ROOT, size: int = CONFIG_HEAD_BYTES
) -> Known[bytes] | Unavailable:
    """The first bytes of config space, from the device itself, unless that would wake it.

    Args:
        address: The function.
        root: Where sysfs is looked for.
        size: How many; without root the kernel gives the first 64.
    """
    folder = device_path(address, root)
    if (why := asleep(folder)) is not None:
        return why
    return _read_head(folder / "config", size)


def _read_head(path: Path, size: int) -> Known[bytes] | Unavailable:
    try:
        return Known(read_bytes(path, size))
    except OSError as error:
        return failed(error, path)


def asleep(folder: Path) -> Unavailable | None:
    """Why a device must not be asked, or None when it is awake.

    Args:
        folder: Its directory in sysfs.
    """
    return _asleep(folder, read_text(folder / "power/runtime_status"))


def _asleep(folder: Path, status: Known[str] | Unavailable) -> Unavailable | None:
    if isinstance(status, Known):
        if status.value == "active":
            # A card that died on its way up can be "active" in D3cold: asking it wakes nothing.
            return None
        if status.value in ("suspended", "suspending", "resuming"):
            return Unavailable(Reason.ASLEEP, f"runtime_status is {status.value}")
    state = read_text(folder / "power_state")
    if isinstance(state, Known) and state.value in ("D3hot", "D3cold"):
        return Unavailable(Reason.ASLEEP, f"power_state is {state.value}")
    return None


def look_once(address: PciAddress, root: Path = ROOT) -> Presence:
    """Look once whether a function is there. Cost: two small reads, one of the device itself."""
    folder = device_path(address, root)
    found = read_text(folder / "power/runtime_status")
    status = found.value if isinstance(found, Known) else ""
    if (why := _asleep(folder, found)) is not None:
        return Presence(True, "not-asked", status, why.detail)
    head = _read_head(folder / "config", 4)
    if isinstance(head, Known):
        ones = head.value[:4] == b"\xff\xff\xff\xff"
        config: Config = "all-ones" if ones else "answers" if len(head.value) >= 4 else "unreadable"
        return Presence(True, config, status, f"config begins {head.value[:4].hex(' ')}")
    if not folder.is_dir():
        return Presence(False, "not-asked", status, f"{folder} is gone")
    return Presence(True, "unreadable", status, head.detail)


def look(
    wanted: Iterable[PciAddress],
    root: Path = ROOT,
    *,
    sleep: Callable[[float], None] = time.sleep,
) -> dict[PciAddress, Presence]:
    """Look whether functions are there: at once where they are, over `TRIES_OVER_S` where not.

    Args:
        wanted: The functions.
        root: Where sysfs is looked for.
        sleep: How time passes between tries; the functions are tried together.
    """
    found = {address: look_once(address, root) for address in wanted}
    for _ in range(TRIES - 1):
        silent = [address for address, seen in found.items() if seen.config == "all-ones"]
        if not silent:
            break
        sleep(TRIES_OVER_S / (TRIES - 1))
        found.update({address: look_once(address, root) for address in silent})
    return found
