"""What is fuzzed by hand and for long holds for its seeds, and for all that was found once."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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


@pytest.mark.parametrize("time", ["1e999", "-1e999", "1" + "0" * 400, "NaN", "1e24"])
def test_a_time_beyond_all_times_is_none(time: str) -> None:
    """JSON's numbers have no end; a line with such a time is read, and in no time."""
    line = '{"ts":%s,"msg":"torch.OutOfMemoryError: CUDA out of memory."}' % time  # noqa: UP031
    script = "import sys; from gpuprobe.api import diagnose_text; diagnose_text(sys.argv[1])"

    done = subprocess.run([sys.executable, "-c", script, line], timeout=30, cwd=ROOT)

    assert done.returncode == 0


def test_a_loss_beside_a_number_without_end_is_found() -> None:
    """A made-up line takes nothing from the real ones."""
    real = "[ 8000.5] NVRM: Xid (PCI:0000:5e:00): 79, GPU has fallen off the bus."
    fake = f"[ 8000.4] NVRM: Xid (PCI:0000:5e:00): {'9' * 5000}, x"

    assert diagnose_text(f"{fake}\n{real}\n").exit_code == 79
