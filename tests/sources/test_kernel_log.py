"""The kernel's messages as they appear."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from gpuprobe.clock import Stamp
from gpuprobe.events import AerReported, Event, SourceChanged, XidReported
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.files.machine import kernel_inputs
from gpuprobe.sources.files.raw_input import RawInput, UnreadableInput
from gpuprobe.sources.framing import peel
from gpuprobe.sources.kernel_log import KernelClock, KernelLog
from gpuprobe.sources.kmsg import read_kmsg
from gpuprobe.sources.line_reader import COUNTED_EVERY_S, HOLD_S, QUIET_S, LineReader
from gpuprobe.sources.scanning.repeats import REPEATS_KEPT

XID = "NVRM: Xid (PCI:0000:1b:00): 31, pid=4711, name=python3, Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS"
AER = (
    "pcieport 0000:00:1c.0: PCIe Bus Error: severity=Corrected, type=Physical Layer, (Receiver ID)",
    "pcieport 0000:00:1c.0:   device [8086:a110] error status/mask=00000001/00002000",
    "pcieport 0000:00:1c.0:    [ 0] RxErr                  (First)",
)


def record(number: int, text: str, at_s: float | None = None) -> bytes:
    us = int((time.monotonic() if at_s is None else at_s) * 1e6)
    return f"4,{number},{us},-;{text}\n".encode()


class Pipe:
    """A stand-in for /dev/kmsg that can be written to."""

    def __init__(self, path: Path) -> None:
        os.mkfifo(path)
        self.path = path
        self._keep = os.open(path, os.O_RDWR)

    def write(self, data: bytes) -> None:
        os.write(self._keep, data)

    def close(self) -> None:
        os.close(self._keep)


@pytest.fixture
def pipe(tmp_path: Path) -> Iterator[Pipe]:
    made = Pipe(tmp_path / "kmsg")
    yield made
    made.close()


def events_until(
    log: KernelLog, enough: Callable[[list[Event]], bool], limit_s: float = 5.0
) -> list[Event]:
    found: list[Event] = []
    end = time.monotonic() + limit_s
    while time.monotonic() < end:
        found.extend(log.poll())
        if enough(found):
            return found
        time.sleep(0.005)
    raise AssertionError(f"not within {limit_s} s: {found}")


def has(kind: type[Event], number: int = 1) -> Callable[[list[Event]], bool]:
    return lambda found: sum(isinstance(event, kind) for event in found) >= number


def of(kind: type[Event], found: list[Event]) -> list[Event]:
    return [event for event in found if isinstance(event, kind)]


def test_a_line_becomes_an_event_with_place_and_time(pipe: Pipe) -> None:
    """Input, sequence number, address, both clocks; soon after it was written."""
    log = KernelLog(3, kmsg=pipe.path)
    log.start()
    events_until(log, has(SourceChanged))
    began = time.monotonic()
    pipe.write(record(812, XID))
    (xid,) = of(XidReported, events_until(log, has(XidReported)))
    took = time.monotonic() - began
    log.stop()

    assert (xid.code, str(xid.device)) == (31, "0000:1b:00.0")
    assert (xid.origin.input, xid.origin.ref, xid.origin.line) == (str(pipe.path), "812", None)
    assert xid.origin.text == XID
    assert xid.origin.order[0] == 3
    assert xid.stamp.is_absolute
    assert abs((datetime.now(UTC) - xid.stamp.wall).total_seconds()) < 5
    assert took < 1.0  # 0.1 is promised; the machine that tests may be busy


def test_lines_of_one_report_are_read_together(pipe: Pipe) -> None:
    """An AER report in three records, written one after another, is one event with its bit."""
    log = KernelLog(kmsg=pipe.path)
    log.start()
    events_until(log, has(SourceChanged))
    for number, text in enumerate(AER):
        pipe.write(record(number, text))
    found = events_until(log, has(AerReported))
    log.stop()

    (report,) = of(AerReported, [*found, *log.poll()])
    assert report.bits == ("RxErr",)


def test_overwritten_records_are_a_gap(pipe: Pipe) -> None:
    """EPIPE and a jump in the numbers: how many are lost is said, reading goes on."""
    broken = iter([True])

    def read(descriptor: int, size: int) -> bytes:
        data = os.read(descriptor, size)
        if b",57," in data and next(broken, False):
            pipe.write(data)
            raise BrokenPipeError
        return data

    log = KernelLog(kmsg=pipe.path, read=read)
    log.start()
    events_until(log, has(SourceChanged))
    pipe.write(record(40, "usb 1-1: new high-speed USB device"))
    time.sleep(0.1)
    pipe.write(record(57, XID))
    found = events_until(log, has(XidReported))
    log.stop()

    gap = of(SourceChanged, found)[-1]
    assert (gap.what, gap.origin.ref) == ("gap", "41-56")
    assert gap.origin.text.startswith("16 kernel lines")


def test_this_boot_so_far_is_read_on_request(tmp_path: Path) -> None:
    """The records that are there come first, and a first number above 0 is a gap."""
    kmsg = tmp_path / "kmsg"
    kmsg.write_bytes(record(9, XID, 12.5))
    log = KernelLog(kmsg=kmsg, since_boot=True)
    log.start()
    found = events_until(log, has(XidReported))
    log.stop()

    assert [event.what for event in of(SourceChanged, found)][:2] == ["started", "gap"]
    (xid,) = of(XidReported, found)
    assert xid.stamp.monotonic_s == 12.5
    booted = datetime.now(UTC) - timedelta(seconds=time.monotonic())
    assert abs((xid.stamp.wall - booted).total_seconds() - 12.5) < 5


def test_the_past_is_left_alone_by_default(tmp_path: Path) -> None:
    """From now on: what stands there already gives no event."""
    kmsg = tmp_path / "kmsg"
    kmsg.write_bytes(record(9, XID, 12.5))
    log = KernelLog(kmsg=kmsg)
    log.start()
    found = events_until(log, has(SourceChanged))
    time.sleep(2 * HOLD_S)
    found.extend(log.poll())
    log.stop()

    assert not of(XidReported, found)


def _program(folder: Path, body: str) -> str:
    program = folder / "journalctl"
    program.write_text(f"#!/bin/sh\n{body}\n")
    program.chmod(0o755)
    return str(program)


def _journal_file(root: Path, mode: int = 0o640) -> None:
    folder = root / "var/log/journal/0123456789abcdef"
    folder.mkdir(parents=True)
    file = folder / "system.journal"
    file.write_bytes(b"LPKSHHRH")
    file.chmod(mode)


def test_a_descriptor_placed_before_is_read_from_its_place(tmp_path: Path) -> None:
    """What was written between somebody's placing it and the start is read, older lines are not."""
    path = tmp_path / "kmsg"
    path.write_bytes(record(1, XID.replace("31", "13", 1)))
    placed = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
    os.lseek(placed, 0, os.SEEK_END)
    with path.open("ab") as file:
        file.write(record(2, XID))
    log = KernelLog(kmsg=path, opened=placed)
    log.start()
    found = events_until(log, lambda events: any(isinstance(e, XidReported) for e in events))
    log.stop()
    assert [event.code for event in found if isinstance(event, XidReported)] == [31]
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(placed)


