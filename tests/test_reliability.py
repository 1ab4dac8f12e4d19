"""Faults of the machine that no other test brings about; the whole list is docs/reliability.md."""

from __future__ import annotations

import gzip
import os
import random
import re
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest

import gpuprobe
from fuzz.seeds import LOSS
from gpuprobe.api import diagnose
from gpuprobe.errors import RecordingError
from gpuprobe.recording.writer import Recorder
from tests import live_events

ROOT = Path(__file__).parents[1]
TABLE = ROOT / "docs/reliability.md"
GPUPROBE = [sys.executable, "-m", "gpuprobe"]


def limited(limit: int, value: int) -> Callable[[], None]:
    """Set a limit in the child, before it becomes gpuprobe."""
    return lambda: resource.setrlimit(limit, (value, value))


def leads_to(link: Path) -> str:
    """What a descriptor of a process is; "" for one that was closed meanwhile."""
    try:
        return str(link.readlink())
    except OSError:
        return ""


# --- the table -------------------------------------------------------------------------------


def rows() -> list[str]:
    """Every test that the table names."""
    return re.findall(r"`(tests/[\w/]+\.py::test_\w+)`", TABLE.read_text("utf-8"))


def test_each_promise_names_a_test_that_exists() -> None:
    """A row whose test was renamed or removed promises nothing."""
    missing = []
    for row in rows():
        path, _, name = row.partition("::")
        file = ROOT / path
        if not file.is_file() or f"\ndef {name}(" not in file.read_text("utf-8"):
            missing.append(row)

    assert rows()
    assert missing == []


def test_each_row_of_the_table_has_a_test() -> None:
    """A fault without a test is a hope."""
    text = TABLE.read_text("utf-8").partition("## Fuzzing")[0]
    lines = [line for line in text.splitlines() if line.startswith("| ")]
    faults = [line for line in lines if not line.startswith(("| fault", "| ---", "|---"))]

    assert len(faults) > 30
    assert [line for line in faults if "tests/" not in line] == []


# --- limits ------------------------------------------------------------------------------------


def test_few_descriptors_are_enough(tmp_path: Path) -> None:
    """Three hundred files, some of them packed, are read with 32 descriptors."""
    for number in range(300):
        text = LOSS if number == 299 else "[ 1.0] usb 1-1: new device\n"
        path = tmp_path / f"{number}.log"
        if number % 3:
            path.write_text(text)
        else:
            path.with_suffix(".log.gz").write_bytes(gzip.compress(text.encode()))
    done = subprocess.run(
        [*GPUPROBE, "diagnose", "-q", tmp_path],
        capture_output=True, cwd=ROOT, preexec_fn=limited(resource.RLIMIT_NOFILE, 32), timeout=120,
    )  # fmt: skip

    assert done.returncode == 79, done.stderr[-2000:]


def test_no_descriptor_left_is_an_error_of_its_own(tmp_path: Path) -> None:
    """A recorder that gets no descriptor says so; whoever asked for it goes on."""
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    held = []
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (min(256, before[0]), before[1]))
        try:
            while True:
                held.append(os.open(os.devnull, os.O_RDONLY))
        except OSError:
            pass
        with pytest.raises(RecordingError) as raised:
            Recorder(tmp_path / "a.gpuprobe")
    finally:
        for descriptor in held:
            os.close(descriptor)
        resource.setrlimit(resource.RLIMIT_NOFILE, before)

    assert raised.value.hint


def test_little_memory_is_enough(tmp_path: Path) -> None:
    """A bomb of 200 MB, and a line of 20 MB, are judged with 1 GB of address space."""
    (tmp_path / "bomb.gz").write_bytes(gzip.compress(bytes(200 << 20), 1))
    (tmp_path / "line.log").write_bytes(b"x" * (20 << 20))
    (tmp_path / "kern.log").write_text(LOSS)
    done = subprocess.run(
        [*GPUPROBE, "diagnose", "-q", tmp_path],
        capture_output=True, cwd=ROOT, preexec_fn=limited(resource.RLIMIT_AS, 1 << 30), timeout=120,
        env={**os.environ, "OPENBLAS_NUM_THREADS": "1"},
    )  # fmt: skip

    assert done.returncode == 79, done.stderr[-2000:]


# --- signals and pipes ---------------------------------------------------------------------------


@pytest.mark.parametrize("rounds", [6, pytest.param(100, marks=pytest.mark.slow)])
def test_a_signal_at_any_moment_ends_it(rounds: int, tmp_path: Path) -> None:
    """Ctrl-C, TERM and HUP end `diagnose` whenever they come, without a traceback or a file."""
    log = tmp_path / "kern.log"
    log.write_text(LOSS + "[ 9000.0] pcieport 0000:00:01.1: AER: Corrected error\n" * 200_000)
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    chance = random.Random(7)
    for turn in range(rounds):
        which = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)[turn % 3]
        process = subprocess.Popen(
            [*GPUPROBE, "diagnose", "-q", str(log)],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
            env={**os.environ, "TMPDIR": str(temporary)},
        )  # fmt: skip
        reading = Path(f"/proc/{process.pid}/fd")
        until = time.monotonic() + 30
        while log.name not in " ".join(map(leads_to, reading.iterdir())):
            assert time.monotonic() < until
            time.sleep(0.005)
        time.sleep(chance.random() * 0.5)
        process.send_signal(which)
        _, said = process.communicate(timeout=60)

        assert process.returncode in (79, 128 + which, -which), said
        assert b"Traceback" not in said, said
    assert list(temporary.iterdir()) == []


