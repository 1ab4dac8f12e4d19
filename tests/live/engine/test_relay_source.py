"""The engine as events: started, what it wrote, how it ended."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from typing import Any

import pytest
from relaying import until

from gpuprobe.events import (
    CudaFailed,
    EngineChanged,
    Event,
    GpuLostReported,
    OutputWritten,
    ProcessCrashed,
    Setting,
    XidReported,
)
from gpuprobe.live.engine import relay_frames as frames
from gpuprobe.live.engine.process import EngineSource, Link, descendants
from gpuprobe.live.engine.relay_pumps import Mirror

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="the relay needs Linux")


class Wire:
    """A source, and the relay's end of its pipe."""

    def __init__(self) -> None:
        read, write = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(write, False)
        self.words, control = frames.packet_pipe()
        self.mirror = Mirror(write, lambda: None)
        self.source = EngineSource(Link(read, control, 1), 3, who="vllm")
        self.source.start()
        self.found: list[Event] = []

    def tell(self, kind: int, **values: Any) -> None:
        self.mirror.put(kind, data=json.dumps(values).encode())

    def end(self, **values: Any) -> list[Event]:
        """Say how the engine ended; gives all events."""
        told = {"pid": 9, "code": None, "signal": None, "core": False}
        told["at_ns"] = time.monotonic_ns()
        self.tell(frames.ENDED, **{**told, **values})
        until(lambda: self.source.exit)
        self.mirror.close()
        until(lambda: self.source.relay_gone)
        self.source.stop()
        return list(self.source.poll())


@pytest.fixture
def wire() -> Iterator[Wire]:
    made = Wire()
    made.tell(frames.STARTED, pid=9, pgid=9, relay=8, front=1, at_ns=1, terminal=False, streams=[])
    yield made
    made.mirror.close()
    made.source.stop()


def test_its_life_and_its_words_become_events_in_order(wire: Wire) -> None:
    """Start, a CUDA error that it printed, its lines, and its code."""
    wire.mirror.put(frames.OUTPUT, 2, b"RuntimeError: CUDA error: unspecified launch failure\nbye")

    found = wire.end(code=1)

    kinds = [type(event) for event in found]
    assert (kinds[0], kinds[-1]) == (EngineChanged, EngineChanged)
    assert {CudaFailed, OutputWritten} <= set(kinds)
    lines = [line for event in found if isinstance(event, OutputWritten) for line in event.lines]
    assert lines[-1] == (2, "bye")
    assert isinstance(found[-1], EngineChanged)
    assert (found[-1].what, found[-1].code, found[-1].who) == ("stopped", 1, "vllm")
    assert found[-1].origin.text == "vllm (process 9) ended with code 1"
    assert (wire.source.pid, wire.source.code, wire.source.asked_to_end) == (9, 1, False)


def test_kernel_lines_that_it_prints_are_second_hand(wire: Wire) -> None:
    """A start script that prints dmesg: no first-hand proof; what a program itself met is."""
    printed = (
        b"[  12.345678] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"
        b"[  12.345679] NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.\n"
        b"2026-01-02 03:04:05 ERROR RuntimeError: CUDA error: unspecified launch failure\n"
    )
    wire.mirror.put(frames.OUTPUT, 1, printed)

    settings = {type(event): event.setting for event in wire.end(code=1)}

    assert settings[XidReported] is settings[GpuLostReported] is Setting.BARE
    assert settings[CudaFailed] is Setting.LOG


def test_a_signal_that_nobody_asked_for_is_a_crash(wire: Wire) -> None:
    """SIGSEGV, SIGKILL and the like."""
    last = wire.end(signal=int(signal.SIGSEGV), core=True)[-1]

    assert isinstance(last, ProcessCrashed)
    assert (last.signal, last.pid) == ("SIGSEGV", 9)
    assert last.origin.text == "vllm (process 9) ended by SIGSEGV, core dumped"
    assert wire.source.code == 139