def test_the_journal_is_followed_where_kmsg_may_not_be_read(tmp_path: Path) -> None:
    """The same event from the journal's JSON, dated by it, with its cursor."""
    _journal_file(tmp_path)
    entry = (
        '{"__CURSOR":"s=1;i=2a","__REALTIME_TIMESTAMP":"1790062498000000","_TRANSPORT":"kernel",'
        '"_SOURCE_MONOTONIC_TIMESTAMP":"98037735","_BOOT_ID":"beef","MESSAGE":"' + XID + '"}'
    )
    program = _program(tmp_path, f"echo '{entry}'\nexec sleep 60")
    log = KernelLog(kmsg=tmp_path / "none", root=tmp_path, journalctl=program)

    assert log.available() == Known("journal")
    log.start()
    (xid,) = of(XidReported, events_until(log, has(XidReported)))
    began = time.monotonic()
    log.stop()

    assert time.monotonic() - began < 1.0
    assert (xid.origin.input, xid.origin.ref, xid.boot) == ("journal", "s=1;i=2a", "beef")
    assert xid.origin.text == XID
    assert xid.stamp.wall == datetime.fromtimestamp(1790062498, UTC)
    assert xid.stamp.monotonic_s == 98.037735


def test_a_journal_that_ends_is_said(tmp_path: Path) -> None:
    """journalctl going away is an event, not silence."""
    _journal_file(tmp_path)
    log = KernelLog(kmsg=tmp_path / "none", root=tmp_path, journalctl=_program(tmp_path, "exit 1"))
    log.start()
    found = events_until(
        log, lambda found: any(e.what == "stopped" for e in of(SourceChanged, found))
    )
    log.stop()

    assert "journalctl ended" in found[-1].origin.text


def test_with_neither_the_reasons_and_the_way_out_are_named(tmp_path: Path) -> None:
    """No /dev/kmsg and no journal: unavailable, with what would help; the source ends by itself."""
    log = KernelLog(kmsg=tmp_path / "none", root=tmp_path, journalctl=None)
    access = log.available()

    assert isinstance(access, Unavailable)
    assert access.reason is Reason.NOT_THERE
    assert "journalctl is not installed" in access.detail
    assert "sudo" in access.hint
    log.start()
    found = events_until(log, has(SourceChanged))
    log.stop()
    assert [event.what for event in found] == ["unavailable"]


