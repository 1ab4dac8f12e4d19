"""The library's front door: values in, a diagnosis out, nothing printed."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
from functools import cache
from importlib.resources import files
from pathlib import Path

import jsonschema
import pytest

import gpuprobe
from gpuprobe.api import diagnose, diagnose_text, timelines
from gpuprobe.diagnosis import Diagnosis, Kind
from gpuprobe.errors import GpuprobeError, InputUnreadableError, UsageError
from gpuprobe.options import Options, Progress
from gpuprobe.reporters.json import to_dict

HERE = Path(__file__).parent
LOSS = "[  900.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
ENGINE = "RuntimeError: CUDA error: unspecified launch failure\n"


@pytest.fixture
def logs(tmp_path: Path) -> Path:
    (tmp_path / "kernel.log").write_text(LOSS)
    (tmp_path / "engine.log").write_text(ENGINE)
    return tmp_path


def test_files_are_judged_together_and_cited_by_their_paths(logs: Path) -> None:
    """Two files, one verdict; each line is cited by the path that was given."""
    diagnosis = diagnose(logs / "kernel.log", str(logs / "engine.log"))
    (verdict,) = diagnosis.verdicts

    assert verdict.kind is Kind.DEVICE_LEFT_BUS
    assert {item.input for item in verdict.evidence} == {item.path for item in diagnosis.inputs}
    assert {item.path for item in diagnosis.inputs} == {
        str(logs / "kernel.log"),
        str(logs / "engine.log"),
    }


def test_a_folder_and_an_archive_hold_what_their_files_hold(logs: Path, tmp_path: Path) -> None:
    """The judgement is that of the single files; members are named behind an exclamation mark."""
    archive = tmp_path / "all.tar.gz"
    with tarfile.open(archive, "w:gz") as tar:
        tar.add(logs / "kernel.log", "kernel.log")
        tar.add(logs / "engine.log", "engine.log")
    inside = diagnose(archive)
    (logs / "all.tar.gz").unlink()

    assert diagnose(logs).verdicts[0].summary == inside.verdicts[0].summary
    assert {item.path for item in inside.inputs} == {
        f"{archive}!kernel.log",
        f"{archive}!engine.log",
    }


def test_a_dash_reads_what_is_handed_in(logs: Path) -> None:
    """Standard input is named `-`, and a compressed stream is unpacked."""
    plain = diagnose("-", stdin=io.BytesIO(LOSS.encode()))
    packed = diagnose("-", stdin=io.BytesIO(gzip.compress(LOSS.encode())))

    assert plain.answer is packed.answer is Kind.DEVICE_LEFT_BUS
    assert plain.verdicts[0].evidence[0].input == "-"


def test_a_text_in_memory_is_standard_input() -> None:
    """The same diagnosis as by `-`."""
    assert diagnose_text(LOSS) == diagnose("-", stdin=io.BytesIO(LOSS.encode()))


def test_no_readable_input_is_an_error_that_names_it(tmp_path: Path) -> None:
    """Exit code 2, the path and what to try next."""
    with pytest.raises(InputUnreadableError) as caught:
        diagnose(tmp_path / "not-there.log")

    assert "not-there.log" in str(caught.value)
    assert caught.value.hint
    assert caught.value.exit_code == 2


def test_one_unreadable_input_among_several_is_a_note(logs: Path) -> None:
    """The others are judged, and the missing one is among the inputs with a reason."""
    diagnosis = diagnose(logs / "kernel.log", logs / "gone.log")
    notes = {item.path: item.notes for item in diagnosis.inputs}

    assert diagnosis.answer is Kind.DEVICE_LEFT_BUS
    assert notes[str(logs / "gone.log")]
    assert str(logs / "gone.log") in [row.what for row in diagnosis.verdicts[0].not_checked]
    assert diagnosis.exit_code == 79


@pytest.mark.parametrize(
    ("text", "code"),
    [
        (LOSS, 79),
        (
            "[  900.000000] NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!\n",
            79,
        ),
        (ENGINE, 3),
        ("fine\n", 0),
        (LOSS.replace("79, GPU has fallen off the bus.", "48, pid=9, name=a, DBE"), 1),
    ],
)
def test_the_exit_code_follows_the_answer(text: str, code: int) -> None:
    """79 for a loss at any certainty, 3 for cannot-tell, 0 for no fault, 1 for the rest."""
    assert diagnose_text(text).exit_code == code


def test_nothing_is_printed(logs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A library call leaves both streams empty."""
    diagnose(logs)

    assert capsys.readouterr() == ("", "")


