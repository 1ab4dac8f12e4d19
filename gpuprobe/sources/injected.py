"""Messages that a command above them put into the kernel's log, to test who reads it."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.line_shapes import REACH

_INJECTS = regex(r"/dev/kmsg\b|\binject-fault\b|\blogger (?:-\S+ (?:\S+ )?)*[\"']|\bsystemd-cat\b")
_NAMED = regex(
    r"NVRM: Xid \((?:PCI:)?[0-9A-Fa-f:.]{7,16}\): \d{1,3}\b|NVRM: GPU (?:at )?[0-9A-Fa-f:.]{7,16}"
)
"""What tells one message of the driver from another: its GPU and its code."""


def was_injected(before: Sequence[str], message: str) -> bool:
    """True if a command above writes the same message.

    Args:
        before: The lines before it, nearest first, as they stand.
        message: What it says.
    """
    named = _NAMED.search(message)
    return named is not None and any(
        named[0] in line[:REACH] and _INJECTS.search(line[:REACH]) for line in before
    )
