"""A way to ask the probe of a running engine to let go of NVML, and to take it again.

Signals are the engine's, so this goes by a socket: abstract, named by user and front process, and
it answers that user and root alone.
"""

from __future__ import annotations

import contextlib
import os
import socket
import struct
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Final

from gpuprobe.errors import UsageError

ANSWER_S: Final = 10.0
"""How long an answer is waited for: a child may be inside a driver call."""

_BYTES: Final = 4096
_CREDENTIALS: Final = struct.Struct("3i")


def address(front: int) -> str:
    """The socket's name of a front process."""
    return f"\0gpuprobe-{front}"


class Doorbell:
    """Answers requests in a thread of its own.

    Args:
        front: Process id of the front.
        answer: Called in that thread with the word that came; gives one line.
    """

    def __init__(self, front: int, answer: Callable[[str], str]) -> None:
        self._answer = answer
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self._address = address(front)

    def start(self) -> None:
        """Begin to listen; where the name is taken, nothing listens."""
        with contextlib.suppress(OSError):
            self._socket.bind(self._address)
            self._socket.listen(4)
            threading.Thread(target=self._serve, name="doorbell", daemon=True).start()

    def stop(self) -> None:
        """Listen no more."""
        with contextlib.suppress(OSError):
            self._socket.shutdown(socket.SHUT_RDWR)
        self._socket.close()

    def _serve(self) -> None:
        while True:
            try:
                caller, _ = self._socket.accept()
            except OSError:
                return
            with caller, contextlib.suppress(OSError, UnicodeDecodeError):
                caller.settimeout(ANSWER_S)
                if _user_of(caller) not in (0, os.getuid()):
                    caller.sendall(b"not yours: it belongs to another user\n")
                    continue
                word = caller.recv(_BYTES).decode("ascii").strip()
                caller.sendall(f"{self._answer(word)}\n".encode())


def _user_of(caller: socket.socket) -> int:
    data = caller.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    return int(_CREDENTIALS.unpack(data)[1])


def ring(pid: int, word: str) -> str:
    """Ask the probe beside a process: the front of `gpuprobe run`, or any process below it.

    Returns:
        Its answer, one line.

    Raises:
        UsageError: There is no probe beside that process, or it does not answer.
    """
    for candidate in _upwards(pid):
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as caller:
            caller.settimeout(ANSWER_S + 2.0)
            try:
                caller.connect(address(candidate))
            except (ConnectionRefusedError, FileNotFoundError):
                continue
            try:
                caller.sendall(f"{word}\n".encode())
                return caller.recv(_BYTES).decode("utf-8", "replace").strip()
            except OSError as error:
                raise UsageError(f"process {candidate} did not answer: {error}") from error
    raise UsageError(
        f"no probe of `gpuprobe run` is beside process {pid}",
        hint="Give the process id of `gpuprobe run` or of its engine: pgrep -af 'gpuprobe.* run'",
    )


def _upwards(pid: int) -> list[int]:
    """A process and those above it."""
    found: list[int] = []
    while pid > 1 and pid not in found:
        found.append(pid)
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
            pid = int(fields[1])
        except (OSError, IndexError, ValueError):
            break
    return found
