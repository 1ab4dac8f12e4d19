"""Each pattern of programs' messages reads its examples, leaves its near misses, shows a needle."""

from __future__ import annotations

import pytest
from _windows import read_lines, windows

from gpuprobe.sources.wording.base import Family, Pattern
from gpuprobe.sources.wording.crash import FAMILY as CRASH
from gpuprobe.sources.wording.cuda import FAMILY as CUDA
from gpuprobe.sources.wording.driver_setup import FAMILY as DRIVER_SETUP
from gpuprobe.sources.wording.engines import FAMILY as ENGINES
from gpuprobe.sources.wording.graphics import FAMILY as GRAPHICS
from gpuprobe.sources.wording.jit_cache import FAMILY as JIT_CACHE
from gpuprobe.sources.wording.nccl import FAMILY as NCCL
from gpuprobe.sources.wording.oom import FAMILY as OOM
from gpuprobe.sources.wording.schedulers import FAMILY as SCHEDULERS

FAMILIES = (CUDA, NCCL, GRAPHICS, ENGINES, SCHEDULERS, CRASH, OOM, JIT_CACHE, DRIVER_SETUP)
EXAMPLES = [
    pytest.param(family, pattern, example, id=pattern.id)
    for family in FAMILIES
    for pattern in family.patterns
    for example in pattern.examples
]
NEAR = [
    pytest.param(family, line, id=pattern.id)
    for family in FAMILIES
    for pattern in family.patterns
    for line in pattern.near
]


@pytest.mark.parametrize(("family", "pattern", "example"), EXAMPLES)
def test_the_family_reads_an_example_by_its_own_pattern(
    family: Family, pattern: Pattern, example: str
) -> None:
    """No earlier pattern of the family takes the example away."""
    read_by = [by.id for window in windows(example) for by, _, _ in family.read(window)]

    assert pattern.id in read_by


@pytest.mark.parametrize(("family", "line"), NEAR)
def test_no_pattern_of_the_family_reads_a_near_miss(family: Family, line: str) -> None:
    assert read_lines(family, line) == []


@pytest.mark.parametrize(("family", "pattern", "example"), EXAMPLES)
def test_a_line_gives_one_event_and_holds_a_needle(
    family: Family, pattern: Pattern, example: str
) -> None:
    for line in example.split("\n"):
        assert len(read_lines(family, line)) <= 1
        if pattern.regex.search(line):
            assert any(needle in line for needle in pattern.needles)


def test_no_needle_stands_on_healthy_engine_lines() -> None:
    """What engines write all day long does not leave the fast first pass."""
    healthy = (
        "INFO 05-02 11:20:10 [loggers.py:123] Engine 000: Avg prompt throughput: 812.4 tokens/s, "
        "Avg generation throughput: 410.2 tokens/s, Running: 9 reqs, Waiting: 0 reqs, GPU KV cache usage: 41.2%",
        'INFO:     10.2.0.9:50112 - "POST /v1/chat/completions HTTP/1.1" 200 OK',
        "[2026-05-02 11:20:10 TP0] Decode batch. #running-req: 9, #token: 18211, gen throughput: 512.33",
        "slot update_slots: id  3 | task 812 | prompt processing progress, n_past = 2048, n_tokens = 512",
        "[2026-05-02|11:20:10|Scheduler] INFO #new-token: 2048  #cached-token: 0  #running-req: 4",
        "Epoch 3:  61%|######    | 611/1000 [10:12<06:29,  1.00s/it, loss=1.92]",
    )
    needles = [needle for family in FAMILIES for needle in family.needles]

    assert [n for n in needles for line in healthy if n in line] == []


def test_pattern_names_are_unique() -> None:
    names = [pattern.id for family in FAMILIES for pattern in family.patterns]

    assert len(names) == len(set(names))
