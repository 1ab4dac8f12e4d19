"""The user's own command on a loss."""

from __future__ import annotations

import pytest

from gpuprobe.diagnosis import Certainty, Kind, Verdict
from gpuprobe.live.loss_command import LossCommand

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
