"""Lines for a reader that may be slow or gone: whoever writes them never waits."""

from __future__ import annotations

import os
import queue
import threading
from collections.abc import Callable
from typing import Final

LIMIT: Final = 10_000
"""Lines that wait for the reader; more are counted and left out."""

CLOSE_S: Final = 1.0


class Outlet:
    """Writes lines to a descriptor from a thread of its own.

    Args:
        descriptor: Where to.
        gone: Called once with the reason when nothing can be written any more.

    Attributes:
        missed: Lines that were left out.
    """

    def __init__(self, descriptor: int, gone: Callable[[str], None]) -> None:
        self.missed = 0
        self._descriptor = descriptor
        self._gone = gone
        self._lines: queue.Queue[str | None] = queue.Queue(LIMIT)
        self._over = False
        self._thread = threading.Thread(target=self._run, name="outlet", daemon=True)
        self._thread.start()

    def put(self, line: str) -> None:
        """Have a line written; returns at once."""
        if self._over:
            return
        try:
            self._lines.put_nowait(line)
        except queue.Full:
            self.missed += 1

    def close(self) -> None:
        """Let what waits be written, for a second at most."""
        try:
            self._lines.put(None, timeout=CLOSE_S)
        except queue.Full:
            return
        self._thread.join(CLOSE_S)

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            data = f"{line}\n".encode()
            try:
                while data:
                    data = data[os.write(self._descriptor, data) :]
            except OSError as error:
                self._over = True
                self._gone(error.strerror or str(error))
                return
