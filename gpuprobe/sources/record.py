"""One line of an input after its framing is taken off, and the lines around it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from gpuprobe.clock import Stamp, of_one_moment
from gpuprobe.events import Origin, Setting
from gpuprobe.identity import PciAddress

EVIDENCE_LIMIT = 500
"""Longest evidence text, in characters (the JSON contract)."""


def merge_stamps(stamps: Sequence[Stamp], *, passed_on: bool = False) -> Stamp | None:
    """One stamp that knows all that a line's stamps know together.

    The outermost gives the words; a date with a zone is preferred over one without, unless it only
    says when an old line was passed on; the kernel's own clock is kept beside it.

    Args:
        stamps: Outermost first.
        passed_on: The line may be an old one of a system's log that somebody shows.
    """
    if not stamps:
        return None
    if len(stamps) == 1:
        return stamps[0]
    dated = sorted(
        (stamp for stamp in stamps if stamp.wall is not None),
        key=lambda stamp: (not stamp.is_absolute, not stamp.year_known),
    )
    monotonic = next((s.monotonic_s for s in stamps if s.monotonic_s is not None), None)
    best = dated[0] if dated else stamps[0]
    if passed_on and dated and best is stamps[0]:
        inner = max(dated, key=stamps.index)
        if not inner.is_absolute and not of_one_moment(best, inner):
            best = inner
    return Stamp(
        raw=stamps[0].raw,
        monotonic_s=monotonic,
        wall=best.wall,
        year_known=best.year_known,
        resolution_s=best.resolution_s,
    )


@dataclass(frozen=True, slots=True)
class Record:
    """One message, with what its framing said about it.

    Attributes:
        message: The text behind all prefixes; no colours, no control characters but tab.
        line: Line number from 1 in the decompressed input, None for byte-array journals.
        raw: The line as it stands, without colours and control characters.
        stamps: The stamps found, outermost first (a terminal's before the kernel's own).
        host: Host field of syslog or journal, else None.
        machine_id: `_MACHINE_ID`, else None.
        boot_id: `_BOOT_ID`, else None.
        source: Identifier, such as `kernel` or `vllm`, else None.
        pid: Process id behind the identifier, else None.
        kernel: True when the framing says the kernel wrote it.
        framing: Name of the innermost framing that gave a prefix, else `text`.
        quoted: A quote mark, list mark or `grep -n` number stood before it.
        ref: Cursor or row, for records without a line.
        ordinal: Its place in the input where it has no line; 0 where it has one.
        part: It goes on where the record before was cut: their line is too long for one.
    """

    message: str
    line: int | None
    raw: str
    stamps: tuple[Stamp, ...] = ()
    host: str | None = None
    machine_id: str | None = None
    boot_id: str | None = None
    source: str | None = None
    pid: int | None = None
    kernel: bool = False
    framing: str = "text"
    quoted: bool = False
    ref: str | None = None
    ordinal: int = 0
    part: bool = False

    @property
    def framed(self) -> bool:
        """True when some log's prefix stood before the message."""
        return self.framing != "text"


@dataclass(slots=True)
class Window:
    """A record with its neighbours, and the text of it that a pattern is tried on.

    Patterns look at `text`, and at the neighbours through `before` and `after`; they see at most
    `REACH` lines either way, so that what they find does not depend on how an input is cut up.

    Attributes:
        records: The records of this stretch of the input.
        index: Which of them is looked at.
        text: What patterns are tried on: the record's message, or it joined with the next ones.
        input: The `inputs[].path`.
        input_order: The input's number.
        setting: In what surroundings the text stands.
    """

    records: Sequence[Record]
    index: int
    text: str
    input: str
    input_order: int = 0
    setting: Setting = Setting.LOG

    REACH = 48

    @property
    def record(self) -> Record:
        """The record looked at."""
        return self.records[self.index]

    def before(self, lines: int) -> Sequence[Record]:
        """Up to `lines` records before this one, nearest first."""
        lines = min(lines, self.REACH)
        return self.records[max(0, self.index - lines) : self.index][::-1]

    def after(self, lines: int) -> Sequence[Record]:
        """Up to `lines` records after this one, nearest first."""
        lines = min(lines, self.REACH)
        return self.records[self.index + 1 : self.index + 1 + lines]

    def at(self, index: int) -> Window:
        """The same stretch with another of its records looked at, for tables read by their header.

        Args:
            index: Which of `records`, at most `REACH` away.
        """
        message = self.records[index].message
        return replace(self, index=index, text=message)

    def base(self, device: str | PciAddress | None = None) -> dict[str, Any]:
        """The keyword arguments that every `Event` takes, filled from this record.

        Args:
            device: An address or its text; text that is no address gives None.
        """
        record = self.record
        address = device if isinstance(device, PciAddress) else PciAddress.try_parse(device)
        text = self.text if self.text in record.raw else record.raw
        return {
            "origin": Origin(
                input=self.input,
                line=record.line,
                text=text[:EVIDENCE_LIMIT].strip() or record.raw[:EVIDENCE_LIMIT].strip(),
                ref=record.ref,
                order=(self.input_order, record.ordinal or record.line or 0),
            ),
            "stamp": merge_stamps(record.stamps, passed_on=record.framing != "engine"),
            "host": record.host,
            "machine_id": record.machine_id,
            "boot": record.boot_id,
            "setting": self.setting,
            "device": address,
            "source": record.source,
        }
