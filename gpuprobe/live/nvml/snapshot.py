"""One reading of everything NVML offers, within a deadline."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.calls import Group, values
from gpuprobe.live.nvml.messages import Translator
from gpuprobe.live.nvml.process import LeftBehind, NvmlProcess, missing_library
from gpuprobe.live.nvml.stall import Watchdog
from gpuprobe.reading import Reading, Reason, Unavailable
from gpuprobe.sources.pci.tree import nvidia_gpus

LEAVE_S: Final = 0.3
"""Part of the deadline that is kept for the child to leave."""
ALL_NAMES: Final = tuple(
    value.name
    for group in Group
    for value in values(group)
    if not value.name.endswith("_pids")  # a list that comes as an event
)


class NvmlSnapshot(dict[PciAddress, dict[str, Reading[Any]]]):
    """Each device's readings by name (those of `calls`), at one moment.

    A device that sleeps has every name as `Unavailable(ASLEEP)`, one whose call did not return
    has what it did not give as `TIMED_OUT`, a lost one as `LOST`.

    Attributes:
        system: `driver_version`, `nvml_version` and `cuda_version` of the library.
        reason: Why no device could be asked, or None.
        unopened: Index (None where it was opened by address) and reason of each device that NVML
            lists and could not open. One whose address follows from sysfs is a key as well.
        left_behind: The child, if it was still inside a call at the deadline.
    """

    def __init__(self) -> None:
        super().__init__()
        self.system: dict[str, Reading[Any]] = {}
        self.reason: Unavailable | None = None
        self.unopened: list[tuple[int | None, Unavailable]] = []
        self.left_behind: list[LeftBehind] = []


def read_snapshot(
    deadline_s: float = 4.0,
    *,
    devices: Iterable[PciAddress] | None = None,
    root: Path = Path("/"),
    env: Mapping[str, str] | None = None,
) -> NvmlSnapshot:
    """Read every group of every device once, through a child of its own.

    Args:
        deadline_s: Returns after this many seconds at most, whatever the driver does.
        devices: These alone; None for all that NVML lists. Sleeping ones are not opened.
        root: Where sysfs is looked for.
        env: The child's environment.
    """
    until = time.monotonic() + deadline_s
    found = NvmlSnapshot()
    why = missing_library()
    if why is not None:
        found.reason = Unavailable(Reason.NOT_THERE, why, "pip install nvidia-ml-py")
        return found
    gpus = nvidia_gpus(root)
    asleep = {pci for pci, sleeps in gpus.items() if sleeps}
    wanted = None if devices is None else set(devices)
    for pci in sorted(asleep if wanted is None else asleep & wanted):
        found[pci] = _all_unavailable(Reason.ASLEEP, "the device is runtime-suspended")
    if asleep:
        wanted = (set(gpus) if wanted is None else wanted) - asleep
        if not wanted:
            found.reason = Unavailable(Reason.ASLEEP, "every NVIDIA GPU is asleep")
            return found
    _ask(found, wanted, until, env)
    _place_unopened(found, set(gpus) if wanted is None else wanted)
    return found


def _place_unopened(found: NvmlSnapshot, expected: set[PciAddress]) -> None:
    """Give what could not be opened its address, where no other is left for it."""
    missing = expected - set(found)
    reasons = {reason.reason for _, reason in found.unopened}
    if missing and len(missing) == len(found.unopened) and len(reasons) == 1:
        for pci in missing:
            found[pci] = _all_unavailable(reasons.copy().pop(), found.unopened[0][1].detail)


def _ask(
    found: NvmlSnapshot,
    wanted: set[PciAddress] | None,
    until: float,
    env: Mapping[str, str] | None,
) -> None:
    """Run the child and take what it says before `until`."""
    translator = Translator()
    done = threading.Event()

    def receive(process: NvmlProcess, message: dict[str, Any]) -> None:
        translator.events(message)
        if message["t"] in ("bye", "closed"):
            done.set()

    names = None if wanted is None else tuple(str(pci) for pci in sorted(wanted))
    try:
        process = NvmlProcess(wire.Settings(-1, devices=names, once=True), receive, env)
    except OSError as error:
        found.reason = Unavailable(Reason.FAILED, f"the NVML process did not start: {error}")
        return
    while not done.is_set() and not process.ended and time.monotonic() < until - LEAVE_S:
        done.wait(0.02)
    process.close()
    process.wait(min(LEAVE_S, until - time.monotonic()))
    stalls = [] if process.ended else Watchdog(process, translator).inside()
    found.left_behind = [stall.left_behind() for stall in stalls]
    if not process.ended and not stalls:
        process.kill_outside_calls()
    found.system = dict(translator.system)
    _fill(found, translator, {stall.device: stall.call for stall in stalls})
    if translator.closed is not None:
        found.reason = translator.closed
    elif not found:
        found.reason = _why_nothing(process, translator, found.left_behind)


def _fill(
    found: NvmlSnapshot, translator: Translator, stuck: Mapping[PciAddress | None, str]
) -> None:
    for device in list(translator.devices.values()):
        if device.not_opened is not None:
            found.unopened.append((device.index, device.not_opened))
            if device.pci is not None:
                found[device.pci] = _all_unavailable(
                    device.not_opened.reason, device.not_opened.detail
                )
            continue
        if device.pci is None:
            continue
        call = stuck.get(device.pci)
        detail = f"{call} has not returned" if call else "not read before the deadline"
        missing = device.lost or Unavailable(Reason.TIMED_OUT, detail)
        readings = _all_unavailable(missing.reason, missing.detail)
        readings.update(device.newest())
        found[device.pci] = readings


def _why_nothing(
    process: NvmlProcess, translator: Translator, left: list[LeftBehind]
) -> Unavailable:
    """Why there is no device at all."""
    unopened = [device.not_opened for device in translator.devices.values()]
    if unopened and unopened[0] is not None:
        return unopened[0]
    if left:
        return Unavailable(Reason.TIMED_OUT, str(left[0]))
    if translator.system and translator.count == 0:
        return Unavailable(Reason.NOT_THERE, "NVML lists no device")
    if process.ended and process.errors():
        last = process.errors().splitlines()[-1]
        return Unavailable(Reason.FAILED, f"the NVML process failed: {last}")
    return Unavailable(Reason.TIMED_OUT, "NVML did not answer before the deadline")


def _all_unavailable(reason: Reason, detail: str) -> dict[str, Reading[Any]]:
    return {name: Unavailable(reason, detail) for name in ALL_NAMES}
