"""A report is judged again as its inputs were, and nothing in one is trusted."""

from __future__ import annotations

import gzip
import io
import json
import sqlite3
import zipfile
from contextlib import chdir, closing
from pathlib import Path
from typing import Any

import pytest

from gpuprobe import diagnose
from gpuprobe.diagnosis import Diagnosis, Kind
from gpuprobe.errors import InputUnreadableError
from gpuprobe.options import Options
from gpuprobe.report import saved
from gpuprobe.report.gathering import gather, with_saved
from gpuprobe.report.writing import write
from gpuprobe.reporters.bundle import verify
from gpuprobe.reporters.report_json import ReportJson
from gpuprobe.reporters.report_redacted import redacted
from tests.report.report_bench import LEFT_THE_BUS, as_json, recorded, report_of


def gist(found: Diagnosis) -> list[object]:
    """What has to be the same when it is judged again."""
    return [
        (one.kind, one.certainty, one.summary, one.at, one.xids, len(one.evidence), one.causes,
         [row.why for row in one.ruled_out], [row.what for row in one.not_checked])
        for one in found.verdicts
    ]  # fmt: skip


def written(tmp_path: Path, document: dict[str, Any]) -> Path:
    path = tmp_path / "report.json"
    path.write_text(json.dumps(document))
    return path


def as_file(tmp_path: Path, *paths: Path, **options: Any) -> Path:
    gathered = gather(paths, Options(**options))
    out = tmp_path / "made.json"
    with out.open("w") as file:
        ReportJson().render(redacted(with_saved(gathered))[0], file)
    return out


def test_logs_are_judged_again_the_same(tmp_path: Path) -> None:
    """The JSON form of logs gives their verdict, with figures, causes and gaps."""
    path = as_file(tmp_path, LEFT_THE_BUS)

    assert gist(diagnose(path)) == gist(diagnose(LEFT_THE_BUS))


def test_a_recording_is_judged_again_the_same(tmp_path: Path) -> None:
    """Samples round the fault are kept, so what was ruled out by figures is again."""
    source = recorded(tmp_path / "r.gpuprobe")
    path = as_file(tmp_path, source)

    assert gist(diagnose(path)) == gist(diagnose(source))
    assert "no sustained over-power" in str(gist(diagnose(path)))


def test_what_the_options_placed_stays_placed(tmp_path: Path) -> None:
    """A zone that was given when the report was made need not be given again."""
    path = as_file(tmp_path, LEFT_THE_BUS, timezone="-07:00", since="2026-01-01")

    again = diagnose(path)

    assert (
        again.verdicts[0].at
        == diagnose(LEFT_THE_BUS, options=Options(timezone="-07:00", since="2026-01-01"))
        .verdicts[0]
        .at
    )


def test_a_report_of_a_report_is_one(tmp_path: Path) -> None:
    """Judged again and reported again, it says the same."""
    first = as_file(tmp_path, LEFT_THE_BUS)
    (tmp_path / "again").mkdir()
    second = as_file(tmp_path / "again", first)

    assert gist(diagnose(second)) == gist(diagnose(LEFT_THE_BUS))


def _torn(name: str) -> bytes:
    """Compressed text of which the end is missing, or an archive with a damaged member."""
    lines = b"".join(b"[%5d.000001] usb 1-1: port %d of lathe\n" % (at, at) for at in range(900))
    if name.endswith(".gz"):
        return gzip.compress(lines)[:-40]
    out = io.BytesIO()
    with zipfile.ZipFile(out, "w") as archive:
        archive.writestr("kern.log", lines)
    return out.getvalue().replace(b"port 800 ", b"port 801 ")


@pytest.mark.parametrize("name", ["kern.log.gz", "logs.zip"])
@pytest.mark.parametrize("form", [".json", ".zip"])
def test_what_was_read_in_part_stays_so(tmp_path: Path, name: str, form: str) -> None:
    """A report of an input that was not read to its end cannot show that nothing failed either."""
    (tmp_path / name).write_bytes(_torn(name))
    before = diagnose(tmp_path / name)
    path = tmp_path / f"report{form}"
    with chdir(tmp_path):
        write(gather([name]), path)

    again = diagnose(path)

    assert before.answer is again.answer is Kind.CANNOT_TELL
    rows = [[row.what for row in one.verdicts[0].not_checked] for one in (before, again)]
    assert len(rows[0]) == len(rows[1])
    assert [item.in_part for item in again.inputs] == [item.in_part for item in before.inputs]
    assert [item.notes for item in again.inputs] == [item.notes for item in before.inputs]
    if form == ".zip":
        assert not verify(path).differing


