"""What is said on the user's stderr: by the front, and by the probe through it.

Standard library alone. The probe has a pipe in place of the user's stderr: one that hangs would
keep it open, and a reader of `2>&1 |` waiting for its end. A stderr that nobody reads, as on a
terminal stopped by Ctrl-S, does not keep the front from its signals: what it does not take waits.
"""

from __future__ import annotations

import contextlib
import os
import select
from collections.abc import Mapping
from typing import Final

_READ: Final = 1 << 16
"""All that a pipe holds, as a rule."""

_PIECE: Final = select.PIPE_BUF
"""What a pipe that can be written takes at once, and whole."""


class Talk:
    """A pipe for the probe's words.

    Attributes:
        source: Our end; -1 when nobody writes any more.
        end: The probe's end, until `started`.
    """

    def __init__(self) -> None:
        self.source, self.end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.source, False)
        self._rest = b""

    def started(self) -> None:
        """The probe has its end."""
        os.close(self.end)

    def register(self, poller: select.poll) -> None:
        """Have the poller wake up when `go_on` has something to do."""
        if self._rest:
            poller.register(2, select.POLLOUT)
        elif self.source >= 0:
            poller.register(self.source, select.POLLIN)

    def go_on(self, ready: Mapping[int, int], *, raw: bool = False) -> None:
        """Show what the user's stderr takes without waiting; `ready` is what the poller found.

        On a `raw` terminal lines end with a carriage return.
        """
        if self.source in ready:
            self._read(raw=raw)
        while self._rest and _takes():
            piece, self._rest = self._rest[:_PIECE], self._rest[_PIECE:]
            _write(piece)

    def finish(self) -> None:
        """Show all that has been written, however long it takes."""
        self._read()
        rest, self._rest = self._rest, b""
        _write(rest)

    def _read(self, *, raw: bool = False) -> None:
        """Take what waits in the pipe: once, as there may be no end of it."""
        if self.source < 0:
            return
        with contextlib.suppress(BlockingIOError):
            text = os.read(self.source, _READ)
            if not text:
                os.close(self.source)
                self.source = -1
            self._rest += text.replace(b"\n", b"\r\n") if raw else text


def say(text: str) -> None:
    """One line of our own."""
    _write(f"gpuprobe: {text}\n".encode("utf-8", "surrogateescape"))


def _takes() -> bool:
    """Whether the user's stderr takes a piece at once, or is gone."""
    poller = select.poll()
    poller.register(2, select.POLLOUT)
    return bool(poller.poll(0))


def _write(text: bytes) -> None:
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(2, text) :]
