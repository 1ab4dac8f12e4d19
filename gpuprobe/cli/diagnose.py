"""`gpuprobe diagnose`: a verdict from saved logs."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from gpuprobe.cli import options
from gpuprobe.cli.output import format_for, standard_input, wants_colour, write_to
from gpuprobe.cli.progress import progress_on_stderr
from gpuprobe.errors import UsageError
from gpuprobe.identity import PciAddress
from gpuprobe.options import Options
from gpuprobe.output_file import refuse_to_overwrite

if TYPE_CHECKING:
    from gpuprobe.diagnosis import Diagnosis
    from gpuprobe.reporters.base import Reporter
    from gpuprobe.reporters.redact import Redactor

FORMATS: Final = ("text", "json", "markdown")


@click.command("diagnose")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(allow_dash=True))
@options.format_(*FORMATS, help_="What to write. markdown is always redacted.", by_ending=True)
@options.output()
@options.of_logs
@click.option("--with-machine", is_flag=True, help="Add this machine's journal and recordings.")
@click.option(
    "--jit-cache",
    "jit_caches",
    metavar="DIR",
    multiple=True,
    type=click.Path(),
    help="Scan this JIT cache too, for a crash without words; may be repeated.",
)
@click.option("--redact", is_flag=True, help="Replace names, addresses, serials and secrets.")
@click.option("-q", "--quiet", is_flag=True, help="Only the one-sentence verdicts.")
@click.option("-v", "--verbose", is_flag=True, help="Everything, uncut.")
@options.color()
@click.option("--no-prefilter", is_flag=True, hidden=True, help="Parse every line.")
def command(
    paths: tuple[str, ...],
    format_: str | None,
    output: str | None,
    since: str | None,
    until: str | None,
    boot: str | None,
    device: PciAddress | None,
    timezone: str | None,
    boot_time: str | None,
    host: str | None,
    with_machine: bool,
    jit_caches: tuple[str, ...],
    redact: bool,
    quiet: bool,
    verbose: bool,
    color: str,
    no_prefilter: bool,
) -> int:
    """Tell from saved logs what failed, and prove it.

    PATH is a log of the engine or the kernel, a bug report, a folder or an archive of them, or -
    for standard input; several are read as one story. Without PATH it is this machine's journal and
    recordings, of which the newest incident is judged. The verdict comes with its proof, its
    consequences, what was ruled out, what could not be checked and what to do next.
    """
    form = format_for(format_, output, FORMATS)
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    chosen = Options(
        since=since,
        until=until,
        boot=boot,
        device=device,
        timezone=timezone,
        boot_time=boot_time,
        host=host,
        with_machine=with_machine,
        jit_caches=jit_caches,
        prefilter=not no_prefilter,
    )
    from gpuprobe.api import diagnose

    stdin = standard_input(paths)
    if output is not None:
        refuse_to_overwrite(Path(output), paths)
    with progress_on_stderr() as tell:
        diagnosis = diagnose(*paths, options=chosen, stdin=stdin, progress=tell)
    _write(diagnosis, form, output, redact, _Look(quiet, verbose, color))
    return diagnosis.exit_code


class _Look:
    """How the text format is to look."""

    def __init__(self, quiet: bool, verbose: bool, color: str) -> None:
        self.quiet = quiet
        self.verbose = verbose
        self.color = color

    def reporter(self, format_: str, to_file: bool, redactor: Redactor | None) -> Reporter:
        """The reporter of `format_`; only the chosen one is imported."""
        if format_ == "json":
            from gpuprobe.reporters.json import JsonReporter

            return JsonReporter()
        if format_ == "markdown":
            from gpuprobe.reporters.markdown import MarkdownReporter

            return MarkdownReporter(redactor)
        from gpuprobe.reporters.terminal import TerminalReporter

        on_terminal = not to_file and sys.stdout.isatty()
        colour = wants_colour(self.color, on_terminal)
        return TerminalReporter(
            quiet=self.quiet, verbose=self.verbose, colour=colour, fit_terminal=on_terminal
        )


def _write(
    diagnosis: Diagnosis, format_: str, output: str | None, redact: bool, look: _Look
) -> None:
    """Render in full, and only then open the output, so that no failure leaves half a file."""
    redactor = None
    if redact or format_ == "markdown":
        from gpuprobe.reporters.redact import Redactor

        redactor = Redactor()
        diagnosis = redactor.diagnosis(diagnosis)
    text = io.StringIO()
    look.reporter(format_, output is not None, redactor).render(diagnosis, text)
    write_to(output, text.getvalue())
    if redactor is None or not redactor.replaced():
        return
    click.echo(f"redacted: {redactor.summary()}", err=True)
    if output is not None and Path(output).is_file():
        click.echo(f"what stands for what: {redactor.write_map(Path(output))}", err=True)
