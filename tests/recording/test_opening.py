"""Recordings from anybody: damaged, foreign, newer, cut, hostile."""

from __future__ import annotations

import os
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import pytest

import gpuprobe
from gpuprobe.errors import InputUnreadableError, RecordingError
from gpuprobe.recording.opening import is_written, opened
from gpuprobe.recording.writer import Recorder
from tests.live_events import facts, lost, steady
from tests.recording.recording_bench import files, record


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return record(tmp_path / "a.gpuprobe", [*facts(), *steady(60), lost(60)])


def change(path: Path, *statements: str) -> None:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA writable_schema = ON")
    for statement in statements:
        connection.execute(statement)
    connection.close()


def refusal(path: Path) -> RecordingError:
    with pytest.raises(RecordingError) as caught, opened(path):
        pass
    assert caught.value.hint
    return caught.value


def test_a_newer_schema_names_the_gpuprobe_that_is_needed(path: Path) -> None:
    """The version that made it stands in the hint."""
    change(path, "PRAGMA user_version = 7", "UPDATE meta SET value = '9.1' WHERE key = 'gpuprobe'")

    error = refusal(path)
    assert "schema 7" in str(error)
    assert "9.1" in error.hint


def test_an_empty_file_without_its_wal_says_what_to_attach(tmp_path: Path) -> None:
    """What a copy of the bare file gives, seconds after the recording began."""
    path = tmp_path / "b.gpuprobe"
    path.touch()

    error = refusal(path)
    assert error.hint == (
        "b.gpuprobe-wal is missing: attach both, or run `gpuprobe report` where it was made."
    )


@pytest.mark.parametrize(
    ("name", "what"),
    [("empty.log", "is empty"), ("folder", "is a folder"), ("engine.log", "is no recording")],
)
def test_what_is_no_recording_says_what_it_is_and_what_to_give(
    tmp_path: Path, name: str, what: str
) -> None:
    """A file of no recording's name lacks no -wal; its reader looks for a recording."""
    path = tmp_path / name
    if name == "folder":
        path.mkdir()
    else:
        path.write_text("" if name == "empty.log" else "INFO: serving\n")

    error = refusal(path)
    assert what in str(error)
    assert "wal" not in f"{error}{error.hint}"
    assert "gpuprobe record" in error.hint


def test_a_device_is_no_recording() -> None:
    """`--replay /dev/null` is answered without a word of a null-wal."""
    error = refusal(Path("/dev/null"))

    assert str(error) == "/dev/null is a device or a pipe, no recording"
    assert "wal" not in error.hint


def test_a_database_without_tables_says_what_to_attach(tmp_path: Path) -> None:
    """A header alone: all of it lies in the WAL, which is not there."""
    path = tmp_path / "b.gpuprobe"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("CREATE TABLE x (y)")
    connection.execute("DROP TABLE x")
    connection.execute("VACUUM")
    connection.close()

    assert "b.gpuprobe-wal is missing" in refusal(path).hint


def test_a_text_by_that_name_is_no_recording(tmp_path: Path) -> None:
    """And `diagnose` says so."""
    path = tmp_path / "b.gpuprobe"
    path.write_text("NVRM: Xid 79\n")

    assert "is no recording" in str(refusal(path))
    with pytest.raises(InputUnreadableError, match="no recording"):
        gpuprobe.diagnose(path)


def test_another_database_is_no_recording(tmp_path: Path) -> None:
    """A file of another program, whatever its name."""
    path = tmp_path / "b.gpuprobe"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE events (id)")
    connection.close()

    assert "no recording" in str(refusal(path))


def test_a_recording_by_another_name_is_one(path: Path) -> None:
    """Its own mark decides, as an attachment is often renamed."""
    renamed = path.rename(path.with_name("attachment.bin"))

    assert gpuprobe.diagnose(renamed).exit_code == 79


@pytest.mark.parametrize("share", [0.3, 0.5, 0.8, 0.97])
def test_a_file_cut_short_is_read_as_far_as_it_goes(path: Path, share: float) -> None:
    """What is there is read and the damage is told, or it is refused with a hint."""
    data = path.read_bytes()
    path.write_bytes(data[: int(len(data) * share)])

    try:
        with opened(path) as recording:
            notes = recording.notes
        reading = gpuprobe.timelines(path)
    except InputUnreadableError as error:
        hints = [error.hint]
    else:
        hints = ["read"]
        said = [*notes, *(note for one in reading for item in one.inputs for note in item.notes)]
        assert any("cut short" in note for note in said)
    assert all(hints)


