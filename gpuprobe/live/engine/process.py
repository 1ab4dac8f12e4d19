"""The engine of `gpuprobe run` as the probe sees it: its output, its processes, its end.

The probe is a process of its own, started by `live.front` with more arguments than it was given:
a text that `Link.from_argument` reads, and the engine's command. It may die or hang; neither the
engine nor its output depends on it.
"""

from __future__ import annotations

import contextlib
import json
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

from gpuprobe.events import EngineChanged, Event, ProcessCrashed
from gpuprobe.live.engine import relay_frames
from gpuprobe.live.engine.relay_frames import Frame
from gpuprobe.reading import Known
from gpuprobe.sources.base import Availability
from gpuprobe.sources.output import OutputReader
from gpuprobe.sources.threaded import ThreadedSource, Turn

CRASHES: Final = frozenset(
    {"SIGSEGV", "SIGBUS", "SIGKILL", "SIGABRT", "SIGILL", "SIGFPE", "SIGTRAP", "SIGSYS"}
)
"""Signals that no program ends by on request; SIGKILL is one when nobody asked through us."""

REQUESTS: Final = frozenset({"SIGHUP", "SIGINT", "SIGQUIT", "SIGTERM", "SIGPIPE"})
"""Signals by which somebody, or the reader who left, has a program end."""

ANSWERED_S: Final = 60.0
"""An engine that still runs so long after SIGHUP, SIGINT or SIGQUIT does not end by it: daemons
read their settings again, interactive programs leave what they are at."""

FINISHED_S: Final = 600.0
"""And after SIGTERM, which is sent for nothing else: it may finish what it has begun."""

_READ: Final = 1 << 18


class Link:
    """The probe's way to the processes that carry the engine.

    Messages never block; those to a front that has gone are lost.

    Attributes:
        frames: Descriptor that frames are read from.
        front: Process id of the front, which is what users and supervisors see.
        terminal: Whether the user's stderr is a terminal. The probe's own is a pipe, which the
            front copies there.
        kernel: Descriptor of /dev/kmsg, placed where it ended before the engine started; or None.
        memory: What the probe of the last start left for this one, or "".
    """

    def __init__(
        self,
        frames: int,
        control: int,
        front: int,
        *,
        terminal: bool = False,
        kernel: int | None = None,
        memory: str = "",
    ) -> None:
        self.frames = frames
        self.front = front
        self.terminal = terminal
        self.kernel = kernel
        self.memory = memory
        self._control = control
        for descriptor in (frames, control, *((kernel,) if kernel is not None else ())):
            os.set_inheritable(descriptor, False)

    @classmethod
    def from_argument(cls, text: str) -> Link:
        """From the argument that the front puts behind the probe's own."""
        told = json.loads(text)
        kernel = int(told["kernel"])
        return cls(
            int(told["frames"]),
            int(told["control"]),
            int(told["front"]),
            terminal=told["terminal"],
            kernel=kernel if kernel >= 0 else None,
            memory=told["memory"],
        )

    def stop_engine(self, grace_s: float) -> bool:
        """Have SIGTERM sent to the engine's process group, and SIGKILL `grace_s` later."""
        return relay_frames.send(self._control, stop=grace_s)

    def loaded(self) -> bool:
        """Tell the front that the probe has come up."""
        return relay_frames.send(self._control, loaded=True)

    def busy(self, seconds: float) -> bool:
        """Ask the front not to leave for that long, although the engine has ended."""
        return relay_frames.send(self._control, busy=seconds)

    def finish(
        self,
        code: int | None = None,
        *,
        leave: bool = False,
        again_s: float | None = None,
        memory: str = "",
    ) -> bool:
        """The last word: the front ends with `code`, or with the engine's own where that is None.

        Args:
            code: The exit code, 0 to 255.
            leave: Do not wait for the engine's end: it hangs in the kernel.
            again_s: Start the engine again after so many seconds.
            memory: What the next probe is to know; 3,000 characters at most.
        """
        return relay_frames.send(
            self._control, code=code, leave=leave, again=again_s, memory=memory, done=True
        )


