"""`gpuprobe diagnose`: a verdict from saved logs."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from gpuprobe.errors import UsageError
from gpuprobe.identity import PciAddress
from gpuprobe.options import Options, Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

    from gpuprobe.diagnosis import Diagnosis
    from gpuprobe.reporters.base import Reporter
    from gpuprobe.reporters.redact import Redactor

PROGRESS_AFTER_BYTES = 64 * 1024 * 1024
"""Inputs shorter than this are read before a progress bar could be looked at."""


def _address(_ctx: click.Context, _param: click.Parameter, value: str | None) -> PciAddress | None:
    """Read `--device` in any spelling."""
    address = PciAddress.try_parse(value)
    if value is not None and address is None:
        raise click.BadParameter(f"{value!r} is not a PCI address such as 0000:04:00.0")
    return address


@click.command("diagnose")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path(allow_dash=True))
@click.option(
    "--format",
    "format_",
    type=click.Choice(["text", "json", "markdown"]),
    default="text",
    show_default=True,
    help="What to write. markdown is always redacted.",
)
@click.option("-o", "--output", type=click.Path(dir_okay=False), help="Write to this file.")
@click.option("--since", metavar="TIME", help="Leave out what is earlier.")
@click.option("--until", metavar="TIME", help="Leave out what is later.")
@click.option("--boot", metavar="ID", help="Only this boot: an id, 0 the last, -1 before it.")
@click.option(
    "--device",
    metavar="ADDRESS",
    callback=_address,
    help="Only this PCI device, as 0000:04:00.0.",
)
@click.option("--timezone", metavar="ZONE", help="Zone of stamps without one: Europe/Berlin.")
@click.option("--boot-time", metavar="TIME", help="When the machine of the logs booted.")
@click.option("--host", metavar="NAME", help="Host of inputs that do not name theirs.")
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
@click.option(
    "--color",
    type=click.Choice(["auto", "always", "never"]),
    default="auto",
    show_default=True,
    help="Colour of the text format.",
)
@click.option("--no-prefilter", is_flag=True, hidden=True, help="Parse every line.")
def command(
    paths: tuple[str, ...],
    format_: str,
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
    if quiet and verbose:
        raise UsageError("--quiet and --verbose exclude each other")
    options = Options(
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

    if "-" in paths and sys.stdin is None:
        raise UsageError("standard input is closed", hint="Pipe a log into it, or name a file.")
    if output is not None:
        _refuse_to_overwrite(Path(output), paths)
    stdin = sys.stdin.buffer if "-" in paths else None
    with _progress_on_stderr() as tell:
        diagnosis = diagnose(*paths, options=options, stdin=stdin, progress=tell)
    _write(diagnosis, format_, output, redact, _Look(quiet, verbose, color))
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
        colour = self.color == "always" or (
            self.color == "auto" and on_terminal and not os.environ.get("NO_COLOR")
        )
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
    if output is None:
        _to_stdout(text.getvalue())
    else:
        _to_file(text.getvalue(), Path(output))
    if redactor is None or not redactor.replaced():
        return
    click.echo(f"redacted: {redactor.summary()}", err=True)
    if output is not None and Path(output).is_file():
        click.echo(f"what stands for what: {redactor.write_map(Path(output))}", err=True)


def _refuse_to_overwrite(output: Path, paths: tuple[str, ...]) -> None:
    """A log is evidence: nothing is written over it.

    Raises:
        UsageError: The output is one of the inputs.
    """
    for path in paths:
        if output.exists() and path != "-" and Path(path).exists() and output.samefile(path):
            raise UsageError(
                f"--output {output} is one of the inputs", hint="Give it another name."
            )


def _to_file(text: str, output: Path) -> None:
    """Write beside the file and put it in its place, so that a full disk leaves no half report.

    Raises:
        UsageError: It cannot be written there.
    """
    if output.exists() and not output.is_file():
        # A device or a pipe: there is nothing to put in its place.
        output.write_text(text, encoding="utf-8", errors="replace")
        return
    part = output.with_name(f".{output.name}.{os.getpid()}.part")
    try:
        part.write_text(text, encoding="utf-8", errors="replace")
        part.replace(output)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise UsageError(
            f"{output} cannot be written: {error.strerror or error}", hint="Choose another place."
        ) from error


def _to_stdout(text: str) -> None:
    """Write UTF-8 whatever the locale; a terminal that cannot show a letter gets `?`."""
    stream = sys.stdout
    encoding = stream.encoding or "utf-8"
    if stream.isatty():
        text = text.encode(encoding, "replace").decode(encoding)
        stream.write(text)
    else:
        stream.flush()
        stream.buffer.write(text.encode("utf-8", "replace"))
    stream.flush()


@contextmanager
def _progress_on_stderr() -> Iterator[Callable[[Progress], None] | None]:
    """A progress bar for long inputs, or None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    bar = _Bar()
    try:
        yield bar.update
    finally:
        bar.close()


class _Bar:
    """A rich progress bar that appears only when there is much to read."""

    def __init__(self) -> None:
        self._progress: RichProgress | None = None
        self._task: TaskID | None = None

    def update(self, progress: Progress) -> None:
        total = progress.bytes_total
        if max(total or 0, progress.bytes_done) < PROGRESS_AFTER_BYTES:
            return
        from rich.markup import escape

        from gpuprobe.reporters.plain import printable

        name = escape(printable(Path(progress.path).name))
        if self._progress is None:
            self._progress = _rich_progress()
            self._task = self._progress.add_task(name, total=total)
            self._progress.start()
        assert self._task is not None
        self._progress.update(
            self._task, completed=progress.bytes_done, total=total, description=name
        )

    def close(self) -> None:
        if self._progress is not None:
            self._progress.stop()


def _rich_progress() -> RichProgress:
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TimeRemainingColumn(),
        console=Console(stderr=True),
        transient=True,
    )
