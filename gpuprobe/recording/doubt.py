"""An input that is damaged or breaks off cannot show that nothing failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprobe.diagnosis import Diagnosis, Input, Kind, NotChecked
from gpuprobe.sources.lines import strip_controls

if TYPE_CHECKING:
    from gpuprobe.sources.ingest import Reading

_PART = "is damaged, missing or was not read"
_OPEN = "It cannot be told whether something failed"


def doubted(found: Diagnosis, readings: Iterable[Reading]) -> Diagnosis:
    """The diagnosis, with `cannot-tell` for `no-fault` where the end or events are missing.

    Args:
        found: What was judged from what could be read.
        readings: All inputs; those of other hosts say nothing.
    """
    paths = {item.path for item in found.inputs}
    ours = [one for one in readings if one.input.path in paths]
    damaged = [one for one in ours if one.input.in_part]
    if damaged:
        return _doubt(found, damaged, *_missing(damaged[0]))
    # What failed in the same minutes is in another input, where that one knows it.
    broken = [one for one in ours if one.broken_off]
    if broken:
        row = NotChecked(
            f"what came after the end of {broken[0].input.path}",
            "it breaks off without an end mark, as a power cut, a kill or a full disk leaves it; "
            "look on that machine, in this boot where it was not restarted",
            "journalctl -b -1 -e\njournalctl -b -e",
        )
        return _doubt(found, broken, row, "the recording breaks off without an end mark")
    return found


def _missing(one: Reading) -> tuple[NotChecked, str]:
    """What was not read of an input: its row, and why nothing can be told."""
    path = one.input.path
    if one.about:
        row = NotChecked(
            f"what the damaged part of {path} held",
            "events in it could not be read",
            "copy it again from where it was made, with its -wal where there is one",
        )
        return row, "part of the recording is damaged or missing"
    row = NotChecked(
        f"what the rest of {path} holds",
        "; ".join(one.input.notes),
        "copy it again from where it was made, or give what it holds by itself",
    )
    return row, f"part of {path} {_PART}"


def without_the_rest(found: Diagnosis, missing: Iterable[Input]) -> Diagnosis:
    """The diagnosis, with `cannot-tell` for `no-fault` where the rest of an archive is missing.

    Args:
        found: What was judged from what could be read; it lists what could not be.
        missing: What could not be read, or not to its end.
    """
    torn = [item.path for item in missing if item.in_part]
    if not torn or found.answer is not Kind.NO_FAULT:
        return found
    first, *rest = found.verdicts
    why = f"part of {torn[0]} {_PART}"
    first = replace(first, kind=Kind.CANNOT_TELL, summary=f"{_OPEN}: {why}.")
    return replace(found, verdicts=(first, *rest))


def _doubt(found: Diagnosis, readings: list[Reading], row: NotChecked, why: str) -> Diagnosis:
    first, *rest = found.verdicts
    first = replace(first, not_checked=(row, *first.not_checked))
    if first.kind is Kind.NO_FAULT:
        answers = dict.fromkeys(one.about.get("answer", "") for one in readings)
        told = next((text for text in answers if text and text != Kind.NO_FAULT), "")
        before = f"; while it was made, the answer was {strip_controls(told)[:40]}" if told else ""
        first = replace(
            first,
            kind=Kind.CANNOT_TELL,
            summary=f"{_OPEN}: {why}{before}.",
        )
    return replace(found, verdicts=(first, *rest))
