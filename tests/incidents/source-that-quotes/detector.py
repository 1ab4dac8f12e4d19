"""Looks for lost GPUs."""

import re

XID_79 = (
    "NVRM: Xid (PCI:0000:04:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
PATTERN = re.compile(r"NVRM: Xid \(PCI:([0-9a-f:]+)\): (\d+)")


def lost(line: str) -> bool:
    """Whether the line reports a loss."""
    return "GPU has fallen off the bus" in line
