"""`gpuprobe.load`: frames of fixed types."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pandas as pd
import pytest

import gpuprobe
from gpuprobe.errors import UsageError
from gpuprobe.events import OutputWritten
from gpuprobe.recording.writer import Recorder
from tests.live_events import GPU, OTHER, START, base, counted, drawn, facts, lost, steady
from tests.recording.recording_bench import record

TIME = "datetime64[ns, UTC]"
TEXT = pd.StringDtype("python")


@pytest.fixture
def path(tmp_path: Path) -> Path:
    lines = OutputWritten(**base(1), stream="stderr", lines=((1, "a"), (2, "b")), dropped=7)
    return record(
        tmp_path / "a.gpuprobe",
        [
            *facts(),
            *steady(60, power_w=lambda at: 200.0 + at, memory_temp_c=None),
            counted(1, correctable_BadTLP=3),
            drawn(1, 200.0, 210.5),
            lines,
            lost(60),
        ],
    )


def test_samples_have_fixed_types_and_missing_values(path: Path) -> None:
    """Times in UTC with nanoseconds, numbers float64, counts Int64; what was not read is missing."""
    with gpuprobe.load(path) as recording:
        found = recording.samples()

    assert len(found) == 600
    assert str(found.dtypes["at"]) == TIME
    assert found.dtypes["device"] == TEXT
    assert str(found.dtypes["power_w"]) == "float64"
    assert str(found.dtypes["link_width"]) == "Int64"
    assert found["at"].iloc[0] == pd.Timestamp(START)
    assert found["power_w"].iloc[10] == 201.0
    assert found["memory_temp_c"].isna().all()
    assert found["pstate"].isna().all()
    assert set(found["device"]) == {str(GPU)}


def test_an_empty_recording_has_frames_of_the_same_types(tmp_path: Path, path: Path) -> None:
    """No row changes no type."""
    empty = record(tmp_path / "empty.gpuprobe", [])
    with gpuprobe.load(empty) as nothing, gpuprobe.load(path) as something:
        for made in ("samples", "events", "engine_log", "meta", "counters", "gaps"):
            first, second = getattr(nothing, made)(), getattr(something, made)()
            assert first.dtypes.to_dict() == second.dtypes.to_dict(), made
        assert (
            nothing.samples(every="1s").dtypes.to_dict()
            == something.samples(every="1s").dtypes.to_dict()
        )


def test_buckets_keep_lowest_mean_and_highest(path: Path) -> None:
    """A row a device and time, with the number of readings."""
    with gpuprobe.load(path) as recording:
        found = recording.samples(every="10s")

    assert len(found) == 6
    assert found["at"].iloc[1] == pd.Timestamp(START) + pd.Timedelta("10s")
    assert found["count"].tolist() == [100] * 6
    assert found["power_w_min"].iloc[0] == 200.0
    assert found["power_w_max"].iloc[0] == pytest.approx(209.9)
    assert found["power_w_mean"].iloc[0] == pytest.approx(204.95)
    assert found["memory_temp_c_max"].isna().all()


@pytest.mark.parametrize("every", ["soon", "-1s", "0s", ""])
def test_no_length_of_time_is_an_error(path: Path, every: str) -> None:
    """With a hint."""
    with gpuprobe.load(path) as recording, pytest.raises(UsageError, match="no length of time"):
        recording.samples(every=every)


def test_one_device_can_be_asked_for(tmp_path: Path) -> None:
    """Another's rows are left out, and one that is not there is an error."""
    other = [type(one)(**{**vars(one), "device": OTHER}) for one in steady(5)]
    path = record(tmp_path / "b.gpuprobe", [*steady(10), *other])
    with gpuprobe.load(path) as recording:
        assert recording.devices == (str(GPU), str(OTHER))
        assert len(recording.samples(device=str(OTHER))) == 50
        assert recording.samples(every="1h", device=str(GPU))["count"].tolist() == [100]
        with pytest.raises(UsageError, match="holds no device"):
            recording.samples(device="0000:99:00.0")


