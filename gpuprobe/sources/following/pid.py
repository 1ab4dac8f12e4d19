"""A process that runs already: that it is there, and its end. Its output cannot be seen.

Looks into /proc and waits on a pidfd (Linux 5.3), which needs no permission and does nothing to
the process. How it ended is for its parent to know; where it stays unreaped for a moment, root can
read that as well (field 52 of /proc/PID/stat, proc_pid_stat(5)).
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from pathlib import Path
from typing import Final

from gpuprobe.events import ProcessCrashed
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.cgroup import container_of
from gpuprobe.sources.following.base import ABRUPT, Follower
from gpuprobe.sources.pci.tree import read_text
from gpuprobe.sources.threaded import Turn

LOOK_S: Final = 0.25

_STATE, _BEGAN, _EXIT = 1, 20, 50
"""Places in what `_stat` gives: the process's state, its start, its wait status."""


class PidFollower(Follower):
    """Follows a process until it ends.

    Args:
        pid: Its id.
        order: See `ThreadedSource`.
        proc: Where /proc is.
        wake: See `Follower`.
    """

    def __init__(
        self,
        pid: int,
        order: int = 0,
        *,
        proc: Path = Path("/proc"),
        wake: threading.Event | None = None,
    ) -> None:
        super().__init__(f"pid {pid}", order, wake=wake)
        self.pid = pid
        self._proc = proc / str(pid)
        # Who it is now: the number may be given to another one later.
        self._began = self._stat()

    def available(self) -> Availability:
        """Whether it runs."""
        if not self._began:
            return Unavailable(
                Reason.NOT_THERE,
                f"no process {self.pid}",
                "`pgrep -af NAME` lists processes; to wait for one, use --follow-unit.",
            )
        return Known(f"{self._who} by /proc")

    @property
    def _who(self) -> str:
        return f"{self._began[0]}[{self.pid}]" if self._began else str(self.pid)

    def _run(self, turn: Turn) -> None:
        if not self._begins(turn, "watching {}; its output cannot be seen"):
            return
        if where := self._elsewhere():
            turn.put(self._changed("gap", f"its output cannot be seen here; {where}"))
        descriptor: int | None = None
        with contextlib.suppress(OSError):
            descriptor = os.pidfd_open(self.pid)
        try:
            while not turn.over and self._is_alive():
                turn.wait(5.0 if descriptor is not None else LOOK_S, descriptor)
        finally:
            if descriptor is not None:
                os.close(descriptor)
        if not turn.over:
            self._tell_end(turn)

    def _elsewhere(self) -> str:
        """Where its output can be followed: that of one in a container is its runtime's."""
        groups = read_text(self._proc / "cgroup")
        found = container_of(groups.value) if isinstance(groups, Known) else None
        if found is None:
            return ""
        kind, name = found[0], found[1][:12]
        where = f"--follow-container {name}"
        if kind == "kubernetes":
            where = f"--follow-file with its /var/log/containers/*-{name}*.log"
        elif kind == "containerd":
            return f"it runs in container {name}"
        return f"it runs in container {name} ({kind}): {where}"

    def _is_alive(self) -> bool:
        now = self._stat()
        return self._is_same(now) and now[_STATE] not in ("Z", "X")

    def _is_same(self, now: list[str]) -> bool:
        return len(now) > _EXIT and now[_BEGAN] == self._began[_BEGAN]

    def _tell_end(self, turn: Turn) -> None:
        status = self._status()
        if status is None:
            text = f"{self._who} ended; how is known to its parent alone"
            self._life(turn, "stopped", text, who=self._who)
            return
        number = os.waitstatus_to_exitcode(status)
        if number >= 0:
            text = f"{self._who} ended with code {number}"
            self._life(turn, "stopped", text, who=self._who, code=number)
            return
        name = signal.Signals(-number).name
        text = f"{self._who} was ended by {name}"
        if -number in ABRUPT or name == "SIGKILL":
            crash = ProcessCrashed(
                **self._base(text), signal=name, process=self._began[0], pid=self.pid
            )
            self._give(turn, [crash])
        self._life(turn, "stopped", text, who=self._who, code=128 - number)

    def _status(self) -> int | None:
        """The wait status of one that nobody reaped yet; a 0 may mean that it is not shown."""
        found = self._stat()
        return int(found[_EXIT]) or None if self._is_same(found) else None

    def _stat(self) -> list[str]:
        """Its name, and the fields of /proc/PID/stat from the third on; empty when it is gone."""
        try:
            text = (self._proc / "stat").read_text("utf-8", "replace")
        except OSError:
            return []
        name, _, rest = text.partition("(")[2].rpartition(")")
        return [name, *rest.split()]
