"""Pieces that several families' patterns are built from: addresses, UUIDs, the lines around."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuprobe.identity import PciAddress
from gpuprobe.sources.record import Window

BDF = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F]\.[0-7]"
"""A PCI function as the kernel and lspci write it; lspci leaves a zero domain out."""

SLOT = r"(?:[0-9a-fA-F]{4,8}:)?[0-9a-fA-F]{2}:[01][0-9a-fA-F](?:\.[0-7])?"
"""As `BDF`, with the function left out where NVRM leaves it out."""

UUID = r"(?:GPU|MIG)-[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}"
"""NVIDIA's UUID of a GPU or of a MIG slice."""

HIDDEN = r"(?:<[^<>\n]{1,20}>|\[[A-Za-z_ -]{2,20}\]|\.{3}|…|\*{2,}|(?i:redacted|removed|hidden))"
"""What people write in the place of an address that they take out."""

DEVICE = rf"(?:\b(?P<drv>[A-Za-z][\w.-]{{0,30}}) )?(?P<bdf>{BDF}): "
"""How `dev_err` and `pci_err` start a message: bound driver (`pci` when none), address."""


def lines_from(match: re.Match[str], window: Window, lines: int) -> Iterator[str]:
    """What follows a match: the rest of its own text line by line, then the next records.

    A message of several lines is one record in /dev/kmsg and several in a dmesg file, so what
    belongs to an anchor line is looked for in both.

    Args:
        match: The anchor.
        window: Where it matched.
        lines: How many records to look ahead.
    """
    yield from window.text[match.end() :].split("\n")
    for record in window.after(lines):
        yield record.message


def joined_from(match: re.Match[str], window: Window, lines: int) -> str:
    """`lines_from`, put together with single spaces, without NVRM's repeated prefix."""
    text = " ".join(lines_from(match, window, lines))
    return re.sub(r"\s+(?:NVRM: )?", " ", text)


def continued(match: re.Match[str], window: Window) -> str:
    """The matched text and, where a terminal or a mail cut it, up to two unprefixed lines."""
    text = window.text[match.start() :]
    for record in window.after(2):
        if record.framed or not record.message.strip():
            break
        text += " " + record.message.strip()
    return text


def hex_or_none(text: str | None) -> int | None:
    """A hexadecimal number with or without `0x`, None for None."""
    return None if text is None else int(text, 16)


def int_or_none(text: str | None) -> int | None:
    """A decimal number, None for None."""
    return None if text is None else int(text)


def address(match: re.Match[str], group: str = "bdf") -> PciAddress | None:
    """The address in a named group, or None where the group is empty or no address."""
    return PciAddress.try_parse(match[group])
