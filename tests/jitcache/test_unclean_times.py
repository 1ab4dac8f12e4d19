"""When the machine last ended without a shutdown."""

from __future__ import annotations

import subprocess
from datetime import UTC, datetime

import pytest

from gpuprobe.jitcache import unclean
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.files.machine import JournalBoot

END = datetime(2026, 9, 22, 7, 44, 58, tzinfo=UTC)
BOOTS = Known(
    [
        JournalBoot("a" * 32, END.replace(day=20), END),
        JournalBoot("b" * 32, END.replace(day=23), END.replace(day=24)),
    ]
)


def ends(monkeypatch: pytest.MonkeyPatch, text: str, boots=BOOTS) -> float | None:
    def run(command: list[str], **more: object):
        assert "a" * 32 in command
        return subprocess.CompletedProcess(command, 0, text.encode(), b"")

    monkeypatch.setattr(unclean.machine, "list_boots", lambda: boots)
    monkeypatch.setattr(unclean.subprocess, "run", run)
    return unclean.last_unclean_end()


def test_a_journal_that_breaks_off_gives_its_last_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of a shutdown stands in its last lines."""
    assert ends(monkeypatch, "Started session\nGET /health\n") == END.timestamp()


@pytest.mark.parametrize(
    "line",
    [
        "Journal stopped",
        "Reached target reboot.target - System Reboot.",
        "Reached target Power-Off.",
        "Shutting down.",
    ],
)
def test_a_shutdown_is_no_unclean_end(monkeypatch: pytest.MonkeyPatch, line: str) -> None:
    """It ended in order."""
    assert ends(monkeypatch, f"Unmounted /home\n{line}\n") is None


def test_without_a_boot_before_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """One boot, or no journal at all."""
    assert ends(monkeypatch, "x", Known(BOOTS.value[1:])) is None
    assert ends(monkeypatch, "x", Unavailable(Reason.NOT_THERE, "no journal")) is None