@pytest.mark.skipif(os.geteuid() == 0, reason="root may read everything")
def test_a_forbidden_journal_names_the_group(tmp_path: Path) -> None:
    """Files that are there and may not be read: the group that opens them."""
    _journal_file(tmp_path, 0o000)
    access = KernelLog(kmsg=tmp_path / "none", root=tmp_path, journalctl="journalctl").available()

    assert isinstance(access, Unavailable)
    assert "systemd-journal" in access.hint


def test_start_after_stop_begins_anew(pipe: Pipe) -> None:
    """A second turn sees what is written during it."""
    log = KernelLog(kmsg=pipe.path)
    for number in (1, 2):
        log.start()
        events_until(log, has(SourceChanged))
        pipe.write(record(number, XID))
        events_until(log, has(XidReported))
        log.stop()


def test_a_reader_waits_for_what_belongs_to_a_line() -> None:
    """Not before it was quiet, and in a flood not longer than the limit."""
    reader = LineReader("-", 0)
    reader.add(peel(1, XID), 100.0)

    assert not list(reader.read(100.0 + QUIET_S / 2))
    assert len(list(reader.read(100.001 + QUIET_S))) == 1
    reader.add(peel(2, XID), 200.0)
    reader.add(peel(3, "something else"), 200.0 + HOLD_S)
    assert len(list(reader.read(200.001 + HOLD_S))) == 1


def test_a_flood_is_counted() -> None:
    """A hundred of one shape come one by one, the rest in one event a second, none is lost."""
    reader = LineReader("-", 0)
    number = REPEATS_KEPT + 400
    for line in range(number):
        reader.add(peel(line + 1, XID), 1.0)
    found = [*reader.read(2.0), *reader.read(2.0 + COUNTED_EVERY_S)]

    assert sum(event.count for event in found) == number
    assert len(found) <= REPEATS_KEPT + 2
    assert found[-1].last is not None


def test_memory_stays_bounded() -> None:
    """Of lines that were read, only the context of later ones is kept."""
    reader = LineReader("-", 0)
    for turn in range(100):
        reader.add([record for n in range(100) for record in peel(n, "quiet line")], float(turn))
        list(reader.read(turn + 0.5))

    assert len(reader._records) < 500


def test_the_kernels_clock_may_drift() -> None:
    """A record that was waited for is dated by its arrival, however far the clocks are apart."""
    clock = KernelClock()
    wall = datetime(2026, 9, 22, 7, 44, 58, tzinfo=UTC)
    dated = clock.date(Stamp("1", monotonic_s=100.0), 107.0, wall, live=True)
    late = clock.date(
        Stamp("2", monotonic_s=110.0), 117.5, wall + timedelta(seconds=10.5), live=True
    )

    assert dated.wall == wall
    assert late.wall == wall + timedelta(seconds=10.0)


def test_saved_and_live_reading_share_the_buffer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The post-mortem reads the same records, and says why where it may not."""
    kmsg = tmp_path / "kmsg"
    kmsg.write_bytes(record(1, XID, 3.0))
    monkeypatch.setenv("PATH", str(tmp_path))
    _, ring = kernel_inputs(kmsg=kmsg)

    assert isinstance(ring, RawInput)
    assert XID.encode() in b"".join(ring.blocks())
    _, missing = kernel_inputs(kmsg=tmp_path / "none")
    assert isinstance(missing, UnreadableInput)
    assert "sudo" in missing.hint


def test_reading_ends_when_errors_do_not() -> None:
    """A descriptor that only ever fails does not keep the reader for ever."""

    def read(descriptor: int, size: int) -> bytes:
        raise OSError(22, "Invalid argument")

    assert list(read_kmsg(0, read)) == []


@pytest.mark.skipif(not Path("/dev/null").is_char_device(), reason="needs /dev/null")
def test_another_device_in_its_place_is_not_the_kernels_log(tmp_path: Path) -> None:
    """Containers link /dev/kmsg to /dev/null: said, and not read for ever."""
    (tmp_path / "kmsg").symlink_to("/dev/null")
    access = KernelLog(kmsg=tmp_path / "kmsg", root=tmp_path, journalctl=None).available()

    assert isinstance(access, Unavailable)
    assert "another device" in access.detail


def test_a_file_that_ends_costs_nothing(tmp_path: Path) -> None:
    """A saved buffer in its place is always readable and has no more: no busy loop."""
    kmsg = tmp_path / "kmsg"
    kmsg.write_bytes(record(0, XID, 1.0))
    log = KernelLog(kmsg=kmsg, since_boot=True)
    log.start()
    events_until(log, has(XidReported))
    began = time.process_time()
    time.sleep(0.5)
    used = time.process_time() - began
    log.stop()

    assert used < 0.2
