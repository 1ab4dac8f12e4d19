"""A started follower and what it gives, for its tests."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from pathlib import Path

from gpuprobe.events import EngineChanged, Event, OutputWritten
from gpuprobe.sources.following.base import Follower

CUDA = "RuntimeError: CUDA error: unspecified launch failure"


class Followed:
    """A started follower and all that it gave."""

    def __init__(self, source: Follower) -> None:
        self.source = source
        self.found: list[Event] = []
        source.start()

    def until(self, enough: Callable[[Followed], object], limit_s: float = 10.0) -> None:
        end = time.monotonic() + limit_s
        while not enough(self):
            assert time.monotonic() < end, self.found
            time.sleep(0.01)
            self.found.extend(self.source.poll())

    @property
    def lines(self) -> list[tuple[int, str]]:
        return [line for one in self.found if isinstance(one, OutputWritten) for line in one.lines]

    @property
    def texts(self) -> list[str]:
        return [text for _, text in self.lines]

    @property
    def life(self) -> list[tuple[str, int | None]]:
        return [(one.what, one.code) for one in self.found if isinstance(one, EngineChanged)]

    def has(self, kind: type[Event]) -> bool:
        return any(isinstance(one, kind) for one in self.found)


def add(path: Path, text: str) -> None:
    """Write behind what a file holds."""
    with path.open("a", encoding="utf-8") as out:
        out.write(text)


def program(path: Path, script: str) -> str:
    """A command line of this Python; gives its path."""
    path.write_text(f"#!{sys.executable}\nimport json, os, sys, time\n{script}")
    path.chmod(0o755)
    return str(path)
