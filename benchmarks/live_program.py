"""A program that is measured while it runs, and what it writes."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import struct
import subprocess
import termios
import threading
import time
from collections.abc import Sequence
from fcntl import ioctl

START_UP_S = 5.0
"""Seconds in which a program starts, which do not count."""
END_S = 10.0
"""How long a program may take to end."""


class Program:
    """A program that is measured, and what it wrote with the time of each line.

    Args:
        command: The program and its arguments.
        terminal: Give it a terminal: line by line output, and a screen to draw on.
    """

    def __init__(self, command: Sequence[str], *, terminal: bool) -> None:
        self.lines: list[tuple[float, str]] = []
        self._errors = os.fdopen(os.memfd_create("stderr"), "w+b", 0)
        theirs: int
        if terminal:
            ours, theirs = pty.openpty()
            ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 160, 0, 0))
        else:
            ours, theirs = os.pipe()
        self._process = subprocess.Popen(
            command,
            stdin=theirs if terminal else subprocess.DEVNULL,
            stdout=theirs,
            stderr=theirs if terminal else self._errors,
            env={**os.environ, "TERM": "xterm-256color"},
            start_new_session=True,
        )
        os.close(theirs)
        self.pid = self._process.pid
        self._reader = threading.Thread(target=self._read, args=(ours,), daemon=True)
        self._reader.start()

    def _read(self, descriptor: int) -> None:
        pending = b""
        with contextlib.suppress(OSError):  # a terminal whose program has gone says EIO
            while data := os.read(descriptor, 65536):
                at = time.monotonic()
                *lines, pending = (pending + data).split(b"\n")
                self.lines.extend((at, line.decode("utf-8", "replace").strip()) for line in lines)
        os.close(descriptor)

    @property
    def ended(self) -> bool:
        """Whether it has gone by itself."""
        return self._process.poll() is not None

    def end(self) -> str:
        """Ask it to end, wait, and give the last of what it complained of."""
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGTERM)
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(END_S)
        self._errors.seek(0)
        said = self._errors.read().decode("utf-8", "replace").strip()
        self._errors.close()
        return (said or " ".join(text for _, text in self.lines[-3:]))[-300:]


def told_stamps(program: Program) -> list[float]:
    """The stamps that a worker of ours told at its end, of its first GPU: one stands for all.

    Raises:
        RuntimeError: It told nothing.
    """
    for _, text in reversed(program.lines):
        if text.startswith('{"stamps"'):
            stamps: dict[str, list[float]] = json.loads(text)["stamps"]
            return sorted(next(iter(stamps.values()), []))
    raise RuntimeError("it told no samples")