def test_events_are_indexed_by_the_id_that_evidence_cites(path: Path) -> None:
    """`events:N` of a verdict is row N."""
    [proof] = [
        item for item in gpuprobe.diagnose(path).verdicts[0].evidence if item.role == "proof"
    ]
    table, _, number = (proof.ref or "").partition(":")
    with gpuprobe.load(path) as recording:
        row = recording.events().loc[int(number)]

    assert table == "events"
    assert row["text"] == proof.text
    assert row["kind"] == "GpuLostReported"


def test_the_other_tables(path: Path) -> None:
    """Output with its gap, counters, the driver's own power samples, meta."""
    with gpuprobe.load(path) as recording:
        assert recording.engine_log()["text"].tolist() == ["a", "b"]
        assert recording.gaps()["count"].tolist() == [7]
        assert recording.counters()["name"].tolist() == ["aer_dev_correctable.BadTLP"]
        assert recording.power_samples()["power_w"].tolist() == [200.0, 210.5]
        about = dict(recording.meta().itertuples(index=False))
    assert about["hostname"] == "box"
    assert about["ended"] == "stopped"


def test_the_command_line_comes_back_as_words(tmp_path: Path) -> None:
    """`argv` is a list, and None where none was recorded."""
    recorder = Recorder(tmp_path / "a.gpuprobe", about={"engine.argv": '["vllm", "serve"]'})
    recorder.end("stopped")
    with gpuprobe.load(recorder.path) as recording:
        assert recording.argv == ["vllm", "serve"]
    with gpuprobe.load(record(tmp_path / "b.gpuprobe", [])) as recording:
        assert recording.argv is None


def test_what_is_not_of_its_type_is_missing(path: Path) -> None:
    """SQLite holds anything in any column; a frame holds the column's type, row for row."""
    with closing(sqlite3.connect(path)) as database, database:
        for number, (power, width, device, at) in enumerate(
            [
                ("hot", 1.5, "x", 5),
                (b"12", "16", 99, "now"),
                (7, 2**62, 1, 2.5),
                (None, None, 1, 9),
            ]
        ):
            database.execute(
                "UPDATE samples SET power_w = ?, link_width = ?, device = ?, at = ? WHERE id = ?",
                (power, width, device, at, number + 1),
            )
    with gpuprobe.load(path) as recording:
        found = recording.samples().head(4)
        whole = recording.samples()

    assert found["power_w"].isna().tolist() == [True, True, False, True]
    assert found["power_w"].iloc[2] == 7.0
    assert found["link_width"].isna().tolist() == [True, False, False, True]
    assert found["link_width"].iloc[1:3].tolist() == [16, 2**62]
    assert found["device"].isna().tolist() == [True, True, False, False]
    assert found["at"].isna().tolist() == [False, True, True, False]
    assert found["at"].iloc[3] == pd.Timestamp(9, tz="UTC")
    assert len(whole) == 600
    assert str(whole.dtypes["link_width"]) == "Int64"


def test_a_damaged_page_costs_its_own_rows_alone(tmp_path: Path) -> None:
    """The rows before it in the same reading are kept, and those behind it are come to again."""
    path = record(tmp_path / "c.gpuprobe", steady(300))
    with closing(sqlite3.connect(path)) as database:
        page = database.execute("PRAGMA page_size").fetchone()[0]
    data = bytearray(path.read_bytes())
    begin = len(data) // page // 2 * page
    data[begin : begin + page] = bytes(page)
    path.write_bytes(data)

    with gpuprobe.load(path) as recording:
        found = recording.samples()
        one_by_one = [number for number, *_ in recording._tables.scan("samples", ("id", "at"))]
        notes = recording.notes

    assert any("table samples is damaged" in note for note in notes)
    seconds = ((found["at"] - pd.Timestamp(START)).dt.total_seconds() * 10).round().astype(int)
    assert seconds.tolist() == [number - 1 for number in one_by_one]
    assert 2700 < len(found) < 3000
    assert (len(found) - seconds.searchsorted(1500)) > 1000
