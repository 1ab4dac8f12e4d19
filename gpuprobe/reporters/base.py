"""What every reporter does."""

from __future__ import annotations

from typing import Protocol, TextIO

from gpuprobe.diagnosis import Diagnosis


class Reporter(Protocol):
    """Shows a diagnosis. What differs between two reports is given to the constructor."""

    def render(self, diagnosis: Diagnosis, out: TextIO) -> None:
        """Write `diagnosis` to `out`, ending with a newline."""
        ...
