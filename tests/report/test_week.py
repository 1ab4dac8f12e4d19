"""A week of samples becomes a page and a body of an issue in bounded time and memory."""

from __future__ import annotations

import os
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprobe.recording import schema

SAMPLES = 6_048_000
SPIKE_W = 812.5
BEGIN_NS = 1_772_323_200 * 10**9


def week(path: Path) -> Path:
    """A recording of one GPU at 10 Hz for seven days, with one sample that stands out."""
    names = ("at", "monotonic_s", "device", *schema.SAMPLE_COLUMNS)
    # As in `SAMPLE_COLUMNS`; the sixteen low bits of a product stand in for noise.
    values = (
        f"{BEGIN_NS} + n * 100000000, 1000 + n / 10.0, 1, "
        f"iif(n = {SAMPLES // 2}, {SPIKE_W}, 300 + (n * 7919 & 65535) / 655.36), 700, "
        "55 + (n * 104729 & 65535) / 6553.6, 60, 1800, 2600, 90, 0, 4, 5, 16, "
        "75161927680, 150323855360, 1e6, 1e6"
    )
    database = sqlite3.connect(path)
    schema.create(database)
    database.execute("INSERT INTO meta VALUES ('id', 'w'), ('ended', 'stopped')")
    database.execute("INSERT INTO devices VALUES (1, '0000:41:00.0', NULL, 'NVIDIA H200')")
    database.execute(
        f"WITH RECURSIVE c(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM c WHERE n < {SAMPLES - 1}) "
        f"INSERT INTO samples ({', '.join(names)}) SELECT {values} FROM c"
    )
    database.commit()
    database.close()
    return path


@pytest.mark.slow
def test_a_week_is_read_in_bounded_time_and_memory(tmp_path: Path) -> None:
    """Each form in a fraction of the bound, no spike lost; the target is 20 s and 500 MB."""
    path = week(tmp_path / "week.gpuprobe")

    for form in ("md", "html"):
        out = tmp_path / f"report.{form}"
        begin = time.monotonic()
        argv = [sys.executable, "-m", "gpuprobe", "report", str(path), "-o", str(out)]
        process = subprocess.Popen(argv, stderr=subprocess.DEVNULL)
        _, status, used = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        took = time.monotonic() - begin

        assert process.returncode == 0
        assert took < 100
        assert used.ru_maxrss < 500 << 10
        assert "812.5" in out.read_text()
