"""What counts as a death of a watched engine: exits, and workers that its log says died."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from gpuprobe.events import SCANNED, EngineChanged, Event, JitCacheFailed, ProcessCrashed
from gpuprobe.live.engine.watch import DEATHS

TOGETHER_S: Final = 30.0
"""Workers that die within this time die of one thing."""

EXIT_AFTER_S: Final = 300.0
"""An engine that ends this soon after a worker's death ends of that one."""

SILENT: Final = frozenset({"SIGSEGV", "SIGBUS"})
SILENT_CODES: Final = frozenset({128 + 11, 128 + 7, -11, -7})
"""How a program ends that loads a cut cubin or library: without a word."""


class EngineDeaths:
    """Notes deaths in one run of an engine.

    Args:
        started_s: When it was started, monotonic.

    Attributes:
        times: When each death was, monotonic, in order.
        silent: Something in it ended by SIGSEGV or SIGBUS.
        entries: JIT cache entries that its log named: cache and key, or cache and path.
    """

    def __init__(self, started_s: float) -> None:
        self.started_s = started_s
        self.times: list[float] = []
        self.silent = False
        self.entries: list[tuple[str, str]] = []

    def take(self, events: Iterable[Event], here: float) -> bool:
        """Note what came; gives whether a worker died that is a death of its own."""
        before = len(self.times)
        for event in events:
            if isinstance(event, JitCacheFailed) and event.fatal and event.source != SCANNED:
                self.entries.append((event.cache, event.key or event.path))
            if isinstance(event, ProcessCrashed):
                self.silent = self.silent or event.signal in SILENT
            if not isinstance(event, EngineChanged):
                continue
            self.silent = self.silent or event.code in SILENT_CODES
            # All within the time of the first are one death, so a loop of any speed is counted.
            if event.what in DEATHS and not (self.times and here - self.times[-1] < TOGETHER_S):
                self.times.append(here)
        return len(self.times) > before

    def end(self, here: float) -> bool:
        """The engine ended; gives whether that is a death of its own, or the last one's end."""
        if self.times and here - self.times[-1] < EXIT_AFTER_S:
            return False
        self.times.append(here)
        return True

    def settled(self) -> None:
        """The last death is dealt with; what comes belongs to the next one."""
        self.silent = False
        self.entries = []

    def served_s(self) -> float:
        """Seconds of service before the last death."""
        before: Sequence[float] = [self.started_s, *self.times[:-1]]
        return max(0.0, self.times[-1] - before[-1]) if self.times else 0.0
