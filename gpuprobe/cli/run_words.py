"""What `gpuprobe run` says, on stderr, a block at a time."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gpuprobe.cli.report_end import TO_ATTACH
from gpuprobe.diagnosis import Verdict
from gpuprobe.live.engine.watch import Told
from gpuprobe.reporters import outline
from gpuprobe.reporters.engine import EngineReporter
from gpuprobe.reporters.plain import printable

IN_FULL: Final = TO_ATTACH
"""The command that makes the file to attach from a recording."""


class Words:
    """Writes to stderr what is said about an engine.

    Args:
        quiet: Only the verdicts' sentences.
        verbose: A line about a clean run, too.
        terminal: The reader is a terminal, on whose last line the engine may have left something.
        descriptor: Where to.
    """

    def __init__(
        self, *, quiet: bool, verbose: bool, terminal: bool = False, descriptor: int = 2
    ) -> None:
        self._reporter = EngineReporter(quiet=quiet)
        self._quiet = quiet
        self._verbose = verbose
        self._terminal = terminal
        self._descriptor = descriptor
        self._problem: str | None = None

    def verdict(self, told: Told, *, ended: str, recording: Path | None) -> None:
        """What failed, where the evidence lies and how to see all of it."""
        where = []
        if recording is not None:
            command = IN_FULL.format(path=_quoted(recording))
            where = list(self._reporter.recording(str(recording), command))
        if not told.failed:
            if self._verbose:
                self._say(["gpuprobe: nothing failed.", *where])
            return
        if told.again:
            if not self._quiet:
                self._say([f"gpuprobe: the engine has {printable(ended)}; the verdict stands."])
            return
        own = tuple(map(str, told.whose.devices))
        lines = self._reporter.verdict(told.diagnosis, own=own, whose=str(told.whose), ended=ended)
        self._say([*lines, *where])

    def more(self, verdict: Verdict) -> None:
        """What a look at the caches makes of it."""
        self._say([f"gpuprobe: [{outline.tag(verdict)}] {printable(verdict.summary)}"])

    def again(self, why: str, pause_s: float) -> None:
        """The engine is started again."""
        self.note(f"the engine is started again in {pause_s:g} s: {why}")

    def no_more(self, why: str, see: str) -> None:
        """The engine is not started again, said even by a quiet one.

        Args:
            why: One clause.
            see: The report, or the command that tells all, or "".
        """
        end = f"; {see}" if see else ""
        self._say([f"gpuprobe: the engine is not started again: {printable(why + end)}"])

    def stopping(self, grace_s: float) -> None:
        """The engine is told to end."""
        self.note(f"SIGTERM to the engine, and SIGKILL in {grace_s:g} s")

    def held(self, pid: int, wchan: str) -> None:
        """A process that SIGKILL does not end."""
        where = f", waiting in {wchan}" if wchan else ""
        self.note(f"process {pid} is held in the kernel (state D{where}) and is not waited for")

    def recording_to(self, path: Path) -> None:
        """Where it is recorded."""
        if self._verbose:
            self.note(f"recording to {path}")

    def no_recording(self, error: Exception) -> None:
        """Nothing can be recorded, and why."""
        hint = getattr(error, "hint", "")
        self.note(f"nothing is recorded: {error}" + (f" ({hint})" if hint else ""))

    def recording_stopped(self, problem: str | None) -> None:
        """The recording ended early, said once."""
        if problem is not None and self._problem is None:
            self._problem = problem
            self.note(f"{problem}; the engine goes on")

    def note(self, text: str) -> None:
        """One line."""
        if not self._quiet:
            self._say([f"gpuprobe: {printable(text)}"])

    def _say(self, lines: Iterable[str]) -> None:
        """Write in one piece; on a terminal below whatever the engine left on the last line."""
        text = "".join(f"{line}\n" for line in lines)
        data = f"\n{text}".encode("utf-8", "backslashreplace")
        data = data if self._terminal else data[1:]
        with contextlib.suppress(OSError):
            while data:
                data = data[os.write(self._descriptor, data) :]


def _quoted(path: Path) -> str:
    import shlex

    return shlex.quote(str(path))