def test_a_damaged_page_costs_what_stood_on_it(path: Path) -> None:
    """Every third page filled with noise in turn: an answer or a refusal each time, never a crash."""
    data = path.read_bytes()
    answers = set()
    for page in range(1, len(data) // 4096, 3):
        broken = bytearray(data)
        broken[page * 4096 : (page + 1) * 4096] = os.urandom(4096)
        path.write_bytes(broken)
        try:
            answers.add(gpuprobe.diagnose(path).answer.value)
        except InputUnreadableError:
            answers.add("unreadable")
    assert "device-left-bus" in answers


HOSTILE: dict[str, Callable[[Path], None]] = {
    "a view": lambda path: change(
        path,
        "ALTER TABLE samples RENAME TO s",
        "CREATE VIEW samples AS WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) "
        "SELECT n AS id FROM x",
    ),
    "a computed column": lambda path: change(
        path,
        "DROP TABLE events",
        "CREATE TABLE events (id INTEGER PRIMARY KEY, at AS (id + 1))",
    ),
    "no table": lambda path: change(path, "DROP TABLE diagnoses"),
}


@pytest.mark.parametrize("what", sorted(HOSTILE))
def test_what_gpuprobe_did_not_make_is_refused(path: Path, what: str) -> None:
    """A view, a computed column or nothing where a table should be."""
    HOSTILE[what](path)

    assert "did not make" in str(refusal(path))


def test_a_trigger_never_runs(path: Path) -> None:
    """It lies there, and reading does not care."""
    change(path, "CREATE TRIGGER t AFTER INSERT ON meta BEGIN DELETE FROM events; END")

    assert gpuprobe.diagnose(path).exit_code == 79


@pytest.mark.parametrize(
    "statement",
    [
        "UPDATE events SET more = zeroblob(20000000) WHERE id = 1",
        "UPDATE events SET more = x'ff00ff', text = x'ff', kind = 7, at = 'noon'",
        "UPDATE events SET more = '[' || replace(hex(zeroblob(50000)), '0', '[')",
        'UPDATE events SET more = \'{"code": 1e999, "stamp": 3}\'',
        "UPDATE samples SET power_w = 'high', at = 9e300",
        "UPDATE samples SET device = 'x'",
        "UPDATE samples SET at = 9223372036854775807",
        "UPDATE samples SET monotonic_s = 'late'",
        "UPDATE devices SET pci = 'nowhere'",
        "UPDATE meta SET value = x'ff'",
        "UPDATE read_until SET at = 'x', monotonic_s = 'y'",
        "INSERT INTO power_samples VALUES (1, 1, 1.0, 1, 5, x'78da0000')",
        "INSERT INTO counters VALUES (1, 1, 'x', 1, 2, 3, 'four')",
        "INSERT INTO engine_log VALUES (1, 'x', 2, 3, 'y', x'ff')",
        "INSERT INTO diagnoses VALUES (1, 1, '[]')",
    ],
)
def test_values_of_a_wrong_kind_are_left_out(path: Path, statement: str) -> None:
    """Whatever stands in a column: a diagnosis, and frames of the usual types."""
    change(path, statement)

    assert gpuprobe.diagnose(path).verdicts
    with gpuprobe.load(path) as recording:
        for made in ("samples", "events", "engine_log", "meta", "counters", "gaps"):
            getattr(recording, made)()
        recording.samples(every="1s")
        recording.power_samples()
        recording.diagnoses()


def test_an_event_of_a_newer_version_is_noted(path: Path) -> None:
    """It stays as text in the frame, and the reader says that it was left out."""
    change(path, "UPDATE events SET kind = 'GpuMelted' WHERE kind = 'GpuLostReported'")

    notes = gpuprobe.diagnose(path).inputs[0].notes
    assert any("GpuMelted" in note for note in notes)
    with gpuprobe.load(path) as recording:
        assert "GpuMelted" in set(recording.events()["kind"])


def test_who_writes_is_seen_without_touching_the_file(tmp_path: Path) -> None:
    """The probe for a writer takes no lock, and sees its own process too."""
    recorder = Recorder(tmp_path / "a.gpuprobe")
    assert is_written(recorder.path)
    recorder.end("stopped")
    before = files(tmp_path)
    assert not is_written(recorder.path)
    assert before == files(tmp_path)


def test_a_recording_in_an_archive_says_what_to_do(path: Path, tmp_path: Path) -> None:
    """It is named, with the step that makes it readable."""
    import tarfile

    archive = tmp_path / "all.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(path, "run/a.gpuprobe")

    with pytest.raises(InputUnreadableError, match="inside an archive"):
        gpuprobe.diagnose(archive)


READ = """
import os, sys, gpuprobe
gpuprobe.diagnose(sys.argv[1])  # all is imported now, while it can be
if os.geteuid() == 0:
    os.setgroups([])
    os.setgid(65534)
    os.setuid(65534)
sys.exit(gpuprobe.diagnose(sys.argv[2]).exit_code)
"""


def as_ordinary_user(first: Path, path: Path) -> int:
    """Exit code of a diagnosis by somebody whom file modes bind, as root they do not."""
    command = [sys.executable, "-c", READ, str(first), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stderr == ""
    return done.returncode


@pytest.mark.parametrize("mode", [0o555, 0o777], ids=["read-only", "writable"])
@pytest.mark.parametrize("cut", [False, True], ids=["ended", "cut off"])
def test_reading_leaves_no_trace_in_the_folder(mode: int, cut: bool) -> None:
    """No `-wal` or `-shm` is made or changed, whether the reader could make one or not."""
    with tempfile.TemporaryDirectory(prefix="gpuprobe-test-") as place:
        Path(place).chmod(0o755)  # pytest's own folders let nobody else in
        made = record(
            Path(place) / "made.gpuprobe", [*facts(), *steady(5), lost(5)], how=None if cut else "x"
        )
        folder = Path(place) / "folder"
        folder.mkdir()
        for side in ("", "-wal"):
            if (source := made.with_name(made.name + side)).exists():
                shutil.copy(source, folder / f"a.gpuprobe{side}")
        for file in folder.iterdir():
            file.chmod(0o444 if mode == 0o555 else 0o666)
        folder.chmod(mode)
        before = files(folder), {one.name: one.stat().st_mtime_ns for one in folder.iterdir()}

        code = as_ordinary_user(made, folder / "a.gpuprobe")
        after = files(folder), {one.name: one.stat().st_mtime_ns for one in folder.iterdir()}
        folder.chmod(0o755)
    assert code == 79
    assert ("a.gpuprobe-wal" in before[0]) == cut
    assert before == after


def test_a_damaged_schema_that_is_no_text_is_refused(path: Path) -> None:
    """SQLite quotes it in its message, and Python cannot read that one."""
    data = path.read_bytes()
    path.write_bytes(data.replace(b"CREATE TABLE meta", b"CR\xf1ATE TABLE meta"))

    assert "its schema is damaged" in str(refusal(path))


def test_a_file_that_is_cut_short_says_so(path: Path) -> None:
    """How much of it is missing says more than what SQLite makes of the rest."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])

    assert f"cut short: {len(data) // 3:,} of {len(data):,} bytes" in str(refusal(path))


def test_damage_is_no_proof_that_nothing_failed(path: Path) -> None:
    """Where the row of the loss is damaged the answer is cannot-tell, with the one given before."""
    found = gpuprobe.diagnose(path)
    assert found.exit_code == 79
    change(path, "UPDATE events SET more = '{' WHERE more LIKE '%stamp%'")

    found = gpuprobe.diagnose(path)

    assert found.answer == "cannot-tell"
    assert found.verdicts[0].summary.startswith("It cannot be told whether something failed")
    assert "damaged" in found.verdicts[0].not_checked[0].what
    assert any("damaged" in note for note in found.inputs[0].notes)


@pytest.mark.parametrize("monotonic", ["1e300", "-1e11", "123456789012345678901"])
def test_a_time_that_cannot_be_is_damage(path: Path, monotonic: str) -> None:
    """Digits gone wrong are left out, and nothing is reckoned with them."""
    change(
        path,
        f"UPDATE events SET more = json_set(more, '$.stamp[1]', {monotonic})",
        "UPDATE samples SET monotonic_s = 1e300",
    )

    assert "an event that is damaged was left out" in gpuprobe.diagnose(path).inputs[0].notes


def test_a_recording_that_cannot_be_made_leaves_no_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a full disk an empty file would refuse the next one its name."""

    def full(database: sqlite3.Connection) -> None:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr("gpuprobe.recording.store.schema.create", full)
    with pytest.raises(RecordingError, match="full"):
        Recorder(tmp_path / "a.gpuprobe")

    assert list(tmp_path.iterdir()) == []


def test_what_refuses_a_recording_reads_as_a_sentence(path: Path, tmp_path: Path) -> None:
    """The path stands once before it, and the hint is a sentence of its own."""
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 3])

    with pytest.raises(InputUnreadableError) as caught:
        gpuprobe.diagnose(path)
    assert f"{path}: it cannot be read: the file is cut short" in str(caught.value)
    assert "bytes. It is damaged" in str(caught.value)
