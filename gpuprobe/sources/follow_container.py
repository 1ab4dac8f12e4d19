"""A container's output, by the command line of Docker or Podman, through its restarts.

Needs `docker` or `podman`, and the right to use it (group `docker`, or sudo). The runtime is asked
every two seconds while the container is down, and once at each end.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from gpuprobe.events import ProcessCrashed
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.following import (
    AGAIN_S,
    Follower,
    arrived,
    find_program,
    plain_environment,
)
from gpuprobe.sources.framing.times import iso_stamp
from gpuprobe.sources.output import Line
from gpuprobe.sources.threaded import Turn

ANSWER_S: Final = 5.0
"""How long the runtime may take to answer."""

_FIELDS: Final = "|".join(
    f"{{{{.State.{name}}}}}" for name in ("Running", "StartedAt", "ExitCode", "OOMKilled", "Pid")
)


@dataclass(frozen=True, slots=True)
class State:
    """How a container is doing.

    Attributes:
        running: It runs.
        began: When it started, as the runtime writes it.
        code: Its exit code, where it does not run.
        oom: The kernel ended it for want of memory.
        pid: Its first process, or 0.
    """

    running: bool
    began: str
    code: int
    oom: bool
    pid: int


class ContainerFollower(Follower):
    """Follows a container.

    Args:
        container: Its name or id; it may be made later.
        order: See `ThreadedSource`.
        programs: The runtimes' command lines, the first that is there is used.
        wake: See `Follower`.
    """

    def __init__(
        self,
        container: str,
        order: int = 0,
        *,
        programs: Iterable[str] = ("docker", "podman"),
        wake: threading.Event | None = None,
    ) -> None:
        super().__init__(f"container {container}", order, wake=wake)
        self.container = container
        self._program = find_program(*programs)
        self._problem = ""

    def available(self) -> Availability:
        """Whether there is a runtime to ask; asking itself may take seconds."""
        if self._program is None:
            return Unavailable(
                Reason.NOT_THERE,
                "neither docker nor podman is installed",
                "Follow the container's log file with --follow-file instead.",
            )
        return Known(f"{self._program} logs {self.container}")

    def state(self) -> State | None:
        """How it is doing; None where the runtime does not say, for the reason in `_problem`."""
        argv = [self._program or "docker", "inspect", "--type=container", "--format", _FIELDS]
        try:
            done = subprocess.run(  # noqa: S603 - fixed programs, no shell
                [*argv, "--", self.container],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                timeout=ANSWER_S,
                env=plain_environment(),
                check=False,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            self._problem = str(error)
            return None
        parts = done.stdout.decode("utf-8", "replace").strip().split("|")
        if done.returncode or len(parts) != 5 or not parts[2].lstrip("-").isdecimal():
            self._problem = done.stderr.decode("utf-8", "replace").strip()[:200]
            return None
        running, began, code, oom, pid = parts
        return State(
            running == "true", began, int(code), oom == "true", int(pid) if pid.isdecimal() else 0
        )

    def _run(self, turn: Turn) -> None:
        if not self._begins(turn):
            return
        first, seen, told = True, "", ""
        while not turn.over:
            state = self.state()
            if state is None and self._problem != told:
                told = self._problem
                turn.put(self._changed("gap", f"{self._program}: {told or 'no answer'}"))
            if state is not None and state.running:
                again = state.began == seen
                if not first and not again:
                    self._life(turn, "started", f"{self.name} started", who=self.container)
                place = [f"--since={state.began}"] if not first and not again else ["--tail=0"]
                seen, first = state.began, False
                self._follow(turn, place)
            elif state is not None and not seen:
                seen = state.began
            first = False
            turn.wait(AGAIN_S)
        self._end(turn)

    def _follow(self, turn: Turn, place: list[str]) -> None:
        argv = [self._program or "docker", "logs", "--follow", "--timestamps", *place]
        code = self._follow_command(
            turn,
            [*argv, "--", self.container],
            lambda lines: self._reader.add(map(_line, lines), time.monotonic()),
        )
        if code is None:
            return
        self._end(turn)
        self._tell_end(turn, self.state())

    def _tell_end(self, turn: Turn, state: State | None) -> None:
        """How the container ended, by the runtime's word."""
        if state is not None and state.running:
            turn.put(self._changed("gap", "the runtime stopped giving the container's output"))
            return
        code = state.code if state is not None else None
        how = "was removed" if state is None else f"ended with code {code}"
        text = f"{self.name} {how}{' (OOMKilled)' if state is not None and state.oom else ''}"
        if code is not None and code - 128 in _CRASHES:
            crash = ProcessCrashed(
                **self._base(text), signal=_CRASHES[code - 128], process=self.container
            )
            self._give(turn, [crash])
        self._life(turn, "stopped", text, who=self.container, code=code)


_CRASHES: Final = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 11: "SIGSEGV"}
"""Signals that nobody sends on purpose, by number."""


def _line(data: bytes) -> Line:
    """One line of `logs --timestamps`."""
    begin, blank, rest = data.partition(b" ")
    stamp = iso_stamp(begin.decode("ascii", "replace")) if blank and begin[:1].isdigit() else None
    return Line(rest, arrived(stamp)) if stamp is not None else Line(data)
