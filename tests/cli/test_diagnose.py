"""The command line of `diagnose`: options in, output and exit code out."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import Result

import gpuprobe.api
from gpuprobe.cli import main
from gpuprobe.diagnosis import Device, Diagnosis, Evidence, Input, Kind, Role, Verdict
from gpuprobe.errors import InputUnreadableError
from gpuprobe.identity import PciAddress
from gpuprobe.options import Options
from tests.cli_runner import runner

DIAGNOSIS = Diagnosis(
    (
        Verdict(
            Kind.CANNOT_TELL,
            None,
            "Something failed on /home/ines.",
            Device(PciAddress.parse("0000:0b:00.0")),
            evidence=(Evidence(Role.SUPPORT, "\x1b[31mCUDA error", "e.log", 3),),
        ),
    ),
    (Input("e.log", "text", 3),),
)


@pytest.fixture
def asked(monkeypatch: pytest.MonkeyPatch) -> dict[str, object]:
    """Stands in for the library, and keeps what it was asked."""
    seen: dict[str, object] = {}

    def diagnose(*paths: str, options: Options, stdin: object, progress: object) -> Diagnosis:
        seen.update(paths=paths, options=options, stdin=stdin)
        return DIAGNOSIS

    monkeypatch.setattr(gpuprobe.api, "diagnose", diagnose)
    return seen


def run(*args: str) -> Result:
    return runner().invoke(main, ["diagnose", *args])


def test_every_option_reaches_the_library(asked) -> None:
    """Nothing asked for is lost on the way."""
    run(
        "a.log", "b.log", "--since", "2026-01-01", "--until", "2026-01-02", "--boot", "-1",
        "--device", "0B:00.0", "--timezone", "UTC", "--boot-time", "2026-01-01T00:00:00Z",
        "--host", "kestrel", "--with-machine", "--no-prefilter",
    )  # fmt: skip

    assert asked["paths"] == ("a.log", "b.log")
    assert asked["options"] == Options(
        since="2026-01-01",
        until="2026-01-02",
        boot="-1",
        device=PciAddress(0, 0x0B, 0),
        timezone="UTC",
        boot_time="2026-01-01T00:00:00Z",
        host="kestrel",
        with_machine=True,
        prefilter=False,
    )


def test_standard_input_is_read_only_when_asked(asked) -> None:
    """A dash passes it on; anything else leaves it alone."""
    run("a.log")
    assert asked["stdin"] is None
    run("-")
    assert asked["stdin"] is not None


def test_output_and_exit_code(asked) -> None:
    """Each format goes to standard output, and the code follows the answer."""
    text, document, page = run("x"), run("x", "--format", "json"), run("x", "--format", "markdown")

    assert text.exit_code == document.exit_code == page.exit_code == 3
    assert text.stdout.startswith("[cannot tell] Something failed on /home/ines.\n")
    assert "\x1b" not in text.stdout
    assert json.loads(document.stdout)["answer"] == "cannot-tell"
    assert "/home/user-1" in page.stdout
    assert "redacted: 1 user" in page.stderr
    assert run("x", "-q").stdout == "[cannot tell] Something failed on /home/ines.\n"


def test_redact_is_for_text_and_json_too(asked) -> None:
    """`--redact` leaves no name in either."""
    assert "ines" not in run("x", "--redact", "-q").stdout
    assert "/home/ines" not in run("x", "--redact", "--format", "json").stdout


def test_a_redacted_file_gets_its_map(asked, tmp_path: Path) -> None:
    """With -o the map lies beside the file, for the owner alone; else there is none."""
    output = tmp_path / "report.md"
    result = run("x", "--format", "markdown", "-o", str(output))

    mapping = tmp_path / "report.md.redaction.txt"
    assert result.stdout == ""
    assert "user-1" in output.read_text()
    assert "user-1\tines" in mapping.read_text()
    assert stat.S_IMODE(mapping.stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("name", "begin"),
    [
        ("x.md", "<!-- gpuprobe verdict"),
        ("x.MD", "<!-- gpuprobe verdict"),
        ("x.json", '{\n  "schema"'),
        ("x.txt", "[cannot tell]"),
        ("x", "[cannot tell]"),
    ],
)
def test_the_ending_says_the_format(asked, tmp_path: Path, name: str, begin: str) -> None:
    """What is called .md is Markdown; what says nothing is text."""
    run("x", "-o", str(tmp_path / name))

    assert (tmp_path / name).read_text().startswith(begin)


def test_a_format_that_is_asked_for_comes_before_the_ending(asked, tmp_path: Path) -> None:
    """Whoever names it means it."""
    run("x", "-o", str(tmp_path / "x.md"), "--format", "text")

    assert (tmp_path / "x.md").read_text().startswith("[cannot tell]")


@pytest.mark.parametrize("ending", [".html", ".zip"])
def test_a_form_of_reports_names_the_command_that_makes_it(asked, tmp_path, ending: str) -> None:
    """Before anything is read."""
    result = run("x", "-o", str(tmp_path / f"x{ending}"))

    assert result.exit_code == 2
    assert f"gpuprobe report engine.log kernel.log -o report{ending}" in result.stderr
    assert asked == {}
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("option", ["--since", "--until", "--boot-time"])
def test_what_is_no_time_is_refused_before_anything_is_read(asked, option: str) -> None:
    """With the forms that are taken."""
    result = run("x", option, "someday")

    assert result.exit_code == 2
    assert "'30min ago'" in result.stderr
    assert asked == {}


def test_times_are_passed_on_as_typed(asked) -> None:
    """A span that begins with a dash is a value, and the zone is the library's affair."""
    assert run("x", "--since", "-2h", "--until", "now").exit_code == 3
    assert (asked["options"].since, asked["options"].until) == ("-2h", "now")


