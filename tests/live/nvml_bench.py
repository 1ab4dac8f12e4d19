"""What the tests of the NVML source share: a probe on a fake library, and waiting for events."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from gpuprobe.events import Event, taken_apart
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.probe import NvmlProbe
from gpuprobe.testing.nvml import FakeNvml

ONE = PciAddress.parse("0000:04:00.0")
TWO = PciAddress.parse("0000:05:00.0")
GROUPS = ("fast", "calm", "slow", "users", "rare", "seldom", "once", "library", "event")
FAST = dict.fromkeys(GROUPS, 0.5)
"""Deadlines short enough for a test."""


@contextmanager
def probing(fake: FakeNvml, **options: Any) -> Iterator[NvmlProbe]:
    """A started probe on a fake library; whatever happens, its calls return and it is stopped."""
    empty = Path(fake.folder) / "empty-root"
    options = {"root": empty, "deadlines_s": FAST, "retry_s": 0.2, **options}
    probe = NvmlProbe(env={**os.environ, **fake.env}, **options)
    probe.start()
    try:
        yield probe
    finally:
        fake.heal()
        probe.stop()


def collect(
    probe: NvmlProbe, enough: Callable[[list[Event]], Any], timeout_s: float = 10.0
) -> list[Event]:
    """Poll until `enough` of what came is true; fails the test when it never is."""
    found: list[Event] = []
    until = time.monotonic() + timeout_s
    while not enough(found):
        assert time.monotonic() < until, [event.origin.text for event in found][-20:]
        found += taken_apart(probe.poll())
        time.sleep(0.005)
    return found


def gather(probe: NvmlProbe, seconds: float) -> list[Event]:
    """What comes in that time."""
    until = time.monotonic() + seconds
    return collect(probe, lambda _: time.monotonic() > until, seconds + 5)


def of(kind: type[Event], events: list[Event], device: PciAddress | None = None) -> list[Any]:
    """The events of one type, and of one device if it is given."""
    return [e for e in events if isinstance(e, kind) and device in (None, e.device)]


def alive(pid: int) -> bool:
    """Whether a process exists and is no zombie."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_text()
    except OSError:
        return False
    return stat.rpartition(")")[2].split()[0] not in ("Z", "X")


def wait_until(condition: Callable[[], Any], timeout_s: float = 5.0) -> bool:
    """Whether it became true in time."""
    until = time.monotonic() + timeout_s
    while not condition():
        if time.monotonic() > until:
            return False
        time.sleep(0.01)
    return True
