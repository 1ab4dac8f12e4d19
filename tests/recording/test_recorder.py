"""The recorder: what is on the disk and when, and what it survives."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from gpuprobe import load
from gpuprobe.errors import RecordingError
from gpuprobe.events import EngineChanged, GpuSampled, OutputWritten, XidReported
from gpuprobe.recording.pending import Room
from gpuprobe.recording.store import Store
from gpuprobe.recording.writer import Limits, Recorder
from tests.live_events import base, counted, drawn, facts, judged, lost, steady
from tests.recording.recording_bench import record, rows


def test_what_was_committed_is_in_the_file(tmp_path: Path) -> None:
    """After `commit` another process finds the event, and what was added before it."""
    recorder = Recorder(tmp_path / "a.gpuprobe")
    recorder.add(steady(1))

    assert recorder.commit([lost(1)], timeout_s=10)

    path = tmp_path / "a.gpuprobe"
    assert rows(path, "SELECT kind FROM events") == [("GpuLostReported",)]
    assert rows(path, "SELECT count(*) FROM samples") == [(10,)]
    recorder.end("stopped")


def test_a_file_that_ended_is_one_file_for_its_owner_alone(tmp_path: Path) -> None:
    """No WAL is left beside it, its mode is 0600, and it says how it ended."""
    path = record(tmp_path / "a.gpuprobe", [lost(1)], how="device-lost")

    assert [path] == list(tmp_path.iterdir())
    assert path.stat().st_mode & 0o777 == 0o600
    with load(path) as recording:
        assert recording.ended == "device-lost"
        assert not recording.live
        assert recording.notes == ()


def test_samples_are_written_within_a_second(tmp_path: Path) -> None:
    """What was only added is on the disk without anybody asking for it."""
    recorder = Recorder(tmp_path / "a.gpuprobe", limits=Limits(every_s=0.1))
    recorder.add(steady(1))
    end = time.monotonic() + 10
    while rows(recorder.path, "SELECT count(*) FROM samples") != [(10,)]:
        assert time.monotonic() < end
        time.sleep(0.02)
    recorder.end("stopped")


@pytest.mark.parametrize("what", ["file", "link", "folder", "nothing"])
def test_no_file_is_made_over_another(tmp_path: Path, what: str) -> None:
    """A file, a link, a folder in the place, or no folder at all: an error with a hint."""
    path = tmp_path / "a.gpuprobe"
    target = tmp_path / "precious"
    target.write_text("kept")
    if what == "file":
        path.write_text("mine")
    elif what == "link":
        path.symlink_to(target)
    elif what == "folder":
        path.mkdir()
    else:
        path = tmp_path / "none" / "a.gpuprobe"

    with pytest.raises(RecordingError) as caught:
        Recorder(path)

    assert caught.value.hint
    assert target.read_text() == "kept"


def test_a_folder_that_vanishes_stops_the_recording_alone(tmp_path: Path) -> None:
    """One message; nothing is raised, and later calls return at once."""
    folder = tmp_path / "gone"
    folder.mkdir()
    recorder = Recorder(folder / "a.gpuprobe")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()

    assert not recorder.commit([lost(1)], timeout_s=10)
    problem = recorder.problem
    assert problem is not None
    assert "folder is gone" in problem
    recorder.add(steady(1))
    assert not recorder.commit([lost(2)], timeout_s=10)
    recorder.end("stopped")
    assert recorder.problem == problem


def test_a_full_disk_stops_the_recording_alone(tmp_path: Path) -> None:
    """At a limit of size: what was written before is read, the program goes on, one message."""
    script = f"""
import resource, sys
sys.path.insert(0, {str(Path(__file__).parents[2])!r})
from pathlib import Path
from gpuprobe.recording.writer import Recorder
from tests.live_events import lost, steady
recorder = Recorder(Path({str(tmp_path / "a.gpuprobe")!r}))
assert recorder.commit([lost(1)], timeout_s=20)
resource.setrlimit(resource.RLIMIT_FSIZE, (200_000, 200_000))
for second in range(60):
    recorder.add(steady(60))
    if not recorder.commit([lost(second)], timeout_s=20):
        break
print(recorder.problem)
recorder.end("stopped")
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr
    assert done.stdout.count("recording stopped") == 1
    assert done.stderr == ""
    with load(tmp_path / "a.gpuprobe") as recording:
        assert "GpuLostReported" in set(recording.events()["kind"])
        assert recording.ended is None


