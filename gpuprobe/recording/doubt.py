"""A recording with damaged pages cannot show that nothing failed."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

from gpuprobe.diagnosis import Diagnosis, Kind, NotChecked
from gpuprobe.sources.lines import strip_controls

if TYPE_CHECKING:
    from gpuprobe.sources.ingest import Reading


def doubted(found: Diagnosis, readings: Iterable[Reading]) -> Diagnosis:
    """The diagnosis, with `cannot-tell` for `no-fault` where events of a recording are lost.

    Args:
        found: What was judged from what could be read.
        readings: All inputs; those of other hosts say nothing.
    """
    paths = {item.path for item in found.inputs}
    damaged = [one for one in readings if one.damaged and one.input.path in paths]
    if not damaged:
        return found
    first, *rest = found.verdicts
    row = NotChecked(
        f"what the damaged part of {damaged[0].input.path} held",
        "events in it could not be read",
        "copy it again from where it was made, with its -wal where there is one",
    )
    first = replace(first, not_checked=(row, *first.not_checked))
    if first.kind is Kind.NO_FAULT:
        answers = dict.fromkeys(one.about.get("answer", "") for one in damaged)
        told = next((text for text in answers if text and text != Kind.NO_FAULT), "")
        before = f"; while it was made, the answer was {strip_controls(told)[:40]}" if told else ""
        first = replace(
            first,
            kind=Kind.CANNOT_TELL,
            summary="It cannot be told whether something failed: part of the recording is "
            f"damaged{before}.",
        )
    return replace(found, verdicts=(first, *rest))
