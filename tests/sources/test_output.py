"""A program's output, read as it is written."""

from __future__ import annotations

import os
import random
import subprocess
import sys
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprobe.clock import now as clock_now
from gpuprobe.events import (
    AerReported,
    CudaFailed,
    Event,
    GpuLostReported,
    OomKilled,
    OutputWritten,
    Setting,
    SlotChanged,
    XidReported,
)
from gpuprobe.sources.output import LINE_LIMIT, Line, OutputReader
from gpuprobe.sources.scanning.familiar import Familiar, shape

CUDA = b"RuntimeError: CUDA error: unspecified launch failure"


def texts(found: list[Event]) -> list[tuple[int, str]]:
    return [line for one in found if isinstance(one, OutputWritten) for line in one.lines]


def dropped(found: list[Event]) -> int:
    return sum(one.dropped for one in found if isinstance(one, OutputWritten))


def all_of(reader: OutputReader, *pieces: bytes) -> list[Event]:
    found: list[Event] = []
    for piece in pieces:
        found.extend(reader.feed(piece, 100.0))
    return [*found, *reader.read(101.0, end=True)]


def test_lines_are_numbered_and_what_they_say_becomes_events() -> None:
    """Text and event carry the same line number and the given name and stream."""
    found = all_of(OutputReader("engine", 7, "stderr"), b"loading\nready\n", CUDA + b"\n")

    assert texts(found) == [(1, "loading"), (2, "ready"), (3, CUDA.decode())]
    (cuda,) = (one for one in found if isinstance(one, CudaFailed))
    assert (cuda.code, cuda.origin.input, cuda.origin.line) == (719, "engine", 3)
    assert cuda.origin.order[0] == 7
    assert cuda.stamp is not None
    assert cuda.stamp.is_absolute
    assert {one.stream for one in found if isinstance(one, OutputWritten)} == {"stderr"}


def test_pieces_cut_anywhere_give_the_same_lines() -> None:
    """A line, a character or a message cut between two reads comes out whole."""
    data = "eins\nzwölf\n".encode() + CUDA + b"\nlast"

    found = all_of(OutputReader("engine", 1), *(bytes([byte]) for byte in data))

    assert [text for _, text in texts(found)] == ["eins", "zwölf", CUDA.decode(), "last"]
    assert [one.origin.line for one in found if isinstance(one, CudaFailed)] == [3]


def test_a_progress_bar_gives_its_last_state() -> None:
    """What carriage returns rewrote is neither kept nor counted as missing."""
    found = all_of(OutputReader("engine", 1), b" 10%|#\r 20%|##\r", b" 30%|###\r\nnext\r\n")

    assert texts(found) == [(1, " 30%|###"), (2, "next")]
    assert dropped(found) == 0


def test_a_progress_bar_without_end_stays_small() -> None:
    """A megabyte of states without a line feed is one line, its last state."""
    reader = OutputReader("engine", 1)
    bar = b"".join(b"\r%7d/1000000 it" % number for number in range(40_000))

    found = all_of(reader, *(bar[start : start + 4096] for start in range(0, len(bar), 4096)))

    assert texts(found) == [(1, "  39999/1000000 it")]


def test_a_long_line_is_cut_and_the_rest_counted() -> None:
    """Of two megabytes 16 KiB are kept; the line after has its own number."""
    found = all_of(OutputReader("engine", 1), b"x" * (2 << 20), b"\nafter\n")

    assert [(number, len(text)) for number, text in texts(found)] == [(1, LINE_LIMIT), (2, 5)]
    assert dropped(found) == (2 << 20) - LINE_LIMIT


def test_bytes_that_are_no_text_do_no_harm() -> None:
    """Invalid UTF-8 becomes U+FFFD; colours and controls are taken off, also inside a word."""
    coloured = b"CUDA \x1b[31mer\x1b[0mror: unspecified launch failure\n"

    found = all_of(OutputReader("engine", 1), b"\xff\xfe caf\xe9\x00\n", coloured)

    assert texts(found)[0] == (1, "\ufffd\ufffd caf\ufffd")
    assert any(isinstance(one, CudaFailed) for one in found)


