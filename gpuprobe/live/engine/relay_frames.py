"""What the relay tells the probe: frames in a pipe. Standard library alone.

A frame is a header and, behind it, `length` bytes: output as the engine wrote it, or JSON. The
relay never waits for whoever reads them: what does not fit is dropped, the oldest first, and the
next frame of that stream says how many bytes are missing before it.

The messages between front, relay and probe are JSON as well, one in a packet of a pipe.
"""

from __future__ import annotations

import json
import os
import struct
from typing import Any, Final, NamedTuple

OUTPUT: Final = 1
"""Bytes that the engine wrote to the stream."""

CLOSED: Final = 2
"""Nothing more comes from this stream."""

STARTED: Final = 3
"""`{"pid", "pgid", "relay", "front", "at_ns", "terminal": bool, "streams": [names]}`."""

ENDED: Final = 4
"""`{"pid", "code": 0-255 or null, "signal": number or null, "core": bool, "at_ns"}`. The process
can still be looked at in /proc for `HOLD_S`."""

REAPED: Final = 5
"""`{"user_s", "system_s", "max_rss_kib"}`: what the engine took, once it was waited for."""

ASKED: Final = 6
"""`{"signal"}`: one that asks programs to end was passed on."""

STREAMS: Final = ("", "stdout", "stderr")
"""Names of the streams by number; 0 where stdout and stderr are one."""

HOLD_S: Final = 0.3
"""How long the engine is kept from vanishing after its end, so that it can be looked at."""

STOPPING: Final = frozenset({1, 2, 3, 9, 15})
"""Signals by which somebody asks a program to end: HUP, INT, QUIT, KILL, TERM."""

_HEADER: Final = struct.Struct("<BBHIQQ")
HEADER_BYTES: Final = _HEADER.size

PACKET_BYTES: Final = 4096
"""A packet of a pipe holds no more."""


class Frame(NamedTuple):
    """One frame.

    Attributes:
        kind: `OUTPUT`, `CLOSED`, `STARTED`, `ASKED`, `ENDED` or `REAPED`.
        stream: A place in `STREAMS`.
        dropped: Bytes of this stream that are missing before this frame.
        at_ns: `time.monotonic_ns()` of the relay when it had the bytes.
        data: The bytes.
    """

    kind: int
    stream: int
    dropped: int
    at_ns: int
    data: bytes

    def told(self) -> dict[str, Any]:
        """The data of a frame that is not output."""
        found: dict[str, Any] = json.loads(self.data or b"{}")
        return found


def header(kind: int, stream: int, length: int, dropped: int, at_ns: int) -> bytes:
    """What stands before the bytes of a frame."""
    return _HEADER.pack(kind, stream, 0, length, dropped, at_ns)


class FrameReader:
    """Cuts what was read from the pipe into frames."""

    def __init__(self) -> None:
        self._pending = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are complete now."""
        self._pending += data
        found = []
        start = 0
        while len(self._pending) - start >= HEADER_BYTES:
            kind, stream, _, length, dropped, at_ns = _HEADER.unpack_from(self._pending, start)
            begin = start + HEADER_BYTES
            if len(self._pending) - begin < length:
                break
            start = begin + length
            found.append(Frame(kind, stream, dropped, at_ns, bytes(self._pending[begin:start])))
        del self._pending[:start]
        return found


def packet_pipe() -> tuple[int, int]:
    """A pipe whose reads give one message each; both ends are closed on exec and never block."""
    return os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK | os.O_DIRECT)


def send(descriptor: int, **message: Any) -> bool:
    """Send a message; False when nobody reads it any more, or it does not fit."""
    try:
        os.write(descriptor, json.dumps(message, separators=(",", ":")).encode())
    except OSError:
        return False
    return True


def receive(descriptor: int) -> dict[str, Any] | None:
    """The next message, an empty one when none is there; None when nobody can send any more."""
    try:
        data = os.read(descriptor, PACKET_BYTES)
    except BlockingIOError:
        return {}
    except OSError:
        return None
    if not data:
        return None
    try:
        found = json.loads(data)
    except (ValueError, RecursionError):
        return {}
    return found if isinstance(found, dict) else {}
