"""`gpuprobe run`: an engine under the probe."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import Final, NoReturn

import click

from gpuprobe.cli.watch import parse_addresses
from gpuprobe.identity import PciAddress

_UNITS: Final = {"ms": 0.001, "": 1.0, "s": 1.0, "m": 60.0, "h": 3600.0}

NOT_STARTED: Final = 125
"""The exit code when gpuprobe itself could not start."""


def parse_duration(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> float | None:
    """Seconds of `30s`, `500ms`, `2m` or `30`."""
    if value is None:
        return None
    found = re.fullmatch(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h)?", value.strip())
    if found is None:
        raise click.BadParameter(f"{value!r} is no duration; write 30s, 500ms or 2m")
    return float(found[1]) * _UNITS[found[2] or ""]


def parse_command(
    context: click.Context, parameter: click.Parameter, value: str | None
) -> str | None:
    """Check that a command can be cut into words."""
    if value is None:
        return None
    try:
        words = shlex.split(value)
    except ValueError as error:
        raise click.BadParameter(f"{value!r}: {error}") from error
    if not words:
        raise click.BadParameter("it is empty")
    return value


@click.command("run", context_settings={"allow_interspersed_args": False})
@click.option(
    "--device",
    "devices",
    metavar="ADDRESS",
    multiple=True,
    callback=parse_addresses,
    help="The engine's GPU, as 0000:04:00.0, where it cannot be found out; may be repeated.",
)
@click.option(
    "--rate",
    type=click.FloatRange(0.1, 100),
    metavar="HZ",
    default=10.0,
    show_default=True,
    help="Samples a second of what is cheap to read; the rest is read once a second.",
)
@click.option("--no-nvml", is_flag=True, help="Leave NVML to others: logs, sysfs and presence.")
@click.option(
    "--record",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Record to this file instead of the usual place.",
)
@click.option("--no-record", is_flag=True, help="Record nothing.")
@click.option(
    "--keep-exit-code", is_flag=True, help="End with the engine's own code even after a loss."
)
@click.option(
    "--on-loss",
    metavar="COMMAND",
    callback=parse_command,
    help="Start this when a GPU of the engine is lost. No shell; GPUPROBE_DEVICE, "
    "GPUPROBE_RECORDING and GPUPROBE_VERDICT are set.",
)
@click.option(
    "--stop-on-loss",
    "stop_on_loss_s",
    metavar="DURATION",
    callback=parse_duration,
    help="On a loss send the engine SIGTERM, and SIGKILL so much later (30s, 2m).",
)
@click.option("--quiet", "-q", is_flag=True, help="Only the verdict's sentence.")
@click.option("--verbose", "-v", is_flag=True, help="A line about a clean run, too.")
@click.option("--root", hidden=True, default="/", help="Where /sys and /proc are looked for.")
@click.argument("argv", nargs=-1, required=True, metavar="-- COMMAND...", type=click.UNPROCESSED)
def command(
    devices: tuple[PciAddress, ...],
    rate: float,
    no_nvml: bool,
    record: Path | None,
    no_record: bool,
    keep_exit_code: bool,
    on_loss: str | None,
    stop_on_loss_s: float | None,
    quiet: bool,
    verbose: bool,
    root: str,
    argv: tuple[str, ...],
) -> NoReturn:
    """Run an engine with the probe beside it.

    Output, input and signals pass through unchanged. When the engine dies, when a worker inside
    it dies, or when its GPU is lost while it hangs, the verdict appears on stderr within a
    second, with the recording's path. A clean run says nothing.

    Exit codes: the engine's own (128+N after signal N, 126 and 127 as a shell gives them); 79 when
    a GPU of this engine left the bus for certain; 125 when gpuprobe itself could not start.
    """
    if record is not None and no_record:
        raise click.UsageError("--record and --no-record contradict each other")
    try:
        from gpuprobe.cli.run_settings import Settings
        from gpuprobe.live.front import become

        settings = Settings(
            argv=argv,
            record=None if no_record else str(record.absolute()) if record else "",
            devices=tuple(map(str, devices)),
            rate_hz=rate,
            nvml=not no_nvml,
            keep_exit_code=keep_exit_code,
            on_loss=on_loss or "",
            stop_on_loss_s=stop_on_loss_s,
            quiet=quiet,
            verbose=verbose,
            root=root,
        )
        become(argv, settings.command())
    except (ImportError, OSError) as error:
        click.echo(f"error: gpuprobe could not start: {error}", err=True)
        sys.exit(NOT_STARTED)
