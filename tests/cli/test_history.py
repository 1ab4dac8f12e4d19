"""The command line of `history`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from datetime import UTC, datetime

import pytest
from click.testing import CliRunner

import gpuprobe.api
from gpuprobe.boot_history import BootRow, End, History
from gpuprobe.cli import main

BEGAN = datetime(2026, 3, 1, 8, 0, tzinfo=UTC)
ROWS = (
    BootRow("a" * 32, BEGAN, BEGAN, End.SHUTDOWN),
    BootRow("b" * 32, BEGAN, BEGAN, End.RUNNING, losses=1),
)


@pytest.fixture(autouse=True)
def _machine(monkeypatch: pytest.MonkeyPatch) -> None:
    def history(*, last: int | None = None, progress: object = None) -> History:
        return History(ROWS[-last:] if last else ROWS, "device-left-bus")

    monkeypatch.setattr(gpuprobe.api, "history", history)


@pytest.mark.parametrize(
    ("args", "code"), [([], 79), (["--exit-codes", "npd"], 1), (["--exit-codes", "nagios"], 2)]
)
def test_the_exit_code_is_as_of_check(args: list[str], code: int) -> None:
    """Of the boot that runs."""
    assert CliRunner().invoke(main, ["history", *args]).exit_code == code


def test_only_the_last_rows() -> None:
    """The newest stay; the answer is the same."""
    result = CliRunner().invoke(main, ["history", "-n", "1", "--format", "json"])

    assert [boot["boot_id"] for boot in json.loads(result.stdout)["boots"]] == ["b" * 32]
    assert result.exit_code == 79


def test_without_a_journal_or_a_way_to_it(tmp_path) -> None:
    """Really run, with nothing on the path: an account and no traceback."""
    done = subprocess.run(
        [sys.executable, "-m", "gpuprobe", "history"],
        capture_output=True,
        text=True,
        timeout=60,
        env={**os.environ, "HOME": str(tmp_path), "PATH": "/nowhere"},
        check=False,
    )

    assert "journalctl is not installed" in done.stdout
    assert "Traceback" not in done.stderr
    assert done.returncode in (0, 1, 3, 79)