class Asked(NamedTuple):
    """A signal that asks programs to end, on its way to the engine.

    Attributes:
        signal: Its name.
        at_s: When it was passed on, seconds of `time.monotonic()`.
    """

    signal: str
    at_s: float

    def still_counts(self, at_s: float) -> bool:
        """Whether an end at that time would be what it asked for."""
        limit_s = FINISHED_S if self.signal in ("SIGTERM", "SIGKILL") else ANSWERED_S
        return at_s - self.at_s <= limit_s


@dataclass(frozen=True, slots=True)
class EngineExit:
    """How the engine ended.

    Attributes:
        code: Its exit code, or None where a signal ended it.
        signal: The signal's name (`SIGSEGV`), or "".
        core: Whether its memory was dumped.
        asked: What was passed on to it before, in order.
        at_s: When its end was seen, seconds of `time.monotonic()`.
    """

    code: int | None
    signal: str = ""
    core: bool = False
    asked: tuple[Asked, ...] = ()
    at_s: float = 0.0

    @property
    def shell_code(self) -> int:
        """The exit code as a shell gives it: 128 and the signal's number for a signal."""
        return self.code if self.code is not None else 128 + getattr(signal, self.signal, 0)

    @property
    def was_asked(self) -> bool:
        """Whether somebody asked it to end, through us or, by the signal that ended it, not."""
        return self.signal in REQUESTS or bool(self._by)

    @property
    def _by(self) -> list[str]:
        """The signals that it may have ended by."""
        return [
            one.signal
            for one in self.asked
            if one.still_counts(self.at_s)
            or self.signal == one.signal
            or self.code == 128 + getattr(signal, one.signal, 0)
        ]

    def __str__(self) -> str:
        how = f"ended by {self.signal}" if self.signal else f"ended with code {self.code}"
        dumped = ", core dumped" if self.core else ""
        names = [name for name in dict.fromkeys(self._by) if name != self.signal]
        asked = f" after {', '.join(names)} was passed on" if names else ""
        return f"{how}{dumped}{asked}"


