"""Each pattern of programs' messages reads its examples, leaves its near misses, shows a needle."""

from __future__ import annotations

import pytest
from _windows import read_lines, windows

from gpuprobe.sources.wording.base import Family
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

# All texts of a family in one test, which names those that fail: there are many hundred.
each_family = pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)


@each_family
def test_the_family_reads_an_example_by_its_own_pattern(family: Family) -> None:
    """No earlier pattern of the family takes an example away."""
    taken = []
    for pattern in family.patterns:
        for example in pattern.examples:
            read_by = [by.id for window in windows(example) for by, _, _ in family.read(window)]
            if pattern.id not in read_by:
                taken.append((pattern.id, example, read_by))

    assert taken == []


@each_family
def test_no_pattern_of_the_family_reads_a_near_miss(family: Family) -> None:
    """A near miss of one pattern is none of another's examples either."""
    read = [
        (pattern.id, line)
        for pattern in family.patterns
        for line in pattern.near
        if read_lines(family, line)
    ]

    assert read == []


@each_family
def test_a_line_gives_one_event_and_holds_a_needle(family: Family) -> None:
    """A line of an example is read once, and by a needle that stands in it."""
    lines = [
        (pattern, line)
        for pattern in family.patterns
        for example in pattern.examples
        for line in example.split("\n")
    ]
    twice = [(pattern.id, line) for pattern, line in lines if len(read_lines(family, line)) > 1]
    without = [
        (pattern.id, line)
        for pattern, line in lines
        if pattern.regex.search(line) and not any(needle in line for needle in pattern.needles)
    ]

    assert twice == []
    assert without == []


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
