"""What the kernel log of this boot holds: faults, each with what is left of it, and the Xids."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from gpuprobe import catalog
from gpuprobe.checks.base import CheckFinding, Status, not_checked
from gpuprobe.checks.scene import BootLog, Scene
from gpuprobe.diagnosis import Certainty, Kind, Verdict
from gpuprobe.events import XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Unavailable
from gpuprobe.rules.base import times

name = "kernel log"

LASTING = frozenset({Kind.DEVICE_LEFT_BUS, Kind.GPU_FIRMWARE_HANG})
"""Faults that last until a reset or a reboot, so that only a sign of life ends them."""

HARDWARE = frozenset(
    {
        Kind.PCIE_LINK_ERRORS,
        Kind.GPU_HANG,
        Kind.GPU_MEMORY_ERROR,
        Kind.NVLINK_ERROR,
        Kind.THERMAL,
        Kind.POWER,
        Kind.HOST_RESET,
        *LASTING,
    }
)
"""Kinds that are worth a warning after the event."""

SILENT = frozenset({Kind.NO_FAULT, Kind.CANNOT_TELL, Kind.HOST_RESET})
"""Kinds that say nothing here: how the boot before ended has a check of its own."""

MORE = "gpuprobe diagnose"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """A finding for each fault of this boot, then one for the Xids of each GPU."""
    if isinstance(scene.this_boot, Unavailable):
        yield not_checked(name, "this boot", scene.this_boot, how="sudo gpuprobe check")
        return
    log = scene.this_boot.value
    for verdict in log.diagnosis.verdicts:
        if verdict.kind not in SILENT and _wanted(scene, verdict):
            yield _fault(scene, verdict)
    yield from _xids(scene, log)
    if not log.whole:
        yield CheckFinding(
            check=name,
            what="whole log",
            status=Status.NOT_CHECKED,
            text="only part of this boot's kernel log was read: " + "; ".join(log.notes),
            how="sudo gpuprobe check" if any("may be read" in n for n in log.notes) else MORE,
        )


def _wanted(scene: Scene, verdict: Verdict) -> bool:
    pci = verdict.device.pci if verdict.device else None
    return scene.device is None or pci is None or pci.slot == scene.device.slot


def _fault(scene: Scene, verdict: Verdict) -> CheckFinding:
    pci = verdict.device.pci if verdict.device else None
    text = verdict.summary.rstrip(".")
    status = Status.WARN if verdict.kind in HARDWARE else Status.NOTE
    if verdict.kind in LASTING and verdict.certainty is not Certainty.POSSIBLE:
        lasts, left = _still(scene, pci)
        text += f"; {left}"
        status = Status.BAD if lasts else Status.WARN
    return CheckFinding(
        check=name,
        what=verdict.kind.value,
        status=status,
        text=text,
        subject=pci,
        figures={"xids": list(verdict.xids)} if verdict.xids else {},
        how=MORE,
        kind=verdict.kind if status is Status.BAD else None,
        at=verdict.at.isoformat() if verdict.at else "",
    )


def _still(scene: Scene, pci: PciAddress | None) -> tuple[bool, str]:
    """Whether a fault of this boot lasts, and by what one can tell."""
    if pci is None:
        alive = [address for address in scene.addresses() if scene.nvml_answers(address)]
        known = scene.addresses()
        if known and len(alive) == len(known):
            return False, "every GPU answers now"
        return True, "the log does not say which GPU, and nothing shows that it came back"
    if scene.nvml_answers(pci):
        return False, "it answers again"
    if isinstance(scene.bus, Known) and all(g.address.slot != pci.slot for g in scene.bus.value):
        return True, "it is not on the bus now"
    return True, "nothing shows that it came back"


def _xids(scene: Scene, log: BootLog) -> Iterator[CheckFinding]:
    counts: dict[PciAddress | None, Counter[int]] = {}
    for event in log.timeline.of(XidReported):
        device = event.device.slot if event.device else None
        counts.setdefault(device, Counter())[event.code] += event.count
    for device, codes in sorted(counts.items(), key=lambda item: str(item[0])):
        if scene.device is not None and device not in (None, scene.device.slot):
            continue
        shown = ", ".join(
            f"{code}{_meaning(code)}" + (f" {times(n)}" if n > 1 else "")
            for code, n in codes.items()
        )
        yield CheckFinding(
            check=name,
            what="Xids",
            status=Status.NOTE,
            text=f"Xids this boot: {shown}",
            subject=device,
            figures={str(code): n for code, n in codes.items()},
            how=f"gpuprobe explain {next(iter(codes))}",
        )
    if not counts and log.whole:
        yield CheckFinding(
            check=name,
            what="Xids",
            status=Status.OK,
            text="no Xid since this boot began",
            figures={"xids": 0},
        )


def _meaning(code: int) -> str:
    known = catalog.xid(code)
    return f" ({known.name})" if known else ""
