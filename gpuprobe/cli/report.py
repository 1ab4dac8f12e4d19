"""`gpuprobe report`: one redacted file that a maintainer can judge without asking back."""

from __future__ import annotations

import io
from pathlib import Path
from typing import TYPE_CHECKING, cast

import click

from gpuprobe.cli import options
from gpuprobe.cli.output import standard_input
from gpuprobe.cli.output import write as stdout
from gpuprobe.cli.progress import progress_on_stderr
from gpuprobe.errors import UsageError
from gpuprobe.identity import PciAddress
from gpuprobe.options import Options

if TYPE_CHECKING:
    from gpuprobe.report.contents import Audience
    from gpuprobe.report.writing import Written


@click.command("report")
@click.argument("paths", metavar="INPUT...", nargs=-1, type=click.Path(allow_dash=True))
@click.option(
    "-o",
    "--output",
    type=click.Path(),
    help="Where to; .md, .html, .json or .zip says which form. Without it Markdown on stdout.",
)
@click.option(
    "--for",
    "audience",
    type=click.Choice(["engine", "vendor", "internal"]),
    default="engine",
    show_default=True,
    help="vendor keeps serials and UUIDs, internal host names and IP addresses as well.",
)
@click.option(
    "--keep",
    metavar="NAMES",
    default="",
    help="Leave these as they are: hostnames,users,ips,macs,emails,serials,uuids,ssids.",
)
@click.option("--no-plots", is_flag=True, help="Without plots, which need an extra.")
@options.of_logs
def command(
    paths: tuple[str, ...],
    output: str | None,
    audience: str,
    keep: str,
    no_plots: bool,
    since: str | None,
    until: str | None,
    boot: str | None,
    device: PciAddress | None,
    timezone: str | None,
    boot_time: str | None,
    host: str | None,
) -> int:
    """Make the file to attach to an issue.

    INPUT is a log, a recording, an earlier report (.json, .zip), a folder or an archive of them,
    or - for standard input; several are read as one story, and recordings of several runs are
    compared by their flags. Names, addresses, serials and secrets are replaced; what stands for
    what goes to FILE.redaction.txt, which stays with you.

    Exit codes: 0 when it is written, 2 usage or no readable input.
    """
    if not paths:
        raise UsageError(
            "name what to report", hint="Such as: gpuprobe report RUN.gpuprobe -o report.md"
        )
    from gpuprobe.report.forms import check_output
    from gpuprobe.report.gathering import gather
    from gpuprobe.report.writing import markdown, write
    from gpuprobe.reporters.redact import parse_keep

    kept = parse_keep(keep)
    if output is not None:
        check_output(Path(output), paths)
    stdin = standard_input(paths)
    chosen = Options(
        since=since,
        until=until,
        boot=boot,
        device=device,
        timezone=timezone,
        boot_time=boot_time,
        host=host,
    )
    with progress_on_stderr() as tell:
        whom = cast("Audience", audience)
        gathered = gather(paths, chosen, whom, stdin=stdin, progress=tell)
    if output is None:
        text = io.StringIO()
        redactor = markdown(gathered, text, keep=kept)
        stdout(text.getvalue())
        if redactor.replaced():
            click.echo(f"redacted: {redactor.summary()}", err=True)
        return 0
    _say(write(gathered, Path(output), keep=kept, plots=not no_plots))
    return 0


def _say(written: Written) -> None:
    from gpuprobe.reporters.plain import printable

    report, *others = (printable(str(path)) for path in written.files)
    click.echo(f"report: {report}", err=True)
    for problem in written.problems:
        click.echo(f"note: {printable(problem)}", err=True)
    for path in others:
        if path.endswith(".redaction.txt"):
            click.echo(f"redacted: {written.redactor.summary()}", err=True)
            click.echo(f"what stands for what, not to be passed on: {path}", err=True)
        else:
            click.echo(f"beside it: {path}", err=True)
