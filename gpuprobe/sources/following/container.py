"""A container's output, by the command line of Docker or Podman, through its restarts.

Needs `docker` or `podman`, and the right to use it (group `docker`, or sudo). Where both are there,
the one that knows the container is used. The runtime is asked every two seconds while the container
is down, and once at each end.

What Docker 20.10 and Podman 4.3 do, tried: Docker stamps a first line a millisecond or two before
`StartedAt`, so a run is read from the last line before it; a container that waits for its restart
is `Running` and `Restarting`. Podman takes no `--since` as its templates write times, only as its
JSON does, and its `logs --follow` can go on into the next run.
"""

from __future__ import annotations

import json
import re
import subprocess
import threading
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from gpuprobe.events import Event, OomKilled, ProcessCrashed
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.base import Availability
from gpuprobe.sources.following.base import (
    ABRUPT,
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

ASKED_S: Final = 60.0
"""What a container lived on with for longer it did not end by."""

_ENDING: Final = re.compile(rb" container (?:stop|kill) (?![^\n]*\bsignal=(?!(?:2|3|9|15)\b))")
"""An event of the runtime: it was sent what programs end by, on somebody's order."""

_NEVER: Final = "0001-"
"""How a time begins that has not come."""

_ABSENT: Final = re.compile(r"no such (?:container|object)", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class State:
    """How a container is doing.

    Attributes:
        running: It runs; one that waits for its restart does not.
        began: When it was started last, as the runtime writes it.
        code: Its exit code, where it does not run.
        oom: The kernel ended it for want of memory.
    """

    running: bool
    began: str
    code: int
    oom: bool


class ContainerFollower(Follower):
    """Follows a container.

    Args:
        container: Its name or id; it may be made later.
        order: See `ThreadedSource`.
        programs: The runtimes' command lines; those that are there are asked in this order.
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
        self._programs = [found for name in programs if (found := find_program(name))]
        self._problem = ""
        self._absent = False  # by the word of the runtime in use
        self._told: set[str] = set()
        self._up = False
        self._seen = ""
        self._place = Place(datetime.now(UTC).isoformat())

    def available(self) -> Availability:
        """Whether there is a runtime to ask; asking itself may take seconds."""
        if not self._programs:
            return Unavailable(
                Reason.NOT_THERE,
                "neither docker nor podman is installed",
                "Follow the container's log file with --follow-file instead.",
            )
        return Known(f"{' or '.join(self._programs)}, logs of {self.container}")

    def state(self) -> State | None:
        """How it is doing; None where no runtime says it, for the reason in `_problem`."""
        problems = []
        for program in self._programs:
            answer = self._ask(program)
            if isinstance(answer, State):
                self._programs = [program, *(one for one in self._programs if one != program)]
                return answer
            problems.append(f"{program}: {answer or 'no answer'}")
        self._absent = _ABSENT.search(problems[0]) is not None
        self._problem = problems[0] if self._seen else "; ".join(sorted(problems))
        return None

    def _ask(self, program: str) -> State | str:
        """What one runtime says, or why it does not."""
        argv = ("inspect", "--type=container", "--format={{json .State}}", "--", self.container)
        try:
            done = self._call(program, *argv)
            return _state(json.loads(done.stdout))
        except subprocess.TimeoutExpired:
            return f"no answer in {ANSWER_S:.0f} s"
        except OSError as error:
            return str(error)
        except (ValueError, KeyError, TypeError):
            return done.stderr.decode("utf-8", "replace").strip()[:200]

    @staticmethod
    def _call(program: str, *words: str) -> subprocess.CompletedProcess[bytes]:
        """Ask a runtime.

        Raises:
            OSError, subprocess.TimeoutExpired: It could not be asked, or did not answer.
        """
        return subprocess.run(  # noqa: S603 - fixed programs, no shell
            [program, *words],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=ANSWER_S,
            env=plain_environment(),
            check=False,
        )

    def _run(self, turn: Turn) -> None:
        begun_at = datetime.now(UTC)
        self._place = Place(begun_at.isoformat())
        if not self._begins(turn):
            return
        first = True
        while not turn.over:
            again, state = False, self.state()
            if state is None:
                self._absence(turn)
                if self._up and self._absent:
                    self._tell_end(turn, None)
                turn.wait(AGAIN_S)
                continue
            self._found(turn)
            if first and not _later(state.began, begun_at):
                first, self._seen, self._up = False, state.began, state.running
                if state.running:
                    again = self._follow(turn, ["--tail=0"])
            elif state.began != self._seen and not state.began.startswith(_NEVER):
                if self._up:
                    self._tell_end(turn, state)
                # It may be over by now: its lines are read and its end is told all the same.
                first, self._seen, self._up = False, state.began, True
                self._told.clear()
                self._life(turn, "started", f"{self.name} started", who=self.container)
                again = self._follow(turn, self._place.again())
            elif self._up:
                if state.running:
                    again = self._follow(turn, self._place.again())
                else:
                    self._tell_end(turn, state)
            if not again:
                turn.wait(AGAIN_S)
        self._end(turn)

    def _absence(self, turn: Turn) -> None:
        """Tell why no runtime says how it is doing, once each time."""
        if not self._missing or self._problem not in self._told:
            self._told.add(self._problem)
            self._miss(turn, self._problem)

    def _gap(self, turn: Turn, text: str) -> None:
        """Tell what is missing, once."""
        if text not in self._told:
            self._told.add(text)
            turn.put(self._changed("gap", text))

    def _follow(self, turn: Turn, place: list[str]) -> bool:
        """Read the log until it ends; gives whether the container runs again by then."""
        argv = [self._programs[0], "logs", "--follow", "--timestamps", *place, "--", self.container]
        code = self._follow_command(turn, argv, lambda lines: self._take(turn, lines))
        if code is None:
            return False
        self._end(turn)
        state = self.state()
        self._tell_end(turn, state)
        return state is not None and state.running and state.began != self._seen

    def _take(self, turn: Turn, lines: Iterable[bytes]) -> Iterator[Event]:
        fresh = []
        for data in lines:
            begin, blank, rest = data.partition(b" ")
            stamp = iso_stamp(text := begin.decode("ascii", "replace")) if blank else None
            if stamp is None or stamp.wall is None:
                # Every line of the container has its time: this is the runtime speaking.
                if words := data[:200].decode("utf-8", "replace").strip():
                    self._gap(turn, f"{self._programs[0]} says: {words}")
            elif self._place.is_new(text, stamp.wall):
                fresh.append(Line(rest, arrived(stamp)))
        yield from self._reader.add(fresh, time.monotonic())

    def _was_asked(self, state: State) -> bool:
        """Whether somebody had the runtime end it, by what the runtime says it did of late."""
        until = datetime.now(UTC)
        since = until - timedelta(seconds=ASKED_S)
        begun = iso_stamp(state.began)
        if begun is not None and begun.wall is not None:
            since = max(since, begun.wall)
        span = [f"--since={since.isoformat()}", f"--until={until.isoformat()}"]
        which = f"--filter=container={self.container}"
        try:
            said = self._call(self._programs[0], "events", *span, which).stdout
        except (OSError, subprocess.TimeoutExpired):
            return False
        return _ENDING.search(said) is not None

    def _tell_end(self, turn: Turn, state: State | None) -> None:
        """How the container ended, by the runtime's word."""
        if state is None and not self._absent:
            self._absence(turn)
            return
        if state is not None and state.running and state.began == self._seen:
            self._gap(turn, "the runtime stopped giving the container's output")
            return
        code, how = None, "was removed"
        if state is not None and state.began == self._seen:
            code, how = state.code, f"ended with code {state.code}"
            if code and not state.oom and self._was_asked(state):
                code, how = None, f"{how} after somebody had it stopped"
        elif state is not None:
            how = "ended and was started again"
        oom = state is not None and state.oom
        text = f"{self.name} {how}{' (OOMKilled)' if oom else ''}"
        if oom:
            killed = OomKilled(**self._base(text), process=self.container, cgroup=True)
            self._give(turn, [killed])
        if code is not None and code - 128 in ABRUPT:
            crash = ProcessCrashed(
                **self._base(text), signal=ABRUPT[code - 128], process=self.container
            )
            self._give(turn, [crash])
        self._up = False
        self._life(turn, "stopped", text, who=self.container, code=code)


class Place:
    """How far a container's log has been read.

    Args:
        text: The time from which it is to be read, with its zone.
    """

    def __init__(self, text: str) -> None:
        self._text = text
        self._key = _key(text, datetime.fromisoformat(text))
        self._equal = 0  # lines of just that time that were read
        self._skip = 0
        self._behind = False

    def again(self) -> list[str]:
        """The options that have the log given from here; what was read already may come again."""
        self._skip, self._behind = self._equal, True
        return [f"--since={self._text}"]

    def is_new(self, text: str, wall: datetime) -> bool:
        """Whether a line of this time was not read before; then it is now."""
        key = _key(text, wall)
        if self._behind:
            if key < self._key:
                return False
            if key == self._key and self._skip:
                self._skip -= 1
                return False
            self._behind = False
        if key > self._key:
            self._text, self._key, self._equal = text, key, 0
        if key == self._key:
            self._equal += 1
        return True


def _state(found: dict[str, Any]) -> State:
    running = found["Running"] is True and found.get("Restarting") is not True
    return State(
        running, str(found["StartedAt"]), int(found["ExitCode"]), found.get("OOMKilled") is True
    )


def _later(text: str, moment: datetime) -> bool:
    """Whether a time that a runtime wrote is not before a moment."""
    stamp = iso_stamp(text)
    return stamp is not None and stamp.wall is not None and stamp.wall >= moment


def _key(text: str, wall: datetime) -> tuple[datetime, str]:
    """A time to compare, with the billionths that a datetime drops."""
    fraction = re.search(r"\.(\d+)", text)
    return wall, fraction[1].ljust(9, "0") if fraction else "0" * 9
