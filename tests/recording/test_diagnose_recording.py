"""A recording as an input of `diagnose`: the verdict that the session gave."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path

import pytest

import gpuprobe
from gpuprobe.diagnosis import Diagnosis, Kind, Role
from gpuprobe.events import GpuSampled, SourceChanged, taken_apart
from gpuprobe.recording import evidence
from gpuprobe.recording.recorded import describe_sources, recorded
from gpuprobe.recording.writer import Recorder
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE, TWO
from tests.live.session_bench import machine, watching
from tests.live_events import GPU, base, counted, drawn, facts, judged, lost, steady
from tests.recording.recording_bench import BOOT, files, record

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


def gist(found: Diagnosis) -> list[object]:
    """What two diagnoses of the same minutes must share."""
    return [
        (
            one.kind,
            one.certainty,
            one.device.pci if one.device else None,
            one.other_devices,
            one.xids,
            [item.text for item in one.evidence if item.role is Role.PROOF],
        )
        for one in found.verdicts
    ]


@needs_compiler
def test_the_verdict_is_the_one_that_the_session_gave(tmp_path: Path) -> None:
    """A GPU is lost on a fake driver: the recording gives the kinds, device, certainty, proof."""
    tree, fake = machine(tmp_path), FakeNvml(tmp_path, [ONE, TWO])
    path = tmp_path / "run.gpuprobe"
    recorder = Recorder(path, about={"hostname": "box", "boot-id": BOOT})
    with watching(tree, fake) as watched:
        describe_sources(recorder, watched.session.states)
        end = time.monotonic() + 20
        asked = False
        for update in recorded(watched.session.updates(), recorder):
            watched.samples += taken_apart(update.samples)
            if len(watched.of(GpuSampled, ONE)) > 10 and not asked:
                fake.lose(ONE, after=fake.count(ONE) + 30)
                asked = True
            if update.diagnosis is not None:
                break
            assert time.monotonic() < end
        said = watched.session.diagnosis
        assert said is not None
        recorder.end("device-lost", diagnosis=said)

    found = gpuprobe.diagnose(path)
    assert gist(said) == gist(found)
    assert found.exit_code == 79
    assert found.inputs[0].format == "recording"
    first = found.verdicts[0]
    assert {str(path)} == {item.input for item in first.evidence}
    assert all(item.line is None for item in first.evidence)
    assert all((item.ref or "").partition(":")[0] for item in first.evidence)


def test_figures_are_those_of_the_session(tmp_path: Path) -> None:
    """What was ruled out, and by which figures, is the same from a recording."""
    events = [
        *facts(),
        *steady(200),
        *(counted(second, correctable_BadTLP=3) for second in range(200)),
        *(drawn(second, *[210.0 + n % 7 for n in range(100)]) for second in range(200)),
        lost(200.05),
    ]
    found = gpuprobe.diagnose(record(tmp_path / "a.gpuprobe", events))
    said = judged(*events)

    assert gist(said) == gist(found)
    assert [(one.kind, one.why) for one in said.verdicts[0].ruled_out] == [
        (one.kind, one.why) for one in found.verdicts[0].ruled_out
    ]


def test_a_recording_joins_a_kernel_log_of_its_machine(tmp_path: Path) -> None:
    """A journal line of the same boot and the recording make one verdict."""
    path = record(tmp_path / "a.gpuprobe", [*facts(), *steady(30), lost(30)])
    log = tmp_path / "kernel.log"
    log.write_text(
        "2026-03-04T12:00:30.020000+00:00 box kernel: NVRM: Xid (PCI:0000:41:00): 79, "
        "pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"
    )

    found = gpuprobe.diagnose(path, log)
    assert found.other_hosts == ()
    assert found.host == "box"
    assert [one.kind.value for one in found.verdicts] == ["device-left-bus"]
    assert found.verdicts[0].xids == (79,)
    assert {str(path), str(log)} == {item.input for item in found.verdicts[0].evidence}


@pytest.mark.parametrize("what", ["started", "unavailable"])
def test_a_quiet_kernel_log_is_told_from_none(tmp_path: Path, what: str) -> None:
    """A recording that listened to the kernel log has one, whatever it said."""
    heard = SourceChanged(**base(0, "reading", "kernel-log"), name="kernel-log", what=what)
    path = record(tmp_path / "a.gpuprobe", [heard, *facts(), *steady(5)])

    [timeline] = gpuprobe.timelines(path)
    assert timeline.has_kernel_log() == (what == "started")


def test_a_source_that_was_not_there_is_noted(tmp_path: Path) -> None:
    """`meta` says why, and so do the notes of the input."""
    about = {"source:kernel-log": "unavailable: no permission"}
    recorder = Recorder(tmp_path / "a.gpuprobe", about=about)
    recorder.end("stopped")

    [timeline] = gpuprobe.timelines(recorder.path)
    assert any("no permission" in note for note in timeline.inputs[0].notes)


def unseen(*paths: Path) -> dict[str, tuple[str, str]]:
    """Rows of what was not checked: what, then why and how."""
    rows = gpuprobe.diagnose(*paths).verdicts[0].not_checked
    return {row.what: (row.why, row.how) for row in rows}


def test_a_source_that_was_not_there_is_not_checked(tmp_path: Path) -> None:
    """A row as a live session has it, with why and with what would make it available."""
    about = {
        "source:kernel-log": "unavailable: no permission",
        "hint:kernel-log": "sudo gpuprobe record",
        "source:nvml": "unavailable: no library\x1b[31m",
        "source:sysfs": "available: /sys",
    }
    recorder = Recorder(tmp_path / "a.gpuprobe", about=about)
    recorder.end("stopped")

    found = unseen(recorder.path)
    assert found.pop("the kernel log") == (
        "it could not be recorded: no permission",
        "sudo gpuprobe record",
    )
    [(what, (why, how))] = found.items()
    assert "NVML" in what
    assert "no library" in why
    assert "\x1b" not in why
    assert how


def test_a_kernel_log_beside_the_recording_fills_its_gap(tmp_path: Path) -> None:
    """What the recorder could not hear is among the inputs all the same."""
    about = {"source:kernel-log": "unavailable: no permission"}
    recorder = Recorder(tmp_path / "a.gpuprobe", about=about)
    recorder.end("stopped")
    log = tmp_path / "dmesg.log"
    log.write_text("[    1.000000] pci 0000:41:00.0: [10de:26b9] type 00 class 0x030000\n" * 3)

    assert "the kernel log" in unseen(recorder.path)
    assert "the kernel log" not in unseen(recorder.path, log)


@pytest.mark.parametrize(
    ("said", "changes", "missing"),
    [
        ("unavailable: no GPU", ["started"], False),
        ("available: libnvidia-ml.so.1", ["started", "unavailable"], True),
        ("available: libnvidia-ml.so.1", ["started", "released"], False),
    ],
)
def test_a_source_that_came_or_went_counts_by_its_end(
    tmp_path: Path, said: str, changes: list[str], missing: bool
) -> None:
    """What `meta` says is how it began; its events say what became of it."""
    recorder = Recorder(tmp_path / "a.gpuprobe", about={"source:nvml": said})
    for second, what in enumerate(changes):
        values = base(second, "the library does not answer", "nvml") | {"device": None}
        recorder.add([SourceChanged(**values, name="nvml", what=what)])
    recorder.end("stopped")

    assert any("NVML" in what for what in unseen(recorder.path)) == missing


def test_reading_changes_nothing(tmp_path: Path) -> None:
    """One that ended, and one that was cut off, are the same bytes afterwards, and alone."""
    for name, how in (("ended", "stopped"), ("cut", None)):
        folder = tmp_path / name
        folder.mkdir()
        made = record(tmp_path / f"{name}.gpuprobe", [*steady(5), lost(5)], how=how)
        for side in ("", "-wal"):
            source = tmp_path / (made.name + side)
            if source.exists():
                (folder / source.name).write_bytes(source.read_bytes())
        before = files(folder)

        assert gpuprobe.diagnose(folder).exit_code == 79
        assert before == files(folder)


def test_a_recording_without_an_end_says_so(tmp_path: Path) -> None:
    """A copy of a recording that nobody ended names the moment of its last row."""
    made = record(tmp_path / "a.gpuprobe", [*steady(5), lost(5)], how=None)
    copy = tmp_path / "copy" / "b.gpuprobe"
    copy.parent.mkdir()
    for side in ("", "-wal"):
        copy.with_name(copy.name + side).write_bytes((tmp_path / (made.name + side)).read_bytes())

    [item] = gpuprobe.diagnose(copy).inputs
    assert any(
        "ends without an end mark at 2026-03-04T12:00:05" in note and "power cut" in note
        for note in item.notes
    )


def test_one_that_is_being_written_is_read(tmp_path: Path) -> None:
    """Its writer goes on, and the reader says that it is not whole yet."""
    recorder = Recorder(tmp_path / "a.gpuprobe")
    recorder.add(steady(5))
    assert recorder.commit([lost(5)], timeout_s=10)

    found = gpuprobe.diagnose(recorder.path)
    assert found.exit_code == 79
    assert any("still being written" in note for note in found.inputs[0].notes)
    assert recorder.commit([lost(6)], timeout_s=10)
    recorder.end("stopped")


def test_what_is_read_of_a_long_recording_is_bounded(tmp_path: Path) -> None:
    """Two hours at 2 Hz: all samples of the last two minutes, few before, and no maximum lost."""
    path = tmp_path / "a.gpuprobe"
    recorder = Recorder(path)
    power = {"power_w": lambda at: 500.0 if at == 1000 else 200.0}
    every = steady(7200, hz=2, **power)
    for begin in range(0, len(every), 5000):
        recorder.add(every[begin : begin + 5000])
        assert recorder.commit((), timeout_s=20)
    assert recorder.commit([*facts(), lost(7200)], timeout_s=20)
    recorder.end("stopped")

    samples = [one for one in evidence.read(path, "x", 0).events if isinstance(one, GpuSampled)]
    assert max(one.power_w or 0 for one in samples) == 500
    assert 240 < len(samples) < 1500
    times = [one.stamp.monotonic_s for one in samples if one.stamp]
    assert sum(at > 1000 + 7080 for at in times) >= 238
    assert times == sorted(times)
    assert {one.device for one in samples} == {GPU}


def test_a_recording_that_breaks_off_cannot_show_that_nothing_failed(tmp_path: Path) -> None:
    """Without an end mark the answer is `cannot-tell`; the same one with a mark is `no-fault`."""
    answers = {}
    for name, ended in (("whole", True), ("cut", False)):
        path = tmp_path / f"{name}.gpuprobe"
        recorder = Recorder(path)
        recorder.end("stopped")
        if not ended:
            with sqlite3.connect(path) as database:
                database.execute("DELETE FROM meta WHERE key = 'ended'")
            database.close()
        found = gpuprobe.diagnose(path)
        answers[name] = found.answer
        rows = [row.what for row in found.verdicts[0].not_checked]
        assert ended != any("what came after the end" in row for row in rows)
    assert answers == {"whole": Kind.NO_FAULT, "cut": Kind.CANNOT_TELL}
