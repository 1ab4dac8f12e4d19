"""`diagnose` without a path: this machine's journal and recordings, the newest incident of them."""

from __future__ import annotations

import json
import socket
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from gpuprobe import diagnose
from gpuprobe.clock import Stamp
from gpuprobe.diagnosis import Kind, Role
from gpuprobe.errors import InputUnreadableError, UsageError
from gpuprobe.events import Event, GpuLostReported, Origin, XidReported
from gpuprobe.options import Options
from gpuprobe.recording.own import Head, around, heads, newest_fault
from gpuprobe.recording.writer import Recorder
from gpuprobe.sources.files import machine
from tests.live_events import GPU, OTHER, steady

BOOT, EARLIER = "0123456789abcdef" * 2, "fedcba9876543210" * 2
LOSS = (
    "NVRM: Xid (PCI:0000:41:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
)
NOW = datetime.now(UTC)


def base(text: str, source: str, *, after_s: float = 0.0) -> dict[str, Any]:
    wall = NOW + timedelta(seconds=after_s)
    stamp = Stamp(wall.isoformat(), 5000.0 + after_s, wall, True, 0.001)
    return {"origin": Origin(source, None, text), "stamp": stamp, "device": GPU, "source": source}


def lost() -> list[Event]:
    """The kernel's line as a recorder hears it, and what NVML said a moment later."""
    return [
        XidReported(**base(LOSS, "kernel"), code=79),
        GpuLostReported(**base("nvmlDeviceGetTemperature: lost", "nvml", after_s=0.3), by="nvml"),
    ]


def line(text: str, *, boot: str = BOOT, after_s: float = 0.0) -> str:
    """A line of the journal as JSON."""
    at = round((NOW.timestamp() + after_s) * 1e6)
    return json.dumps(
        {
            "MESSAGE": text,
            "SYSLOG_IDENTIFIER": "kernel",
            "_BOOT_ID": boot,
            "_HOSTNAME": socket.gethostname(),
            "_MACHINE_ID": "a" * 32,
            "_TRANSPORT": "kernel",
            "_SOURCE_MONOTONIC_TIMESTAMP": str(round((5000.0 + after_s) * 1e6)),
            "__MONOTONIC_TIMESTAMP": str(round((5000.0 + after_s) * 1e6) + 90),
            "__REALTIME_TIMESTAMP": str(at),
        }
    )


class Machine:
    """A machine with a journal and recordings of its own."""

    def __init__(self, folder: Path) -> None:
        self.recordings = folder / "recordings"
        self._folder = folder

    def journal(self, *lines: str) -> None:
        (self._folder / "journal").write_text("".join(f"{one}\n" for one in lines))
        program = self._folder / "bin/journalctl"
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *_TRANSPORT=kernel*) exec cat {self._folder}/journal;; esac\n'
        )
        program.chmod(0o755)

    def record(self, events: list[Event], **about: str) -> Path:
        self.recordings.mkdir(exist_ok=True)
        path = self.recordings / f"{len(list(self.recordings.iterdir()))}.gpuprobe"
        meta = {"hostname": socket.gethostname(), "boot-id": BOOT}
        recorder = Recorder(path, about=meta | {k.replace("_", "-"): v for k, v in about.items()})
        recorder.add(steady(30))
        assert recorder.commit(events, timeout_s=10)
        recorder.end("stopped")
        return path


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Machine:
    """Its journalctl is missing until `journal` is called, and so is the kernel's buffer."""
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin/cat").symlink_to("/bin/cat")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("GPUPROBE_DIR", str(tmp_path / "recordings"))
    monkeypatch.setattr(machine.kernel_inputs, "__kwdefaults__", {"kmsg": tmp_path / "kmsg"})
    return Machine(tmp_path)


