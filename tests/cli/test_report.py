"""`gpuprobe report` and `verify`, as a user runs them."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from gpuprobe import diagnose
from gpuprobe.cli import main
from gpuprobe.cli.report_end import last_words, write_verdict
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE
from tests.report.report_bench import LEFT_THE_BUS, recorded


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(main, [*map(str, args)])


def test_without_a_file_markdown_goes_to_stdout() -> None:
    """The report, and nothing else, so that it can be piped on."""
    argv = [sys.executable, "-m", "gpuprobe", "report", str(LEFT_THE_BUS)]
    done = subprocess.run(argv, stdin=subprocess.DEVNULL, capture_output=True, encoding="utf-8")

    assert done.returncode == 0
    assert "## Confirmed: GPU 0000:04:00.0 left the bus" in done.stdout
    assert "lathe" not in done.stdout
    assert "redacted: 1 host" in done.stderr


@pytest.mark.parametrize("suffix", ["md", "html", "json", "zip"])
def test_the_suffix_says_the_form(tmp_path: Path, suffix: str) -> None:
    """Each is written, with its map beside it, and no half file is left."""
    out = tmp_path / f"report.{suffix}"
    done = run("report", LEFT_THE_BUS, "-o", out)

    assert done.exit_code == 0, done.stderr
    assert out.stat().st_size > 1000
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        out.name,
        f"{out.name}.redaction.txt",
    ]


@pytest.mark.parametrize(
    ("suffix", "begins"), [("md", b"<!--"), ("html", b"<!doctype"), ("json", b"{"), ("zip", b"PK")]
)
def test_a_verdict_alone_has_every_form(tmp_path: Path, suffix: str, begins: bytes) -> None:
    """A run that was not recorded gets the report its suffix asks for, redacted, of its verdict."""
    out = tmp_path / f"report.{suffix}"

    assert write_verdict(diagnose(LEFT_THE_BUS), out) is None
    assert out.read_bytes().lower().startswith(begins.lower())
    assert b"lathe" not in out.read_bytes()


def test_a_verdict_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """Whatever fails is a sentence: the run ends as its engine did."""
    said = write_verdict(diagnose(LEFT_THE_BUS), tmp_path / "gone" / "report.md")

    assert said is not None
    assert said.startswith("no report: ")


def test_run_refuses_a_form_that_is_none() -> None:
    """It is said before the engine starts, not after a night."""
    done = run("run", "--report", "report.pdf", "--", "echo", "started")

    assert done.exit_code == 2
    assert "a report is made as .md, .html, .json or .zip" in done.stderr
    assert "started" not in done.stdout


def test_who_it_is_for_decides_what_stays() -> None:
    """Engine: no host, no UUID. Vendor: the UUID and the bug report first. Internal: the host."""
    uuid = "GPU-3f1d7c52-4b0e-4c1a-9a77-6f20e5b8d913"
    engine, vendor, internal = (
        run("report", LEFT_THE_BUS, "--for", name).stdout
        for name in ("engine", "vendor", "internal")
    )

    assert uuid not in engine
    assert "lathe" not in engine + vendor
    assert uuid in vendor
    assert "lathe" in internal
    assert "nvidia-bug-report.sh --safe-mode" in vendor
    assert "--safe-mode" not in engine


@pytest.mark.parametrize(
    ("args", "said"),
    [
        ((), "name what to report"),
        ((LEFT_THE_BUS, "-o", "report.txt"), "a report is made as .md, .html, .json or .zip"),
        ((LEFT_THE_BUS, "-o", "no/such/report.md"), "no/such is no folder"),
        ((LEFT_THE_BUS, "--keep", "secrets"), "cannot be kept"),
        (("no-such.log",), "there is no such file"),
    ],
)
def test_mistakes_are_said(args: tuple[str | Path, ...], said: str) -> None:
    """Usage errors end with 2 and name what to do."""
    done = run("report", *args)

    assert done.exit_code == 2
    assert said in done.stderr


def test_an_input_is_never_written_over(tmp_path: Path) -> None:
    """Also where it was found in a folder."""
    log = tmp_path / "kernel.json"
    log.write_bytes((LEFT_THE_BUS / "kernel.log").read_bytes())
    before = log.read_bytes()

    for given in (log, tmp_path):
        done = run("report", given, "-o", log)
        assert done.exit_code == 2
        assert "is one of the inputs" in done.stderr
    assert log.read_bytes() == before


def test_a_report_that_was_read_is_never_written_over(tmp_path: Path) -> None:
    """One of logs that are gone is an input, too; its members are what was read of it."""
    log = tmp_path / "kernel.log"
    log.write_bytes((LEFT_THE_BUS / "kernel.log").read_bytes())
    out = tmp_path / "report.zip"
    assert run("report", tmp_path, "-o", out).exit_code == 0
    before = out.read_bytes()
    log.unlink()

    done = run("report", tmp_path, "-o", out)

    assert done.exit_code == 2
    assert "is one of the inputs" in done.stderr
    assert out.read_bytes() == before


@pytest.mark.parametrize("form", ["md", "json", "zip"])
def test_the_same_command_again_renews_the_report(tmp_path: Path, form: str) -> None:
    """The first one lies beside its logs and is no input."""
    (tmp_path / "kernel.log").write_bytes((LEFT_THE_BUS / "kernel.log").read_bytes())
    out = tmp_path / f"report.{form}"

    for _ in range(2):
        done = run("report", tmp_path, "-o", out)
        assert done.exit_code == 0, done.stderr


def test_a_map_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    """It holds the names themselves, so it is written through no link that somebody laid there."""
    (tmp_path / "aim.txt").write_text("kept")
    (tmp_path / "report.md.redaction.txt").symlink_to(tmp_path / "aim.txt")

    done = run("report", LEFT_THE_BUS, "-o", tmp_path / "report.md")

    assert done.exit_code == 2
    assert "report.md.redaction.txt, which says what stands for what" in done.stderr
    assert (tmp_path / "aim.txt").read_text() == "kept"


def test_verify_says_what_differs(tmp_path: Path) -> None:
    """0 as made, 1 with a change, 2 where it is no report."""
    out = tmp_path / "report.zip"
    run("report", LEFT_THE_BUS, "-o", out)
    assert run("verify", out).exit_code == 0
    with zipfile.ZipFile(out, "a") as archive:
        archive.writestr("more.txt", "x")
    done = run("verify", out)
    assert (done.exit_code, "more.txt is not in the manifest" in done.stdout) == (1, True)
    assert run("verify", LEFT_THE_BUS / "kernel.log").exit_code == 2


def test_watch_and_record_name_the_command(tmp_path: Path) -> None:
    """The last words of a recording are how to make the file to attach, or where it lies."""
    source = recorded(tmp_path / "r.gpuprobe", seconds=5)
    assert last_words(source, None) == f"to attach it: gpuprobe report {source} -o report.md"
    out = tmp_path / "r.json"  # the form that draws nothing
    assert last_words(source, out) == f"report: {out}"
    assert "left the bus" in out.read_text()
    assert "no report: error" in last_words(tmp_path / "gone.gpuprobe", out)


@pytest.mark.slow
@pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))
def test_record_writes_its_report_at_the_end(tmp_path: Path) -> None:
    """A loss that the driver reports is in the report when the recorder has ended."""
    fake = FakeNvml(tmp_path, [ONE])
    fake.set(power_mw=210_000)
    out, report = tmp_path / "out", tmp_path / "end.md"
    argv = [sys.executable, "-m", "gpuprobe", "record", str(tmp_path / "r.gpuprobe")]
    with out.open("wb") as stream:
        process = subprocess.Popen(
            [*argv, "--report", str(report)],
            env={**os.environ, **fake.env},
            stdin=subprocess.DEVNULL,
            stdout=stream,
            stderr=stream,
        )
    try:
        fake.wait_for("nvmlDeviceGetCurrentClocksEventReasons", ONE, times=5, timeout_s=20.0)
        fake.lose(ONE)
        end = time.monotonic() + 40
        while "left the bus" not in out.read_text():
            assert time.monotonic() < end, out.read_text()
            time.sleep(0.05)
        process.send_signal(signal.SIGTERM)
        assert process.wait(150) == 0
    finally:
        process.kill()
    assert f"report: {report}" in out.read_text()
    assert "left the bus" in report.read_text()
    assert "### Telemetry" in report.read_text()
