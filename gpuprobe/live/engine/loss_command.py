"""A user's own command, started when a GPU of the engine is lost."""

from __future__ import annotations

import contextlib
import os
import select
import shlex
import signal
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gpuprobe.diagnosis import Verdict

DEADLINE_S: Final = 30.0
"""How long the command may take; then its process group is killed."""

OUTPUT_LIMIT: Final = 64 << 10
"""Bytes of its output that are shown."""

LOOK_S: Final = 0.05

_READ: Final = 1 << 16


class LossCommand:
    """Runs a command once, without a shell, beside everything else.

    It gets `GPUPROBE_DEVICE`, `GPUPROBE_RECORDING` (empty without one) and `GPUPROBE_VERDICT` (the
    sentence) in its environment; the begin of what it writes goes to stderr.

    Args:
        command: Words as a shell would cut them.
        verdict: The loss.
        recording: The recording, or None.

    Attributes:
        problem: Why it could not be started, was ended or failed; None while all is well.
    """

    def __init__(self, command: str, verdict: Verdict, recording: Path | None) -> None:
        self._argv = shlex.split(command)
        device = verdict.device.pci if verdict.device is not None else None
        self._environment = {
            **os.environ,
            "GPUPROBE_DEVICE": str(device or ""),
            "GPUPROBE_RECORDING": str(recording or ""),
            "GPUPROBE_VERDICT": verdict.summary,
        }
        self._thread = threading.Thread(target=self._run, name="on-loss", daemon=True)
        self._until = time.monotonic() + DEADLINE_S
        self.problem: str | None = None

    def start(self) -> None:
        """Start it; returns at once."""
        self._thread.start()

    @property
    def left_s(self) -> float:
        """How long it may still take."""
        return max(0.0, self._until - time.monotonic())

    def wait(self) -> None:
        """Wait until it has ended or its time is over."""
        self._thread.join(self.left_s + 1.0)

    def _run(self) -> None:
        name = self._argv[0]
        try:
            pid, output = _spawn(self._argv, self._environment)
        except OSError as error:
            self.problem = f"{name}: {error.strerror or error}"
            return
        try:
            code = self._follow(pid, output)
        finally:
            os.close(output)
        if code is None:
            self.problem = f"{name}: not done in {DEADLINE_S:.0f} s, killed"
        elif code:
            how = f"code {code}" if code > 0 else f"signal {-code}"
            self.problem = f"{name}: ended with {how}"

    def _follow(self, pid: int, output: int) -> int | None:
        """Show its output until it ends; gives its code, less than 0 for a signal, None for late.

        What it left running may hold the pipe: only what is there at its end is shown.
        """
        shown = _Shown(output)
        while True:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if not ended and self.left_s <= 0.0:
                with contextlib.suppress(OSError):
                    os.killpg(pid, signal.SIGKILL)
                return None
            shown.take(0.0 if ended else LOOK_S)
            if ended:
                return os.waitstatus_to_exitcode(status)


class _Shown:
    """What the command writes: its begin goes to stderr, the rest is read and dropped."""

    def __init__(self, output: int) -> None:
        self._output = output
        self._poller = select.poll()
        self._poller.register(output, select.POLLIN)
        self._open = True
        self._left = OUTPUT_LIMIT

    def take(self, wait_s: float) -> None:
        """Take a piece if one comes in time."""
        if not self._open:
            time.sleep(wait_s)
            return
        if not self._poller.poll(wait_s * 1000.0):
            return
        text = os.read(self._output, _READ)
        self._open = bool(text)
        if self._left <= 0:
            time.sleep(wait_s / 10)  # no flood is worth a core
            return
        _show(text[: self._left])
        self._left -= len(text)
        if self._left <= 0:
            _show(b"\n[what it wrote beyond that is left out]\n")


def _spawn(argv: Sequence[str], environment: Mapping[str, str]) -> tuple[int, int]:
    """Start a program in a session of its own; gives its process id and what it writes into.

    Its signals are the usual ones: the probe ignores those by which `timeout` and the like end
    programs, and a program would inherit that.
    """
    output, end = os.pipe2(os.O_CLOEXEC)
    try:
        pid = os.posix_spawnp(
            argv[0],
            list(argv),
            environment,
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (os.POSIX_SPAWN_DUP2, end, 1),
                (os.POSIX_SPAWN_DUP2, end, 2),
            ],
            setsid=True,
            setsigdef=signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP},
        )
    except BaseException:
        os.close(output)
        raise
    finally:
        os.close(end)
    return pid, output


def _show(text: bytes) -> None:
    """Write to the stderr that the front passes on."""
    with contextlib.suppress(OSError):
        while text:
            text = text[os.write(2, text) :]
