"""What a service tells its manager: that it is ready, that it still turns, that it ends.

Source: sd_notify(3). A datagram to the socket that `NOTIFY_SOCKET` names.
"""

from __future__ import annotations

import contextlib
import os
import socket
import time


class Notifier:
    """Speaks to the service manager; without one it does nothing."""

    def __init__(self) -> None:
        # Taken out, so that no child thinks that it is the service.
        self._address = os.environ.pop("NOTIFY_SOCKET", "")
        usec, pid = os.environ.pop("WATCHDOG_USEC", ""), os.environ.pop("WATCHDOG_PID", "")
        mine = usec.isdecimal() and pid in ("", str(os.getpid()))
        self._every_s = int(usec) / 3e6 if mine else 0.0
        self._next = 0.0

    def say(self, text: str) -> None:
        """Send `READY=1`, `STOPPING=1`, `STATUS=…`."""
        if not self._address:
            return
        name = f"\0{self._address[1:]}" if self._address[0] == "@" else self._address
        with (
            contextlib.suppress(OSError),
            socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM | socket.SOCK_CLOEXEC) as out,
        ):
            out.setblocking(False)
            out.sendto(text.encode("utf-8", "replace"), name)

    def turn(self) -> None:
        """Say that the loop still turns, as often as the watchdog wants to hear it."""
        here = time.monotonic()
        if self._every_s and here >= self._next:
            self._next = here + self._every_s
            self.say("WATCHDOG=1")