def test_a_slow_and_torn_pipe_is_read_to_its_end() -> None:
    """Bytes that drip in, with pauses, and stop within a line give what they hold."""
    writer = (
        "import sys, time\n"
        "for part in sys.argv[1:]:\n"
        "    sys.stdout.write(part); sys.stdout.flush(); time.sleep(0.05)\n"
    )
    parts = [LOSS[at : at + 23] for at in range(0, len(LOSS) - 30, 23)]
    with subprocess.Popen(
        [sys.executable, "-c", writer, *parts], stdout=subprocess.PIPE
    ) as process:
        done = subprocess.run(
            [*GPUPROBE, "diagnose", "-q", "-"],
            stdin=process.stdout, capture_output=True, cwd=ROOT, timeout=60,
        )  # fmt: skip

    assert done.returncode == 79, done.stderr


def test_a_reader_that_leaves_is_no_crash(tmp_path: Path) -> None:
    """`gpuprobe diagnose … | head -1` shows no traceback, and ends as by SIGPIPE."""
    (tmp_path / "kern.log").write_text(LOSS)
    process = subprocess.Popen(
        [*GPUPROBE, "diagnose", str(tmp_path)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    assert process.stdout is not None
    assert process.stderr is not None
    process.stdout.close()
    said = process.stderr.read()
    process.wait(timeout=60)
    process.stderr.close()

    assert b"Traceback" not in said
    assert b"BrokenPipe" not in said
    # Any other code would be an answer, and nobody has read one.
    assert process.returncode == 128 + signal.SIGPIPE


# --- places and clocks ---------------------------------------------------------------------------


def test_a_home_that_cannot_be_written_is_enough(tmp_path: Path) -> None:
    """Nothing is written to judge a log: no home, no state folder and no temporary folder."""
    log = tmp_path / "kern.log"
    log.write_text(LOSS)
    nowhere = "/proc/gpuprobe-nowhere"
    done = subprocess.run(
        [*GPUPROBE, "diagnose", "-q", log],
        capture_output=True, cwd="/", timeout=60,
        env={"HOME": nowhere, "XDG_STATE_HOME": nowhere, "XDG_CACHE_HOME": nowhere,
             "TMPDIR": nowhere, "PATH": os.environ["PATH"],
             "PYTHONPATH": str(Path(gpuprobe.__file__).parents[1])},
    )  # fmt: skip

    assert done.returncode == 79, done.stderr


def test_links_that_lead_to_themselves_end(tmp_path: Path) -> None:
    """A folder with a link to its parent, and links to each other, is read once."""
    (tmp_path / "kern.log").write_text(LOSS)
    (tmp_path / "up").symlink_to(tmp_path)
    (tmp_path / "a").symlink_to("b")
    (tmp_path / "b").symlink_to("a")

    found = diagnose(tmp_path)

    assert found.exit_code == 79
    assert len([item for item in found.inputs if item.lines]) == 1


@pytest.mark.parametrize("step_s", [-3600.0, 3600.0, -86400.0 * 400])
def test_a_clock_that_is_set_costs_no_sample(step_s: float, tmp_path: Path) -> None:
    """The wall clock jumps in the middle: all samples are there, in order, by the other clock."""
    path = tmp_path / "a.gpuprobe"
    recorder = Recorder(path)
    samples = []
    steady = live_events.steady(4.0, power_w=lambda second: 100.0 + second)
    for number, event in enumerate(steady):
        assert event.stamp is not None
        assert event.stamp.wall is not None
        wall = event.stamp.wall + timedelta(seconds=step_s if number >= 20 else 0.0)
        stamp = replace(event.stamp, wall=wall, raw=wall.isoformat(), monotonic_s=number / 10)
        samples.append(replace(event, stamp=stamp))
    recorder.add(samples)
    recorder.commit((), timeout_s=10)
    recorder.end("stopped")

    with gpuprobe.load(path) as recording:
        frame = recording.samples()
        assert list(frame["power_w"]) == [event.power_w for event in steady]  # type: ignore[attr-defined]
        assert frame["monotonic_s"].is_monotonic_increasing
    assert diagnose(path).answer == "no-fault"


def test_a_file_that_shrinks_while_it_is_read_is_no_crash(tmp_path: Path) -> None:
    """A log that is emptied (`copytruncate`) while it is read gives what was there."""
    log = tmp_path / "kern.log"
    log.write_text(LOSS + "[ 9000.0] usb 1-1: x\n" * 400_000)
    process = subprocess.Popen(
        [*GPUPROBE, "diagnose", "-q", str(log)],
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, cwd=ROOT,
    )  # fmt: skip
    time.sleep(0.5)
    os.truncate(log, 0)
    _, said = process.communicate(timeout=60)

    assert process.returncode in (0, 2, 79), said
    assert b"Traceback" not in said