def test_a_line_that_journal_and_recording_hold_is_told_once(here: Machine) -> None:
    """One verdict: the kernel's line where the journal has it, and what the recording adds."""
    here.journal(line("Linux version 6.1", after_s=-4000), line(LOSS))
    path = here.record(lost())

    found = diagnose()
    first = found.verdicts[0]
    proof = [(one.text, one.input) for one in first.evidence if one.role is Role.PROOF]
    assert [one.kind for one in found.verdicts] == [Kind.DEVICE_LEFT_BUS]
    assert proof == [
        (LOSS, machine.KERNEL),
        ("nvmlDeviceGetTemperature: lost", str(path)),
    ]
    assert first.at is not None
    assert abs((first.at - NOW).total_seconds()) < 0.001
    assert {item.path for item in found.inputs} >= {machine.KERNEL, str(path)}
    assert found.other_hosts == ()


def test_recordings_alone_are_enough(here: Machine) -> None:
    """Without any log of the kernel the newest recording with a fault is judged."""
    here.record([])
    path = here.record(lost())
    here.record([])

    found = diagnose()
    assert found.answer is Kind.DEVICE_LEFT_BUS
    assert str(path) in {one.input for one in found.verdicts[0].evidence}
    assert any("journalctl" in row.why for row in found.verdicts[0].not_checked)


def test_the_kernels_own_buffer_is_of_the_recordings_boot(here: Machine, tmp_path: Path) -> None:
    """Without a journal: its line and the recorder's copy of it are one, on one machine."""
    this = machine.boot_id()
    if this is None:
        pytest.skip("the kernel does not tell its boot's id")
    (tmp_path / "kmsg").write_text(f"4,100,5000000000,-;{LOSS}\n")
    path = here.record(lost(), boot_id=this)

    found = diagnose()
    assert [one.text for one in found.verdicts[0].evidence].count(LOSS) == 1
    assert {one.input for one in found.verdicts[0].evidence} == {str(tmp_path / "kmsg"), str(path)}
    assert found.host == socket.gethostname()
    assert found.verdicts[0].at is not None


def test_a_fault_of_an_older_boot_gives_way_to_a_newer_one(here: Machine) -> None:
    """The journal's loss lies a day back, the recording's fault is of today: that is judged."""
    here.journal(line(LOSS, boot=EARLIER, after_s=-86_400), line("Linux version 6.1"))
    crash = XidReported(**base("NVRM: Xid (PCI:0000:41:00): 31, pid=7, MMU Fault", "k"), code=31)
    path = here.record([crash])

    found = diagnose()
    assert found.answer is Kind.APPLICATION_FAULT
    assert {one.input for one in found.verdicts[0].evidence} == {str(path)}


@pytest.mark.parametrize("boot", [EARLIER, EARLIER[:12], "-1"])
def test_a_boot_that_is_asked_for_comes_with_its_recordings(here: Machine, boot: str) -> None:
    """The newest incident is another one."""
    older = "NVRM: Xid (PCI:0000:41:00): 43, pid=7, name=a, Ch 00000008"
    here.journal(line(older, boot=EARLIER, after_s=-9000), line(LOSS))
    crash = XidReported(**base("NVRM: Xid (PCI:0000:41:00): 31, pid=7, MMU Fault", "k"), code=31)
    path = here.record([crash], boot_id=EARLIER)
    here.record(lost())

    found = diagnose(options=Options(boot=boot))
    assert found.answer is Kind.APPLICATION_FAULT
    assert {one.input for one in found.verdicts[0].evidence} == {machine.KERNEL, str(path)}


def test_a_device_that_only_a_recording_names(here: Machine) -> None:
    """The journal says nothing of it; one that nobody names is an error."""
    here.journal(line("Linux version 6.1"))
    here.record(lost())

    assert diagnose(options=Options(device=GPU)).answer is Kind.DEVICE_LEFT_BUS
    with pytest.raises(UsageError, match=r"0000:81:00\.0"):
        diagnose(options=Options(device=OTHER))


def test_a_recording_of_another_machine_is_left_out(here: Machine) -> None:
    """A home folder may be shared between machines."""
    here.record(lost(), hostname="elsewhere")

    with pytest.raises(InputUnreadableError):
        diagnose()


