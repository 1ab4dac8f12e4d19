"""One line in two inputs is one line."""

from __future__ import annotations

from pathlib import Path

import pytest

import gpuprobe
from gpuprobe.diagnosis import Diagnosis, Role
from gpuprobe.events import Event, XidReported
from tests.live_events import base, facts, lost, steady
from tests.recording.recording_bench import BOOT, record

LINES = (
    "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
    "NVRM: Xid (PCI:0000:41:00): 154, pid='<unknown>', name=<unknown>, GPU recovery action changed "
    "from 0x0 (None) to 0x2 (Node Reboot Required)",
)


def heard() -> list[Event]:
    """What a recorder heard of the kernel: seconds since boot, and a date."""
    found: list[Event] = []
    for number, (text, code) in enumerate(zip(LINES, (79, 154), strict=True)):
        values = base(30 + number / 100, text, "kernel")
        found.append(XidReported(**values | {"boot": BOOT}, code=code))
    return found


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    events = [*facts(), *steady(30), *heard(), lost(30.4)]
    return record(tmp_path / "a.gpuprobe", events)


LOGS = {
    "seconds since boot": "[ 1030.000000] {0}\n[ 1030.010000] {1}\n",
    "dates with a zone": "2026-03-04T13:00:30+01:00 box kernel: {0}\n"
    "2026-03-04T13:00:30+01:00 box kernel: {1}\n",
    "dates without year and zone": "Mar 04 14:00:31 box kernel: {0}\n"
    "Mar 04 14:00:31 box kernel: {1}\n",
}


def both(recording: Path, text: str) -> tuple[Diagnosis, str]:
    log = recording.with_name("kernel.log")
    log.write_text(text)
    return gpuprobe.diagnose(recording, log), str(log)


@pytest.mark.parametrize("log", LOGS.values(), ids=LOGS.keys())
def test_the_kernels_line_is_cited_where_the_log_has_it(recording: Path, log: str) -> None:
    """Each line once, the log's first; the moment of the loss is known, the clocks are joined."""
    found, path = both(recording, log.format(*LINES))

    first = found.verdicts[0]
    cited = [(item.role, item.text, item.input) for item in first.evidence]
    assert cited == [
        (Role.PROOF, LINES[0], path),
        (Role.PROOF, "nvmlDeviceGetPowerUsage returned GPU_IS_LOST", str(recording)),
        (Role.CONSEQUENCE, LINES[1], path),
    ]
    assert len(found.verdicts) == 1
    assert first.at is not None
    assert first.at.isoformat().startswith("2026-03-04T12:00:3")
    assert not any("order of lines" in row.what for row in first.not_checked)


@pytest.mark.parametrize(
    "log",
    [
        "[ 2000.000000] {0}\n",
        "2026-03-04T12:05:30+00:00 box kernel: {0}\n",
        "Mar 04 12:07:12 box kernel: {0}\n",
    ],
)
def test_the_same_words_at_another_time_are_another_line(recording: Path, log: str) -> None:
    """A loss that came again is told again."""
    found, path = both(recording, log.format(*LINES))

    texts = [(item.text, item.input) for one in found.verdicts for item in one.evidence]
    assert (LINES[0], path) in texts
    assert (LINES[0], str(recording)) in texts


def test_two_recordings_of_one_machine_tell_it_once(recording: Path) -> None:
    """A service records, and so does an engine's own probe."""
    other = record(recording.with_name("b.gpuprobe"), [*facts(), *heard()])

    found = gpuprobe.diagnose(recording, other)
    texts = [item.text for item in found.verdicts[0].evidence]
    assert texts.count(LINES[0]) == 1


def test_a_log_alone_is_as_it_was(recording: Path) -> None:
    """Lines that one log holds twice stay two: only a recording is a copy."""
    log = recording.with_name("kernel.log")
    log.write_text(LOGS["seconds since boot"].format(*LINES))
    copy = recording.with_name("copy.log")
    copy.write_text(log.read_text())

    [timeline] = gpuprobe.timelines(log, copy)
    assert len(list(timeline.of(XidReported))) == 4