def test_a_recording_that_breaks_off_stays_so(tmp_path: Path) -> None:
    """A report of a recording without an end mark says that what came after is not known."""
    source = recorded(tmp_path / "r.gpuprobe", fails=False, seconds=20)
    with closing(sqlite3.connect(source)) as database, database:
        database.execute("DELETE FROM meta WHERE key = 'ended'")
    path = as_file(tmp_path, source)

    assert "what came after the end" in str(gist(diagnose(source)))
    assert "what came after the end" in str(gist(diagnose(path)))


def test_what_was_unread_beside_logs_is_not_said(tmp_path: Path) -> None:
    """Of a report in a folder of logs nothing counts, what it could not read neither."""
    (tmp_path / "logs.zip").write_bytes(_torn("logs.zip"))
    as_file(tmp_path, tmp_path / "logs.zip")
    (tmp_path / "logs.zip").unlink()
    (tmp_path / "kern.log").write_text("[    1.000001] usb 1-1: new device\n")

    found = diagnose(tmp_path)

    assert found.answer is Kind.NO_FAULT
    assert not any("check sum" in note for item in found.inputs for note in item.notes)


def test_names_are_replaced_in_what_is_kept() -> None:
    """The machine's name is in no part of the file, and its lines still join."""
    document = as_json(report_of(LEFT_THE_BUS))

    assert "lathe" not in json.dumps(document)
    assert "host-1" in json.dumps(document["saved"])


@pytest.mark.parametrize(
    "damage",
    [
        {"saved": None},
        {"saved": {"inputs": "x"}},
        {"saved": {"inputs": []}},
        {"schema": "gpuprobe.report/2"},
    ],
)
def test_what_is_no_report_is_refused(tmp_path: Path, damage: dict[str, Any]) -> None:
    """A newer schema, or nothing to judge, is an error with a hint, never a verdict."""
    document = {**as_json(report_of(LEFT_THE_BUS)), **damage}
    with pytest.raises(InputUnreadableError) as caught:
        diagnose(written(tmp_path, document))
    assert caught.value.hint


@pytest.mark.parametrize(
    "entry",
    [
        ["XidReported", {"origin": ["k", 1, "x", None, [0, 0]], "code": 1e999}],
        ["XidReported", {"origin": ["k", 1, "x", None, [0, 0]], "code": 10**400}],
        ["NoSuchEvent", {"origin": ["k", 1, "x", None, [0, 0]]}],
        ["XidReported", {"origin": ["k", -1, "x", None, [0, 0]], "code": 79, "count": -3}],
        ["XidReported", {"origin": "k", "code": 79}],
        ["OutputWritten", {"origin": ["k", 1, "x", None, [0, 0]], "lines": [[1]]}],
        ["GpuSampled", {"origin": ["k", 1, "x", None, [0, 0]], "power_w": {"float": "nan"}}],
        [["x"], 3],
        "x",
        None,
    ],
)
def test_a_hostile_event_is_left_out_with_a_note(tmp_path: Path, entry: Any) -> None:
    """It is counted in the notes; the rest is judged."""
    document = as_json(report_of(LEFT_THE_BUS))
    document["saved"]["inputs"][0]["events"].append(entry)

    found = diagnose(written(tmp_path, document))

    assert found.answer.value == "device-left-bus"
    assert any("1 of" in note for item in found.inputs for note in item.notes)


def test_hostile_texts_are_cut_and_cleaned(tmp_path: Path) -> None:
    """Escapes and endless texts in a report reach no output."""
    document = as_json(report_of(LEFT_THE_BUS))
    for item in document["saved"]["inputs"]:
        item["path"] = "\x1b[2J" + "p" * 100_000
        item["notes"] = ["\x07" + "n" * 1000] * 1000
        for _, fields in item["events"]:
            fields["origin"][2] = "\x1b[31m" + fields["origin"][2] + "x" * 10_000

    found = diagnose(written(tmp_path, document))

    texts = [row.text for one in found.verdicts for row in one.evidence]
    texts += [item.path for item in found.inputs]
    assert all("\x1b" not in text for text in texts)
    assert max(map(len, texts)) < 1200
    assert max(len(item.notes) for item in found.inputs) <= 60


def test_an_endless_report_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Beyond the limit nothing is read."""
    monkeypatch.setattr(saved, "LARGEST", 1000)
    with pytest.raises(InputUnreadableError, match="longer than"):
        diagnose(as_file(tmp_path, LEFT_THE_BUS))


def test_a_report_on_stdin_is_one() -> None:
    """`gpuprobe diagnose - < report.json` works as with a file."""
    out = io.StringIO()
    ReportJson().render(report_of(LEFT_THE_BUS), out)

    found = diagnose("-", stdin=io.BytesIO(out.getvalue().encode()))

    assert found.answer.value == "device-left-bus"