def test_a_machine_without_recordings_stays_without(here: Machine) -> None:
    """Nothing is made by looking for them."""
    here.journal(line("Linux version 6.1"))

    assert diagnose().answer is Kind.NO_FAULT
    assert not here.recordings.exists()


def test_with_machine_adds_the_recording_of_the_time(here: Machine, tmp_path: Path) -> None:
    """A saved engine log, and what was recorded around it."""
    here.journal(line(LOSS))
    path = here.record(lost())
    log = tmp_path / "engine.log"
    log.write_text("RuntimeError: CUDA error: unspecified launch failure\n")

    found = diagnose(log, options=Options(with_machine=True))
    assert found.answer is Kind.DEVICE_LEFT_BUS
    assert {item.path for item in found.inputs} >= {str(log), machine.KERNEL, str(path)}
    texts = Counter(one.text for one in found.verdicts[0].evidence)
    assert texts[LOSS] == 1


def test_a_recording_that_was_given_is_not_added_again(here: Machine) -> None:
    """It lies where this machine's recordings lie."""
    here.journal(line(LOSS))
    path = here.record(lost())

    found = diagnose(path, options=Options(with_machine=True))
    texts = Counter(one.text for one in found.verdicts[0].evidence)
    assert [item.path for item in found.inputs].count(str(path)) == 1
    assert set(texts.values()) == {1}


@pytest.fixture
def head() -> Callable[..., Head]:
    def made(name: str, begin_h: float, end_h: float, fault_h: float | None = None) -> Head:
        def at(hours: float) -> datetime:
            return NOW + timedelta(hours=hours)

        fault = None if fault_h is None else at(fault_h)
        return Head(Path(name), BOOT, at(begin_h), at(end_h), fault)

    return made


def test_only_recordings_of_the_time_are_read(head: Callable[..., Head]) -> None:
    """An earlier run of the same boot has failed too: it is another incident."""
    found = [head("first", 0, 1, 1), head("second", 3, 4, 4), head("service", -9, 5, 1)]

    newest = newest_fault(found)
    assert newest is not None
    assert newest.fault_at is not None
    assert newest.path.name == "second"
    assert [one.path.name for one in around(found, newest.fault_at, BOOT)] == ["second", "service"]
    assert around(found, newest.fault_at, EARLIER) == []


def test_what_cannot_be_read_is_no_reason_to_fail(here: Machine) -> None:
    """An empty file and a text among the recordings."""
    here.record(lost())
    (here.recordings / "empty.gpuprobe").touch()
    (here.recordings / "text.gpuprobe").write_text("Xid 79")

    assert [one.path.name for one in heads()] == ["0.gpuprobe"]


@pytest.mark.parametrize("boots", [1, 2])
def test_boots_are_counted_in_whole_sentences(here: Machine, boots: int) -> None:
    """One is no plural, with an incident in it or without."""
    ago = {BOOT: 0.0} if boots == 1 else {EARLIER: -90_000.0, BOOT: 0.0}
    quiet = [
        line("Linux version 6.1 (a@b)", boot=name, after_s=after_s - 4000)
        for name, after_s in ago.items()
    ]
    here.journal(*quiet)
    none = [note for item in diagnose().inputs for note in item.notes]
    losses = [line(LOSS, boot=name, after_s=after_s) for name, after_s in ago.items()]
    here.journal(*(one for pair in zip(quiet, losses, strict=True) for one in pair))
    several = [note for item in diagnose().inputs for note in item.notes]

    if boots == 1:
        assert none[0] == "the one boot that is kept holds no incident"
        assert several[0] == f"took boot {BOOT}, the one that is kept"
    else:
        assert none[0] == "none of the 2 boots that are kept holds an incident"
        assert several[0].endswith("; 1 older one holds one too: choose with --boot")


def test_nobody_can_give_this_machines_own_journal_again(here: Machine) -> None:
    """Its reason says what would open it; there is no file to fetch."""
    here.record(lost())
    rows = {row.what: row.how for row in diagnose().verdicts[0].not_checked}

    assert rows[machine.KERNEL] == ""
