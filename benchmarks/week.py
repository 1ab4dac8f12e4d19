"""How long the report of a week at 10 Hz takes, and what memory: `python -m benchmarks.week`."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.report.test_week import SAMPLES, week


def main() -> None:
    """Print one row a form."""
    print("| form | seconds | MB at most | bytes |\n|---|---|---|---|")
    with tempfile.TemporaryDirectory(prefix="gpuprobe-bench-") as folder:
        path = week(Path(folder) / "week.gpuprobe")
        for form in ("md", "html", "json", "zip"):
            out = Path(folder) / f"report.{form}"
            begin = time.perf_counter()
            process = subprocess.Popen(
                [sys.executable, "-m", "gpuprobe", "report", str(path), "-o", str(out)],
                stderr=subprocess.DEVNULL,
            )
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            took = time.perf_counter() - begin
            size = out.stat().st_size if out.exists() else 0
            print(
                f"| {form}, {SAMPLES:,} samples | {took:.1f} | {used.ru_maxrss >> 10} | {size:,} |"
            )


if __name__ == "__main__":
    main()