def test_colour_only_where_asked_or_on_a_terminal(asked, monkeypatch) -> None:
    """A pipe gets none; `always` colours even there."""
    assert "\x1b[" not in run("x").stdout
    assert "\x1b[" in run("x", "--color", "always").stdout


@pytest.mark.parametrize(
    "args", [["--format", "odt"], ["--device", "gpu0"], ["--nonsense"], ["-q", "-v"]]
)
def test_usage_errors_end_with_2(asked, args: list[str]) -> None:
    """Nothing is read, and the message goes to standard error."""
    result = run("x", *args)

    assert result.exit_code == 2
    assert result.stdout == ""
    assert "rror" in result.stderr
    assert asked == {}


def test_an_error_of_the_library_shows_its_hint(monkeypatch) -> None:
    """One place maps it to a code, and no traceback is shown."""

    def fail(*_args: object, **_options: object) -> Diagnosis:
        raise InputUnreadableError("no\x1b input could be read", hint="Try another path.")

    monkeypatch.setattr(gpuprobe.api, "diagnose", fail)
    result = run("x")

    assert result.exit_code == 2
    assert result.stderr == "error: no\\x1b input could be read\n  Try another path.\n"


def test_a_failure_leaves_the_output_file_alone(monkeypatch, tmp_path: Path) -> None:
    """The file is opened only when there is something to write."""

    def fail(*_args: object, **_options: object) -> Diagnosis:
        raise InputUnreadableError("nothing")

    monkeypatch.setattr(gpuprobe.api, "diagnose", fail)
    output = tmp_path / "old.txt"
    output.write_text("old")
    run("x", "-o", str(output))

    assert output.read_text() == "old"


def test_an_output_that_cannot_be_written_is_an_error_of_one_line(asked, tmp_path: Path) -> None:
    """It names the file and the reason."""
    result = run("x", "-o", str(tmp_path / "missing" / "report.txt"))

    assert result.exit_code == 2
    assert "No such file or directory" in result.stderr
    assert "Traceback" not in result.stderr


def test_ctrl_c_ends_with_130(monkeypatch) -> None:
    """As a shell expects."""

    def stop(*_args: object, **_options: object) -> Diagnosis:
        raise KeyboardInterrupt

    monkeypatch.setattr(gpuprobe.api, "diagnose", stop)

    assert run("x").exit_code == 130


def test_a_reader_that_goes_away_is_no_error(tmp_path: Path) -> None:
    """`gpuprobe diagnose … | head -0` says nothing on standard error."""
    log = tmp_path / "a.log"
    log.write_text("nothing here\n")
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run(
        [sys.executable, "-m", "gpuprobe", "diagnose", str(log)],
        stdout=write,
        stderr=subprocess.PIPE,
        text=True,
    )
    os.close(write)

    assert done.stderr == ""
    assert done.returncode == 141


def test_version() -> None:
    """`--version` gives the package's own."""
    result = runner().invoke(main, ["--version"])

    assert result.stdout == f"gpuprobe {gpuprobe.__version__}\n"