@given(st.lists(st.binary(max_size=200), max_size=30))
def test_any_bytes_are_read(pieces: list[bytes]) -> None:
    """No bytes make it fail; complete lines are numbered from 1 without a gap."""
    found = all_of(OutputReader("engine", 1), *pieces)

    numbers = [number for number, _ in texts(found)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_lines_around_a_message_are_read_with_it() -> None:
    """An AER report spread over three lines in the middle of other output is one event."""
    around = [b"step %d loss 0.1" % number for number in range(500)]
    report = [
        b"pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
        b"pcieport 0000:00:1c.0:   device [8086:a110] error status/mask=00000001/00002000",
        b"pcieport 0000:00:1c.0:    [ 0] RxErr                  (First)",
    ]
    for parts in ([*around, *report, *around], around + report[:1]):
        pieces = [b"\n".join(parts) + b"\n"]
        if len(parts) < 600:
            pieces += [b"\n".join([*report[1:], *around]) + b"\n"]

        found = all_of(OutputReader("engine", 1), *pieces)

        reports = [one for one in found if isinstance(one, AerReported)]
        assert [one.bits for one in reports] == [("RxErr",)]


def test_a_flood_keeps_the_last_lines_and_those_that_matter(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Of 200,000 lines the last 1,000 of each second stay, the one hit in the middle, in order."""
    monkeypatch.setattr("gpuprobe.sources.output._BURST_S", 60.0)  # however busy the machine is
    lines = [b"step %d" % number for number in range(1, 200_001)]
    lines[77_776] = CUDA
    data = b"\n".join(lines) + b"\n"
    reader = OutputReader("engine", 1)

    found: list[Event] = []
    for start in range(0, len(data), 1 << 18):
        found.extend(reader.feed(data[start : start + (1 << 18)], 100.0))
    found.extend(reader.read(101.0, end=True))

    kept = texts(found)
    assert kept[-1] == (200_000, "step 200000")
    assert (77_777, CUDA.decode()) in kept
    assert len(kept) <= 2_001
    assert [number for number, _ in kept] == sorted(number for number, _ in kept)
    assert dropped(found) == len(data) - 200_000 - sum(len(text) for _, text in kept)
    assert [one.origin.line for one in found if isinstance(one, CudaFailed)] == [77_777]


def test_a_flood_of_errors_is_bounded() -> None:
    """Fifteen thousand different error lines are not all read, and the first is."""
    data = b"".join(CUDA + b" %x\n" % random.getrandbits(64) for _ in range(15_000))

    reader = OutputReader("engine", 1)
    begin = time.thread_time()
    found = [*reader.feed(data, 100.0), *reader.read(101.0, end=True)]

    assert any(isinstance(one, CudaFailed) for one in found)
    assert time.thread_time() - begin < 6  # unbounded it takes twenty


def test_what_looking_may_cost_is_bounded() -> None:
    """A stream of ever new lines is skimmed: most bytes are counted, grave words still found."""
    reader = OutputReader("engine", 1)
    blocks = [
        b"".join(b"%s\n" % os.urandom(40).hex().encode() for _ in range(12_000)) for _ in range(3)
    ]
    begin = time.thread_time()
    found = [one for n in range(20) for one in reader.feed(blocks[n % 3], 100.0 + n * 0.01)]
    took = time.thread_time() - begin

    assert dropped([*found, *reader.read(102.0, end=True)]) > 8 << 20
    assert took < 5


def test_a_restarted_program_counts_from_one_again() -> None:
    """Numbers begin anew; the order of events still grows."""
    reader = OutputReader("engine", 1)
    first = [*reader.feed(CUDA + b"\npart", 100.0), *reader.restart(100.1)]
    second = [*reader.feed(CUDA + b"\n", 100.2), *reader.read(100.5, end=True)]

    assert texts(first) == [(1, CUDA.decode()), (2, "part")]
    assert texts(second) == [(1, CUDA.decode())]
    events = [one for one in [*first, *second] if isinstance(one, CudaFailed)]
    assert [one.origin.line for one in events] == [1, 1]
    assert events[0].origin.order < events[1].origin.order


def test_kernel_lines_that_a_program_prints_are_second_hand() -> None:
    """Old or new, this machine's or another's: no first-hand proof; what it met itself is."""
    printed = (
        b"[   12.345678] NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus.\n"
        b"[   12.345679] NVRM: GPU 0000:1b:00.0: GPU has fallen off the bus.\n"
        b"[   12.345680] pcieport 0000:00:1c.0: pciehp: Slot(4): Link Down\n"
        b"[   12.345681] Out of memory: Killed process 77 (python) total-vm:9kB, anon-rss:2kB\n"
        b"2026-01-02 03:04:05 INFO pcieport 0000:00:1c.0: pciehp: Slot(4): Link Down\n"
        b"2026-01-02 03:04:05 ERROR RuntimeError: CUDA error: unspecified launch failure\n"
    )
    found = [(type(one), one.setting) for one in all_of(OutputReader("engine", 1), printed)]

    kinds = [XidReported, GpuLostReported, SlotChanged, OomKilled, SlotChanged]
    assert found[1:-1] == [(kind, Setting.BARE) for kind in kinds]
    assert found[-1] == (CudaFailed, Setting.LOG)


def test_a_line_that_is_kept_and_not_read() -> None:
    """Its text and number are there, and what its words mean is left to whoever gave it."""
    reader = OutputReader("x.service", 1)
    reader.keep(Line(CUDA, clock_now()))
    found = [*reader.add([Line(b"next", clock_now())], 100.0), *reader.read(101.0, end=True)]

    assert texts(found) == [(1, CUDA.decode()), (2, "next")]
    assert not any(isinstance(one, CudaFailed) for one in found)


def test_old_lines_are_dated_by_their_own_words() -> None:
    """A line from before, handed over without a stamp, is not said to be of now."""
    xid = b"2026-01-02T03:04:05.000000+00:00 box kernel: NVRM: Xid (PCI:0000:1b:00): 79, pid=1, GPU has fallen off the bus."
    reader = OutputReader("f.log", 1)

    found = [*reader.add([Line(xid)], 100.0), *reader.read(101.0, end=True)]

    (event,) = (one for one in found if isinstance(one, XidReported))
    assert event.stamp is not None
    assert event.stamp.wall is not None
    assert event.stamp.wall.isoformat() == "2026-01-02T03:04:05+00:00"


def test_due_says_when_to_come_again() -> None:
    """Nothing waits: None. A message waits for its next lines: a moment. A flood: a second."""
    reader = OutputReader("engine", 1, lines_per_s=10)
    assert reader.due_s(100.0) is None
    reader.feed(CUDA + b"\n", 100.0)
    assert 0 < (reader.due_s(100.0) or 0) < 0.1
    reader = OutputReader("engine", 1, lines_per_s=10)
    reader.feed(b"x\n" * 8, 100.0)
    reader.feed(b"x\n" * 8, 100.1)
    assert reader.due_s(100.2) == pytest.approx(0.8)


def test_a_needle_is_found_whatever_its_digits() -> None:
    """A shape has zeros for digits, and so have the words that it is looked through for."""
    lines = (b"status 0x0000000f", b"killed by signal 9", b"step 1234 of 9999")

    hits = Familiar().hits(map(shape, lines), 1.0)

    assert hits == {shape(lines[0]), shape(lines[1])}


def test_hyperscan_is_never_loaded_for_it() -> None:
    """It takes 50 MB, which a probe beside an engine has no use for, however long it runs."""
    script = (
        "import sys\n"
        "from gpuprobe.sources.output import OutputReader\n"
        "reader = OutputReader('engine', 1)\n"
        "for number in range(1100):\n"
        "    reader.feed(b'so what\\nCUDA error: unspecified launch failure\\n', 100.0 + number)\n"
        "print('hyperscan' in sys.modules)\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.stdout == "False\n", done.stderr
