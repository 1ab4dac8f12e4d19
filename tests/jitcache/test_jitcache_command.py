"""`gpuprobe jitcache scan`, `repair` and `restore`, and `diagnose --jit-cache`."""

from __future__ import annotations

import json
import re
from pathlib import Path

import jsonschema
import pytest

import gpuprobe
from gpuprobe.cli import main
from gpuprobe.testing import jitcache as caches
from tests.cli_runner import runner

PACKAGE = Path(gpuprobe.__file__).parent
SCHEMA = json.loads((PACKAGE / "reporters/jitcache.schema.json").read_text("utf-8"))
DATA = Path(__file__).parents[1] / "data" / "real"


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """Two kernels, healthy."""
    folder = tmp_path / "cache"
    caches.triton_entry(folder, "add")
    caches.triton_entry(folder, "mul")
    return folder


@pytest.fixture
def poisoned(cache: Path) -> Path:
    """The same with a cut cubin; the cache's folder."""
    caches.damage(cache / caches.key("add") / "add.cubin", "half")
    return cache


def run(*args: str | Path):
    return runner().invoke(main, ["jitcache", *map(str, args)], prog_name="gpuprobe")


def document(*args: str | Path):
    result = run(*args, "--format", "json")
    found = json.loads(result.stdout)
    jsonschema.validate(found, SCHEMA, cls=jsonschema.Draft202012Validator)
    return found, result.exit_code


def test_a_healthy_cache_is_fine(cache: Path) -> None:
    """Exit code 0 and one sentence."""
    result = run("scan", cache, "-q")

    assert result.exit_code == 0
    assert re.fullmatch(
        r"\[fine\] Nothing is damaged \(2 entries in 1 cache, \d+\.\d s\)\.\n", result.stdout
    )


@pytest.mark.parametrize(
    ("name", "options", "begin"),
    [
        ("scan.txt", (), "[bad]"),
        ("scan.json", (), "{"),
        ("scan.json", ("--format", "text"), "[bad]"),
    ],
)
def test_a_scan_goes_to_a_file(
    poisoned: Path, tmp_path: Path, name: str, options: tuple[str, ...], begin: str
) -> None:
    """The ending says the format, the exit code stays, and standard output is empty."""
    result = run("scan", poisoned, "-o", tmp_path / name, *options)

    assert (result.exit_code, result.stdout) == (1, "")
    assert (tmp_path / name).read_text().startswith(begin)


def test_a_poisoned_cache_is_shown_with_its_repair(poisoned: Path) -> None:
    """The file, the kernel, what is wrong, what it does, and the command that moves it."""
    result = run("scan", poisoned)
    shown = " ".join(result.stdout.split())

    assert result.exit_code == 1
    assert str(poisoned / caches.key("add") / "add.cubin") in shown
    assert "triton, kernel add: cut at " in shown
    assert "ends the program each time" in shown
    assert f"gpuprobe jitcache repair {poisoned}" in shown
    assert "mul" not in shown


def test_the_document_fits_its_schema(poisoned: Path) -> None:
    """JSON holds every field that the schema asks for."""
    found, code = document("scan", poisoned)

    (bad,) = found["bad"]
    assert code == found["exit_code"] == 1
    assert found["checked"] == 2
    assert bad["entry"] == caches.key("add")
    assert bad["harm"] == "fatal"
    assert bad["expected_size"] == 2 * bad["size"]
    assert bad["kernel"] == "add"


def test_repair_and_restore_lead_back(poisoned: Path) -> None:
    """What repair prints as undo puts the entry back."""
    found, code = document("repair", poisoned, "--dry-run")
    assert (code, found["dry_run"], len(found["moved"])) == (0, True, 1)
    assert run("scan", poisoned).exit_code == 1

    repaired = run("repair", poisoned)
    assert repaired.exit_code == 0
    assert run("scan", poisoned).exit_code == 0
    assert "Nothing to repair." in run("repair", poisoned).stdout

    undo = re.search(r"undo: gpuprobe jitcache restore (\S+)", repaired.stdout)
    assert undo is not None
    restored = run("restore", undo[1])
    assert restored.exit_code == 0
    assert restored.stdout == f"restored: {poisoned / caches.key('add')}\n"
    assert run("scan", poisoned).exit_code == 1


def test_restore_of_what_is_there_again_ends_with_1(poisoned: Path) -> None:
    """It was not moved, and the sentence says why."""
    (moved,) = document("repair", poisoned)[0]["moved"]
    caches.triton_entry(poisoned, "add")

    result = run("restore", moved["to"])

    assert result.exit_code == 1
    assert "is there again" in result.stderr


