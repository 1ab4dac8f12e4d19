"""What commands do alike with standard input and standard output."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from typing import BinaryIO

from gpuprobe.errors import UsageError


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
