"""A CUDA error, the bus and the driver: which verdict they make. No access to anything."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Final

from gpuprobe.catalog.advice import steps_for
from gpuprobe.diagnosis import (
    Certainty,
    Device,
    Evidence,
    Kind,
    NotChecked,
    Role,
    RuledOut,
    Verdict,
)
from gpuprobe.identity import PciAddress
from gpuprobe.inside.cuda import CudaSeen
from gpuprobe.inside.driver import LOST, RESET_REQUIRED, name_of
from gpuprobe.live.presence import Visible
from gpuprobe.reading import Known, Reading, Unavailable
from gpuprobe.sources.pci.tree import Presence

LAUNCH_FAILED: Final = 719
HERE: Final = "this process"
"""`Evidence.input` of the exception."""


@dataclass(frozen=True, slots=True)
class Findings:
    """What was found when a CUDA error came.

    Attributes:
        error: The error.
        meant: The GPUs it may be about, or why none is known.
        bus: What sysfs shows of each.
        driver: What NVML answers for those it was asked about.
    """

    error: CudaSeen
    meant: Visible | Unavailable
    bus: Mapping[PciAddress, Presence] = field(default_factory=dict)
    driver: Mapping[PciAddress, Reading[int]] = field(default_factory=dict)

    @property
    def sure(self) -> bool:
        """Whether all these GPUs are known to be this process's."""
        return isinstance(self.meant, Visible) and self.meant.sure

    def answered(self, code: int) -> list[PciAddress]:
        """Those for which NVML gave this code."""
        return [one for one, found in self.driver.items() if found == Known(code)]

    @property
    def healthy(self) -> bool:
        """Whether every one answers, on the bus and to the driver."""
        return (
            bool(self.bus)
            and all(seen.config == "answers" for seen in self.bus.values())
            and len(self.answered(0)) == len(self.bus)
        )


def judge(found: Findings) -> Verdict:
    """The verdict. `confirmed` only for a loss of a GPU that is known to be this process's."""
    gone = [one for one, seen in found.bus.items() if seen.gone]
    lost = gone or found.answered(LOST)
    if lost:
        return _lost(found, lost, by_driver=not gone)
    if waiting := found.answered(RESET_REQUIRED):
        return _verdict(
            found,
            Kind.GPU_HANG,
            Certainty.LIKELY,
            f"GPU {waiting[0]} is on the bus and needs a reset; {found.error} is a consequence",
            waiting[0],
        )
    return _not_lost(found)


def _lost(found: Findings, lost: list[PciAddress], *, by_driver: bool) -> Verdict:
    device = lost[0]
    if by_driver:
        what = f"the driver lost GPU {device}; its config space still answers"
    elif found.bus[device].directory:
        what = f"GPU {device} left the bus: its config space reads all ones"
    else:
        what = f"GPU {device} left the bus: its directory in sysfs is gone"
    others = len(lost) - 1
    more = f"; so did {others} more" if others else ""
    if found.sure or len(lost) == len(found.bus):
        summary = f"{what}{more}; {found.error} is a consequence"
        return _verdict(found, Kind.DEVICE_LEFT_BUS, Certainty.CONFIRMED, summary, *lost)
    summary = f"{what}{more}; {found.error} came with it, but whose GPU it is is not known"
    return _verdict(found, Kind.DEVICE_LEFT_BUS, Certainty.LIKELY, summary, *lost)


def _not_lost(found: Findings) -> Verdict:
    error = found.error.error
    gpus = list(found.bus)
    named = f"GPU {gpus[0]}" if len(gpus) == 1 else f"each of {len(gpus)} GPUs"
    well = f"{named} is on the bus and its driver answers"
    if error is not None and error.loss == "no" and error.verdict is not Kind.CANNOT_TELL:
        state = f"; {well}" if found.healthy else ""
        summary = f"{found.error}: {error.meaning.rstrip('.')}{state}"
        return _verdict(found, error.verdict, Certainty.POSSIBLE, summary, *gpus[: len(gpus) == 1])
    program = found.error.code == LAUNCH_FAILED or (
        error is None and "NCCL" not in found.error.text
    )
    if found.healthy and program:
        summary = f"{found.error} is possibly the program's own fault: {well}"
        kind = Kind.APPLICATION_FAULT
        return _verdict(found, kind, Certainty.POSSIBLE, summary, *gpus[: len(gpus) == 1])
    why = well if found.healthy else _unknown(found)
    summary = f"It cannot be told what {found.error} came from: {why}"
    return _verdict(found, Kind.CANNOT_TELL, None, summary, *gpus[: len(gpus) == 1])


