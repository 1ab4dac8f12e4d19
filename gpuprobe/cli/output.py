"""What commands do alike with standard input and standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import BinaryIO, Final

from gpuprobe.errors import UsageError
from gpuprobe.output_file import write_whole

_ENDINGS: Final = {".md": "markdown", ".json": "json"}
_OF_REPORTS: Final = (".html", ".zip")
"""Endings of what `gpuprobe report` alone makes."""


def format_for(asked: str | None, output: str | None, names: Sequence[str]) -> str:
    """The format to write: as asked, else by the output's ending, else the first of `names`.

    Raises:
        UsageError: The ending is that of a form which only `report` makes.
    """
    if asked is not None:
        return asked
    ending = "" if output is None else Path(output).suffix.lower()
    if ending in _OF_REPORTS:
        raise UsageError(
            f"{output}: a {ending} is made by gpuprobe report",
            hint=f"Such as: gpuprobe report engine.log kernel.log -o report{ending}",
        )
    found = _ENDINGS.get(ending, names[0])
    return found if found in names else names[0]


def wants_colour(color: str, terminal: bool) -> bool:
    """Whether the text format gets colour."""
    return color == "always" or (color == "auto" and terminal and not os.environ.get("NO_COLOR"))


def write(text: str) -> None:
    """Write UTF-8 whatever the locale; a terminal that cannot show a letter gets `?`."""
    stream = sys.stdout
    if stream.isatty():
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "replace").decode(encoding))
    else:
        stream.flush()
        stream.buffer.write(text.encode("utf-8", "replace"))
    stream.flush()


def write_to(output: str | None, text: str) -> None:
    """Write to a file that is whole or not there, or to standard output where there is none.

    Raises:
        UsageError: It cannot be written there.
    """
    if output is None:
        write(text)
    else:
        write_whole(Path(output), text.encode("utf-8", "replace"))


def standard_input(paths: Sequence[str]) -> BinaryIO | None:
    """What `-` among the paths reads, or None where it is not among them.

    Raises:
        UsageError: It is, and standard input is closed.
    """
    if "-" not in paths:
        return None
    if sys.stdin is None:
        raise UsageError("standard input is closed", hint="Pipe a log into it, or name a file.")
    return sys.stdin.buffer
