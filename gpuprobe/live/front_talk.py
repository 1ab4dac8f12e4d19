"""What is said on the user's stderr: by the front, and by the probe through it.

Standard library alone. The probe has a pipe in place of the user's stderr: one that hangs would
keep it open, and a reader of `2>&1 |` waiting for its end.
"""

from __future__ import annotations

import contextlib
import os
from typing import Final

_READ: Final = 1 << 16


class Talk:
    """A pipe for the probe's words.

    Attributes:
        source: Our end; -1 when nobody writes any more.
        end: The probe's end, until `started`.
    """

    def __init__(self) -> None:
        self.source, self.end = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(self.source, False)

    def started(self) -> None:
        """The probe has its end."""
        os.close(self.end)

    def pass_on(self, *, raw: bool = False) -> None:
        """Show what has been written; on a `raw` terminal lines end with a carriage return."""
        while self.source >= 0:
            try:
                text = os.read(self.source, _READ)
            except BlockingIOError:
                return
            if not text:
                os.close(self.source)
                self.source = -1
            _write(text.replace(b"\n", b"\r\n") if raw else text)


def say(text: str) -> None:
    """One line of our own."""
    _write(f"gpuprobe: {text}\n".encode("utf-8", "surrogateescape"))


def _write(text: bytes) -> None:
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(2, text) :]
