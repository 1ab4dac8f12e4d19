"""Inputs and options that cannot be what somebody meant: one clear line, and nothing is lost."""

import gzip
import json
import shutil
import zipfile
from pathlib import Path

import pytest
from click.testing import CliRunner

from gpuprobe.cli import main
from gpuprobe.sources.files.magic import HEAD, Kind, identify

EXAMPLE = Path(__file__).parents[2] / "examples" / "left-the-bus"


def run(*arguments: object, data: bytes | None = None):
    return CliRunner().invoke(main, ["diagnose", *map(str, arguments)], input=data)


def test_a_compressed_log_that_looks_like_text_is_still_decompressed(tmp_path) -> None:
    """Its bytes pass for text, as those of repetitive text do; the magic decides."""
    packed = tmp_path / "kernel.log.gz"
    with packed.open("wb") as file, gzip.GzipFile("name " * 3000, "wb", fileobj=file) as stream:
        stream.write((EXAMPLE / "kernel.log").read_bytes())

    assert identify(packed.read_bytes()[:HEAD]) is Kind.TEXT
    assert run("-q", packed).exit_code == 79


@pytest.mark.parametrize("data", [b"", None])
def test_nothing_on_standard_input_is_no_healthy_machine(data) -> None:
    """A pipe whose command failed must not pass as no-fault."""
    result = run("-", data=data)

    assert result.exit_code == 2
    assert "it is empty" in result.output


def test_an_empty_file_beside_a_log_is_a_note(tmp_path) -> None:
    """One input that holds nothing does not spoil the others, and it is said."""
    (tmp_path / "empty.log").touch()
    shutil.copy(EXAMPLE / "kernel.log", tmp_path)

    result = run(tmp_path)

    assert result.exit_code == 79
    assert "it is empty" in result.output


def test_a_folder_without_files_says_so(tmp_path) -> None:
    """The folder is named, and that nothing is in it."""
    result = run(tmp_path)

    assert result.exit_code == 2
    assert f"{tmp_path}: there is no file in it" in result.output


def test_the_output_never_replaces_an_input(tmp_path) -> None:
    """A log is evidence."""
    log = Path(shutil.copy(EXAMPLE / "kernel.log", tmp_path))
    before = log.read_bytes()

    result = run("-q", log, "-o", log)

    assert result.exit_code == 2
    assert log.read_bytes() == before


def test_a_device_that_no_line_names_is_a_usage_error() -> None:
    """The devices that are named are listed."""
    result = run(EXAMPLE, "--device", "99:00.0")

    assert result.exit_code == 2
    assert "0000:04:00.0" in result.output


@pytest.mark.parametrize(
    ("options", "code"),
    [
        (["--until", "2026-09-14 21:00"], 0),
        (["--since", "2026-09-14 21:00"], 79),
        (["--since", "2026-09-14 21:00", "--until", "2026-09-14 22:00"], 79),
        (["--since", "2026-09-15 00:00"], 0),
        (["--since", "2026-09-14 22:00", "--until", "2026-09-14 21:00"], 2),
    ],
)
def test_a_time_bound_counts_for_stamps_without_a_year(options, code) -> None:
    """The stamps are put into the year and zone of the bound."""
    assert run("-q", EXAMPLE, *options).exit_code == code


def test_a_boot_is_meant_for_every_input_that_holds_several() -> None:
    """Two logs of one boot stay together under `--boot 0`; a boot that is not there is an error."""
    whole = run("-q", EXAMPLE)

    assert run("-q", EXAMPLE, "--boot", "0").output == whole.output
    assert run("-q", EXAMPLE, "--boot", "-1").exit_code == 2


def test_one_path_given_twice_is_read_once() -> None:
    """The same line is no second proof."""
    log = EXAMPLE / "kernel.log"

    assert run(log, log).output == run(log).output


@pytest.mark.parametrize("packed", [False, True])
def test_a_log_that_is_cut_off_cannot_show_that_nothing_failed(tmp_path, packed) -> None:
    """What is there is quiet, and the end is not there; a fault that is there is told."""
    rows = [f"Jan  5 10:{i // 60:02d}:{i % 60:02d} ox app[7]: {i * i % 9973}" for i in range(3000)]

    def answer(first: str) -> tuple[int, str]:
        data = "\n".join([first, *rows]).encode()
        path = tmp_path / "log"
        if packed:
            with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
                archive.writestr("a.log", data)
            path.write_bytes(path.read_bytes()[:-400])
        else:
            whole = gzip.compress(data)
            path.write_bytes(whole[: len(whole) * 2 // 3])
        result = CliRunner().invoke(main, ["diagnose", "--format", "json", str(path)])
        return result.exit_code, json.loads(result.stdout)["verdicts"][0]["kind"]

    assert answer(rows[0]) == (3, "cannot-tell")
    assert answer(
        "Jan  5 10:00:00 ox kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus."
    ) == (79, "device-left-bus")
