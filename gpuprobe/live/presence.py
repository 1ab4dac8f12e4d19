"""Whether a GPU is still there, asked of sysfs and never of the driver.

Standard library alone, a few milliseconds, no lock, no thread: for use inside an engine whose
CUDA context is dead and whose driver may hang. Only a device that reads all ones is asked again,
for 0.6 s, since a reset or a recovery looks the same for a moment.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.pci.tree import (
    NVIDIA,
    ROOT,
    Presence,
    addresses,
    device_path,
    is_gpu,
    look,
    read_hex,
    read_text,
)

_NONE_VISIBLE = ("", "-1", "none", "void", "no-dev-files")


@dataclass(frozen=True, slots=True)
class Inventory:
    """What sysfs listed at one moment, before anything was lost.

    Attributes:
        functions: All PCI functions.
        gpus: The GPUs that indexes count: NVIDIA's where there are some, else all, by address.
        given: Those that NVIDIA's driver shows here; in a container, those it was given. None
            where the driver shows none.
        root: Where sysfs and procfs were looked for.
    """

    functions: frozenset[PciAddress] = frozenset()
    gpus: tuple[PciAddress, ...] = ()
    given: tuple[PciAddress, ...] | None = None
    root: Path = field(default=ROOT, compare=False)


@dataclass(frozen=True, slots=True)
class Visible:
    """GPUs of a process.

    Attributes:
        gpus: Its GPUs; where `sure` is False, those it may have.
        sure: False when the environment names them in a way that sysfs cannot tell.
        why: What the environment says, for a message.
    """

    gpus: tuple[PciAddress, ...]
    sure: bool
    why: str = ""


def take_inventory(root: Path = ROOT) -> Inventory:
    """Read which GPUs there are; called once when this module is imported."""
    functions = addresses(root)
    found = [address for address in functions if is_gpu(address, root)]
    nvidia = [one for one in found if read_hex(device_path(one, root) / "vendor") == NVIDIA]
    return Inventory(frozenset(functions), tuple(nvidia or found), _given(root), root)


def _given(root: Path) -> tuple[PciAddress, ...] | None:
    """The folders' names alone: reading the files in them can write to the kernel log."""
    try:
        names = [entry.name for entry in (root / "proc/driver/nvidia/gpus").iterdir()]
    except OSError:
        return None
    found = sorted(address for name in names if (address := PciAddress.try_parse(name)))
    return tuple(found) or None


AT_IMPORT = take_inventory(Path(os.environ.get("GPUPROBE_ROOT") or ROOT))
"""What there was when this module was imported; below $GPUPROBE_ROOT where that is set, as in a
container that has the host's /sys and /proc elsewhere, or in a test of an engine."""


def device_present(
    device: PciAddress | str | int | None = None, *, inventory: Inventory | None = None
) -> Known[bool] | Unavailable:
    """Whether a GPU is still there: its directory in sysfs exists and its config space answers.

    A few milliseconds where it is; up to a second where it reads all ones. No driver call, so it
    works when the CUDA context is dead and NVML hangs. Config space can answer while the driver
    has lost the card, so True does not mean healthy.

    Args:
        device: A PCI address, or n for the n-th GPU by PCI address when gpuprobe was imported
            (NVIDIA's where there are some; not CUDA's own order), or None for every GPU of this
            process: all that it may see by CUDA_VISIBLE_DEVICES, NVIDIA_VISIBLE_DEVICES and the
            container it runs in.
        inventory: What was there before; that of the import when None.

    Returns:
        `Known(True)` when all asked about are there, `Known(False)` when one is gone.

    Raises:
        AddressError: `device` is a text and no PCI address.

    Missing: asleep for a suspended GPU, which asking would wake; not-there without sysfs, without
    a GPU, or for a device that was not there before either; failed when one of several is gone
    and the environment does not tell whether it is this process's.
    """
    before = AT_IMPORT if inventory is None else inventory
    wanted = gpus_meant(device, before)
    if isinstance(wanted, Unavailable):
        return wanted
    found = look(wanted.gpus, before.root)
    never = [
        one for one, seen in found.items() if not seen.directory and one not in before.functions
    ]
    if never:
        return Unavailable(
            Reason.NOT_THERE,
            f"{never[0]} is not in sysfs, and was not when gpuprobe was imported",
            "lspci -D lists the addresses there are.",
        )
    return _all_present(found, wanted)


def _all_present(
    found: Mapping[PciAddress, Presence], wanted: Visible
) -> Known[bool] | Unavailable:
    gone = [address for address, seen in found.items() if seen.gone]
    if gone and (wanted.sure or len(gone) == len(found)):
        return Known(False)
    if gone:
        return Unavailable(
            Reason.FAILED,
            f"{gone[0]} is gone; {wanted.why} does not tell whether this process used it",
            "Name the device by its PCI address.",
        )
    for address, seen in found.items():
        if seen.config == "not-asked":
            return Unavailable(Reason.ASLEEP, f"{address}: {seen.detail}")
        if seen.config == "unreadable":
            return Unavailable(Reason.FAILED, f"{address}: {seen.detail}")
    return Known(True)


