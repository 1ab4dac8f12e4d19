"""The user's own command on a loss."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import pytest

from gpuprobe.diagnosis import Certainty, Kind, Verdict
from gpuprobe.live.engine import loss_command
from gpuprobe.live.engine.loss_command import OUTPUT_LIMIT, LossCommand

LOSS = Verdict(Kind.DEVICE_LEFT_BUS, Certainty.CONFIRMED, "The driver lost a GPU.")


@pytest.mark.parametrize(
    ("command", "problem"),
    [
        ("true", None),
        ("false", "false: ended with code 1"),
        ("sh -c 'kill -9 $$'", "sh: ended with signal 9"),
        ("/no/such/program", "/no/such/program: No such file or directory"),
    ],
)
def test_a_command_that_fails_is_told(command: str, problem: str | None) -> None:
    """Whoever counts on a page must read that none was sent."""
    started = LossCommand(command, LOSS, None)
    started.start()
    started.wait()

    assert started.problem == problem


@pytest.mark.parametrize(
    "command",
    ["sleep 60", "sh -c 'trap \"\" TERM INT HUP; while :; do sleep 0.1; done'", "yes"],
)
def test_one_that_does_not_end_is_killed(
    command: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """Hanging, deaf or flooding: it has its time, and what it writes has an end."""
    monkeypatch.setattr(loss_command, "DEADLINE_S", 1.0)
    started = LossCommand(command, LOSS, None)
    started.start()
    started.wait()

    assert started.problem is not None
    assert started.problem.endswith("not done in 1 s, killed")
    written = capfd.readouterr().err
    assert len(written) < OUTPUT_LIMIT + 100
    assert ("left out" in written) == (command == "yes")


def test_its_begin_is_shown_and_all_of_it_is_taken(capfd: pytest.CaptureFixture[str]) -> None:
    """One that writes much ends by itself, and its code counts."""
    started = LossCommand("sh -c 'echo first; seq 40000; exit 3'", LOSS, None)
    started.start()
    started.wait()

    assert started.problem == "sh: ended with code 3"
    assert capfd.readouterr().err.startswith("first\n1\n2\n")


def test_what_it_leaves_running_is_not_waited_for(tmp_path: Path) -> None:
    """A daemon holds its output; the command itself has ended."""
    began = time.monotonic()
    started = LossCommand(f"sh -c 'sleep 20 & echo $! >{tmp_path}/pid'", LOSS, None)
    started.start()
    started.wait()
    took = time.monotonic() - began
    os.kill(int((tmp_path / "pid").read_text()), signal.SIGKILL)

    assert started.problem is None
    assert took < 10


def test_its_signals_are_the_usual_ones(capfd: pytest.CaptureFixture[str]) -> None:
    """The probe ignores SIGTERM and others; `timeout 5 curl` in a script must work."""
    before = signal.signal(signal.SIGTERM, signal.SIG_IGN)
    try:
        started = LossCommand("grep SigIgn: /proc/self/status", LOSS, None)
        started.start()
        started.wait()
    finally:
        signal.signal(signal.SIGTERM, before)

    assert not int(capfd.readouterr().err.split()[-1], 16) & 1 << signal.SIGTERM - 1