def test_progress_is_told_while_reading(logs: Path) -> None:
    """Each input's path, with bytes that only grow."""
    (logs / "big.log").write_text("quiet line\n" * 200_000)
    told: list[Progress] = []
    diagnose(logs / "big.log", progress=told.append)

    assert told
    assert {step.path for step in told} == {str(logs / "big.log")}
    assert [step.bytes_done for step in told] == sorted(step.bytes_done for step in told)
    assert told[-1].bytes_done == (logs / "big.log").stat().st_size


def test_a_wrong_option_is_a_usage_error_before_any_verdict(logs: Path) -> None:
    """A zone that does not exist."""
    with pytest.raises(UsageError):
        diagnose(logs, options=Options(timezone="Nowhere/Land"))


def test_timelines_give_what_was_read_before_it_is_judged(logs: Path) -> None:
    """One timeline a host, with a frame of its events."""
    (timeline,) = timelines(logs)
    frame = timeline.to_frame()

    assert list(frame["kind"]) == ["CudaFailed", "XidReported"]
    assert set(frame["input"]) == {str(logs / "engine.log"), str(logs / "kernel.log")}


def test_the_package_offers_the_functions_by_name() -> None:
    """`gpuprobe.diagnose` is the library's own, loaded when it is asked for."""
    assert gpuprobe.diagnose is diagnose
    assert gpuprobe.diagnose_text is diagnose_text
    with pytest.raises(AttributeError):
        _ = gpuprobe.no_such_thing


def test_a_diagnosis_is_the_same_twice(logs: Path) -> None:
    """No set's or dictionary's order reaches the answer."""
    assert to_dict(diagnose(logs)) == to_dict(diagnose(logs))


def real_inputs() -> list[list[Path]]:
    """Every incident and every real failure of the tests."""
    found = []
    for folder in sorted((HERE / "incidents").iterdir()):
        expected = json.loads((folder / "expected.json").read_text("utf-8"))
        found.append([folder / name for name in expected["inputs"]])
    found.extend([path] for path in sorted((HERE / "data" / "real").glob("*.log")))
    return found


@cache
def contract() -> jsonschema.Draft202012Validator:
    """The schema, itself checked once."""
    text = files("gpuprobe.reporters").joinpath("diagnosis.schema.json").read_text("utf-8")
    schema = json.loads(text)
    jsonschema.Draft202012Validator.check_schema(schema)
    return jsonschema.Draft202012Validator(schema)


@pytest.mark.parametrize(
    "paths", real_inputs(), ids=lambda paths: f"{paths[0].parent.name}-{paths[0].stem}"
)
def test_every_real_diagnosis_keeps_the_json_contract(paths: list[Path]) -> None:
    """The document satisfies the schema, and each cited line says what the file says there."""
    diagnosis = diagnose(*paths)

    contract().validate(json.loads(json.dumps(to_dict(diagnosis))))
    for document in (diagnosis, *diagnosis.other_hosts):
        _check_citations(document)


def _check_citations(diagnosis: Diagnosis) -> None:
    paths = {item.path for item in diagnosis.inputs}
    for verdict in diagnosis.verdicts:
        for item in verdict.evidence:
            assert item.input in paths
            assert item.line is not None
            line = Path(item.input).read_text("utf-8", "replace").splitlines()[item.line - 1]
            assert item.text[:60].strip() in line


@pytest.mark.parametrize(
    "paths", real_inputs(), ids=lambda paths: f"{paths[0].parent.name}-{paths[0].stem}"
)
def test_the_fast_pass_changes_no_real_answer(paths: list[Path]) -> None:
    """With and without the first pass the whole document is the same."""
    fast, slow = (to_dict(diagnose(*paths, options=Options(prefilter=on))) for on in (True, False))

    assert fast == slow


def test_errors_of_the_package_share_one_base() -> None:
    """One except clause catches what a caller can act on."""
    assert issubclass(InputUnreadableError, GpuprobeError)
    assert issubclass(UsageError, GpuprobeError)
