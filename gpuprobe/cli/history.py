"""`gpuprobe history`: a row a boot over all that is kept."""

from __future__ import annotations

import io
import sys

import click

from gpuprobe.cli import options
from gpuprobe.cli.output import write


@click.command("history")
@options.format_("text", "json")
@click.option(
    "-n", "--last", type=click.IntRange(min=1), metavar="N", help="Only the last N boots."
)
@options.exit_codes()
def command(format_: str, last: int | None, exit_codes: str | None) -> int:
    """List every boot that the journal keeps.

    A row a boot: when it began, how long it lasted, how it ended, GPUs lost, hangs, resets; below
    it what failed and what changed since the boot before: kernel, driver, BIOS, boot line, power
    caps.

    Exit codes speak of the boot that runs: 0 nothing lasts, 1 a reset is owed, 3 no log could be
    read, 79 a GPU left the bus since it began.
    """
    from gpuprobe import api
    from gpuprobe.checks.report import translate
    from gpuprobe.reporters.history import HistoryJsonReporter, HistoryTextReporter

    history = api.history(last=last, progress=_tell if sys.stderr.isatty() else None)
    if sys.stderr.isatty():
        click.echo("\r\x1b[K", nl=False, err=True)
    out = io.StringIO()
    reporter = HistoryJsonReporter() if format_ == "json" else HistoryTextReporter()
    reporter.render(history, out)
    write(out.getvalue())
    return translate(history.exit_code, history.answer, exit_codes)


def _tell(done: int, of: int) -> None:
    """How far the reading has come, on the terminal's last line."""
    click.echo(f"\rreading boot {done + 1} of {of} …", nl=False, err=True)
