"""Single keys from a terminal, without waiting for them."""

from __future__ import annotations

import contextlib
import os
import select
import sys
from collections.abc import Iterator
from typing import TextIO


class Keys:
    """Keys that were pressed since the last look.

    Args:
        descriptor: The terminal, or None where there is none: then no key is ever pressed.
    """

    def __init__(self, descriptor: int | None) -> None:
        self._descriptor = descriptor

    def pressed(self) -> str:
        """What was typed, at most 64 letters; "" where nothing was."""
        if self._descriptor is None:
            return ""
        ready, _, _ = select.select([self._descriptor], [], [], 0)
        if not ready:
            return ""
        try:
            found = os.read(self._descriptor, 64)
        except OSError:  # the terminal was closed
            found = b""
        if not found:  # the terminal went away: it would be readable for ever
            self._descriptor = None
        return found.decode("utf-8", "replace")


@contextlib.contextmanager
def reading_keys(stream: TextIO | None = None) -> Iterator[Keys]:
    """Give keys one by one and without an echo, and the terminal back as it was.

    Args:
        stream: Standard input when None.
    """
    stream = sys.stdin if stream is None else stream
    try:
        import termios
        import tty

        descriptor = stream.fileno()
        before = termios.tcgetattr(descriptor)
    except (ImportError, OSError, ValueError, AttributeError):
        yield Keys(None)
        return
    except termios.error:
        yield Keys(None)
        return
    try:
        tty.setcbreak(descriptor)
        yield Keys(descriptor)
    finally:
        with contextlib.suppress(termios.error, OSError):  # a terminal that is gone needs nothing
            termios.tcsetattr(descriptor, termios.TCSADRAIN, before)
