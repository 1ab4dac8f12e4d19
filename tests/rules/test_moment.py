"""How a sentence tells a time."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpuprobe.clock import Stamp, now
from gpuprobe.events import CudaFailed, Origin
from gpuprobe.reporters.outline import moment as shown
from gpuprobe.rules.base import moment

AT = datetime(2026, 9, 22, 14, 44, 58, 123456, UTC)


def event(stamp: Stamp, line: int | None) -> CudaFailed:
    return CudaFailed(
        origin=Origin("engine", line, "x"),
        stamp=stamp,
        source=None,
        code=719,
        name=None,
        message="",
    )


@pytest.mark.parametrize("line", [None, 7])
def test_a_live_reading_is_told_in_utc(line: int | None) -> None:
    """Also that of a line of output: no log wrote the stamp, so there is nothing to quote."""
    stamp = Stamp(AT.isoformat(timespec="milliseconds"), 12.5, AT)

    assert now().is_live
    assert moment(event(stamp, line)) == "at 2026-09-22 14:44:58.123 UTC"
    assert shown(AT, stamp.raw) == "2026-09-22 14:44:58 UTC"


def test_the_stamp_of_a_log_is_quoted() -> None:
    """So that it is found there."""
    stamp = Stamp("2026-09-22T16:44:58+02:00", None, AT)

    assert moment(event(stamp, 7)) == "at 2026-09-22T16:44:58+02:00"
