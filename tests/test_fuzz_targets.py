"""What is fuzzed by hand and for long holds for its seeds, and for all that was found once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import fuzz.__main__ as runner
from fuzz.mutants import MUTANTS, Mutant
from fuzz.parts import PARTS, files_of
from fuzz.seeds import FOUND, LINES, seeds, words_of
from fuzz.targets import FRAMINGS, TARGETS
from gpuprobe.api import diagnose_text
from gpuprobe.sources.framing import peel
from gpuprobe.sources.framing.base import Framing
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import FAMILIES

ROOT = Path(__file__).parents[1]


@pytest.mark.parametrize("name", TARGETS)
def test_seeds_and_findings_hold(name: str) -> None:
    """No seed, and nothing that fuzzing found, breaks the promises of its target."""
    for data in seeds(name):
        TARGETS[name](data)
    assert all(words_of(name))


def test_findings_belong_to_a_target() -> None:
    """A finding in a folder that no target has would never be tried."""
    assert {path.name for path in FOUND.iterdir()} <= TARGETS.keys()


@pytest.mark.parametrize("module", FRAMINGS, ids=lambda module: module.__name__)
def test_seeds_of_a_framing_have_it(module: object) -> None:
    """A seed that its framing does not know would lead the fuzzer nowhere."""
    name = getattr(module, "__name__", "").rpartition(".")[2]
    framings: tuple[Framing, ...] = getattr(module, "FRAMINGS", ())
    known = [line for line in LINES[name] if any(one.peel(line) for one in framings)]

    assert known


@pytest.mark.parametrize("length", [25, 400, 5000])
@pytest.mark.parametrize("family", FAMILIES, ids=lambda family: family.name)
def test_numbers_of_any_length_are_read(family: object, length: int) -> None:
    """A figure that no machine writes gives no event of that size, and no error."""
    patterns = getattr(family, "patterns", ())
    for pattern in patterns:
        text = pattern.examples[0]
        for match in list(re.finditer(r"\d+", text))[:6]:
            long = f"{text[: match.start()]}{'9' * length}{text[match.end() :]}"
            records = [one for line in long.split("\n") for one in peel(1, line)]
            message = "\n".join(record.message for record in records)
            for _, _, event in family.read(Window(records, 0, message, "in")):  # type: ignore[attr-defined]
                figures = [value for value in vars(event).values() if type(value) is int]
                assert all(abs(value) < 1 << 64 for value in figures)


def test_a_time_beyond_all_times_is_none() -> None:
    """JSON's numbers have no end; a line with such a time is read, and in no time."""
    times = ("1e999", "-1e999", "1" + "0" * 400, "NaN", "1e24")
    message = '"msg":"torch.OutOfMemoryError: CUDA out of memory."'
    lines = ['{"ts":%s,%s}' % (time, message) for time in times]  # noqa: UP031
    # The last line that it says it begins is the one that fails, or never ends.
    script = "import sys; from gpuprobe.api import diagnose_text\nfor line in sys.argv[1:]: print(line, flush=True); diagnose_text(line)"

    done = subprocess.run([sys.executable, "-c", script, *lines], timeout=60, cwd=ROOT)

    assert done.returncode == 0


def test_a_loss_beside_a_number_without_end_is_found() -> None:
    """A made-up line takes nothing from the real ones."""
    real = "[ 8000.5] NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus."
    fake = f"[ 8000.4] NVRM: Xid (PCI:0000:5e:00): {'9' * 5000}, x"

    assert diagnose_text(f"{fake}\n{real}\n").exit_code == 79


def test_what_the_fuzzer_says_becomes_a_row() -> None:
    """Inputs, edges and memory are taken from its last words; an exit code is a find."""
    said = (
        b"#9\tINITED cov: 5 ft: 6 corp: 2/7b exec/s: 0 rss: 41Mb\n"
        b"#300\tNEW    cov: 8 ft: 9 corp: 4/30b lim: 4 exec/s: 0 rss: 43Mb L: 3/4 MS: 1 CopyPart-\n"
        b"#4096\tDONE   cov: 8 ft: 9 corp: 3/20b lim: 4 exec/s: 9 rss: 44Mb\n"
    )

    assert runner.outcome("x", said, 0, 2.0) == runner.Outcome("x", 4096, 5, 8, 3, 44, 2.0)
    assert runner.outcome("x", said, 77, 2.0).found.endswith("rss: 44Mb")
    assert runner.outcome("x", b"", 0, 2.0).found


def test_where_the_fuzzer_has_no_wheels_it_is_skipped(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """One line and no error; where it could be installed, an error that says how."""
    monkeypatch.setattr(runner, "find_spec", lambda _: None)
    monkeypatch.setattr(runner.platform, "machine", lambda: "aarch64")
    assert runner.main(["messages"]) == 0
    assert capsys.readouterr().out.startswith("skipped: ")
    monkeypatch.setattr(runner.platform, "machine", lambda: "x86_64")
    monkeypatch.setattr(runner.sys, "platform", "linux")
    monkeypatch.setattr(runner.sys, "version_info", (3, 12))
    with pytest.raises(SystemExit):
        runner.main(["messages"])
    assert "pip install" in capsys.readouterr().err


def test_lines_that_a_target_reaches_are_counted(tmp_path: Path) -> None:
    """The relay's frames reach their own part and no framing."""
    pytest.importorskip("coverage")
    command = [sys.executable, "-m", "fuzz.coverage", "frames", "--corpus", str(tmp_path)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    rows = re.findall(r"\| ([\w ,]+) \| \d+ \| [\d,]+ \| (\d+)% \|", done.stdout)
    shares = {part: int(share) for part, share in rows}

    assert shares.keys() == PARTS.keys()
    assert shares["framings"] == 0 < shares["messages between processes"]


def test_an_input_that_was_kept_is_counted_as_well(tmp_path: Path) -> None:
    """What fuzzing found of a target is run behind its seeds, and that of others is not."""
    pytest.importorskip("coverage")
    from fuzz.coverage import inputs_of

    for target, kept in (("framing-marks", b"| 12 | NVRM: x |"), ("frames", b"x")):
        (tmp_path / target).mkdir()
        (tmp_path / target / "kept").write_bytes(kept)

    given = list(inputs_of("framing-marks", tmp_path))

    assert given == [*seeds("framing-marks"), b"| 12 | NVRM: x |"]


def test_each_part_names_modules_that_exist() -> None:
    """A module that was renamed would no longer be counted."""
    assert all(files_of(part) for part in PARTS)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: mutant.what)
def test_each_mutant_can_be_made(mutant: Mutant) -> None:
    """A mistake whose place was rewritten is planted no more; its text is there, once."""
    assert (ROOT / mutant.file).read_text("utf-8").count(mutant.was) == 1
    assert all((ROOT / tests).exists() for tests in mutant.tests)
