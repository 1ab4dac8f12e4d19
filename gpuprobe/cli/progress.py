"""How far the reading of long inputs has come, on a terminal's stderr."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from gpuprobe.options import Progress

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

PROGRESS_AFTER_BYTES = 64 * 1024 * 1024
"""Inputs shorter than this are read before a progress bar could be looked at."""


@contextmanager
def progress_on_stderr() -> Iterator[Callable[[Progress], None] | None]:
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
