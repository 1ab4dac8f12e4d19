"""`gpuprobe jitcache`: integrity of JIT caches."""

from __future__ import annotations

import io
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from gpuprobe.cli import options
from gpuprobe.cli.output import format_for, wants_colour, write, write_to
from gpuprobe.cli.values import FiniteRange

if TYPE_CHECKING:
    from gpuprobe.jitcache.report import ScanReport

FORMATS: Final = ("text", "json")

_WHERE = [
    click.argument("paths", metavar="[PATH]...", nargs=-1, type=click.Path()),
    click.option("--home", metavar="DIR", help="The caches below another home folder."),
    click.option("--root", metavar="DIR", help="All homes of a container's file system."),
    click.option(
        "--pid", metavar="PID", type=click.IntRange(min=1), help="The caches of a running process."
    ),
    click.option("-q", "--quiet", is_flag=True, help="Only the answer and what is bad."),
    options.color(),
]


def _where(command: Callable[..., Any]) -> Callable[..., Any]:
    for option in reversed(_WHERE):
        command = option(command)
    return command


@click.group("jitcache")
def command() -> None:
    """Find damaged entries of JIT caches, move them aside, put them back.

    A power cut leaves cut or empty files in the caches of Triton, TorchInductor, vLLM and others.
    The same request then ends the engine each time, and a restart cannot heal it. Nothing of a
    cache is ever loaded, unpickled or run.
    """


@command.command("scan")
@_where
@options.format_(*FORMATS, by_ending=True)
@options.output()
@click.option(
    "--unclean-at",
    metavar="TIME",
    help="When the machine last ended without a shutdown; by default the journal is asked.",
)
@click.option(
    "--deadline", type=FiniteRange(min=0), metavar="SECONDS", help="Leave out what is later."
)
def scan_command(
    paths: tuple[str, ...],
    home: str | None,
    root: str | None,
    pid: int | None,
    quiet: bool,
    color: str,
    format_: str | None,
    output: str | None,
    unclean_at: str | None,
    deadline: float | None,
) -> int:
    """Look for damaged entries; only reads.

    PATH is the folder of a cache or of one entry; without one, caches are looked for where they
    lie by default and where environment variables put them.

    Exit codes: 0 none is bad, 1 some are, 2 none known to be bad and not all could be read.
    """
    from gpuprobe.reporters.jitcache_json import JitcacheJsonReporter
    from gpuprobe.reporters.jitcache_text import JitcacheTextReporter

    form = format_for(format_, output, FORMATS)
    report = _scan(paths, home, root, pid, deadline_s=deadline, unclean_at=_unclean(unclean_at))
    out = io.StringIO()
    if form == "json":
        JitcacheJsonReporter().render(report, out)
    else:
        colour = wants_colour(color, output is None and sys.stdout.isatty())
        JitcacheTextReporter(quiet=quiet, colour=colour).render(report, out)
    write_to(output, out.getvalue())
    return report.exit_code


@command.command("repair")
@_where
@options.format_(*FORMATS)
@click.option("-n", "--dry-run", is_flag=True, help="Only say what would be moved.")
def repair_command(
    paths: tuple[str, ...],
    home: str | None,
    root: str | None,
    pid: int | None,
    format_: str,
    quiet: bool,
    color: str,
    dry_run: bool,
) -> int:
    """Move each damaged entry to a quarantine beside its cache.

    The program then takes it as missing and builds it anew. Only what `scan` calls bad is moved,
    nothing is deleted, and it is safe while an engine runs.

    Exit codes: 0 done or nothing to do, 1 something could not be moved, 2 usage.
    """
    from pathlib import Path

    from gpuprobe.jitcache import api
    from gpuprobe.reporters.jitcache_json import JitcacheJsonReporter
    from gpuprobe.reporters.jitcache_text import JitcacheTextReporter

    report = _scan(paths, home, root, pid)
    inside = Path(root).absolute() if root else None
    if pid is not None:
        inside = _foreign_root(pid)
    moved = api.repair(report.bad, dry_run=dry_run, inside=inside)
    out = io.StringIO()
    if format_ == "json":
        JitcacheJsonReporter().render_moved(moved, dry_run, out)
    else:
        colour = wants_colour(color, sys.stdout.isatty())
        JitcacheTextReporter(quiet=quiet, colour=colour).render_moved(moved, dry_run, out)
    write(out.getvalue())
    for item in report.unreadable:
        from gpuprobe.reporters.plain import printable

        click.echo(f"not looked at: {printable(str(item.path))}: {printable(item.why)}", err=True)
    return 1 if any(item.problem for item in moved) else 0


@command.command("restore")
@click.argument("folders", metavar="FOLDER...", nargs=-1, required=True, type=click.Path())
def restore_command(folders: tuple[str, ...]) -> int:
    """Put back what `repair` moved aside.

    FOLDER is what `repair` printed. An entry that was built anew in the meantime is left alone.

    Exit codes: 0 done, 1 something could not be moved, 2 usage.
    """
    from pathlib import Path

    from gpuprobe.errors import GpuprobeError, UsageError
    from gpuprobe.jitcache import api
    from gpuprobe.reporters.plain import printable

    code = 0
    for folder in folders:
        try:
            entry = api.restore(Path(folder).absolute())
        except UsageError:
            raise
        except GpuprobeError as error:
            click.echo(f"not restored: {printable(str(error))}", err=True)
            code = 1
        else:
            write(f"restored: {printable(str(entry))}\n")
    return code


def _foreign_root(pid: int) -> Any:
    from gpuprobe.jitcache.places import of_process

    return of_process(pid)[1]


def _scan(
    paths: tuple[str, ...],
    home: str | None,
    root: str | None,
    pid: int | None,
    *,
    deadline_s: float | None = None,
    unclean_at: float | None = None,
) -> ScanReport:
    from gpuprobe.jitcache import api
    from gpuprobe.jitcache.gpus_here import capabilities

    with _progress_on_stderr() as tell:
        return api.scan(
            paths,
            home=home,
            root=root,
            pid=pid,
            deadline_s=deadline_s,
            unclean_at=unclean_at,
            present=capabilities(),
            progress=tell,
        )


def _unclean(text: str | None) -> float | None:
    """The time given, else what the journal says."""
    if text is None:
        from gpuprobe.jitcache.unclean import last_unclean_end

        return last_unclean_end()
    from gpuprobe.spoken_times import parse_time

    return parse_time(text, None).timestamp()


@contextmanager
def _progress_on_stderr() -> Iterator[Callable[[int, int], None] | None]:
    """A bar of the folders known so far, or None where nobody would see it."""
    if not sys.stderr.isatty():
        yield None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    said = TextColumn("{task.completed:,} of {task.total:,} folders")
    columns = (BarColumn(), said, TimeElapsedColumn())
    console = Console(stderr=True)
    with Progress(*columns, console=console, transient=True) as progress:
        task = progress.add_task("", total=0)
        yield lambda done, known: progress.update(task, completed=done, total=known)
