"""Each pattern reads its examples, leaves its near misses, and names needles that it implies."""

from __future__ import annotations

import pytest
from _windows import reads, windows

from gpuprobe.sources.wording.base import Family, Pattern
from gpuprobe.sources.wording.bmc import FAMILY as BMC
from gpuprobe.sources.wording.host import FAMILY as HOST
from gpuprobe.sources.wording.nvidia_smi import FAMILY as NVIDIA_SMI
from gpuprobe.sources.wording.other_gpus import FAMILY as OTHER_GPUS
from gpuprobe.sources.wording.prose import FAMILY as PROSE
from gpuprobe.sources.wording.smi_report import FAMILY as SMI_REPORT
from gpuprobe.sources.wording.smi_table import FAMILY as SMI_TABLE
from gpuprobe.sources.wording.windows import FAMILY as WINDOWS

FAMILIES: tuple[Family, ...] = (
    NVIDIA_SMI,
    SMI_REPORT,
    SMI_TABLE,
    OTHER_GPUS,
    WINDOWS,
    HOST,
    BMC,
    PROSE,
)
PATTERNS = [pattern for family in FAMILIES for pattern in family.patterns]


@pytest.mark.parametrize(
    ("pattern", "example"),
    [(pattern, example) for pattern in PATTERNS for example in pattern.examples],
    ids=lambda value: value.id if isinstance(value, Pattern) else "",
)
def test_every_example_gives_an_event(pattern: Pattern, example: str) -> None:
    assert reads(pattern, example)


@pytest.mark.parametrize(
    ("pattern", "line"),
    [(pattern, line) for pattern in PATTERNS for line in pattern.near],
    ids=lambda value: value.id if isinstance(value, Pattern) else "",
)
def test_near_misses_give_nothing(pattern: Pattern, line: str) -> None:
    assert not reads(pattern, line)


@pytest.mark.parametrize("pattern", PATTERNS, ids=lambda pattern: pattern.id)
def test_matches_hold_a_needle(pattern: Pattern) -> None:
    """Whatever of an example the regex matches has one of the needles in it."""
    for example in pattern.examples:
        for window in windows(example):
            if found := pattern.regex.search(window.text):
                assert any(needle in found.group() for needle in pattern.needles), found.group()


def test_pattern_names_are_unique() -> None:
    names = [pattern.id for pattern in PATTERNS]

    assert len(names) == len(set(names))


def test_only_prose_is_not_machine_made() -> None:
    assert [family.name for family in FAMILIES if not family.machine] == ["prose"]
