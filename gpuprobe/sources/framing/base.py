"""What a framing is: one kind of prefix that logs put before a message."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from gpuprobe.clock import Stamp
from gpuprobe.values import Value


@dataclass(frozen=True, slots=True)
class Peeled:
    """One prefix taken off a line.

    Attributes:
        rest: The text behind the prefix; several lines where the framing had escaped newlines.
        format: The framing's name from the closed list, or an empty string for a mere mark
            (quote, list, `grep -n`) that says nothing about who wrote the line.
        stamp: The time in the prefix, or None.
        host: Host in the prefix, or None.
        machine_id: Journal machine id, or None.
        boot_id: Journal boot id, or None.
        source: Identifier in the prefix, or None.
        pid: Process id in the prefix, or None.
        kernel: True when the prefix says that the kernel wrote the line.
        quoted: True for a mark.
        ref: Journal cursor, or None.
        lineless: True where the message has no text line of its own (a byte array).
        final: True when nothing more may be taken off.
    """

    rest: str
    format: str = ""
    stamp: Stamp | None = None
    host: str | None = None
    machine_id: str | None = None
    boot_id: str | None = None
    source: str | None = None
    pid: int | None = None
    kernel: bool = False
    quoted: bool = False
    ref: str | None = None
    lineless: bool = False
    final: bool = False


class Framing(Value):
    """One kind of prefix, as a value.

    Attributes:
        name: Of the file that defines it.
        starts: The characters that such a prefix can start with, blanks aside; an empty string
            for letters (of any script).
        peel: Takes the prefix off, or gives None where the text does not have it.
        outermost: Only tried before any other log's prefix was found.
    """

    name: str
    starts: str
    peel: Callable[[str], Peeled | None]
    outermost: bool = False
