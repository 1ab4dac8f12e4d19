"""One core and several give the same, and so do repeats that are counted unread."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from gpuprobe.sources.files.unpack import Notes
from gpuprobe.sources.ingest import Ingest, Reading
from gpuprobe.sources.scanning import ahead, known_lines, regions, repeated_messages, repeats
from gpuprobe.sources.scanning import scan as scan_module
from gpuprobe.sources.scanning.needles import LazyMatcher
from gpuprobe.sources.scanning.repeated_messages import RepeatedMessages
from gpuprobe.sources.scanning.scan import Scan

QUIET = "systemd[1]: Finished fstrim.service - Discard unused blocks."
AER = (
    "kernel: pcieport 0000:40:01.1: AER: Correctable error message received from 0000:41:00.0",
    "kernel: nvidia 0000:41:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
    "kernel: nvidia 0000:41:00.0:   device [10de:2684] error status/mask=00000001/0000a000",
    "kernel: nvidia 0000:41:00.0:    [ 0] RxErr                  (First)",
)
LOST = "kernel: NVRM: Xid (PCI:0000:41:00): 79, GPU has fallen off the bus."
MARK = "-- Boot 0123456789abcdef0123456789abcdef --"


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every input is long, and few lines are many."""
    monkeypatch.setattr(scan_module, "SHORT_BYTES", -1)
    monkeypatch.setattr(regions, "LONG_INPUT", 0)
    monkeypatch.setattr(known_lines, "MANY_LINES", 3)
    monkeypatch.setattr(repeats, "REPEATS_KEPT", 5)
    monkeypatch.setattr(repeated_messages, "REPEATS_KEPT", 5)


def log(reports: list[str], turns: int, end: str = "\n") -> bytes:
    """A journal that says the same over and over, one second apart."""
    lines = []
    for turn in range(turns):
        stamp = f"May {turn // 40 + 8:2d} {turn // 3600:02d}:{turn // 60 % 60:02d}:{turn % 60:02d}"
        lines += [text if text == MARK else f"{stamp} lab-07 {text}" for text in reports]
    return end.join(lines).encode()


def read(
    data: bytes, monkeypatch: pytest.MonkeyPatch, *, cores: int, size: int, prefilter: bool = True
) -> Reading:
    monkeypatch.setattr(regions, "usable_cores", lambda: cores)
    monkeypatch.setattr(ahead, "usable_cores", lambda: cores)
    blocks = (data[at : at + size] for at in range(0, len(data), size))
    return Ingest("case.log", 0).read(Scan(blocks, prefilter=prefilter), Notes())


@settings(max_examples=12, deadline=None)
@given(
    reports=st.lists(st.sampled_from([QUIET, *AER, *AER, LOST, MARK]), min_size=1, max_size=9),
    turns=st.integers(1, 90),
    size=st.integers(300, 9000),
    end=st.sampled_from(["\n", "\r\n"]),
    quiet=st.integers(0, 25),
)
def test_cores_change_nothing(
    reports: list[str], turns: int, size: int, end: str, quiet: int
) -> None:
    """The whole reading is the same with one core, with three and without a first pass."""
    data = log([*reports, *[QUIET] * quiet], turns, end)
    with pytest.MonkeyPatch.context() as patch:
        slow = read(data, patch, cores=1, size=size, prefilter=False)
        for cores in (1, 3):
            assert read(data, patch, cores=cores, size=size) == slow


def test_known_lines_are_counted_by_other_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """The searches of a long input run beside the caller, and known lines are found in them."""
    threads: set[str] = set()
    skipped: list[int] = []
    count, hits = repeats.Repeats.skipped, LazyMatcher.hits

    def noted(self: repeats.Repeats, number: int, times: int, line: int, text: bytes) -> None:
        skipped.append(times)
        count(self, number, times, line, text)

    def searched(self: LazyMatcher, data: bytes) -> list[int]:
        threads.add(threading.current_thread().name)
        return hits(self, data)

    monkeypatch.setattr(repeats.Repeats, "skipped", noted)
    monkeypatch.setattr(LazyMatcher, "hits", searched)
    reading = read(log([QUIET, *AER], 2000), monkeypatch, cores=2, size=9000)

    assert any(name.startswith("gpuprobe-search") for name in threads)
    assert sum(skipped) > 4000
    assert sum(event.count for event in reading.events) == 2000


def test_no_thread_is_left_when_reading_ends_early(monkeypatch: pytest.MonkeyPatch) -> None:
    """An error in the input, as an interrupt, comes through and stops the workers."""
    monkeypatch.setattr(regions, "usable_cores", lambda: 2)
    data = log([QUIET, *AER], 500)

    def blocks() -> Iterator[bytes]:
        for at in range(0, len(data), 5000):
            yield data[at : at + 5000]
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        Ingest("case.log", 0).read(Scan(blocks()), Notes())
    assert not [t for t in threading.enumerate() if t.name.startswith("gpuprobe-search")]


def test_a_short_input_starts_no_thread(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is read in a moment is read by one thread."""
    monkeypatch.setattr(regions, "LONG_INPUT", 8 << 20)
    monkeypatch.setattr(regions, "usable_cores", lambda: pytest.fail("asked for other cores"))
    blocks = iter([log([QUIET, *AER], 500)])

    assert Ingest("case.log", 0).read(Scan(blocks), Notes()).events


def test_usable_cores_are_those_of_this_process(monkeypatch: pytest.MonkeyPatch) -> None:
    """A process that is bound to one core has that one."""
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda _: {3}, raising=False)
    assert ahead.usable_cores() == 1
    monkeypatch.setattr(ahead.os, "sched_getaffinity", lambda _: {0, 2, 3}, raising=False)
    assert ahead.usable_cores() == 3


def test_messages_of_a_json_journal_are_counted_unread(monkeypatch: pytest.MonkeyPatch) -> None:
    """Entries that differ in cursor and stamp alone are read a few times, and give the same."""
    entries = [
        {
            "__CURSOR": f"s=ab;i={number:x}",
            "__REALTIME_TIMESTAMP": str(1743588000000000 + number * 1000),
            "_HOSTNAME": "lab-07",
            "SYSLOG_IDENTIFIER": "kernel",
            "MESSAGE": (*AER, LOST)[number % 5].removeprefix("kernel: "),
        }
        for number in range(600)
    ]
    data = "\n".join(map(json.dumps, entries)).encode()
    found: list[int] = []
    find = Ingest.find
    monkeypatch.setattr(
        Ingest,
        "find",
        lambda self, records, index: found.append(index) or find(self, records, index),
    )
    counted = read(data, monkeypatch, cores=1, size=4000)
    assert len(found) < 100

    monkeypatch.setattr(RepeatedMessages, "take", lambda self, record: False)
    assert read(data, monkeypatch, cores=1, size=4000) == counted
    assert len(found) > 500
    assert sum(event.count for event in counted.events) == 240
