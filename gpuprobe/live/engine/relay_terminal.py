"""The terminal that the engine gets in place of the user's. Standard library alone.

With a keyboard (stdin and stdout are one terminal) the user's terminal is put into raw mode while
the engine has the foreground, and every key goes through: Ctrl-C makes its signal inside, once.
Without (a pipeline, a redirected stdin) the user's terminal is left as it is, and only written to.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import select
import termios
from typing import Any, Final

_INPUT_LIMIT: Final = 4096
"""Keys read ahead of an engine that does not read."""


class Terminal:
    """The user's terminal, and a new one for the engine.

    Args:
        outer: Descriptor of the user's terminal; it is duplicated.
        keyboard: Whether keys are passed through.

    Attributes:
        output: Our end of the new one for whoever copies the output, who closes it; it does not
            block.
        slave: The engine's end, until `started`.
        raw: Whether the user's terminal is in raw mode now.
        open: Whether the user's terminal still gives keys.
    """

    def __init__(self, outer: int, *, keyboard: bool) -> None:
        self._outer = os.dup(outer)
        self.keyboard = keyboard
        self.raw = False
        self.open = keyboard
        self._saved: list[Any] | None = None
        self._typed = b""
        self.output, self.slave = os.openpty()
        os.set_blocking(self.output, False)
        self._master = os.dup(self.output)
        with contextlib.suppress(termios.error):
            self._saved = termios.tcgetattr(outer)
            modes = termios.tcgetattr(outer)
            if not keyboard:
                modes[1] &= ~termios.OPOST  # the user's terminal does that
            termios.tcsetattr(self.slave, termios.TCSANOW, modes)
        self.resize()
        if keyboard:
            # The relay leads the session, so the engine has a parent in it and Ctrl-Z stops it.
            fcntl.ioctl(self.slave, termios.TIOCSCTTY, 0)

    def started(self) -> None:
        """The engine has its end: let go of it, so that its last close is seen."""
        os.close(self.slave)

    def resize(self) -> None:
        """Give the engine's terminal the size of the user's."""
        with contextlib.suppress(OSError):
            size = fcntl.ioctl(self._outer, termios.TIOCGWINSZ, b"\0" * 8)
            fcntl.ioctl(self._master, termios.TIOCSWINSZ, size)

    def take_keys(self) -> None:
        """Put the user's terminal into raw mode: the engine has the foreground."""
        if not self.open or self._saved is None or self.raw:
            return
        with contextlib.suppress(termios.error):
            termios.tcsetattr(self._outer, termios.TCSADRAIN, _raw(self._saved))
            self.raw = True

    def give_back(self) -> None:
        """Put the user's terminal back as it was found."""
        if self.raw and self._saved is not None:
            self.raw = False
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._outer, termios.TCSADRAIN, self._saved)

    def waits_for(self) -> tuple[int, int] | None:
        """Descriptor and events of `select.poll` to call `pass_keys` at; None for nothing."""
        if self._typed:
            return self._master, select.POLLOUT
        return (self._outer, select.POLLIN) if self.raw else None

    def pass_keys(self) -> None:
        """Read what was typed, or pass on what there is room for now."""
        if not self._typed:
            with contextlib.suppress(OSError):
                self._typed = os.read(self._outer, _INPUT_LIMIT)
            if not self._typed:  # hung up
                self.open = self.raw = False
        try:
            while self._typed:
                self._typed = self._typed[os.write(self._master, self._typed) :]
        except BlockingIOError:
            return
        except OSError:  # the engine's end is closed
            self._typed = b""


def _raw(modes: list[Any]) -> list[Any]:
    """As `cfmakeraw`: every byte goes through, none means anything."""
    iflag, oflag, cflag, lflag, *rest = modes
    iflag &= ~(
        termios.IGNBRK | termios.BRKINT | termios.PARMRK | termios.ISTRIP
        | termios.INLCR | termios.IGNCR | termios.ICRNL | termios.IXON
    )  # fmt: skip
    oflag &= ~termios.OPOST
    lflag &= ~(termios.ECHO | termios.ECHONL | termios.ICANON | termios.ISIG | termios.IEXTEN)
    cflag = cflag & ~(termios.CSIZE | termios.PARENB) | termios.CS8
    speeds, controls = rest[:2], list(rest[2])
    controls[termios.VMIN], controls[termios.VTIME] = 1, 0
    return [iflag, oflag, cflag, lflag, *speeds, controls]
