"""Values of options that are looked at before anything starts."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from gpuprobe.cli import main
from gpuprobe.cli.values import gpu_not_there
from gpuprobe.identity import PciAddress
from tests.cli_runner import runner
from tests.live.nvml_bench import ONE, TWO
from tests.live.session_bench import machine


@pytest.mark.parametrize(
    "arguments",
    [
        ["run", "--rate", "nan", "--", "true"],
        ["record", "--rate", "nan"],
        ["watch", "--rate", "nan"],
        ["watch", "--speed", "nan"],
        ["jitcache", "scan", "--deadline", "nan"],
    ],
)
def test_no_number_is_in_no_range(arguments: list[str]) -> None:
    """`nan` passes a comparison with any limit; it is refused all the same."""
    found = runner().invoke(main, arguments)

    assert found.exit_code == 2
    assert "'nan' is no number" in found.stderr


@pytest.mark.parametrize("option", ["--max-deaths", "--within", "--healthy-after"])
def test_what_only_a_restart_reads_goes_with_it(option: str) -> None:
    """Alone it would do nothing, and somebody would count on it."""
    found = runner().invoke(main, ["run", option, "5", "--", "true"])

    assert found.exit_code == 2
    assert f"{option} goes with --restart on-failure" in found.stderr


def test_a_command_for_a_loss_must_be_there() -> None:
    """That there is no such program is said before the engine starts, not when the GPU is lost."""
    found = runner().invoke(main, ["run", "--on-loss", "no-such-pager --urgent", "--", "true"])

    assert found.exit_code == 2
    assert "there is no program 'no-such-pager' on the path" in found.stderr


def test_a_wrong_address_is_told_with_the_right_ones(tmp_path: Path) -> None:
    """One that is on the bus says nothing, and neither does a machine without sysfs."""
    root = str(machine(tmp_path).root)
    wrong = PciAddress.parse("0000:99:00.0")

    assert gpu_not_there([ONE, TWO], root) is None
    assert gpu_not_there([wrong], str(tmp_path / "nothing")) is None
    told = gpu_not_there([ONE, wrong], root)
    assert told == (
        f"--device {wrong}: no such device is on the bus now; the GPUs are {ONE}, {TWO}"
    )


@pytest.mark.parametrize(
    ("arguments", "code"),
    [("diagnose -q examples/left-the-bus", 79), ("explain 79", 0), ("jitcache scan no/such", 2)],
)
def test_without_a_stdout_the_exit_code_is_the_same(arguments: str, code: int) -> None:
    """A supervisor may close it; 1 would be the code of a verdict."""
    command = f"{sys.executable} -m gpuprobe {arguments} >&-"
    done = subprocess.run(
        ["sh", "-c", command],
        cwd=Path(__file__).parents[2],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )

    assert done.returncode == code
    assert "Traceback" not in done.stderr
