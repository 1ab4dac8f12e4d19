"""The forms of a report and where one may go. Light: `run` looks before it starts an engine."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Final

from gpuprobe.errors import UsageError
from gpuprobe.output_file import refuse_to_overwrite

FORMS: Final = (".md", ".html", ".json", ".zip")
"""Suffixes, each of one form."""


def check_output(output: Path, inputs: Sequence[str]) -> None:
    """Make sure that a report can go there, before anything is read.

    Raises:
        UsageError: Its suffix is of no form, its folder is missing, or it is one of the inputs.
    """
    if output.suffix.lower() not in FORMS:
        raise UsageError(
            f"{output}: a report is made as {', '.join(FORMS[:-1])} or {FORMS[-1]}",
            hint="Name the file so, such as report.md for an issue on GitHub.",
        )
    if not output.parent.is_dir():
        raise UsageError(f"{output.parent} is no folder", hint="Make it first.")
    if output.is_dir():
        raise UsageError(f"{output} is a folder", hint="Name a file in it.")
    refuse_to_overwrite(output, inputs)
