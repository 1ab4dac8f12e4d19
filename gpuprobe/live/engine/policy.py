"""When an engine that died is started again: a table, and breakers that end every loop.

Nothing here looks at a clock or a machine: deaths go in, a decision comes out.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Final

from gpuprobe.catalog import xid
from gpuprobe.diagnosis import Certainty, Diagnosis, Kind, Role, Verdict
from gpuprobe.identity import PciAddress


class Cure(StrEnum):
    """What a start anew can do about a death. The values are stable: recordings hold them."""

    STOP = "stop"
    """Nothing."""
    ONCE = "once"
    """It may heal, once."""
    REPAIR = "repair"
    """Nothing before the entry is moved aside; then it heals."""
    BACK_OFF = "back-off"
    """It may help, after a pause that grows."""
    DONE = "done"
    """Nothing failed."""


TABLE: Final[Mapping[Kind, Cure]] = {
    Kind.DEVICE_LEFT_BUS: Cure.STOP,
    Kind.GPU_FIRMWARE_HANG: Cure.STOP,
    Kind.HOST_RESET: Cure.STOP,
    Kind.GPU_MEMORY_ERROR: Cure.STOP,
    Kind.GPU_HANG: Cure.BACK_OFF,
    Kind.NVLINK_ERROR: Cure.BACK_OFF,
    Kind.DRIVER_UNUSABLE: Cure.STOP,
    Kind.JIT_CACHE_CORRUPT: Cure.REPAIR,
    Kind.APPLICATION_FAULT: Cure.BACK_OFF,
    Kind.GPU_OUT_OF_MEMORY: Cure.BACK_OFF,
    Kind.HOST_OUT_OF_MEMORY: Cure.BACK_OFF,
    Kind.PROCESS_CRASH: Cure.BACK_OFF,
    Kind.COLLECTIVE_TIMEOUT: Cure.BACK_OFF,
    Kind.THERMAL: Cure.BACK_OFF,
    Kind.POWER: Cure.BACK_OFF,
    Kind.PCIE_LINK_ERRORS: Cure.BACK_OFF,
    Kind.CANNOT_TELL: Cure.BACK_OFF,
    Kind.NO_FAULT: Cure.BACK_OFF,
}
"""Verdict kind to cure; `cure_of` has the three rows that hang on more than the kind."""

SAME_IN_A_ROW: Final = 3
"""Deaths of one signature in a row after which a start anew is no cure, however far apart."""

ANY_IN_A_ROW: Final = 10
"""Deaths of any signature without a healthy service in between: words that change each time."""

LONGEST_PAUSE_S: Final = 60.0

REMEMBERED: Final = 12
"""Deaths that are kept: all that any breaker looks at."""

_RESET: Final = frozenset({"RESET_GPU", "RESTART_BM"})
_NOTHING_OWED: Final = re.compile(r"\bto 0x0\b")
_NUMBERS: Final = re.compile(
    r"0x[0-9a-fA-F]+|\b(?=[0-9a-fA-F-]*\d)[0-9a-fA-F-]{8,}\b|\d+|\b(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)\b"
    r"|\b(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)\b"
)


@dataclass(frozen=True, slots=True)
class Limits:
    """When it is enough.

    Attributes:
        max_deaths: So many deaths within `within_s` seconds end it.
        within_s: See there.
        healthy_after_s: Seconds of service after which the deaths before count no more in a row.
    """

    max_deaths: int = 3
    within_s: float = 15 * 60.0
    healthy_after_s: float = 6 * 3600.0


@dataclass(frozen=True, slots=True)
class Death:
    """One death of an engine, or of a worker inside it.

    Attributes:
        at_s: When, seconds since 1970.
        served_s: Seconds since the start, or since the death before in the same process.
        kind: The verdict's.
        cure: What a start anew can do.
        signature: Equal for deaths that look alike: see `signature_of`.
        entries: The JIT cache entries it died of, each a short mark.
        worker: A worker inside died; the engine may live on.
    """

    at_s: float
    served_s: float
    kind: Kind
    cure: Cure
    signature: str
    entries: tuple[str, ...] = ()
    worker: bool = False

    def to_list(self) -> list[Any]:
        """As JSON, short."""
        times = [round(self.at_s, 1), round(self.served_s, 1)]
        names = [self.kind.value, self.cure.value, self.signature]
        return [*times, *names, list(self.entries), self.worker]

    @classmethod
    def from_list(cls, told: Sequence[Any]) -> Death:
        """From `to_list`.

        Raises:
            ValueError, TypeError: It is something else.
        """
        at, served, kind, cure, signature, entries, worker = told
        marks = tuple(str(entry) for entry in entries)
        kinds = (Kind(kind), Cure(cure))
        return cls(float(at), float(served), *kinds, str(signature), marks, bool(worker))


@dataclass(frozen=True, slots=True)
class Decision:
    """What to do.

    Attributes:
        again: Start the engine again.
        why: One clause for people.
        pause_s: Seconds to wait before.
    """

    again: bool
    why: str
    pause_s: float = 0.0


# --- what a death is -------------------------------------------------------------------------


def deciding(found: Diagnosis, own: Iterable[PciAddress] = ()) -> Verdict | None:
    """The verdict that decides: the first that forbids a start for certain, else the first.

    Faults of other GPUs than the engine's decide nothing.

    Args:
        found: What failed.
        own: The engine's GPUs; empty counts every GPU as its own.
    """
    gpus = set(own)
    mine = [
        one
        for one in found.verdicts
        if not gpus or one.device is None or one.device.pci is None or one.device.pci.slot in gpus
    ]
    stops = (one for one in mine if one.certainty is Certainty.CONFIRMED and _stops(one))
    return next(stops, mine[0] if mine else None)


def _stops(verdict: Verdict) -> bool:
    return cure_of(verdict) is Cure.STOP


def cure_of(verdict: Verdict) -> Cure:
    """The row of the table for a verdict."""
    if verdict.kind is Kind.DEVICE_LEFT_BUS and verdict.certainty is not Certainty.CONFIRMED:
        return Cure.BACK_OFF
    if verdict.kind is Kind.GPU_MEMORY_ERROR and set(verdict.xids) == {94}:
        return Cure.ONCE
    if verdict.kind in (Kind.GPU_HANG, Kind.NVLINK_ERROR) and is_reset_owed(verdict):
        return Cure.STOP
    return TABLE[verdict.kind]


def is_reset_owed(verdict: Verdict) -> bool:
    """Whether an Xid asks for a reset, or the driver does (Xid 154)."""
    if any((known := xid(code)) and known.nvidia_bucket in _RESET for code in verdict.xids):
        return True
    asks = [item.text for item in verdict.evidence if "154" in item.text]
    return 154 in verdict.xids and not all(_NOTHING_OWED.search(text) for text in asks)


def signature_of(verdict: Verdict) -> str:
    """Kind and first error line without its numbers, as 16 hex digits."""
    lines = [item.text for item in verdict.evidence if item.role is Role.PROOF]
    lines += [item.text for item in verdict.evidence if item.role is Role.SUPPORT]
    first = lines[0] if lines else verdict.summary
    return mark(f"{verdict.kind.value} {' '.join(_NUMBERS.sub('#', first).split())}")


def mark(text: str) -> str:
    """A short mark of a text, to compare it with others."""
    return hashlib.sha256(text.encode("utf-8", "surrogateescape")).hexdigest()[:16]


# --- what follows ----------------------------------------------------------------------------


def decide(deaths: Sequence[Death], limits: Limits, *, problem: str = "") -> Decision:
    """Whether the engine is started again after the last of these deaths.

    Args:
        deaths: In order; the last one is at hand.
        limits: When it is enough.
        problem: Why the cache's entry could not be moved aside, or "".
    """
    last = deaths[-1]
    if last.cure is Cure.DONE:
        return Decision(False, "nothing failed")
    if last.cure is Cure.STOP:
        return Decision(False, f"starting it again cannot heal {last.kind}")
    if last.cure is Cure.REPAIR and problem:
        return Decision(False, f"the entry could not be moved aside: {problem}")
    before = set().union(*(death.entries for death in deaths[:-1]))
    if last.cure is Cure.REPAIR and before & set(last.entries):
        return Decision(False, "it died of the same cache entry again")
    row = row_of(deaths, limits)
    if last.cure is Cure.ONCE and any(death.cure is Cure.ONCE for death in row[:-1]):
        return Decision(False, "a contained memory error again after one start")
    if why := tripped(deaths, limits):
        return Decision(False, why)
    lately = len(_lately(deaths, limits))
    pause_s = min(LONGEST_PAUSE_S, 2.0 ** (len(row) - 1))
    why = {
        Cure.REPAIR: "its cache entry is out of the way",
        Cure.ONCE: "a contained memory error: once",
    }.get(last.cure, f"{lately} of {limits.max_deaths} deaths within {_spelled(limits.within_s)}")
    return Decision(True, why, pause_s if last.cure is Cure.BACK_OFF else 1.0)


def tripped(deaths: Sequence[Death], limits: Limits) -> str | None:
    """Why the breaker is open after the last of these deaths, or None."""
    last = deaths[-1]
    lately = len(_lately(deaths, limits))
    if lately >= limits.max_deaths:
        return f"{_ordinal(lately)} death within {_spelled(limits.within_s)}"
    row = row_of(deaths, limits)
    same = 0
    for death in reversed(row):
        if death.signature != last.signature:
            break
        same += 1
    if same >= SAME_IN_A_ROW:
        return f"{_ordinal(same)} death in a row with the same error"
    if len(row) >= ANY_IN_A_ROW:
        well = _spelled(limits.healthy_after_s)
        return f"{_ordinal(len(row))} death in a row without {well} of service in between"
    return None


def _lately(deaths: Sequence[Death], limits: Limits) -> list[Death]:
    return [one for one in deaths if abs(deaths[-1].at_s - one.at_s) <= limits.within_s]


def row_of(deaths: Sequence[Death], limits: Limits) -> list[Death]:
    """The last deaths, up to the one that followed a healthy service."""
    row: list[Death] = []
    for death in reversed(deaths):
        row.insert(0, death)
        if death.served_s >= limits.healthy_after_s:
            break
    return row


def _ordinal(number: int) -> str:
    words = ("", "first", "second", "third", "fourth", "fifth")
    return words[number] if number < len(words) else f"{number}th"


def _spelled(seconds: float) -> str:
    for length, unit in ((3600.0, "h"), (60.0, "min")):
        if seconds >= length and seconds % length == 0:
            return f"{seconds / length:g} {unit}"
    return f"{seconds:g} s"
