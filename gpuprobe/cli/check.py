"""`gpuprobe check`: is this machine fit to run, and would the next loss be provable?"""

from __future__ import annotations

import io
import os
import re
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprobe.cli import options
from gpuprobe.cli.output import wants_colour, write
from gpuprobe.identity import PciAddress

if TYPE_CHECKING:
    from gpuprobe.checks.report import CheckReport

_RATE = re.compile(r"^\s*(\d+(?:\.\d+)?)\s*([kmgt]?)(i?)(b)/s\s*$", re.IGNORECASE)
_POWERS = {"": 0, "k": 1, "m": 2, "g": 3, "t": 4}


def parse_rate(_ctx: click.Context, _param: click.Parameter, value: str | None) -> float | None:
    """Read a rate such as `12GB/s`, `12 GiB/s` or `100Gb/s` as bytes per second."""
    if value is None:
        return None
    match = _RATE.match(value)
    if match is None:
        raise click.BadParameter(f"{value!r} is not a rate such as 12GB/s")
    number, prefix, binary, unit = match.groups()
    factor = (1024 if binary else 1000) ** _POWERS[prefix.lower()]
    rate: float = float(number) * factor / (8 if unit == "b" else 1)
    return rate


BOUND_S = 5.0
"""Seconds from the start of the process to its end, the sampling under load not counted."""

SHOWING_S = 0.6
"""What of them is kept for the last reading to be taken, judging and showing."""

_START_TIME_FIELD = 22 - 3
"""Place of the start time in /proc/PID/stat, counted behind the command's name."""


def time_left_s() -> float:
    """Seconds that reading may take, so that a slow start does not break the bound."""
    try:
        fields = Path("/proc/self/stat").read_text("ascii", "replace").rpartition(") ")[2].split()
        began_s = int(fields[_START_TIME_FIELD]) / os.sysconf("SC_CLK_TCK")
        passed_s = time.clock_gettime(time.CLOCK_BOOTTIME) - began_s
    except (OSError, ValueError, IndexError, AttributeError):
        passed_s = 0.5
    left_s = BOUND_S - SHOWING_S - max(0.0, passed_s)
    return min(3.7, max(1.5, left_s))


@click.command("check")
@options.format_("text", "json")
@click.option(
    "--under-load",
    type=click.FloatRange(min=0, max=86_400),
    metavar="SECONDS",
    default=0.0,
    help="Sample so long while your own load runs: judges generation, heat, counters.",
)
@click.option("--need-gen", type=click.IntRange(1, 6), metavar="N", help="PCIe generation needed.")
@click.option("--need-width", type=click.IntRange(1, 32), metavar="N", help="PCIe lanes needed.")
@click.option(
    "--need-bandwidth",
    metavar="RATE",
    callback=parse_rate,
    help="Practical rate needed over the narrowest hop, as 12GB/s.",
)
@options.device("Only this GPU, as 0000:04:00.0.")
@options.no_nvml("Leave NVML to others: sysfs and logs alone.")
@options.exit_codes()
@click.option("-q", "--quiet", is_flag=True, help="Only the answer and what is wrong.")
@click.option("-v", "--verbose", is_flag=True, help="Every line, of more than two GPUs as well.")
@options.color()
def command(
    format_: str,
    under_load: float,
    need_gen: int | None,
    need_width: int | None,
    need_bandwidth: float | None,
    device: PciAddress | None,
    no_nvml: bool,
    exit_codes: str | None,
    quiet: bool,
    verbose: bool,
    color: str,
) -> int:
    """Look whether this machine is fit to run.

    One line a finding: each GPU's presence, link, counters, memory, power and what its driver
    asks for; what the kernel log holds; and whether the next loss would be provable, with the
    commands that make it so. Only reads, and ends within five seconds whatever the driver does.

    Exit codes: 0 nothing is wrong now, 1 something is or a need is not met, 3 no GPU could be
    looked at, 79 a GPU is off the bus now.
    """
    from gpuprobe import api
    from gpuprobe.checks.report import translate
    from gpuprobe.checks.scene import Requirements

    if under_load and sys.stderr.isatty():
        click.echo(f"sampling for {under_load:g} s: let the load run", err=True)
    report = api.check(
        deadline_s=time_left_s(),
        under_load_s=under_load,
        needs=Requirements(need_gen, need_width, need_bandwidth),
        device=device,
        nvml=not no_nvml,
    )
    write(render(report, format_, quiet, color, verbose=verbose))
    return translate(report.exit_code, report.answer, exit_codes)


def render(
    report: CheckReport, format_: str, quiet: bool, color: str, *, verbose: bool = False
) -> str:
    """The report as text."""
    out = io.StringIO()
    if format_ == "json":
        from gpuprobe.reporters.check_json import CheckJsonReporter

        CheckJsonReporter().render(report, out)
        return out.getvalue()
    from gpuprobe.reporters.check_text import CheckTextReporter

    terminal = sys.stdout.isatty()
    CheckTextReporter(
        quiet=quiet,
        colour=wants_colour(color, terminal),
        fit_terminal=terminal,
        verbose=verbose,
    ).render(report, out)
    return out.getvalue()
