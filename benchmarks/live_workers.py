"""The programs that `benchmarks.live` measures, each run as a process of its own.

`python -m benchmarks.live_workers NAME RATE`. A sampler ends on SIGTERM and writes one JSON line:
`{"stamps": {GPU: [monotonic seconds, ...]}}`. A load reads seconds from stdin, a line each, works
so long and writes `{"rate": ...}`.
"""

from __future__ import annotations

import contextlib
import json
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from types import FrameType
from unittest import mock

from gpuprobe.events import Event, SamplesTaken
from gpuprobe.live.nvml.rows import times_s

Stamps = dict[str, list[float]]


def main(name: str, rate_hz: float) -> None:
    """Run one of them."""
    if name in LOADS:
        LOADS[name]()
        return
    stamps: Stamps = {}
    SAMPLERS[name](rate_hz, stamps)
    sys.__stdout__.write(json.dumps({"stamps": stamps}) + "\n")  # type: ignore[union-attr]
    sys.__stdout__.flush()  # type: ignore[union-attr]


# --- samplers --------------------------------------------------------------------------------


def watch(rate_hz: float, stamps: Stamps) -> None:
    """The command itself in line mode, its lines written to /dev/null."""
    _command(["watch", "--rate", str(rate_hz)], stamps)


def _command(arguments: list[str], stamps: Stamps) -> None:
    """Run a command of gpuprobe, and note what its session gives."""
    from gpuprobe.cli import main as command
    from gpuprobe.live.session import Session, Update

    poll = Session.poll

    def noting(session: Session) -> Update:
        update = poll(session)
        _note(stamps, update.samples)
        return update

    with (
        open("/dev/null", "w", encoding="utf-8") as nowhere,  # noqa: PTH123 - as a shell does it
        mock.patch.object(sys, "stdout", nowhere),
        mock.patch.object(Session, "poll", noting),
        contextlib.suppress(SystemExit),
    ):
        command.main(arguments)


def record(rate_hz: float, stamps: Stamps) -> None:
    """`gpuprobe record` into a temporary folder."""
    with tempfile.TemporaryDirectory() as folder:
        _command(["record", "--quiet", "--rate", str(rate_hz), f"{folder}/it.gpuprobe"], stamps)


def session(rate_hz: float, stamps: Stamps) -> None:
    """All sources merged and judged, nothing shown."""
    from gpuprobe.live.session import Session
    from gpuprobe.live.sources import live_sources

    wake = threading.Event()
    over = _over()
    found = Session(live_sources(rate_hz=rate_hz, wake=wake), wake=wake)
    found.start()
    try:
        for update in found.updates():
            _note(stamps, update.samples)
            if over():
                break
    finally:
        found.stop()


def probe(rate_hz: float, stamps: Stamps) -> None:
    """The NVML source alone."""
    from gpuprobe.live.nvml.probe import NvmlProbe

    over = _over()
    found = NvmlProbe(rate_hz=rate_hz)
    found.start()
    try:
        while not over():
            _note(stamps, found.poll())
            time.sleep(0.1)
    finally:
        found.stop()


def _note(stamps: Stamps, events: Iterable[Event]) -> None:
    for event in events:
        if isinstance(event, SamplesTaken):
            stamps.setdefault(str(event.device), []).extend(times_s(event.samples))


def _over() -> Callable[[], bool]:
    """Whether SIGTERM came."""
    got: list[int] = []

    def note(number: int, _frame: FrameType | None) -> None:
        got.append(number)

    signal.signal(signal.SIGTERM, note)
    return lambda: bool(got)


# --- loads -----------------------------------------------------------------------------------

SIZE = 8192
COPIED_BYTES = 256 * 10**6
WARM_S = 0.5


def matmul() -> None:
    """Bound by the GPU: bf16 products of two 8192 by 8192 matrices, in TFLOP/s."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    left, right = (torch.randn(SIZE, SIZE, device="cuda", dtype=torch.bfloat16) for _ in range(2))
    out = torch.empty_like(left)

    def work() -> float:
        for _ in range(10):
            torch.matmul(left, right, out=out)
        torch.cuda.synchronize()
        return 10 * 2 * SIZE**3 / 1e12

    _serve(work)


def copies() -> None:
    """Bound by PCIe: copies of 256 MB from pinned memory to the GPU, in GB/s."""
    import torch  # type: ignore[import-not-found,unused-ignore]

    here = torch.empty(COPIED_BYTES, dtype=torch.uint8, pin_memory=True)
    there = torch.empty(COPIED_BYTES, dtype=torch.uint8, device="cuda")

    def work() -> float:
        there.copy_(here, non_blocking=True)
        torch.cuda.synchronize()
        return COPIED_BYTES / 1e9

    _serve(work)


def _serve(work: Callable[[], float]) -> None:
    """Work as often and as long as stdin says."""
    _rate(work, WARM_S)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        _rate(work, WARM_S)
        print(json.dumps({"rate": _rate(work, float(line))}), flush=True)


def _rate(work: Callable[[], float], seconds: float) -> float:
    begin = time.perf_counter()
    done = 0.0
    while (spent := time.perf_counter() - begin) < seconds:
        done += work()
    return done / spent


SAMPLERS = {"gpuprobe": watch, "record": record, "session": session, "probe": probe}
LOADS = {"matmul": matmul, "copies": copies}


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]) if len(sys.argv) > 2 else 0.0)