@pytest.mark.parametrize(
    "args",
    [
        ("scan", "/nowhere/at/all"),
        ("repair", "/nowhere/at/all"),
        ("restore", "/nowhere/at/all"),
        ("scan", "--home", "/tmp", "--root", "/tmp"),
        ("scan", "--unclean-at", "someday"),
        ("restore",),
    ],
)
def test_usage_ends_with_2(args: tuple[str, ...]) -> None:
    """A path that is not there, two sources at once, no time."""
    assert run(*args).exit_code == 2


def test_an_unclean_end_can_be_given(cache: Path) -> None:
    """Entries written shortly before it are listed."""
    path = cache / caches.key("add") / "add.cubin"
    when = path.stat().st_mtime + 5

    from datetime import UTC, datetime

    text = datetime.fromtimestamp(when, UTC).isoformat()
    found, code = document("scan", cache, "--unclean-at", text)

    assert code == 0
    assert {item["entry"] for item in found["suspicious"]} >= {caches.key("add")}


def diagnosed(log: Path, *more: str | Path):
    args = ["diagnose", str(log), "--format", "json", *map(str, more)]
    result = runner().invoke(main, args)
    return json.loads(result.stdout), result.exit_code


@pytest.fixture
def segfault(tmp_path: Path) -> Path:
    """All that a program killed by a cut cubin says."""
    path = tmp_path / "engine.log"
    path.write_text("Segmentation fault (core dumped)\n")
    return path


def test_a_silent_crash_is_explained_by_a_cut_cubin(segfault: Path, poisoned: Path) -> None:
    """Without the scan process-crash; with it the cache is the likely cause, the crash its end."""
    assert diagnosed(segfault)[0]["answer"] == "process-crash"

    found, code = diagnosed(segfault, "--jit-cache", poisoned)

    (verdict,) = found["verdicts"]
    assert (found["answer"], verdict["certainty"], code) == ("jit-cache-corrupt", "likely", 1)
    assert caches.key("add") in verdict["summary"]
    inputs = {item["path"]: item["format"] for item in found["inputs"]}
    cubin = str(poisoned / caches.key("add") / "add.cubin")
    assert inputs[cubin] == "jit-cache"
    roles = {item["role"]: item["input"] for item in verdict["evidence"]}
    assert roles["support"] == cubin
    assert roles["consequence"] == str(segfault)
    steps = [step["command"] or "" for step in verdict["next_steps"]]
    assert any(step.startswith("gpuprobe jitcache repair") for step in steps)
    assert "gpuprobe jitcache scan" not in steps  # it was scanned


def test_a_healthy_cache_explains_no_crash(segfault: Path, cache: Path) -> None:
    """The verdict stays, and the inputs say that the cache was looked at."""
    found, _ = diagnosed(segfault, "--jit-cache", cache)

    assert found["answer"] == "process-crash"
    assert "jit-cache" in {item["format"] for item in found["inputs"]}


@pytest.mark.parametrize(
    ("text", "answer"),
    [
        ("all is well\n", "no-fault"),
        (
            "RuntimeError: CUDA error: an illegal memory access was encountered\n"
            "Segmentation fault (core dumped)\n",
            "application-fault",
        ),
        (
            "[  7.1] app[8]: segfault at 0 ip 00007f sp 00007e error 4 in libfoo.so[7f00+1000]\n",
            "process-crash",
        ),
    ],
)
def test_a_damaged_file_beside_another_failure_is_only_possible(
    tmp_path: Path, poisoned: Path, text: str, answer: str
) -> None:
    """A good run, a CUDA error or a crash in a foreign library keeps its own answer."""
    log = tmp_path / "engine.log"
    log.write_text(text)

    found, _ = diagnosed(log, "--jit-cache", poisoned)

    cache = [v for v in found["verdicts"] if v["kind"] == "jit-cache-corrupt"]
    assert found["answer"] == answer
    assert [verdict["certainty"] for verdict in cache] == ["possible"]


def test_damaged_json_explains_no_silent_crash(segfault: Path, cache: Path) -> None:
    """It raises an exception with words; only what is mapped kills without any."""
    caches.damage(cache / caches.key("add") / "__grp__add.json", "half")

    found, _ = diagnosed(segfault, "--jit-cache", cache)

    assert found["answer"] == "process-crash"


def test_a_scan_names_the_entry_that_a_traceback_does_not(poisoned: Path) -> None:
    """The words alone do not say which; the scan does."""
    log = DATA / "triton-cubin-empty.engine.log"

    found, _ = diagnosed(log, "--jit-cache", poisoned)

    verdict = found["verdicts"][0]
    assert (verdict["kind"], verdict["certainty"]) == ("jit-cache-corrupt", "confirmed")
    assert caches.key("add") in verdict["summary"]
    assert any(item["input"].endswith("add.cubin") for item in verdict["evidence"])
