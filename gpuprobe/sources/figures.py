"""Numbers in the kernel's small text files."""

from __future__ import annotations

from pathlib import Path

from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.pci.tree import read_text

Number = Known[int] | Unavailable
Figure = Known[float] | Unavailable


def entry(path: Path, name: str) -> Number:
    """A number of a file with `name value` lines."""
    text = read_text(path)
    if isinstance(text, Unavailable):
        return text
    for line in text.value.splitlines():
        key, _, value = line.partition(" ")
        if key == name:
            return number(Known(value.strip()))
    return Unavailable(Reason.NOT_SUPPORTED, f"no {name} in {path}")


def number(text: Known[str] | Unavailable) -> Number:
    """A whole number, or why there is none."""
    if isinstance(text, Unavailable):
        return text
    if not text.value.isdecimal():
        return Unavailable(Reason.FAILED, f"no number: {text.value[:40]!r}")
    return Known(int(text.value))


def figure(text: Known[str] | Unavailable) -> Figure:
    """A number with decimals, or why there is none."""
    if isinstance(text, Unavailable):
        return text
    try:
        return Known(float(text.value))
    except ValueError:
        return Unavailable(Reason.FAILED, f"no number: {text.value[:40]!r}")
