"""Each pattern reads its examples, leaves its near misses, and names needles that it implies."""

from __future__ import annotations

import pytest
from _windows import reads, windows

from gpuprobe.sources.wording.base import Family
from gpuprobe.sources.wording.bmc import FAMILY as BMC
from gpuprobe.sources.wording.host import FAMILY as HOST
from gpuprobe.sources.wording.nvidia_smi import FAMILY as NVIDIA_SMI
from gpuprobe.sources.wording.other_gpus import FAMILY as OTHER_GPUS
from gpuprobe.sources.wording.prose import FAMILY as PROSE
from gpuprobe.sources.wording.smi_report import FAMILY as SMI_REPORT
from gpuprobe.sources.wording.smi_table import FAMILY as SMI_TABLE
from gpuprobe.sources.wording.smi_xml import FAMILY as SMI_XML
from gpuprobe.sources.wording.windows import FAMILY as WINDOWS

FAMILIES: tuple[Family, ...] = (
    NVIDIA_SMI,
    SMI_REPORT,
    SMI_TABLE,
    SMI_XML,
    OTHER_GPUS,
    WINDOWS,
    HOST,
    BMC,
    PROSE,
)
PATTERNS = [pattern for family in FAMILIES for pattern in family.patterns]


# All texts of a family in one test, which names those that fail: there are many hundred.
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@each_family
def test_every_example_gives_an_event(family: Family) -> None:
    """An example is read by the pattern that holds it."""
    unread = [
        (pattern.id, example)
        for pattern in family.patterns
        for example in pattern.examples
        if not reads(pattern, example)
    ]

    assert unread == []


@each_family
def test_near_misses_give_nothing(family: Family) -> None:
    """A near miss is not read by the pattern that holds it."""
    read = [
        (pattern.id, line)
        for pattern in family.patterns
        for line in pattern.near
        if reads(pattern, line)
    ]

    assert read == []


@each_family
def test_matches_hold_a_needle(family: Family) -> None:
    """Whatever of an example the regex matches has one of the needles in it."""
    without = []
    for pattern in family.patterns:
        for example in pattern.examples:
            for window in windows(example):
                found = pattern.regex.search(window.text)
                if found and not any(needle in found[0] for needle in pattern.needles):
                    without.append((pattern.id, found[0]))

    assert without == []


def test_pattern_names_are_unique() -> None:
    names = [pattern.id for pattern in PATTERNS]

    assert len(names) == len(set(names))


def test_only_prose_is_not_machine_made() -> None:
    assert [family.name for family in FAMILIES if not family.machine] == ["prose"]
