"""What a diagnosis holds: the values that reporters show and library users read."""

from __future__ import annotations

from dataclasses import field
from datetime import datetime
from enum import StrEnum
from typing import Any

from gpuprobe.identity import PciAddress
from gpuprobe.values import Value


class Kind(StrEnum):
    """The verdict kinds. The values are stable."""

    DEVICE_LEFT_BUS = "device-left-bus"
    PCIE_LINK_ERRORS = "pcie-link-errors"
    GPU_FIRMWARE_HANG = "gpu-firmware-hang"
    GPU_HANG = "gpu-hang"
    GPU_MEMORY_ERROR = "gpu-memory-error"
    NVLINK_ERROR = "nvlink-error"
    THERMAL = "thermal"
    POWER = "power"
    APPLICATION_FAULT = "application-fault"
    GPU_OUT_OF_MEMORY = "gpu-out-of-memory"
    HOST_OUT_OF_MEMORY = "host-out-of-memory"
    DRIVER_UNUSABLE = "driver-unusable"
    JIT_CACHE_CORRUPT = "jit-cache-corrupt"
    COLLECTIVE_TIMEOUT = "collective-timeout"
    HOST_RESET = "host-reset"
    PROCESS_CRASH = "process-crash"
    CANNOT_TELL = "cannot-tell"
    NO_FAULT = "no-fault"


class Certainty(StrEnum):
    """How sure a verdict is. Ordered by `rank`."""

    CONFIRMED = "confirmed"
    LIKELY = "likely"
    POSSIBLE = "possible"

    @property
    def rank(self) -> int:
        """2 for confirmed, 1 for likely, 0 for possible."""
        return {"confirmed": 2, "likely": 1, "possible": 0}[self.value]


class Role(StrEnum):
    """What a line of evidence does for its verdict."""

    PROOF = "proof"
    SUPPORT = "support"
    PRECURSOR = "precursor"
    CONSEQUENCE = "consequence"
    CONTEXT = "context"


class Device(Value):
    """The device a verdict is about, as far as the inputs name it. Never guessed."""

    pci: PciAddress | None = None
    uuid: str | None = None
    name: str | None = None
    index: int | None = None


class Evidence(Value):
    """One quoted line.

    Attributes:
        role: What it does for the verdict.
        text: The line, or the message in it; at most 500 characters, no control characters.
        input: Path of the input it stands in (`Input.path`).
        line: Line number from 1, or None.
        at: Its time, aware, or None where zone or year are not known.
        at_raw: The stamp as it stands, or None.
        count: How many lines of this shape there were.
        ref: Row or cursor where there is no line.
        says: What the line means, in one plain clause, or "".
    """

    role: Role
    text: str
    input: str
    line: int | None
    at: datetime | None = None
    at_raw: str | None = None
    count: int = 1
    ref: str | None = None
    says: str = ""


class RuledOut(Value):
    """A cause that the inputs speak against, with at least one figure and its source."""

    kind: str
    why: str
    figures: dict[str, Any]


class NotChecked(Value):
    """What could not be judged: what, why, and the command or step that makes it checkable."""

    what: str
    why: str
    how: str


class CauseEntry(Value):
    """One reason for or against a cause: the rule's id, what was seen, and its weight."""

    rule: str
    text: str
    weight: str = "+"


class Cause(Value):
    """A row of the scorecard under a loss.

    Attributes:
        cause: `power`, `link`, `heat`, `firmware`, `card` or `host`.
        score: `for`, `against`, `mixed` or `not-seen`.
        pro: Entries for it (`for` in the JSON). against: Entries against it.
        not_seen: What would speak, and was not among the inputs.
    """

    cause: str
    score: str
    pro: tuple[CauseEntry, ...] = ()
    against: tuple[CauseEntry, ...] = ()
    not_seen: tuple[CauseEntry, ...] = ()


class NextStep(Value):
    """One thing to do next on this machine.

    Attributes:
        type: `read`, `reversible`, `boot` or `hands` (`class` in the JSON).
        text: What to do. command: The command, or None. undo: How to take it back, or None.
        cost: What it costs. when: The condition under which it applies. source: Who says so.
    """

    type: str
    text: str
    command: str | None = None
    undo: str | None = None
    cost: str = ""
    when: str = ""
    source: str = ""


class Verdict(Value):
    """One finding, ready to be shown."""

    kind: Kind
    certainty: Certainty | None
    summary: str
    device: Device | None = None
    other_devices: tuple[PciAddress, ...] = ()
    at: datetime | None = None
    at_raw: str | None = None
    xids: tuple[int, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    ruled_out: tuple[RuledOut, ...] = ()
    not_checked: tuple[NotChecked, ...] = ()
    causes: tuple[Cause, ...] = ()
    next_steps: tuple[NextStep, ...] = ()


class Input(Value):
    """One input and how it was read.

    Attributes:
        path: As given; `-` for stdin, `a.tar.gz!dir/kern.log` for a member.
        format: One of a closed list (the JSON schema has it); `text` where none fits.
        lines: Number of lines, or None when the scan did not need it.
        boots: Number of boots seen in it.
        notes: What a reader should know (cut short, unreadable, no zone, ...).
        in_part: Something of it is missing: the rest of an archive or of compressed data, events
            of a recording. A note says what.
    """

    path: str
    format: str
    lines: int | None
    boots: int = 1
    notes: tuple[str, ...] = ()
    in_part: bool = False


class Diagnosis(Value):
    """Everything one run found. `verdicts` is never empty; the first is the answer."""

    verdicts: tuple[Verdict, ...]
    inputs: tuple[Input, ...]
    host: str | None = None
    other_hosts: tuple[Diagnosis, ...] = field(default=())

    @property
    def answer(self) -> Kind:
        """The first verdict's kind."""
        return self.verdicts[0].kind

    @property
    def exit_code(self) -> int:
        """The command line's exit code for this answer."""
        return {
            Kind.NO_FAULT: 0,
            Kind.CANNOT_TELL: 3,
            Kind.DEVICE_LEFT_BUS: 79,
        }.get(self.answer, 1)
