"""Every pattern of the kernel's families reads its own examples and leaves its near misses alone."""

from __future__ import annotations

import pytest
from _windows import events_of, windows_of

from gpuprobe.sources.wording import (
    aer,
    boot,
    device_acts,
    nvidia_other,
    nvrm,
    pci,
    pci_tools,
    pciehp,
)
from gpuprobe.sources.wording.base import Family

FAMILIES = (nvrm, nvidia_other, aer, pciehp, pci, pci_tools, device_acts, boot)
PATTERNS = [(module.FAMILY, pattern) for module in FAMILIES for pattern in module.FAMILY.patterns]

# All texts of a family in one test, which names those that fail: there are many hundred.
each_family = pytest.mark.parametrize(
    "family", [module.FAMILY for module in FAMILIES], ids=lambda family: family.name
)


def ids_read(family: Family, text: str) -> list[str]:
    return [hit.id for window in windows_of(text) for hit, _, _ in family.read(window)]


@each_family
def test_example_gives_an_event_of_its_pattern(family: Family) -> None:
    """An example gives an event, and the first pattern of its family that reads it is this one."""
    unread = [
        (pattern.id, text)
        for pattern in family.patterns
        for text in pattern.examples
        if pattern.id not in ids_read(family, text)
    ]

    assert unread == []


@each_family
def test_matched_text_holds_a_needle(family: Family) -> None:
    """What a regex matches in an example holds one of its needles, else the first pass loses it."""
    lost = []
    for pattern in family.patterns:
        for text in pattern.examples:
            matches = [match[0] for match in pattern.regex.finditer(text)]
            held = [any(needle in match for needle in pattern.needles) for match in matches]
            if not held or not all(held):
                lost.append((pattern.id, text, matches))

    assert lost == []


@each_family
def test_near_miss_gives_no_event_of_its_pattern(family: Family) -> None:
    """A near miss gives no event of the pattern it was made for."""
    read = [
        (pattern.id, text)
        for pattern in family.patterns
        for text in pattern.near
        if pattern.id in ids_read(family, text)
    ]

    assert read == []


def test_ids_are_unique() -> None:
    """No two patterns share an id."""
    ids = [pattern.id for _, pattern in PATTERNS]

    assert len(set(ids)) == len(ids)


def test_needles_are_short_ascii() -> None:
    """Needles are ASCII and long enough not to hit every line."""
    for _, pattern in PATTERNS:
        for needle in pattern.needles:
            assert needle.isascii()
            assert len(needle) >= 4, pattern.id


def test_prose_without_machine_words_gives_nothing() -> None:
    """Everyday lines of a healthy machine give no event in any of these families."""
    lines = (
        "dhclient[812]: XMT: Solicit on eth0, XID 0x79 interval 1000ms",
        "eth0: link is down",
        "Bluetooth: hci0: device disconnected",
        "rpc.statd: xid 79 from 10.0.0.3 timed out",
        "nfs: server ready after 20ms",
    )
    for module in FAMILIES:
        for line in lines:
            assert events_of(module.FAMILY, line) == []
