"""Runs compared by the flags they ran with: which of them goes with the fault?"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from math import comb
from typing import Final

from gpuprobe.report.contents import plural

MOST_FLAGS: Final = 5


@dataclass(frozen=True, slots=True)
class Run:
    """One recorded run.

    Attributes:
        argv: The engine's command line. failed: It ended with the fault that is reported.
    """

    argv: tuple[str, ...]
    failed: bool


def flags(argv: Sequence[str]) -> dict[str, str]:
    """Flags of a command line and their values; `set` where one has none."""
    found: dict[str, str] = {}
    words = list(argv)
    for place, word in enumerate(words):
        if not word.startswith("-") or word in ("-", "--") or _is_number(word):
            continue
        name, equals, value = word.partition("=")
        following = words[place + 1] if place + 1 < len(words) else "-"
        if not equals and (not following.startswith("-") or _is_number(following)):
            value = following
        found[name] = value or "set"
    return found


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True


def compare(runs: Sequence[Run], what: str) -> list[str]:
    """Sentences on which flags go with the fault; none for fewer than two runs.

    Args:
        runs: What was recorded.
        what: The fault in words: `the loss`.
    """
    if len(runs) < 2:
        return []
    failed = sum(run.failed for run in runs)
    whole = f"{what} came in {failed} of {len(runs)} recordings"
    if failed in (0, len(runs)):
        return [f"{whole.capitalize()}: there is nothing to compare their flags with."]
    parsed = [flags(run.argv) for run in runs]
    names = sorted({name for one in parsed for name in one})
    found = []
    for name in names:
        table: dict[str, list[int]] = defaultdict(lambda: [0, 0])
        for one, run in zip(parsed, runs, strict=True):
            counts = table[one.get(name, "not set")]
            counts[0] += run.failed
            counts[1] += 1
        if len(table) > 1:
            found.append((_p_value(table), name, table))
    if not found:
        return [f"{whole.capitalize()}; all ran with the same flags."]
    found.sort(key=lambda item: item[:2])
    sentences = [_sentence(what, name, table, p) for p, name, table in found[:MOST_FLAGS]]
    if len(found) > 1:
        sentences.append(
            f"{plural(len(found), 'flag')} differ between these runs, so one may only go along "
            "with another; change one at a time."
        )
    return sentences


def _sentence(what: str, name: str, table: dict[str, list[int]], p: float) -> str:
    rows = sorted(table.items(), key=lambda row: (-row[1][0] / row[1][1], row[0]))
    parts = []
    for value, (bad, all_) in rows[:4]:
        words = {"set": name, "not set": f"no {name}"}.get(value, f"{name} {value}")
        parts.append(f"with {words} in {bad} of {plural(all_, 'recording')}")
    chance = f" (p = {p:.2g}, Fisher, one-sided)" if len(table) == 2 else ""
    return f"{what.capitalize()} came {', '.join(parts)}{chance}."


def _p_value(table: dict[str, list[int]]) -> float:
    """Fisher's exact test, one-sided, of the value with most faults against all others."""
    bad, size = max(table.values(), key=lambda row: (row[0] / row[1], row[1]))
    all_bad = sum(row[0] for row in table.values())
    total = sum(row[1] for row in table.values())
    most = min(size, all_bad)
    ways = sum(comb(all_bad, k) * comb(total - all_bad, size - k) for k in range(bad, most + 1))
    return ways / comb(total, size)
