"""Do the tests notice when a rule is wrong? `python -m fuzz.mutants`, by hand; some minutes.

Each mutant is one deliberate mistake, made in a copy of the project; the tests named must fail on
it. A mutant that survives is a hole in the tests.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
COPIED: Final = ("gpuprobe", "tests", "fuzz", "examples", "docs", "pyproject.toml", "README.md")


@dataclass(frozen=True, slots=True)
class Mutant:
    """One deliberate mistake.

    Attributes:
        what: What is wrong then, in words.
        file: The module.
        was: Its text, there once.
        becomes: What is put in its place.
        tests: Files or folders of which one test has to fail.
    """

    what: str
    file: str
    was: str
    becomes: str
    tests: tuple[str, ...]


MUTANTS: Final = (
    Mutant(
        "a removal on purpose is called a loss",
        "gpuprobe/rules/device_left_bus.py",
        "        if not (asked_for(timeline, sign.event, sign.device) or _is_old(timeline, sign)):",
        "        if not _is_old(timeline, sign):",
        ("tests/rules/test_device_left_bus.py", "tests/test_incidents.py"),
    ),
    Mutant(
        "one line of prose is enough to be sure of a loss",
        "gpuprobe/rules/device_left_bus.py",
        "len({sign.kind for sign in signs}) > 1 else",
        "True else",
        ("tests/rules", "tests/test_incidents.py"),
    ),
    Mutant(
        "a link that came back within a minute is a loss",
        "gpuprobe/rules/absence.py",
        "CAME_BACK_S = 60.0",
        "CAME_BACK_S = 0.0",
        ("tests/rules", "tests/test_incidents.py"),
    ),
    Mutant(
        "a single correctable error is sure to be a bad link",
        "gpuprobe/rules/pcie_link_errors.py",
        "        best = Certainty.POSSIBLE\n    if bounced",
        "        best = Certainty.CONFIRMED\n    if bounced",
        ("tests/rules/test_pcie_link_errors.py", "tests/test_incidents.py"),
    ),
    Mutant(
        "a GPU that nobody named hangs for sure",
        "gpuprobe/rules/gpu_hang.py",
        "best = Certainty.CONFIRMED if device else Certainty.LIKELY",
        "best = Certainty.CONFIRMED",
        ("tests/rules", "tests/test_incidents.py"),
    ),
    Mutant(
        "the lesser of two verdicts stands first",
        "gpuprobe/verdict/ranking.py",
        "best = min(heads, key=weight)",
        "best = max(heads, key=weight)",
        ("tests/verdict", "tests/test_incidents.py"),
    ),
    Mutant(
        "a loss has the exit code of any fault",
        "gpuprobe/diagnosis.py",
        "Kind.DEVICE_LEFT_BUS: 79,",
        "Kind.DEVICE_LEFT_BUS: 1,",
        ("tests/test_api.py", "tests/cli/test_diagnose.py"),
    ),
    Mutant(
        "a figure of any size is believed",
        "gpuprobe/sources/wording/base.py",
        "return -_NO_NUMBER < value < _NO_NUMBER",
        "return True",
        ("tests/test_fuzz_targets.py",),
    ),
    Mutant(
        "a page fault alone is a hang",
        "gpuprobe/rules/gpu_hang.py",
        "if all(event.what == PAGE_FAULT for event in events):",
        "if False:",
        ("tests/rules", "tests/sources/wording", "tests/test_incidents.py"),
    ),
    Mutant(
        "a removal excuses a loss a day later",
        "gpuprobe/rules/absence.py",
        "ON_PURPOSE_S = 600.0",
        "ON_PURPOSE_S = 1e6",
        ("tests/rules",),
    ),
    Mutant(
        "all ones of a GPU that is powered down are a loss",
        "gpuprobe/rules/loss_signs.py",
        "if ones and (_suspended(timeline, event) or answered_again(timeline, event)):",
        "if ones and answered_again(timeline, event):",
        ("tests/rules",),
    ),
    Mutant(
        "an empty slot at boot is a loss",
        "gpuprobe/rules/loss_signs.py",
        " or _slot_setup(event):",
        ":",
        ("tests/rules",),
    ),
    Mutant(
        "a loss whose GPU nobody named is sure",
        "gpuprobe/rules/device_left_bus.py",
        "if best is not Certainty.CONFIRMED or device is None:",
        "if best is not Certainty.CONFIRMED:",
        ("tests/rules", "tests/test_incidents.py"),
    ),
    Mutant(
        "one slow sample under load is a slow link",
        "gpuprobe/rules/pcie_link_errors.py",
        "if not slow or len(slow) < len(samples):",
        "if not slow:",
        ("tests/rules",),
    ),
    Mutant(
        "a program's error hours away belongs to the Xid",
        "gpuprobe/rules/application_fault.py",
        "BESIDE_S = 180.0",
        "BESIDE_S = 1e6",
        ("tests/rules",),
    ),
    Mutant(
        "a loss stays behind an older fault",
        "gpuprobe/verdict/ranking.py",
        "if finding.kind is Kind.DEVICE_LEFT_BUS and finding.certainty is not Certainty.POSSIBLE:",
        "if False:",
        ("tests/verdict", "tests/test_incidents.py"),
    ),
    Mutant(
        "samples that ended long before speak for the loss",
        "gpuprobe/verdict/sampled_window.py",
        "STALE_S: Final = 5.0",
        "STALE_S: Final = 1e6",
        ("tests/verdict",),
    ),
    Mutant(
        "an idle card at Gen1 has a bad link",
        "gpuprobe/verdict/sampled_window.py",
        "BUSY_PERCENT: Final = 5.0",
        "BUSY_PERCENT: Final = -1.0",
        ("tests/verdict",),
    ),
    Mutant(
        "a counter's lifetime counts as a rise",
        "gpuprobe/derive.py",
        "step = value - before",
        "step = value",
        ("tests/test_derive.py", "tests/rules/test_pcie_link_errors.py"),
    ),
    Mutant(
        "a window goes on over a pause in the samples",
        "gpuprobe/derive.py",
        "if gaps[place] > pause:",
        "if False:",
        ("tests/test_derive.py",),
    ),
    Mutant(
        "two readings make a slope",
        "gpuprobe/derive.py",
        "if len(points) < 3:",
        "if len(points) < 2:",
        ("tests/test_derive.py",),
    ),
    Mutant(
        "another process's lost GPU is this one's",
        "gpuprobe/live/presence.py",
        "if gone and (wanted.sure or len(gone) == len(found)):",
        "if gone:",
        ("tests/live/test_presence.py",),
    ),
    Mutant(
        "a sleeping GPU is said to be there",
        "gpuprobe/live/presence.py",
        'if seen.config == "not-asked":',
        "if False:",
        ("tests/live/test_presence.py",),
    ),
)


def failure(tests: tuple[str, ...], copy: Path) -> str:
    """What these tests say in the copy where one fails; "" where all pass.

    Raises:
        RuntimeError: They could not be run.
    """
    command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", *tests]
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, check=False)
    said = done.stdout.decode("utf-8", "replace")[-2000:]
    if done.returncode not in (0, 1):
        raise RuntimeError(said)
    return said if done.returncode else ""


def caught(mutant: Mutant, copy: Path) -> bool | None:
    """Whether a test fails on it; None where the mistake cannot be made any more."""
    path = copy / mutant.file
    text = path.read_text("utf-8")
    if text.count(mutant.was) != 1:
        return None
    path.write_text(text.replace(mutant.was, mutant.becomes), "utf-8")
    try:
        return bool(failure(mutant.tests, copy))
    finally:
        path.write_text(text, "utf-8")


def main() -> int:
    """Try all; 1 where one survives or cannot be made."""
    bad = 0
    with tempfile.TemporaryDirectory(prefix="gpuprobe-mutants-") as name:
        copy = Path(name)
        for part in COPIED:
            source = ROOT / part
            if source.is_dir():
                shutil.copytree(source, copy / part, ignore=shutil.ignore_patterns("__pycache__"))
            else:
                shutil.copy(source, copy / part)
        for tests in dict.fromkeys(mutant.tests for mutant in MUTANTS):
            if said := failure(tests, copy):
                print(f"{said}\nThese fail as they are: nothing can be told by {', '.join(tests)}")
                return 1
        for mutant in MUTANTS:
            found = caught(mutant, copy)
            words = {True: "caught", False: "SURVIVES", None: "cannot be made"}[found]
            print(f"{words}: {mutant.what} ({mutant.file})", flush=True)
            bad += found is not True
    return 1 if bad else 0


if __name__ == "__main__":
    sys.exit(main())
