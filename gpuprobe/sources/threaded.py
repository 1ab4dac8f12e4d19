"""A live source with a thread of its own, so that whoever polls it never waits."""

from __future__ import annotations

import contextlib
import os
import select
import threading
import time
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Iterable
from itertools import count
from typing import Any

from gpuprobe.clock import now
from gpuprobe.events import Event, Origin, SourceChanged
from gpuprobe.sources.base import Availability
from gpuprobe.sources.record import EVIDENCE_LIMIT

QUEUE_LIMIT = 50_000
"""Events kept for a caller that does not poll; beyond that, they are counted as a gap."""

STOP_S = 0.5
"""How long `stop` waits for the thread. One that the kernel holds is left behind."""


class Turn:
    """One run of a source's thread, from `start` to `stop`.

    A thread that the kernel holds in a read keeps its own turn: what it says later is never
    mixed with what a new turn says.
    """

    def __init__(self, wake: threading.Event | None = None) -> None:
        self._wake = wake
        self.events: deque[Event] = deque()
        self.missed = 0
        self._over = threading.Event()
        self._lock = threading.Lock()
        self._alone = select.poll()
        self._beside = select.poll()
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        for poller in (self._alone, self._beside):
            poller.register(self._wake_read, select.POLLIN)

    @property
    def over(self) -> bool:
        """True once the source was told to stop."""
        return self._over.is_set()

    def put(self, event: Event) -> None:
        """Hand over an event."""
        if len(self.events) >= QUEUE_LIMIT:
            self.missed += 1
        else:
            self.events.append(event)
        if self._wake is not None:
            self._wake.set()

    def wait(self, timeout_s: float | None, descriptor: int | None = None) -> int:
        """Sleep until something can be read, the time is over, or the turn ends.

        Returns:
            The poll mask of `descriptor`; 0 when nothing came.
        """
        poller = self._alone
        if descriptor is not None:
            poller = self._beside
            poller.register(descriptor, select.POLLIN)
        limit = None if timeout_s is None else max(0.0, timeout_s * 1000.0)
        found = poller.poll(limit)
        return next((mask for number, mask in found if number == descriptor), 0)

    def end(self) -> None:
        """Tell the thread to stop, and wake it."""
        self._over.set()
        with self._lock, contextlib.suppress(OSError):
            os.write(self._wake_write, b"x")

    def close(self) -> None:
        """Give the descriptors back; called by the thread as its last act."""
        with self._lock:
            os.close(self._wake_read)
            os.close(self._wake_write)
            self._wake_read = self._wake_write = -1


class ThreadedSource(ABC):
    """What sources with a thread have in common; see `base.Source`.

    Attributes:
        name: Short name of the source.
        order: The source's number, which breaks ties between equal times.
        wake: Set when an event has arrived, for a caller that sleeps; set it before `start`.
    """

    name: str = ""
    wake: threading.Event | None = None

    def __init__(self, order: int = 0) -> None:
        self.order = order
        self._numbers = count(1)
        self._turn: Turn | None = None
        self._thread: threading.Thread | None = None

    @abstractmethod
    def available(self) -> Availability:
        """See `Source.available`."""

    @abstractmethod
    def _run(self, turn: Turn) -> None:
        """Read until `turn.over`, putting events."""

    def start(self) -> None:
        """See `Source.start`."""
        if self._turn is not None and not self._turn.over:
            return
        turn = self._turn = Turn(self.wake)
        self._thread = threading.Thread(
            target=self._guarded, args=(turn,), name=f"gpuprobe-{self.name}", daemon=True
        )
        self._thread.start()

    def poll(self) -> Iterable[Event]:
        """See `Source.poll`."""
        turn = self._turn
        if turn is None:
            return []
        found: list[Event] = []
        while turn.events:  # nobody else takes from it
            found.append(turn.events.popleft())
        if turn.missed:
            missed, turn.missed = turn.missed, 0
            found.append(self._changed("gap", f"{missed} events came faster than they were taken"))
        return found

    def stop(self) -> None:
        """See `Source.stop`: what has arrived can still be polled."""
        if self._turn is None or self._turn.over:
            return
        self._turn.end()
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def _guarded(self, turn: Turn) -> None:
        try:
            self._run(turn)
        except Exception as error:
            # A source that fails must not take the others down; that it stopped is an event.
            turn.put(self._changed("stopped", f"{type(error).__name__}: {error}"))
        finally:
            turn.end()
            turn.close()

    def _origin(self, text: str, ref: str | None = None, *, name: str | None = None) -> Origin:
        return Origin(
            input=name or self.name,
            line=None,
            text=text[:EVIDENCE_LIMIT],
            ref=ref,
            order=(self.order, next(self._numbers)),
        )

    def _base(
        self, text: str, ref: str | None = None, *, device: Any = None, name: str | None = None
    ) -> dict[str, Any]:
        """The keyword arguments that every event of this moment takes."""
        return {
            "origin": self._origin(text, ref, name=name),
            "stamp": now(),
            "device": device,
            "source": None,
        }

    def _changed(self, what: str, text: str, ref: str | None = None) -> SourceChanged:
        return SourceChanged(**self._base(text, ref), name=self.name, what=what)


class Beat:
    """A fixed beat: a late tick is not made up for, and there is no drift."""

    def __init__(self, interval_s: float) -> None:
        self.interval_s = interval_s
        self._next = time.monotonic()

    def pause(self) -> float:
        """Seconds to sleep until the next tick."""
        here = time.monotonic()
        self._next += self.interval_s
        if self._next < here:
            self._next = here + self.interval_s
        return self._next - here
