"""`gpuprobe run`: an engine under the probe."""

from __future__ import annotations

import re
import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

import click

from gpuprobe.cli import options
from gpuprobe.cli.report_end import checked
from gpuprobe.cli.values import gpu_not_there
from gpuprobe.identity import PciAddress

if TYPE_CHECKING:
    from gpuprobe.cli.run_settings import Settings

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
    from shutil import which

    if which(words[0]) is None:
        # In the night when the GPU is lost it would be too late to find out.
        raise click.BadParameter(f"there is no program {words[0]!r} on the path")
    return value


@click.command("run", context_settings={"allow_interspersed_args": False})
@options.devices(
    "The engine's GPU, as 0000:04:00.0, where it cannot be found out; may be repeated."
)
@options.rate()
@options.no_nvml()
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
@click.option(
    "--restart",
    type=click.Choice(["no", "on-failure"]),
    default="no",
    show_default=True,
    help="Start the engine again after a failure that a start can heal.",
)
@click.option(
    "--max-deaths",
    type=click.IntRange(1),
    metavar="N",
    default=3,
    show_default=True,
    help="With --restart: so many deaths within --within are the end.",
)
@click.option(
    "--within",
    "within_s",
    metavar="DURATION",
    callback=parse_duration,
    default="15m",
    show_default=True,
    help="See --max-deaths.",
)
@click.option(
    "--healthy-after",
    "healthy_after_s",
    metavar="DURATION",
    callback=parse_duration,
    default="6h",
    show_default=True,
    help="With --restart: after so long a service deaths before it count no more in a row.",
)
@click.option(
    "--repair-caches", is_flag=True, help="Move damaged entries of JIT caches aside; undo is told."
)
@click.option(
    "--report",
    metavar="FILE",
    callback=checked,
    help="When the run failed write the report to attach: .md, .html, .json or .zip.",
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
    restart: str,
    max_deaths: int,
    within_s: float,
    healthy_after_s: float,
    repair_caches: bool,
    report: Path | None,
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
    With --restart they are those of the last start.
    """
    if record is not None and no_record:
        raise click.UsageError("--record and --no-record contradict each other")
    if restart == "no":
        _must_not_be_given("--restart on-failure", "max_deaths", "within_s", "healthy_after_s")
    if not quiet and (absent := gpu_not_there(devices, root)) is not None:
        click.echo(f"gpuprobe: {absent}", err=True)
    try:
        from gpuprobe.cli.run_settings import Settings
        from gpuprobe.live.engine.front import become

        settings = Settings(
            argv=argv,
            record=None if no_record else str(record.absolute()) if record else "",
            devices=tuple(map(str, devices)),
            rate_hz=rate,
            nvml=not no_nvml,
            keep_exit_code=keep_exit_code,
            on_loss=on_loss or "",
            stop_on_loss_s=stop_on_loss_s,
            restart=restart == "on-failure",
            max_deaths=max_deaths,
            within_s=within_s,
            healthy_after_s=healthy_after_s,
            repair_caches=repair_caches,
            report=str(report) if report is not None else "",
            quiet=quiet,
            verbose=verbose,
            root=root,
        )
        settings = _after_unclean_end(settings)
        become(argv, settings.command(), again=settings.restart)
    except (ImportError, OSError) as error:
        click.echo(f"error: gpuprobe could not start: {error}", err=True)
        sys.exit(NOT_STARTED)


def _must_not_be_given(goes_with: str, *names: str) -> None:
    """Refuse an option that does nothing without another one."""
    context = click.get_current_context()
    for parameter in context.command.params:
        source = context.get_parameter_source(parameter.name or "")
        if parameter.name in names and source is click.core.ParameterSource.COMMANDLINE:
            raise click.UsageError(f"{parameter.opts[0]} goes with {goes_with}")


def _after_unclean_end(settings: Settings) -> Settings:
    """Look at the JIT caches where the last run or boot ended uncleanly, before the engine starts.

    What takes longer goes on beside the engine.
    """
    from dataclasses import replace

    from gpuprobe.cli.unclean_end import last_unclean_end, look_first
    from gpuprobe.reporters.plain import printable

    def say(text: str) -> None:
        if not settings.quiet:
            click.echo(f"gpuprobe: {printable(text)}", err=True)

    try:
        end = last_unclean_end()
        if end is None or look_first(end, say, repair=settings.repair_caches):
            return settings
    except Exception as error:  # whatever it is, it is no reason not to start an engine
        say(f"JIT caches were not looked at: {type(error).__name__}: {error}")
        return settings
    return replace(settings, unclean_at=end.at_s, unclean_boot=end.boot)
