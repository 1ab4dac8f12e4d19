"""The systemd unit among the examples."""

from __future__ import annotations

import configparser
import shlex
from pathlib import Path

import click

from gpuprobe.cli.record import command

UNIT = Path(__file__).parents[1] / "examples/systemd/gpuprobe-record.service"


def unit() -> configparser.ConfigParser:
    found = configparser.ConfigParser(strict=False, interpolation=None)
    found.optionxform = str  # type: ignore[assignment,method-assign]
    found.read(UNIT)
    return found


def test_its_command_line_is_one_that_record_takes() -> None:
    """Every option in it exists."""
    program, name, *args = shlex.split(unit()["Service"]["ExecStart"])

    assert (Path(program).name, name) == ("gpuprobe", "record")
    with click.Context(command) as context:
        command.parse_args(context, args)


def test_it_never_kills_what_is_inside_a_driver_call() -> None:
    """Only the main process is signalled, and nothing is killed; the kernel's log stays open."""
    service = unit()["Service"]

    assert service["KillMode"] == "process"
    assert service["SendSIGKILL"] == "no"
    assert service["Type"] == "notify"
    assert service["StateDirectory"] == "gpuprobe"
    assert "PrivateDevices" not in service
    assert "ProtectKernelLogs" not in service
    assert "CAP_SYSLOG" in service["CapabilityBoundingSet"]