class EngineSource(ThreadedSource):
    """A live source: what the engine writes, that it started, and how it ended.

    Args:
        link: From the front.
        order: The source's number.
        who: What to call the engine: its command.
        wake: Set when there is something to take; give the same to the session.

    Attributes:
        pid: The engine's process id, None before it started.
        relay_pid: The relay's; all processes of the engine are below it.
        exit: How it ended, None while it runs.
        usage: After its end: `user_s`, `system_s`, `max_rss_kib`, once known.
        relay_gone: Nothing can be told of the engine any more: the relay ended.
    """

    name = "engine"

    def __init__(
        self, link: Link, order: int, *, who: str = "", wake: threading.Event | None = None
    ) -> None:
        super().__init__(order)
        self.link = link
        self.who = who
        self.pid: int | None = None
        self.relay_pid: int | None = None
        self.exit: EngineExit | None = None
        self.usage: dict[str, float] = {}
        self.relay_gone = False
        self._asked: deque[Asked] = deque(maxlen=20)
        self._ending: EngineExit | None = None
        self._wake = wake or threading.Event()
        self._frames = relay_frames.FrameReader()
        self._readers: dict[int, OutputReader] = {}

    def available(self) -> Availability:
        """See `Source.available`."""
        return Known("the engine's own output")

    # --- for the watch over the engine ------------------------------------------------------

    @property
    def ended_s(self) -> float | None:
        """When its end was seen, seconds of `time.monotonic()`; None while it runs."""
        return self.exit.at_s if self.exit is not None else None

    @property
    def code(self) -> int | None:
        """Its exit code as a shell gives it; None while it runs."""
        return self.exit.shell_code if self.exit is not None else None

    @property
    def asked_to_end(self) -> bool:
        """Whether somebody asked it to end, whether it did already or not.

        What it lived on with for long does not count any more.
        """
        if self.exit is not None:
            return self.exit.was_asked
        here = time.monotonic()
        return any(one.still_counts(here) for one in self._asked.copy())

    def process_tree(self) -> set[int]:
        """Ids of the engine and of all processes below it, also of those it left to the relay."""
        return descendants(self.relay_pid) if self.relay_pid is not None else set()

    def state(self) -> str:
        """The engine's state as /proc has it: `R`, `S`, `D` (in the kernel), `Z`, or ""."""
        with contextlib.suppress(OSError, IndexError):
            return Path(f"/proc/{self.pid}/stat").read_text().rpartition(")")[2].split()[0]
        return ""

    # --- what arrives -----------------------------------------------------------------------

    def _run(self, turn: Turn) -> None:
        """See `ThreadedSource`."""
        fd = self.link.frames
        over = False
        while not turn.over and not over:
            mask = turn.wait(self._due_s(), fd)
            found: list[Event] = []
            if mask:
                data = os.read(fd, _READ)
                for frame in self._frames.feed(data):
                    found += self._take(frame)
                over = not data
            here = time.monotonic()
            for reader in self._readers.values():
                found += reader.read(here, end=over)
            for event in found:
                turn.put(event)
            # Whoever sees that it ended finds all its events.
            self.exit, self.relay_gone = self._ending, over
            if found or over:
                self._wake.set()

    def _due_s(self) -> float | None:
        here = time.monotonic()
        due = [one for reader in self._readers.values() if (one := reader.due_s(here)) is not None]
        return min(due, default=None)

    def _take(self, frame: Frame) -> Iterable[Event]:
        at_s = frame.at_ns / 1e9
        if frame.kind in (relay_frames.OUTPUT, relay_frames.CLOSED):
            reader = self._reader(frame.stream)
            if frame.dropped:
                reader.skipped(frame.dropped)
            if frame.kind == relay_frames.CLOSED:
                return reader.read(at_s, end=True)
            return reader.feed(frame.data, at_s)
        told = frame.told()
        if frame.kind == relay_frames.STARTED:
            return self._started(told)
        if frame.kind == relay_frames.ASKED:
            self._asked.append(Asked(name_of(told["signal"]), at_s))
        if frame.kind == relay_frames.ENDED:
            return [*self._last_output(at_s), *self._ended(told)]
        if frame.kind == relay_frames.REAPED:
            self.usage = told
        return []

    def _reader(self, stream: int) -> OutputReader:
        if stream not in self._readers:
            name = relay_frames.STREAMS[stream]
            self._readers[stream] = OutputReader(self.name, self.order, name)
        return self._readers[stream]

    def _last_output(self, now: float) -> list[Event]:
        """What waits in the readers when the engine ended: it comes before the end."""
        return [one for reader in self._readers.values() for one in reader.read(now, end=True)]

    def _started(self, told: dict[str, Any]) -> list[Event]:
        self.pid, self.relay_pid = told["pid"], told["relay"]
        base = self._base(f"{self.who or 'the engine'} started as process {self.pid}")
        return [EngineChanged(**base, what="started", who=self.who)]

    def _ended(self, told: dict[str, Any]) -> list[Event]:
        self._ending = found = EngineExit(
            told["code"],
            name_of(told["signal"]),
            told["core"],
            tuple(self._asked),
            told["at_ns"] / 1e9,
        )
        base = self._base(f"{self.who or 'the engine'} (process {self.pid}) {found}")
        if found.signal in CRASHES and not found.was_asked:
            crash = ProcessCrashed(**base, signal=found.signal, process=self.who, pid=self.pid)
            return [crash]
        # What somebody asked for is no failure, whatever code a program gives it.
        code = None if found.was_asked else found.shell_code
        return [EngineChanged(**base, what="stopped", who=self.who, code=code)]


def name_of(number: int | None) -> str:
    """A signal's name; "" for none."""
    if not number:
        return ""
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"


def descendants(root: int) -> set[int]:
    """Ids of the processes below `root`, itself left out; those that cannot be read are missed."""
    found: set[int] = set()
    waiting = [root]
    while waiting:
        pid = waiting.pop()
        with contextlib.suppress(OSError):
            for task in Path(f"/proc/{pid}/task").iterdir():
                text = (task / "children").read_text()
                children = {int(child) for child in text.split()} - found
                found |= children
                waiting.extend(children)
    return found
