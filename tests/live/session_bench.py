"""What the tests of live sessions share: a machine with two GPUs, its driver, and a session on it."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from gpuprobe.diagnosis import Diagnosis
from gpuprobe.events import Event, taken_apart
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.probe import NvmlProbe
from gpuprobe.live.session import Session
from gpuprobe.sources.pci.sysfs import SysfsSource
from gpuprobe.testing.nvml import FakeNvml
from gpuprobe.testing.sysfs import FakeSysfs
from tests.live.nvml_bench import FAST, ONE, TWO

PORTS = {ONE: "0000:00:01.0", TWO: "0000:00:03.0"}


def machine(folder: Path) -> FakeSysfs:
    """Two GPUs, each below a root port of its own."""
    tree = FakeSysfs(folder)
    for gpu, port in PORTS.items():
        tree.gpu(gpu, bridges=[port])
    return tree


@dataclass
class Watched:
    """A session and everything that it gave so far."""

    session: Session
    samples: list[Event] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    diagnoses: list[tuple[float, Diagnosis]] = field(default_factory=list)

    def until(self, enough: Callable[[Watched], Any], timeout_s: float = 10.0) -> Any:
        """Take updates until `enough` is true; fails the test when it never is."""
        end = time.monotonic() + timeout_s
        while not (found := enough(self)):
            assert time.monotonic() < end, [event.origin.text for event in self.events]
            self.take()
            time.sleep(0.01)
        return found

    def for_s(self, seconds: float) -> None:
        """Take updates for so long."""
        end = time.monotonic() + seconds
        self.until(lambda _: time.monotonic() > end, seconds + 5)

    def take(self) -> None:
        """Take one update."""
        update = self.session.poll()
        self.samples += taken_apart(update.samples)
        self.events += update.events
        if update.diagnosis is not None:
            self.diagnoses.append((time.monotonic(), update.diagnosis))

    def of(self, kind: type[Event], device: PciAddress | None = None) -> list[Any]:
        """What came of one type, and of one device where it is given."""
        every = [*self.samples, *self.events]
        return [e for e in every if isinstance(e, kind) and device in (None, e.device)]

    @property
    def kinds(self) -> list[str]:
        """The answers of all diagnoses."""
        return [str(one.answer) for _, one in self.diagnoses]


def probe_on(fake: FakeNvml, root: Path, **options: Any) -> NvmlProbe:
    """The NVML source on a fake library."""
    options = {"deadlines_s": FAST, "retry_s": 0.2, "order": 1, **options}
    return NvmlProbe(env={**os.environ, **fake.env}, root=root, **options)


@contextmanager
def watching(
    tree: FakeSysfs, fake: FakeNvml | None, *more: Any, **options: Any
) -> Iterator[Watched]:
    """A started session on a fake machine; whatever happens, calls return and it is stopped."""
    wake = threading.Event()
    sources: list[Any] = [SysfsSource(2, root=tree.root), *more]
    if fake is not None:
        sources.insert(0, probe_on(fake, tree.root, wake=wake, **options))
    session = Session(sources, root=tree.root, wake=wake)
    session.start()
    try:
        yield Watched(session)
    finally:
        if fake is not None:
            fake.heal()
        session.stop()
