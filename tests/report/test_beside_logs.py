"""A report that lies beside the logs it tells of adds no second machine and no second word."""

from __future__ import annotations

import shutil
import tarfile
import zipfile
from pathlib import Path

import pytest

from gpuprobe import diagnose
from gpuprobe.diagnosis import Diagnosis, Kind
from gpuprobe.errors import InputUnreadableError
from gpuprobe.report.gathering import gather
from gpuprobe.report.writing import write
from gpuprobe.reporters.base import Reporter
from gpuprobe.reporters.bundle import verify
from gpuprobe.reporters.json import JsonReporter
from gpuprobe.reporters.markdown import MarkdownReporter
from gpuprobe.reporters.terminal import TerminalReporter
from tests.report.reports import EXAMPLE

QUIET = "Sep 14 21:16:40 lathe systemd[1]: Started Session 3 of User root.\n"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The logs of an incident."""
    return Path(shutil.copytree(EXAMPLE, tmp_path / "incident"))


def reported(folder: Path, output: Path) -> Path:
    write(gather([folder]), output, plots=False)
    return output


def gist(found: Diagnosis) -> tuple[object, ...]:
    first = found.verdicts[0]
    return (
        found.host,
        [one.host for one in found.other_hosts],
        [verdict.summary for verdict in found.verdicts],
        [(item.role, item.text, item.count) for item in first.evidence],
        [row.what for row in first.not_checked],
    )


@pytest.mark.parametrize("form", [".md", ".html", ".json", ".zip"])
def test_a_report_in_the_folder_changes_nothing_and_is_noted(folder: Path, form: str) -> None:
    """The same verdict of the same machine; the list of inputs says what was left out."""
    before = gist(diagnose(folder))
    reported(folder, folder / f"report{form}")

    found = diagnose(folder)

    assert gist(found) == before
    left_out = [item for item in found.inputs if item.format == "report"]
    assert any(f"report{form}" in item.path for item in left_out)
    assert all("no evidence" in item.notes[0] for item in left_out)


def test_a_report_in_an_archive_of_the_folder_is_left_out_too(folder: Path) -> None:
    """As it travels: logs and report packed together."""
    reported(folder, folder / "report.json")
    packed = folder.parent / "incident.tar.gz"
    with tarfile.open(packed, "w:gz") as archive:
        archive.add(folder, "incident")

    found = diagnose(packed)

    assert (found.host, found.other_hosts) == ("lathe", ())


@pytest.mark.parametrize("form", [".json", ".zip"])
def test_a_report_that_is_named_is_judged(folder: Path, form: str) -> None:
    """Alone, or beside logs: who names it wants it read."""
    path = reported(folder, folder.parent / f"report{form}")

    assert diagnose(path).answer is Kind.DEVICE_LEFT_BUS
    assert any("engine.log" in item.path for item in diagnose(path, folder).other_hosts[0].inputs)


def test_reports_alone_in_a_folder_are_judged(folder: Path) -> None:
    """A folder of what others sent."""
    inbox = folder.parent / "inbox"
    inbox.mkdir()
    reported(folder, inbox / "theirs.zip")

    assert diagnose(inbox).host == "host-1"


def test_a_report_of_other_logs_is_kept_where_the_logs_hold_no_fault(folder: Path) -> None:
    """What failed elsewhere is not swallowed by a quiet log that lies beside it."""
    inbox = folder.parent / "inbox"
    inbox.mkdir()
    (inbox / "quiet.log").write_text(QUIET)
    reported(folder, inbox / "theirs.json")

    assert diagnose(inbox).answer is Kind.DEVICE_LEFT_BUS


def test_a_report_without_a_fault_adds_no_machine(tmp_path: Path) -> None:
    """Its pseudonym is the machine's that the log names."""
    (tmp_path / "quiet.log").write_text(QUIET)
    reported(tmp_path, tmp_path / "report.json")

    assert len(diagnose(tmp_path).other_hosts) == 0


def test_an_unpacked_report_is_read_once(folder: Path) -> None:
    """Its excerpts and pages tell again what its `report.json` keeps."""
    packed = reported(folder, folder.parent / "report.zip")
    unpacked = folder.parent / "unpacked"
    with zipfile.ZipFile(packed) as archive:
        archive.extractall(unpacked)

    found = diagnose(unpacked)

    assert [item.path.rpartition("/")[2] for item in found.inputs] == ["engine.log", "kernel.log"]
    assert gist(found) == gist(diagnose(packed))


def test_a_folder_with_a_report_is_reported_again(folder: Path) -> None:
    """The second ZIP is as whole as the first, and tells the same."""
    reported(folder, folder / "first.zip")
    second = reported(folder, folder.parent / "second.zip")

    assert verify(second).differing == ()
    assert diagnose(second).verdicts[0].summary == diagnose(folder).verdicts[0].summary


def test_what_diagnose_wrote_beside_the_logs_changes_nothing(folder: Path) -> None:
    """In no form: its quotes are the logs' lines once more."""
    before = diagnose(folder)
    written: list[tuple[Reporter, str]] = [
        (TerminalReporter(), "verdict.txt"),
        (JsonReporter(), "verdict.json"),
        (MarkdownReporter(), "verdict.md"),
    ]
    for reporter, name in written:
        with (folder / name).open("w") as out:
            reporter.render(before, out)

    found = diagnose(folder)

    assert gist(found) == gist(before)
    assert [item.format for item in found.inputs[-3:]] == ["report"] * 3


def test_a_page_alone_says_what_to_give(folder: Path) -> None:
    """There is nothing in it to judge."""
    with pytest.raises(InputUnreadableError, match=r"\.json or the \.zip"):
        diagnose(reported(folder, folder.parent / "report.md"))