def _unknown(found: Findings) -> str:
    """The first thing that is not known, in few words."""
    if isinstance(found.meant, Unavailable):
        return found.meant.detail
    for address, seen in found.bus.items():
        if seen.config != "answers":
            return f"GPU {address} could not be asked ({seen.detail})"
    for address, reading in found.driver.items():
        if isinstance(reading, Unavailable):
            return f"GPU {address} is on the bus, and the driver was not heard"
        if reading.value:
            return f"GPU {address} is on the bus, and NVML answers {name_of(reading.value)}"
    return "the driver was not asked"


def _verdict(
    found: Findings, kind: Kind, certainty: Certainty | None, summary: str, *devices: PciAddress
) -> Verdict:
    device = devices[0] if devices else None
    ruled_out: tuple[RuledOut, ...] = ()
    if found.healthy and kind is not Kind.GPU_HANG:
        figures: dict[str, str | int] = {
            f"{one} config": seen.detail for one, seen in found.bus.items()
        }
        figures |= {f"{one} NVML": 0 for one in found.bus}
        why = "config space and the driver answered right after the error"
        ruled_out = (RuledOut(Kind.DEVICE_LEFT_BUS.value, why, figures),)
    return Verdict(
        kind=kind,
        certainty=certainty,
        summary=summary,
        device=None if device is None else Device(pci=device),
        other_devices=devices[1:],
        at=datetime.now(UTC),
        evidence=_evidence(found, kind),
        ruled_out=ruled_out,
        not_checked=_not_checked(found),
        next_steps=steps_for(kind, pci=device),
    )


def _evidence(found: Findings, kind: Kind) -> tuple[Evidence, ...]:
    loss = kind is Kind.DEVICE_LEFT_BUS
    lines = []
    for address, seen in found.bus.items():
        where = f"/sys/bus/pci/devices/{address}"
        role = Role.PROOF if seen.gone else Role.CONTEXT
        says = "it does not answer" if seen.gone else ""
        lines.append(Evidence(role, seen.detail, where, None, says=says))
    for address, reading in found.driver.items():
        if isinstance(reading, Known):
            text = f"{address}: {name_of(reading.value) if reading.value else 'SUCCESS'}"
            role = Role.PROOF if reading.value in (LOST, RESET_REQUIRED) else Role.CONTEXT
            lines.append(Evidence(role, text, "NVML", None))
    role = Role.CONSEQUENCE if loss or kind is Kind.GPU_HANG else Role.SUPPORT
    text = f"{found.error.type}: {found.error.text}"[:500]
    lines.append(Evidence(role, text, HERE, None))
    order = list(Role)
    return tuple(sorted(lines, key=lambda line: order.index(line.role)))


def _not_checked(found: Findings) -> tuple[NotChecked, ...]:
    rows = [
        NotChecked(
            "the kernel log",
            "it is not read from inside the program",
            "gpuprobe diagnose, or journalctl -k -b",
        )
    ]
    if isinstance(found.meant, Unavailable):
        rows.append(NotChecked("the bus", found.meant.detail, found.meant.hint))
    for address, seen in found.bus.items():
        if not seen.gone and seen.config != "answers":
            rows.append(NotChecked(f"config space of {address}", seen.detail, "wake it first"))
    for address, reading in found.driver.items():
        if isinstance(reading, Unavailable):
            rows.append(NotChecked(f"the driver, for {address}", reading.detail, "nvidia-smi -L"))
    return tuple(rows)
