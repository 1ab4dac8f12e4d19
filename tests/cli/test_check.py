"""The command line of `check`: options in, page and exit code out."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from importlib import resources
from pathlib import Path

import jsonschema
import pytest
from click.testing import CliRunner, Result

import gpuprobe.api
from gpuprobe.checks.base import CheckFinding, Status
from gpuprobe.checks.report import CheckedGpu, CheckReport
from gpuprobe.checks.scene import Requirements
from gpuprobe.cli import main
from gpuprobe.cli.check import time_left_s
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress

GPU = PciAddress(0, 0x65, 0)
LOST = CheckReport(
    (
        CheckFinding(
            check="presence",
            what="presence",
            status=Status.BAD,
            text="off the bus",
            subject=GPU,
            kind=Kind.DEVICE_LEFT_BUS,
        ),
    ),
    (CheckedGpu(GPU, looked_at=True),),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Stands in for the library, and keeps what it was asked."""
    seen: dict[str, object] = {}

    def check(**options: object) -> CheckReport:
        assert 1.5 <= options.pop("deadline_s") <= 3.7
        seen.update(options)
        return LOST

    monkeypatch.setattr(gpuprobe.api, "check", check)
    return seen


def run(*args: str) -> Result:
    return CliRunner().invoke(main, ["check", *args])


def test_every_option_reaches_the_library(asked) -> None:
    """Nothing asked for is lost on the way."""
    run(
        "--under-load", "30", "--need-gen", "3", "--need-width", "16", "--need-bandwidth",
        "12GB/s", "--device", "65:00.0", "--no-nvml",
    )  # fmt: skip

    assert asked == {
        "under_load_s": 30.0,
        "needs": Requirements(3, 16, 12e9),
        "device": GPU,
        "nvml": False,
    }


def test_by_default_everything_is_looked_at(asked) -> None:
    """No sampling, no needs, NVML too."""
    run()

    assert asked == {"under_load_s": 0.0, "needs": Requirements(), "device": None, "nvml": True}


@pytest.mark.parametrize(
    ("text", "rate"),
    [
        ("12GB/s", 12e9),
        ("12 GiB/s", 12 * 1024**3),
        ("1.5gb/s", 1.5e9 / 8),
        ("1.5gB/s", 1.5e9),
        ("100Gb/s", 12.5e9),
        ("800MB/s", 8e8),
    ],
)
def test_rates_are_read_in_bytes_and_bits(asked, text: str, rate: float) -> None:
    """A small b is a bit."""
    run("--need-bandwidth", text)

    assert asked["needs"] == Requirements(bytes_per_s=pytest.approx(rate))


@pytest.mark.parametrize(
    "args",
    [
        ["--need-bandwidth", "fast"],
        ["--need-bandwidth", "12"],
        ["--device", "card0"],
        ["--need-gen", "9"],
        ["--need-width", "0"],
        ["--under-load", "-1"],
        ["--format", "xml"],
        ["--exit-codes", "zabbix"],
    ],
)
def test_what_makes_no_sense_is_usage(asked, args: list[str]) -> None:
    """Code 2, and the library is not asked."""
    result = run(*args)

    assert result.exit_code == 2
    assert asked == {}


@pytest.mark.parametrize(
    ("args", "code"), [([], 79), (["--exit-codes", "npd"], 1), (["--exit-codes", "nagios"], 2)]
)
def test_the_exit_code_follows_the_answer(asked, args: list[str], code: int) -> None:
    """As gpuprobe gives it, or as another tool reads it."""
    assert run(*args).exit_code == code


def test_a_slow_start_is_taken_off_the_time_for_reading(monkeypatch) -> None:
    """The bound holds from the start of the process."""
    now = time.clock_gettime(time.CLOCK_BOOTTIME)
    began = int(Path("/proc/self/stat").read_text().rpartition(") ")[2].split()[19])
    started_s = began / os.sysconf("SC_CLK_TCK")
    for passed_s, left_s in ((0.1, 3.7), (2.0, 2.4), (60.0, 1.5)):
        monkeypatch.setattr(time, "clock_gettime", lambda clock, at=started_s + passed_s: at)
        assert time_left_s() == pytest.approx(left_s, abs=0.02)
    assert started_s <= now


def test_json_is_the_whole_of_standard_output(asked) -> None:
    """A program can read it as it stands."""
    document = json.loads(run("--format", "json").stdout)

    assert document["schema"] == "gpuprobe.check/1"
    assert document["answer"] == "device-left-bus"


def test_as_an_ordinary_user_of_an_empty_machine(tmp_path) -> None:
    """Really run, with no GPU, no NVML and no journal: an account, code 3, no traceback.

    Where this machine has a GPU, the account is of that.
    """
    done = subprocess.run(
        [sys.executable, "-m", "gpuprobe", "check", "--format", "json"],
        capture_output=True,
        text=True,
        timeout=30,
        env={**os.environ, "HOME": str(tmp_path), "PATH": "/nowhere"},
        check=False,
    )
    schema = resources.files("gpuprobe.reporters").joinpath("check.schema.json").read_text()
    document = json.loads(done.stdout)

    jsonschema.validate(document, json.loads(schema))
    assert "Traceback" not in done.stderr
    assert not any("failed itself" in finding["text"] for finding in document["findings"])
    assert done.returncode == document["exit_code"]
    if not document["gpus"]:
        assert done.returncode == 3
    for finding in document["findings"]:
        if finding["status"] == "not-checked":
            assert finding["text"]