def gpus_meant(device: PciAddress | str | int | None, before: Inventory) -> Visible | Unavailable:
    """The GPUs that `device_present` means by its argument.

    Raises:
        AddressError: `device` is a text and no PCI address.

    Missing: not-there without sysfs, without a GPU, or for an index that none has.
    """
    if not (before.root / "sys/bus/pci/devices").is_dir():
        return Unavailable(
            Reason.NOT_THERE,
            "no PCI devices in sysfs here",
            "It needs Linux; in a container, /sys (read-only is enough).",
        )
    if isinstance(device, PciAddress):
        return Visible((device,), True)
    if isinstance(device, str):
        return Visible((PciAddress.parse(device),), True)
    if not before.gpus:
        return Unavailable(Reason.NOT_THERE, "sysfs listed no GPU when gpuprobe was imported")
    if device is None:
        visible = visible_gpus(before, os.environ)
        if not visible.gpus:
            return Unavailable(Reason.NOT_THERE, f"{visible.why} leaves this process no GPU")
        return visible
    if not 0 <= device < len(before.gpus):
        return Unavailable(Reason.NOT_THERE, f"no GPU {device}: sysfs listed {len(before.gpus)}")
    return Visible((before.gpus[device],), True)


def visible_gpus(inventory: Inventory, environment: Mapping[str, str]) -> Visible:
    """The GPUs that a process with this environment may use, as far as it can be known.

    Indexes are CUDA's: the fastest first unless CUDA_DEVICE_ORDER is PCI_BUS_ID, so among
    different models they name no address. UUIDs are looked up in /proc/driver/nvidia; those of
    MIG instances are not there.
    """
    gpus, sure, why = inventory.gpus, True, ""
    if inventory.given is not None:
        shown = set(inventory.given)
        gpus = tuple(one for one in gpus if one in shown) or gpus
    elif listed := environment.get("NVIDIA_VISIBLE_DEVICES"):
        # The driver shows nothing here, so the container's wish is all there is. Its indexes are
        # NVML's, which follow the addresses.
        why = f"NVIDIA_VISIBLE_DEVICES={listed}"
        gpus, sure = _choose(listed, gpus, inventory, ordered=True)
    wish = environment.get("CUDA_VISIBLE_DEVICES")
    if wish is None:
        return Visible(gpus, sure, why)
    ordered = environment.get("CUDA_DEVICE_ORDER") == "PCI_BUS_ID" or _alike(gpus, inventory.root)
    chosen, certain = _choose(wish, gpus, inventory, ordered=ordered)
    return Visible(chosen, sure and certain, f"CUDA_VISIBLE_DEVICES={wish}")


def _choose(
    wish: str, gpus: tuple[PciAddress, ...], inventory: Inventory, *, ordered: bool
) -> tuple[tuple[PciAddress, ...], bool]:
    """The GPUs that a list names, and whether that is certain; all of them where it is not."""
    if wish.strip() == "all":
        return gpus, True
    if wish.strip() in _NONE_VISIBLE:
        return (), True
    uuids: dict[str, PciAddress] | None = None
    chosen: list[PciAddress] = []
    for name in (part.strip() for part in wish.split(",")):
        if name.lstrip("-").isdecimal():
            number = int(name)
            if not 0 <= number < len(gpus):
                break  # CUDA ignores what stands behind an index that is none
            if not ordered:
                return gpus, len(gpus) == 1
            chosen.append(gpus[number])
        else:
            uuids = _uuids(gpus, inventory.root) if uuids is None else uuids
            # `MIG-GPU-<uuid>/1/0` was the older spelling of an instance.
            wanted = name.removeprefix("MIG-").partition("/")[0].lower()
            found = [one for uuid, one in uuids.items() if wanted and uuid.startswith(wanted)]
            if len(found) != 1:
                return gpus, False
            chosen.append(found[0])
    return tuple(dict.fromkeys(chosen)), True


def _alike(gpus: tuple[PciAddress, ...], root: Path) -> bool:
    """True when all are of one model, so that the fastest first is the order of addresses."""
    models = {
        (read_hex(device_path(one, root) / "device"), read_hex(device_path(one, root) / "vendor"))
        for one in gpus
    }
    return len(models) == 1


def _uuids(gpus: tuple[PciAddress, ...], root: Path) -> dict[str, PciAddress]:
    """UUID in lower case to address; the driver's own cached text, no call into it."""
    found: dict[str, PciAddress] = {}
    for address in gpus:
        text = read_text(root / f"proc/driver/nvidia/gpus/{address}/information")
        if isinstance(text, Unavailable):
            continue
        for line in text.value.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "GPU UUID":
                found[value.strip().lower()] = address
    return found
