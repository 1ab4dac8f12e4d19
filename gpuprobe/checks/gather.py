"""Reading everything that a check looks at, side by side and bounded.

Every part is read by a function of its own in a thread of its own, and what has not come back by
the deadline is `timed-out`: a driver that hangs costs its own lines and nothing else.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from gpuprobe.checks.jit_caches import unclean_at
from gpuprobe.checks.scene import (
    NOT_ASKED,
    BootLog,
    DriverFacts,
    GpuOnBus,
    HostFacts,
    LoadSample,
    NvmlValues,
    RecordingSeen,
    Requirements,
    Scene,
)
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reading, Reason, Unavailable

DEADLINE_S = 3.7
"""Seconds for everything together; the rest of the five is for starting, judging and showing."""


MIN_SCAN_S = 0.5
"""Seconds that a scan of JIT caches gets, however late the others were."""

MARGIN_S = 0.1
"""What of that is kept for handing the answer over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Readers:
    """The functions that read each part; tests put their own in.

    `nvml` and `load` get the GPUs of `bus`, so that sleeping ones are left alone. `jit_caches`
    gets the time of the unclean end and a deadline in seconds, and runs after one alone.
    """

    bus: Callable[[], Reading[tuple[GpuOnBus, ...]]]
    nvml: Callable[[Sequence[GpuOnBus], float], Reading[NvmlValues]]
    driver: Callable[[], DriverFacts]
    host: Callable[[], HostFacts]
    this_boot: Callable[[], Reading[BootLog]]
    previous_boot: Callable[[], Reading[BootLog]]
    recordings: Callable[[], Sequence[RecordingSeen]] = tuple
    jit_caches: Callable[[float, float], Any] | None = None
    load: Callable[[Sequence[GpuOnBus], float], Reading[tuple[LoadSample, ...]]]


def gather(
    readers: Readers,
    *,
    under_load_s: float = 0.0,
    needs: Requirements | None = None,
    device: PciAddress | None = None,
    nvml: bool = True,
    deadline_s: float = DEADLINE_S,
) -> Scene:
    """Read everything, side by side.

    Args:
        readers: How each part is read.
        under_load_s: Seconds to sample while the user's load runs; 0 for none.
        needs: What the work needs.
        device: Only this GPU.
        nvml: False leaves NVML alone.
        deadline_s: Seconds for everything but the sampling.
    """
    until = time.monotonic() + deadline_s
    independent = {
        "bus": readers.bus,
        "driver": readers.driver,
        "host": readers.host,
        "this_boot": readers.this_boot,
        "previous_boot": readers.previous_boot,
        "recordings": readers.recordings,
    }
    parts = {name: _Part(name, read) for name, read in independent.items()}
    bus = parts["bus"].get(until)
    gpus = tuple(
        gpu
        for gpu in (bus.value if isinstance(bus, Known) else ())
        if device is None or gpu.address.slot == device.slot
    )
    if nvml:
        left = max(0.1, until - time.monotonic())
        parts["nvml"] = _Part("nvml", lambda: readers.nvml(gpus, left))
    got = {name: part.get(until) for name, part in parts.items()}
    got.setdefault("nvml", Unavailable(Reason.NOT_ASKED, "--no-nvml", "leave out --no-nvml"))
    ends = Scene(previous_boot=got["previous_boot"], recordings=got["recordings"])
    got["jit_caches"] = _jit_caches(readers, ends, until)
    load: Reading[Any] = NOT_ASKED
    after: Reading[Any] = NOT_ASKED
    nvml_after: Reading[Any] = NOT_ASKED
    if under_load_s > 0:
        sampling = _Part("load", lambda: readers.load(gpus, under_load_s))
        load = sampling.get(time.monotonic() + under_load_s + 2.0)
        again = [_Part("bus", readers.bus)]
        if isinstance(got["nvml"], Known):
            again.append(_Part("nvml", lambda: readers.nvml(gpus, 2.0)))
        until = time.monotonic() + 2.0
        after, *more = (part.get(until) for part in again)
        nvml_after = more[0] if more else NOT_ASKED
    return Scene(
        **got,
        load=load,
        after_load=after,
        nvml_after_load=nvml_after,
        needs=needs or Requirements(),
        device=device,
        nvml_wanted=nvml,
    )


def _jit_caches(readers: Readers, scene: Scene, until: float) -> Known[Any] | Unavailable:
    """A scan in what time is left, where something ended uncleanly; all else has been read."""
    at = unclean_at(scene)
    scan = readers.jit_caches
    if at is None or scan is None:
        return NOT_ASKED
    left = max(MIN_SCAN_S, until - time.monotonic())
    part = _Part("jit_caches", lambda: scan(at, left - MARGIN_S))
    return part.get(time.monotonic() + left)


class _Part:
    """One part, being read in a thread that nobody waits for longer than its deadline."""

    def __init__(self, name: str, read: Callable[[], Any]) -> None:
        self._name = name
        self._answer: queue.SimpleQueue[Known[Any] | Unavailable] = queue.SimpleQueue()
        self._got: Known[Any] | Unavailable | None = None
        self._read = read
        threading.Thread(target=self._run, name=f"check-{name}", daemon=True).start()

    def _run(self) -> None:
        try:
            answer = self._read()
        except Exception as error:  # one broken reading must not cost the others
            answer = Unavailable(Reason.FAILED, f"{type(error).__name__}: {error}")
        if not isinstance(answer, Known | Unavailable):
            answer = Known(answer)
        self._answer.put(answer)

    def get(self, until: float) -> Known[Any] | Unavailable:
        """The answer, or `timed-out` when there is none by `until` (`time.monotonic`)."""
        if self._got is None:
            try:
                self._got = self._answer.get(timeout=max(0.0, until - time.monotonic()))
            except queue.Empty:
                self._got = Unavailable(
                    Reason.TIMED_OUT, f"reading {self._name.replace('_', ' ')} took too long"
                )
        return self._got
