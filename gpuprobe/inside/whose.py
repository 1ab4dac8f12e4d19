"""Which GPUs are this process's: those whose device files it has open.

The driver opens `/dev/nvidiaN` for each GPU that CUDA uses and keeps it open after a loss. Its
number is the driver's minor, which `/proc/driver/nvidia/gpus/*/information` ties to an address.
That text is read only when something has failed: for a GPU that was never initialised, each read
of it writes a line to the kernel log.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

from gpuprobe.identity import PciAddress
from gpuprobe.live.presence import Inventory, Visible, visible_gpus
from gpuprobe.reading import Unavailable
from gpuprobe.sources.pci.tree import device_path, read_text

OPEN_FILES = Path("/proc/self/fd")

_NODE = re.compile(r"/dev/nvidia(?P<minor>\d+)(?: \(deleted\))?\Z")


def gpus_of_this_process(
    inventory: Inventory,
    environment: Mapping[str, str] | None = None,
    open_files: Path = OPEN_FILES,
) -> Visible:
    """The GPUs that this process has open, else those that its environment lets it use.

    Args:
        inventory: What was there before anything failed.
        environment: Of the process; `os.environ` where None.
        open_files: A folder of links, one an open file.
    """
    environment = os.environ if environment is None else environment
    visible = visible_gpus(inventory, environment)
    minors = open_minors(open_files)
    if not minors:
        return visible
    known = _by_minor(inventory)
    ours = {known[minor] for minor in minors if minor in known}
    nameless = len(minors - set(known))
    if nameless:
        # The driver forgets a GPU that was removed, so an unknown minor is one that is missing.
        missing = {one for one in inventory.gpus if not device_path(one, inventory.root).exists()}
        if len(missing - ours) > nameless or not missing:
            return visible
        ours |= missing
    narrowed = tuple(one for one in visible.gpus if one in ours)
    names = ", ".join(f"/dev/nvidia{minor}" for minor in sorted(minors))
    return Visible(narrowed or tuple(sorted(ours)), True, f"this process has {names} open")


def open_minors(folder: Path = OPEN_FILES) -> frozenset[int]:
    """Numbers of the GPU device files that are open; empty where there are none."""
    found: set[int] = set()
    try:
        links = list(folder.iterdir())
    except OSError:
        return frozenset()
    for link in links:
        try:
            target = str(link.readlink())
        except OSError:
            continue  # closed meanwhile
        match = _NODE.match(target)
        if match is not None:
            found.add(int(match["minor"]))
    return frozenset(found)


def _by_minor(inventory: Inventory) -> dict[int, PciAddress]:
    found: dict[int, PciAddress] = {}
    for address in inventory.gpus:
        text = read_text(inventory.root / f"proc/driver/nvidia/gpus/{address}/information")
        if isinstance(text, Unavailable):
            continue
        for line in text.value.splitlines():
            name, _, value = line.partition(":")
            if name.strip() == "Device Minor" and value.strip().isdecimal():
                found[int(value)] = address
    return found
