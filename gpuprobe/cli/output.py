"""What every command that writes to standard output does alike."""

from __future__ import annotations

import os
import sys


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
