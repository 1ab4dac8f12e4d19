"""The command line: a thin layer that parses arguments, calls the library and shows the result.

Each command is a module of this package with an attribute `command`, imported only when it is
asked for. To add one: write the module, and put its name and one-line help into `COMMANDS`.
"""

from __future__ import annotations

import gc
import io
import os
import signal
import sys
from importlib import import_module
from typing import Any, NoReturn, TextIO

import click

from gpuprobe import __version__
from gpuprobe.errors import GpuprobeError

COMMANDS = {
    "run": "Run an engine with the probe beside it: telemetry, verdict, exit code.",
    "diagnose": "Tell from saved logs what failed, and prove it.",
    "watch": "Watch the GPUs and their bus live: power, heat, clocks, links, events.",
    "release": "Have the probe beside a running engine let go of NVML.",
    "record": "Record headless beside a server, for days; metrics for Prometheus.",
    "report": "Make the one redacted file to attach to an issue.",
    "verify": "Is a report's ZIP as it was made?",
    "check": "Is this machine fit to run, and would the next loss be provable?",
    "history": "A row a boot: losses, resets, hangs, unclean ends, what changed.",
    "jitcache": "Find damaged entries of JIT caches, move them aside.",
    "explain": "Say what a code or a verdict kind means, with its source.",
}
"""Command name to the line that `gpuprobe --help` shows for it."""

_ALLOCATIONS_PER_COLLECTION = 10_000
"""A start makes many objects and drops few: at Python's 700, looking for cycles takes a tenth."""


class LazyGroup(click.Group):
    """A group that lists its commands without importing them, and maps errors to exit codes."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The commands' names, in the order of `COMMANDS`."""
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command `cmd_name`, or give None where there is none."""
        if cmd_name not in COMMANDS:
            return None
        command = import_module(f"{__name__}.{cmd_name.replace('-', '_')}").command
        assert isinstance(command, click.Command)
        return command

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands from `COMMANDS` alone."""
        with formatter.section("Commands"):
            formatter.write_dl(list(COMMANDS.items()))

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command; a reader that went away (`| head`) ends it without a word."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            # click would catch it and exit with 1, which is the code of a verdict here.
            _abandon_stdout()
            return 128 + signal.SIGPIPE

    def main(self, *args: Any, **kwargs: Any) -> NoReturn:
        """Run, and end the process: the only place where an error becomes an exit code."""
        kwargs["standalone_mode"] = False
        gc.set_threshold(_ALLOCATIONS_PER_COLLECTION)
        # Started with `>&-`, as some supervisors do: the exit code must be the answer's all the
        # same. Without a descriptor of its own, since an engine would inherit what takes number 1.
        sys.stdout = sys.stdout or _nowhere()
        sys.stderr = sys.stderr or _nowhere()
        try:
            result = super().main(*args, **kwargs)
            sys.stdout.flush()
        except GpuprobeError as error:
            _complain(str(error), error.hint)
            sys.exit(error.exit_code)
        except click.ClickException as error:
            error.show()
            sys.exit(error.exit_code)
        except (click.exceptions.Abort, KeyboardInterrupt):
            sys.exit(128 + signal.SIGINT)
        except BrokenPipeError:
            _abandon_stdout()
            sys.exit(128 + signal.SIGPIPE)
        except OSError as error:
            _complain(_name_os_error(error))
            sys.exit(GpuprobeError.exit_code)
        sys.exit(result if isinstance(result, int) else 0)


class _Nowhere(io.RawIOBase):
    """Takes everything and keeps nothing."""

    def writable(self) -> bool:
        """It is."""
        return True

    def write(self, data: Any) -> int:
        """All of it is taken."""
        return len(data)


def _nowhere() -> TextIO:
    return io.TextIOWrapper(io.BufferedWriter(_Nowhere()), "utf-8", "replace")


def _complain(message: str, hint: str = "") -> None:
    from gpuprobe.reporters.plain import printable

    click.echo(f"error: {printable(message)}", err=True)
    if hint:
        click.echo(f"  {printable(hint)}", err=True)


def _name_os_error(error: OSError) -> str:
    reason = error.strerror or str(error)
    return f"{error.filename}: {reason}" if error.filename else reason


def _abandon_stdout() -> None:
    """Let the interpreter flush into nothing at exit, so that it does not complain as well."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())


@click.group(
    name="gpuprobe",
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 80},
)
@click.version_option(
    __version__, "-V", "--version", prog_name="gpuprobe", message="%(prog)s %(version)s"
)
def main() -> None:
    """Did the software break, or did the GPU leave the PCIe bus?

    Exit codes: 0 no fault, 1 another fault, 2 usage or no readable input, 3 cannot tell, 79 a GPU
    left the bus.
    """
