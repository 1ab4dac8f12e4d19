"""How the last recording ended, and JIT caches after an unclean end."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
from machines import QUIET, log, run, scene, statuses

from gpuprobe.checks import Status, jit_caches, recordings
from gpuprobe.checks.examine import judge
from gpuprobe.checks.gather import Readers, gather
from gpuprobe.checks.recordings import read_recordings
from gpuprobe.checks.scene import DriverFacts, HostFacts, RecordingSeen
from gpuprobe.jitcache.api import scan
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.recording.writer import Recorder

CUT_SHORT = log(QUIET)
"""Kernel log of a boot without a shutdown."""


def seen(
    ended: str | None = None, *, written: bool = False, days_ago: float = 0.1
) -> RecordingSeen:
    at = time.time() - days_ago * 86_400
    return RecordingSeen(Path("/var/lib/gpuprobe/a.gpuprobe"), written, ended, at)


def test_a_recording_with_an_end_mark_ended_in_order(tree) -> None:
    """With the word that its recorder left."""
    (found,) = run(recordings, scene(tree, recordings=Known((seen("stopped"),))))

    assert found.status is Status.OK
    assert "stopped" in found.text


def test_one_without_a_mark_is_a_warning_with_the_command(tree) -> None:
    """The machine or the recorder died; one that is being written is none."""
    of = scene(tree, recordings=Known((seen(), seen(written=True))))

    (found,) = run(recordings, of)

    assert found.status is Status.WARN
    assert found.how == "gpuprobe diagnose /var/lib/gpuprobe/a.gpuprobe"
    assert found.at.endswith("+00:00")


def test_one_that_was_cut_short_long_ago_is_a_note(tree) -> None:
    """It does not warn for ever, nor have the caches scanned at each check."""
    old = scene(tree, recordings=Known((seen(days_ago=30),)))

    assert statuses(run(recordings, old)) == {Status.NOTE}
    assert jit_caches.unclean_at(scene(tree, recordings=Known((seen(),)))) is not None
    assert jit_caches.unclean_at(old) is None


def test_without_recordings_there_is_no_finding(tree) -> None:
    """Nobody has to record."""
    assert run(recordings, scene(tree, recordings=Known(()))) == []


def test_recordings_are_found_and_told_apart(tmp_path) -> None:
    """One that is open now, one with its end mark, one that was cut short."""
    env = {"GPUPROBE_DIR": str(tmp_path)}
    whole = Recorder(tmp_path / "whole.gpuprobe")
    whole.end("stopped")
    torn = tmp_path / "torn.gpuprobe"
    torn.write_bytes((tmp_path / "whole.gpuprobe").read_bytes())
    Path(f"{torn}-wal").write_bytes(b"something that no checkpoint took")
    open_now = Recorder(tmp_path / "open.gpuprobe")
    try:
        found = {one.path.name: one for one in read_recordings(env)}
    finally:
        open_now.end("stopped")

    assert found["open.gpuprobe"].written
    assert found["whole.gpuprobe"].ended == "stopped"
    assert not found["torn.gpuprobe"].written
    assert found["torn.gpuprobe"].ended is None


def test_looking_for_recordings_makes_no_folder(tmp_path) -> None:
    """A check only reads."""
    read_recordings({"HOME": str(tmp_path), "GPUPROBE_DIR": str(tmp_path / "none")})

    assert list(tmp_path.iterdir()) == []


# --- JIT caches -----------------------------------------------------------------------------


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    """A Triton cache with one whole entry and one whose description is cut."""
    for key, text in (("A" * 52, json.dumps({"name": "add"})), ("B" * 52, '{"name": "ad')):
        folder = tmp_path / "triton" / key
        folder.mkdir(parents=True)
        (folder / "add.json").write_text(text)
        for file in folder.iterdir():
            os.utime(file, (1_700_000_000, 1_700_000_000))
    return tmp_path / "triton"


def test_damage_that_ends_programs_decides(tree, cache) -> None:
    """With the file and the command that mends it."""
    of = scene(tree, jit_caches=Known(scan([cache], settle_s=0)))

    (found,) = run(jit_caches, of)

    assert found.status is Status.BAD
    assert "B" * 52 in found.text
    assert found.how == "gpuprobe jitcache repair"
    assert judge(of).answer == "jit-cache-corrupt"


def test_a_scan_that_found_nothing_is_a_line(tree, cache) -> None:
    """With how many entries were looked at."""
    whole = cache / ("A" * 52)

    (found,) = run(jit_caches, scene(tree, jit_caches=Known(scan([whole], settle_s=0))))

    assert found.status is Status.OK
    assert found.text.endswith("in 1 entry")


def test_a_scan_that_took_too_long_is_not_checked(tree) -> None:
    """With the command that takes its time."""
    late = Unavailable(Reason.TIMED_OUT, "reading jit caches took too long")

    assert statuses(run(jit_caches, scene(tree, jit_caches=late))) == {Status.NOT_CHECKED}
    assert run(jit_caches, scene(tree)) == []


@pytest.mark.parametrize(
    ("before", "last", "scans"),
    [
        (CUT_SHORT, (), 1),
        (CUT_SHORT, (seen("stopped"),), 1),
        (log(QUIET + "[  900.000000] reboot: Restarting system\n"), (seen(),), 1),
        (log(QUIET + "[  900.000000] reboot: Restarting system\n"), (seen("stopped"),), 0),
        (Unavailable(Reason.NOT_THERE), (), 0),
    ],
)
def test_caches_are_scanned_after_an_unclean_end_alone(before, last, scans: int) -> None:
    """Of the boot before, or of the last recording."""
    asked: list[float] = []

    def look(at: float, deadline_s: float) -> object:
        asked.append(deadline_s)
        return f"scanned for {at}"

    of = Readers(
        bus=lambda: Known(()),
        nvml=lambda gpus, deadline_s: Known({}),
        driver=DriverFacts,
        host=HostFacts,
        this_boot=lambda: log(QUIET),
        previous_boot=lambda: before,
        recordings=lambda: last,
        jit_caches=look,
        load=lambda gpus, seconds: Known(()),
    )
    gather(of, deadline_s=1.0)

    assert len(asked) == scans
    assert all(0 < seconds < 1.0 for seconds in asked)