@pytest.mark.parametrize(
    ("asked", "values", "text"),
    [
        ([15], {"signal": 15}, "ended by SIGTERM"),
        ([], {"signal": 15}, "ended by SIGTERM"),
        ([], {"signal": 13}, "ended by SIGPIPE"),
        ([2], {"code": 1}, "ended with code 1 after SIGINT was passed on"),
        ([15, 9], {"signal": 9}, "ended by SIGKILL after SIGTERM was passed on"),
    ],
)
def test_an_end_on_request_is_no_failure(
    wire: Wire, asked: list[int], values: dict[str, Any], text: str
) -> None:
    """Whatever code or signal: it stopped, and no code is there to be judged."""
    for number in asked:
        wire.tell(frames.ASKED, signal=number)
    last = wire.end(**values)[-1]

    assert isinstance(last, EngineChanged)
    assert (last.what, last.code) == ("stopped", None)
    assert last.origin.text == f"vllm (process 9) {text}"
    assert wire.source.asked_to_end


@pytest.mark.parametrize(
    ("asked", "seconds", "values", "was"),
    [
        (signal.SIGHUP, 59, {"code": 1}, True),
        (signal.SIGHUP, 61, {"code": 1}, False),
        (signal.SIGHUP, 61, {"code": 129}, True),
        (signal.SIGINT, 61, {"signal": signal.SIGSEGV}, False),
        (signal.SIGTERM, 599, {"code": 1}, True),
        (signal.SIGTERM, 601, {"code": 1}, False),
        (signal.SIGTERM, 601, {"signal": signal.SIGTERM}, True),
    ],
)
def test_what_it_lived_on_with_is_not_why_it_ended(
    wire: Wire, asked: int, seconds: float, values: dict[str, Any], was: bool
) -> None:
    """A reload by SIGHUP last week does not make a crash of today an end on request."""
    wire.tell(frames.ASKED, signal=asked)
    until(lambda: wire.source.asked_to_end)
    at_ns = time.monotonic_ns() + int(seconds * 1e9)
    last = wire.end(**values, at_ns=at_ns)[-1]

    assert wire.source.asked_to_end is was
    assert ("was passed on" in last.origin.text) is (was and "signal" not in values)


def test_what_was_dropped_is_counted_with_the_lines_behind_it(wire: Wire) -> None:
    """Bytes that the relay could not send stand in the event that follows them."""
    os.write(wire.mirror.descriptor, frames.header(frames.OUTPUT, 1, 5, 1234, 7) + b"late\n")

    found = wire.end(code=0)

    dropped = [event.dropped for event in found if isinstance(event, OutputWritten)]
    assert dropped == [1234]


def test_words_for_the_front_arrive_whole(wire: Wire) -> None:
    """Each message is one packet."""
    wire.source.link.stop_engine(30.0)
    wire.source.link.finish(79)

    assert frames.receive(wire.words) == {"stop": 30.0}
    word = {"code": 79, "leave": False, "again": None, "memory": "", "done": True}
    assert frames.receive(wire.words) == word
    assert frames.receive(wire.words) == {}


def test_one_byte_at_a_time_takes_no_more_memory() -> None:
    """A probe that does not read costs a bounded amount, however small the writes are."""
    read, write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
    mirror = Mirror(write, lambda: None)
    for _ in range(20_000):
        mirror.put(frames.OUTPUT, 1, b"x")

    assert len(mirror._waiting) < 6000
    mirror.close()
    os.close(read)


def test_descendants_are_found_below_threads_and_children() -> None:
    """Children of children are; the root is not."""
    script = "sh -c 'sleep 9 & sleep 9; true' & read line"
    with subprocess.Popen(["sh", "-c", script], stdin=subprocess.PIPE) as process:
        until(lambda: len(descendants(process.pid)) == 3)
        for pid in descendants(process.pid):
            os.kill(pid, signal.SIGKILL)
        assert process.stdin is not None
        process.stdin.close()
    assert process.pid not in descendants(os.getpid())
