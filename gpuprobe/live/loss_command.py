"""A user's own command, started when a GPU of the engine is lost."""

from __future__ import annotations

import contextlib
import os
import shlex
import signal
import subprocess
import threading
import time
from pathlib import Path
from typing import Final

from gpuprobe.diagnosis import Verdict

DEADLINE_S: Final = 30.0
"""How long the command may take; then its process group is killed."""


class LossCommand:
    """Runs a command once, without a shell, beside everything else.

    It gets `GPUPROBE_DEVICE`, `GPUPROBE_RECORDING` (empty without one) and `GPUPROBE_VERDICT` (the
    sentence) in its environment; what it writes goes to stderr.

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
        try:
            process = subprocess.Popen(  # noqa: S603 - the user's own command
                self._argv,
                stdin=subprocess.DEVNULL,
                stdout=2,
                env=self._environment,
                start_new_session=True,
                restore_signals=True,
            )
        except OSError as error:
            self.problem = f"{self._argv[0]}: {error.strerror or error}"
            return
        try:
            code = process.wait(self.left_s)
            if code:
                how = f"code {code}" if code > 0 else f"signal {-code}"
                self.problem = f"{self._argv[0]}: ended with {how}"
        except subprocess.TimeoutExpired:
            self.problem = f"{self._argv[0]}: not done in {DEADLINE_S:.0f} s, killed"
            with contextlib.suppress(OSError):
                os.killpg(process.pid, signal.SIGKILL)