def test_no_space_left_stops_the_recording_alone(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite's own word for a full disk is told as such."""
    recorder = Recorder(tmp_path / "a.gpuprobe")

    def refuse(*_: Any) -> None:
        error = sqlite3.OperationalError("database or disk is full")
        error.sqlite_errorcode = sqlite3.SQLITE_FULL
        raise error

    monkeypatch.setattr(Store, "write", refuse)
    assert not recorder.commit([lost(1)], timeout_s=10)
    assert "the disk is full" in str(recorder.problem)


def test_a_disk_that_stalls_costs_samples_and_no_event(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Callers wait once at most; samples are thinned and counted; every event is kept."""
    held = threading.Event()
    write = Store.write

    def slow(self: Store, *values: Any) -> None:
        held.wait(30)
        write(self, *values)

    monkeypatch.setattr(Store, "write", slow)
    recorder = Recorder(tmp_path / "a.gpuprobe", limits=Limits(room=Room(samples=100)))
    recorder.describe("x", "y")
    begin = time.monotonic()
    for second in range(50):
        recorder.add(steady(10))
        recorder.commit([lost(second)], timeout_s=0.2)
    took = time.monotonic() - begin
    held.set()
    end = time.monotonic() + 20
    while not recorder.commit((), timeout_s=1):
        assert time.monotonic() < end
    recorder.end("stopped")

    assert took < 5
    with load(recorder.path) as recording:
        assert len(recording.events()) == 50
        gaps = recording.gaps()
        stored = len(recording.samples())
    assert stored < 5000
    assert stored + gaps.loc[gaps["what"] == "samples", "count"].sum() == 5000


def test_of_the_output_the_last_part_is_kept(tmp_path: Path) -> None:
    """Beyond its limit the oldest lines go."""
    recorder = Recorder(tmp_path / "a.gpuprobe", limits=Limits(log_bytes=20_000))
    for block in range(20):
        lines = tuple((block * 100 + n, "x" * 50) for n in range(100))
        recorder.commit([OutputWritten(**base(block), stream="stdout", lines=lines)], timeout_s=10)
    recorder.end("stopped")

    with load(recorder.path) as recording:
        kept = recording.engine_log()
    assert 100 <= len(kept) <= 300
    assert kept["line"].max() == 1999


def test_what_does_not_change_is_stored_once(tmp_path: Path) -> None:
    """A counter that stands still costs one row, and its last reading is known."""
    readings = [counted(second, correctable_BadTLP=5) for second in range(300)]
    rises = [counted(300, correctable_BadTLP=6)]
    path = record(tmp_path / "a.gpuprobe", [*readings, *rises])

    with load(path) as recording:
        assert recording.counters()["value"].tolist() == [5, 6]
    assert len(rows(path, "SELECT * FROM read_until")) == 1


def test_a_value_too_large_for_the_file_is_no_error(tmp_path: Path) -> None:
    """A counter that reads all ones is stored as the largest number."""
    path = record(tmp_path / "a.gpuprobe", [counted(1, correctable_BadTLP=2**64 - 1)])

    with load(path) as recording:
        assert recording.counters()["value"].tolist() == [2**63 - 1]


def test_a_long_recording_goes_on_in_files_that_stand_alone(tmp_path: Path) -> None:
    """Each file knows the GPU, repeats the last evidence, and all of them give one verdict."""
    import gpuprobe

    recorder = Recorder(
        tmp_path / "a.gpuprobe", about={"hostname": "box"}, limits=Limits(file_bytes=150_000)
    )
    recorder.commit(facts(), timeout_s=10)
    for part in range(8):
        recorder.add(steady(60, power_w=100.0 + part))
        recorder.add([drawn(part, *[200.0 + n % 7 for n in range(100)])])
        assert recorder.commit([counted(part, correctable_BadTLP=part)], timeout_s=10)
    recorder.commit([lost(60)], timeout_s=10)
    recorder.end("device-lost")

    paths = sorted(tmp_path.glob("*.gpuprobe"))
    assert len(paths) > 1
    for path in paths:
        with load(path) as recording:
            assert "DeviceIdentified" in set(recording.events()["kind"])
            assert recording.ended is not None
    everything = gpuprobe.diagnose(*paths)
    assert everything.answer.value == "device-left-bus"
    first = everything.verdicts[0]
    assert first.device is not None
    assert first.device.name == "NVIDIA L40S"
    assert len([item for item in first.evidence if item.role.value == "proof"]) == 1


def test_a_diagnosis_is_stored_as_the_document_that_reports_show(tmp_path: Path) -> None:
    """`diagnoses` gives the JSON of `diagnose --format json`, and marks a fault."""
    recorder = Recorder(tmp_path / "a.gpuprobe")
    recorder.end("device-lost", diagnosis=judged(*facts(), lost(1)))

    with load(recorder.path) as recording:
        [document] = recording.diagnoses()
        assert document["schema"] == "gpuprobe.diagnosis/1"
        assert document["answer"] == "device-left-bus"
        assert "fault-at" in recording.about


def test_nothing_is_lost_between_two_threads(tmp_path: Path) -> None:
    """Events from several threads all arrive."""
    recorder = Recorder(tmp_path / "a.gpuprobe")

    def work(number: int) -> None:
        for n in range(50):
            event = EngineChanged(**base(n, f"{number}.{n}"), what="started")
            recorder.commit([event], timeout_s=0) if n % 2 else recorder.add([event])

    threads = [threading.Thread(target=work, args=(n,)) for n in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    recorder.end("stopped")
    texts = {text for (text,) in rows(recorder.path, "SELECT text FROM events")}
    assert texts == {f"{number}.{n}" for number in range(4) for n in range(50)}


def test_a_row_takes_about_eighty_bytes(tmp_path: Path) -> None:
    """A week at 10 Hz is half a gigabyte a GPU."""
    path = record(
        tmp_path / "a.gpuprobe",
        steady(600, power_w=lambda at: 210.123 + at, rx_bytes_per_s=lambda at: 1e6 * at / 7),
        room=Room(samples=10_000),
    )

    with load(path) as recording:
        count = len(recording.samples())
    assert count == 6000
    assert path.stat().st_size / count < 110


def test_other_kinds_come_back(tmp_path: Path) -> None:
    """A sample with a line number, or of no device, is kept as an event."""
    odd = GpuSampled(**{**base(1), "device": None}, power_w=3.0)
    xid = XidReported(**base(2, "NVRM: Xid 79\ud800"), code=79)
    path = record(tmp_path / "a.gpuprobe", [odd, xid])

    with load(path) as recording:
        assert set(recording.events()["kind"]) == {"GpuSampled", "XidReported"}
