"""The report at the end of `run`, `record` and `watch`: made by a process of its own.

So whatever a report needs or breaks, the command that recorded ends as it should.
"""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

if TYPE_CHECKING:
    from gpuprobe.diagnosis import Diagnosis

TO_ATTACH: Final = "gpuprobe report {path} -o report.md"
"""The command that makes the file to attach from a recording."""

LIMIT_S: Final = 120.0
"""How long a report may take."""


def checked(_context: click.Context, _parameter: click.Parameter, value: str | None) -> Path | None:
    """Look at `--report FILE` before anything is recorded.

    Raises:
        UsageError: No report can go there.
    """
    if value is None:
        return None
    from gpuprobe.report.forms import check_output

    check_output(Path(value), ())
    return Path(value).absolute()


def last_words(recording: Path, output: Path | None) -> str:
    """The last line of a command that recorded: where the report lies, or how to make one."""
    command = TO_ATTACH.format(path=shlex.quote(str(recording)))
    if output is None:
        return f"to attach it: {command}"
    problem = write_report(recording, output)
    return f"report: {output}" if problem is None else f"{problem}; try {command}"


def write_report(recording: Path, output: Path, limit_s: float = LIMIT_S) -> str | None:
    """Make the report of a recording that has ended.

    Args:
        recording: The file.
        output: Where to; its suffix says which form.
        limit_s: Seconds after which it is given up.

    Returns:
        Why there is none, or None where it was written.
    """
    import subprocess

    argv = [sys.executable, "-I", "-m", "gpuprobe", "report", str(recording), "-o", str(output)]
    try:
        done = subprocess.run(  # noqa: S603 - our own program
            argv, stdin=subprocess.DEVNULL, capture_output=True, timeout=limit_s, check=False
        )
    except subprocess.TimeoutExpired:
        return f"the report took more than {limit_s:.0f} s and was given up"
    except OSError as error:
        return f"the report could not be made: {error}"
    if done.returncode == 0:
        return None
    said = done.stderr.decode("utf-8", "replace").strip().splitlines()
    return f"no report: {said[0] if said else f'exit code {done.returncode}'}"


def write_verdict(diagnosis: Diagnosis, output: Path) -> str | None:
    """Write the report of a run that was not recorded: its verdict, in the form of the suffix.

    Returns:
        Why there is none, or None where it was written.
    """
    from gpuprobe.report import writing

    try:
        writing.write_verdict(diagnosis, output)
    except Exception as error:  # whatever it is, the run ends as its engine did
        return f"no report: {error}"
    return None
