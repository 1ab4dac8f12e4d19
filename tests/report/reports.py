"""Reports of our own making, for the tests of their forms."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from pathlib import Path

from gpuprobe.report.contents import Report
from gpuprobe.report.gathering import gather
from tests.report.made_telemetry import telemetry

EXAMPLE = Path(__file__).parents[2] / "examples" / "left-the-bus"


@lru_cache(maxsize=1)
def left_the_bus() -> Report:
    """The example's logs, with readings that they do not have."""
    gathered = gather([EXAMPLE / "engine.log", EXAMPLE / "kernel.log"])
    return replace(gathered.report, telemetry=telemetry(), made="2026-03-14 09:00 UTC")
