"""Rows of `nvidia-smi --query-gpu=timestamp,... --format=csv`: the time is taken, the row stays."""

from __future__ import annotations

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import iso_stamp

_ROW = regex(r"\s*(?P<raw>\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\.\d{3}), ?")


def _peel(text: str) -> Peeled | None:
    match = _ROW.match(text)
    if match is None:
        return None
    return Peeled(text, "nvidia-smi", iso_stamp(match["raw"]), final=True)


FRAMINGS = (Framing("nvidia-smi", "0123456789", _peel),)
