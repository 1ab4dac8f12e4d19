"""A live session on a fake driver and a fake machine."""

from __future__ import annotations

import itertools
import threading
import time
from pathlib import Path

import pytest

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import (
    ConfigSpaceUnreadable,
    GpuLostReported,
    GpuSampled,
    PresenceTested,
    ProbeStalled,
    Setting,
    XidReported,
)
from gpuprobe.live.engine.notes import EngineNotes
from gpuprobe.live.session import Session
from gpuprobe.live.sources import live_sources
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.pci.sysfs import SysfsSource
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from gpuprobe.testing.sysfs import FakeSysfs
from tests.live.nvml_bench import ONE, TWO, alive, wait_until
from tests.live.session_bench import PORTS, Watched, machine, watching

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


@pytest.fixture
def tree(tmp_path: Path) -> FakeSysfs:
    return machine(tmp_path)


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path, [ONE, TWO])


def sampled_both(watched: Watched) -> bool:
    return len(watched.of(GpuSampled, ONE)) > 3 and len(watched.of(GpuSampled, TWO)) > 3


def gap(samples: list) -> float:
    times = [sample.stamp.monotonic_s for sample in samples]
    return max((b - a for a, b in itertools.pairwise(times)), default=0.0)


# --- a loss ----------------------------------------------------------------------------------


@needs_compiler
def test_one_of_two_is_lost(tree: FakeSysfs, fake: FakeNvml) -> None:
    """One device-left-bus within a second; the other goes on without a gap; no further call."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        fake.lose(ONE, after=fake.count(ONE) + 30)
        watched.until(lambda w: w.diagnoses)
        lost = watched.of(GpuLostReported, ONE)[0]
        seen_at, diagnosis = watched.diagnoses[-1]
        calls = fake.count(ONE)
        before = len(watched.of(GpuSampled, TWO))
        watched.for_s(1.5)
        after = fake.count(ONE)
        samples = watched.of(GpuSampled, TWO)

    assert seen_at - lost.stamp.monotonic_s < 1.0
    first = diagnosis.verdicts[0]
    assert diagnosis.answer is Kind.DEVICE_LEFT_BUS
    assert first.certainty is Certainty.CONFIRMED
    assert first.device is not None
    assert first.device.pci == ONE
    assert len(watched.of(GpuLostReported)) == 1
    assert [v.kind for v in watched.diagnoses[-1][1].verdicts] == [Kind.DEVICE_LEFT_BUS]
    assert calls == after
    assert len(samples) > before + 8
    assert gap(samples) < 0.6


@needs_compiler
def test_the_sentence_says_which_test_failed(tree: FakeSysfs, fake: FakeNvml) -> None:
    """The driver says lost and config space answers: that speaks against the link."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        fake.lose(ONE)
        watched.until(lambda w: w.of(PresenceTested, ONE)[1:])
        watched.for_s(0.5)
        diagnosis = watched.session.judge()

    first = diagnosis.verdicts[0]
    assert first.summary.startswith(f"The driver lost GPU {ONE}; its config space still answers")
    link = next(cause for cause in first.causes if cause.cause == "link")
    assert link.against


@needs_compiler
def test_config_space_joins_the_driver(tree: FakeSysfs, fake: FakeNvml) -> None:
    """All ones and GPU_IS_LOST make one verdict that names both tests."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        tree.lose(ONE)
        fake.lose(ONE)
        watched.until(lambda w: w.of(ConfigSpaceUnreadable, ONE))
        watched.for_s(0.5)
        diagnosis = watched.session.judge()

    assert [v.kind for v in diagnosis.verdicts] == [Kind.DEVICE_LEFT_BUS]
    assert "config space reads all ones" in diagnosis.verdicts[0].summary
    assert "driver lost it" in diagnosis.verdicts[0].summary


@needs_compiler
def test_no_precursor_is_said_with_span_and_rate(tree: FakeSysfs, fake: FakeNvml) -> None:
    """A loss out of steady samples: what was sampled, how long, how often, with figures."""
    fake.set(ONE, power_mw=210_000, power_limit_mw=400_000, temp_c=61, event_reasons=0)
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        watched.for_s(3.0)
        fake.lose(ONE)
        watched.until(lambda w: w.diagnoses)
        first = watched.session.judge().verdicts[0]

    (none,) = [row for row in first.ruled_out if row.kind == "precursor"]
    assert 2 <= none.figures["rate_hz"] <= 12
    assert none.figures["window_s"] >= 2.5
    assert none.figures["core_temp_c_max"] == 61
    (power,) = [row for row in first.ruled_out if row.kind == "power"]
    assert power.figures["power_w_max"] == 210
    assert 80 <= power.figures["interval_ms"] <= 500
    assert "spikes shorter than a sample" in power.why


@needs_compiler
def test_a_power_brake_before_the_loss_is_a_precursor(tree: FakeSysfs, fake: FakeNvml) -> None:
    """With a brake in the window, nothing is said of "no precursor"."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        fake.set(ONE, event_reasons=0x80)
        watched.until(lambda w: "power" in w.kinds)
        fake.lose(ONE)
        watched.until(lambda w: Kind.DEVICE_LEFT_BUS in w.kinds)
        first = watched.session.judge().verdicts[0]

    assert "power" in watched.kinds
    assert not [row for row in first.ruled_out if row.kind == "precursor"]
    assert any(
        "brake" in e.says or "brake" in e.text for e in first.evidence if e.role is Role.PRECURSOR
    )


# --- calls that hang -------------------------------------------------------------------------


@needs_compiler
def test_a_hang_of_one_gpu_stops_nothing_else(tree: FakeSysfs, fake: FakeNvml) -> None:
    """The stall is reported in its deadline; the other GPU and the presence test go on."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        fake.hang(ONE)
        stall = watched.until(lambda w: w.of(ProbeStalled, ONE))[0]
        before = len(watched.of(GpuSampled, TWO))
        tree.lose(TWO)
        watched.until(lambda w: w.of(ConfigSpaceUnreadable, TWO))
        after = len(watched.of(GpuSampled, TWO))
        begin = time.monotonic()
        left = watched.session.stop()
        took = time.monotonic() - begin
        pid = stall.pid
        outlived = alive(pid)
        fake.heal()
        ended = wait_until(lambda: not alive(pid))

    assert 0.4 < stall.waited_s < 1.5
    assert after > before
    assert took < 1.2
    assert [one.pid for one in left] == [pid]
    assert "still inside nvml" in str(left[0])
    assert outlived
    assert ended


@needs_compiler
def test_a_stall_alone_is_no_loss(tree: FakeSysfs, fake: FakeNvml) -> None:
    """A call that does not return: it cannot be told, and never device-left-bus."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        fake.hang(ONE, in_d=True)
        watched.until(lambda w: any(e.state == "D" for e in w.of(ProbeStalled, ONE)))
        watched.for_s(0.5)
        diagnosis = watched.session.judge()

    assert diagnosis.answer is Kind.CANNOT_TELL
    assert "state D" in diagnosis.verdicts[0].evidence[0].says


@needs_compiler
def test_a_hang_of_the_library_leaves_sysfs_at_work(tree: FakeSysfs, fake: FakeNvml) -> None:
    """Everything in NVML hangs; a loss is still seen in config space, and the exit is at once."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        fake.hang()
        watched.until(lambda w: w.of(ProbeStalled))
        tree.lose(ONE)
        watched.until(lambda w: Kind.DEVICE_LEFT_BUS in w.kinds)
        first = watched.diagnoses[-1][1].verdicts[0]
        begin = time.monotonic()
        left = watched.session.stop()
        took = time.monotonic() - begin

    assert first.certainty is Certainty.CONFIRMED
    assert first.device is not None
    assert first.device.pci == ONE
    assert any("did not return" in item.says for item in first.evidence)
    assert took < 1.2
    assert left


# --- the bus ---------------------------------------------------------------------------------


def test_all_ones_are_a_loss_without_any_driver(tree: FakeSysfs) -> None:
    """Config space alone confirms it: the source looked at the power state first."""
    with watching(tree, None) as watched:
        watched.for_s(0.3)
        tree.lose(ONE)
        watched.until(lambda w: w.diagnoses)

    first = watched.diagnoses[-1][1].verdicts[0]
    assert first.kind is Kind.DEVICE_LEFT_BUS
    assert first.certainty is Certainty.CONFIRMED
    assert "config space reads all ones" in first.summary


def test_a_device_that_answers_again_did_not_leave(tree: FakeSysfs) -> None:
    """All ones for two seconds, then the device answers: the link, not a loss."""
    with watching(tree, None) as watched:
        watched.for_s(0.3)
        tree.lose(ONE)
        watched.until(lambda w: w.diagnoses)
        tree.recover(ONE)
        watched.until(lambda w: w.kinds[-1] == Kind.PCIE_LINK_ERRORS)

    first = watched.diagnoses[-1][1].verdicts[0]
    assert "lost its link and came back" in first.summary


def test_a_removal_on_purpose_is_quiet(tree: FakeSysfs) -> None:
    """A device that is taken away while it answers gives no verdict, and is named."""
    with watching(tree, None) as watched:
        watched.for_s(0.3)
        tree.remove(ONE)
        watched.until(lambda w: any("gone" in e.origin.text for e in w.events))
        watched.for_s(0.5)
        diagnosis = watched.session.judge()

    assert diagnosis.answer is Kind.NO_FAULT
    assert watched.diagnoses == []
    assert any("on purpose" in item.says for item in diagnosis.verdicts[0].evidence)


def test_a_sleeping_device_is_no_loss(tree: FakeSysfs) -> None:
    """Suspended and all ones: that is how it looks asleep."""
    with watching(tree, None) as watched:
        watched.for_s(0.3)
        tree.suspend(ONE)
        watched.for_s(1.5)

    assert watched.diagnoses == []


@pytest.mark.parametrize("where", [ONE, PORTS[ONE]])
def test_rising_counters_are_link_errors(tree: FakeSysfs, where: object) -> None:
    """Corrected errors of the GPU or of its port, counted while it was watched."""
    with watching(tree, None) as watched:
        watched.for_s(0.3)
        tree.count(str(where), "correctable", BadTLP=5)
        watched.until(lambda w: w.diagnoses)

    first = watched.diagnoses[-1][1].verdicts[0]
    assert first.kind is Kind.PCIE_LINK_ERRORS
    assert first.device is not None
    assert first.device.pci == ONE
    assert "5 times (BadTLP 5)" in first.summary


def test_old_counts_say_nothing(tmp_path: Path) -> None:
    """Counters that were high before and stay so are a lifetime, not trouble."""
    tree = machine(tmp_path)
    tree.count(ONE, "correctable", BadTLP=500)
    with watching(tree, None) as watched:
        watched.for_s(2.5)
        diagnosis = watched.session.judge()

    assert diagnosis.answer is Kind.NO_FAULT
    assert watched.diagnoses == []


# --- sources ---------------------------------------------------------------------------------


class Broken:
    """A source that cannot be used here."""

    name = "kernel-log"

    def available(self) -> Unavailable:
        return Unavailable(Reason.NOT_PERMITTED, "/dev/kmsg: not permitted", "Run it with sudo.")

    def start(self) -> None: ...

    def poll(self) -> list:
        return []

    def stop(self) -> None: ...


def test_what_is_not_seen_is_said_with_the_remedy(tree: FakeSysfs) -> None:
    """A source that is not available stands under not checked, with its hint."""
    with watching(tree, None, Broken()) as watched:
        watched.for_s(0.3)
        tree.lose(ONE)
        watched.until(lambda w: w.diagnoses)

    row = next(
        item
        for item in watched.diagnoses[-1][1].verdicts[0].not_checked
        if item.what == "the kernel log"
    )
    assert (row.why, row.how) == ("/dev/kmsg: not permitted", "Run it with sudo.")


class Stuck(Broken):
    """A source whose `stop` does not return."""

    name = "host"

    def __init__(self) -> None:
        self.let_go = threading.Event()

    def available(self) -> Known[str]:
        return Known("here")

    def stop(self) -> None:
        self.let_go.wait(20)


def test_stop_returns_whatever_hangs(tree: FakeSysfs) -> None:
    """A source that does not let go costs a second, not the exit."""
    stuck = Stuck()
    session = Session([SysfsSource(root=tree.root), stuck], root=tree.root)
    session.start()
    begin = time.monotonic()

    session.stop()

    took = time.monotonic() - begin
    stuck.let_go.set()
    assert took < 1.2


def test_updates_end_with_stop(tree: FakeSysfs) -> None:
    """An iteration in another thread ends when the session is stopped."""
    session = Session([SysfsSource(root=tree.root)], root=tree.root)
    session.start()
    thread = threading.Thread(target=lambda: list(session.updates()), daemon=True)
    thread.start()

    session.stop()

    thread.join(2.0)
    assert not thread.is_alive()


def test_the_rules_are_not_asked_at_the_sampling_rate(
    tree: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A flood of events costs a few judgements a second."""
    asked = []
    with watching(tree, None) as watched:
        judge = watched.session.judge
        monkeypatch.setattr(watched.session, "judge", lambda: asked.append(1) or judge())
        watched.for_s(0.3)
        end = time.monotonic() + 2.0
        while time.monotonic() < end:
            tree.count(ONE, "correctable", RxErr=1)
            watched.take()
            time.sleep(0.01)

    assert len(asked) <= 8


def test_no_nvml_leaves_nvml_out() -> None:
    """`nvml=False` makes no NVML source."""
    names = [source.name for source in live_sources(nvml=False)]

    assert names == ["kernel-log", "sysfs", "udev", "host"]


def test_other_devices_are_left_out_on_demand(tree: FakeSysfs) -> None:
    """With one device asked for, the loss of another is none, and its own port still counts."""
    session = Session([SysfsSource(2, root=tree.root)], devices=[TWO], root=tree.root)
    session.start()
    watched = Watched(session)
    try:
        watched.for_s(0.3)
        tree.lose(ONE)
        watched.for_s(1.8)
        quiet = list(watched.diagnoses)
        tree.count(PORTS[TWO], "correctable", BadTLP=5)
        watched.until(lambda w: w.diagnoses)
    finally:
        session.stop()

    assert quiet == []
    assert watched.kinds == [Kind.PCIE_LINK_ERRORS]


@needs_compiler
def test_a_stall_that_ends_is_taken_back(tree: FakeSysfs, fake: FakeNvml) -> None:
    """A call that comes back late: cannot-tell while it hangs, then nothing failed."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        fake.hang(ONE)
        watched.until(lambda w: Kind.CANNOT_TELL in w.kinds)
        fake.heal()
        watched.until(lambda w: w.kinds[-1] == Kind.NO_FAULT)


@needs_compiler
def test_a_loss_seen_elsewhere_ends_the_calls(tree: FakeSysfs, fake: FakeNvml) -> None:
    """Config space reads all ones while NVML still answers: it is asked no more."""
    with watching(tree, fake) as watched:
        watched.until(sampled_both)
        tree.lose(ONE)
        watched.until(lambda w: w.of(ConfigSpaceUnreadable, ONE))
        watched.for_s(0.5)
        calls = fake.count(ONE)
        watched.for_s(1.0)
        after = fake.count(ONE)

    assert calls == after


@needs_compiler
@pytest.mark.parametrize(("setting", "goes_on"), [(Setting.BARE, True), (Setting.LOG, False)])
@pytest.mark.parametrize("code", [79, 119])
def test_a_kernel_line_that_a_program_prints_ends_no_calls(
    tree: FakeSysfs, fake: FakeNvml, code: int, setting: Setting, goes_on: bool
) -> None:
    """An Xid out of the kernel's log does; what an engine shows of that log may be old."""
    notes = EngineNotes(5)
    with watching(tree, fake, notes) as watched:
        watched.until(sampled_both)
        notes.put(XidReported, f"Xid {code}", code=code, device=ONE, setting=setting)
        watched.until(lambda w: w.of(XidReported, ONE))
        watched.for_s(0.5)
        calls = fake.count(ONE)
        watched.for_s(0.5)
        after = fake.count(ONE)

    assert (after > calls) is goes_on


def test_an_event_of_any_source_ends_the_pause(tree: FakeSysfs) -> None:
    """A loss that sysfs alone sees is judged in a second, however long the pause between polls."""
    session = Session([SysfsSource(2, root=tree.root)], root=tree.root)
    session.poll_s = 30.0
    session.start()
    lost_at = 0.0
    try:
        for update in session.updates():
            if not lost_at and any(isinstance(e, PresenceTested) for e in update.events):
                tree.lose(ONE)
                lost_at = time.monotonic()
            if update.verdict is not None:
                break
    finally:
        session.stop()

    assert update.verdict is not None
    assert update.verdict.kind is Kind.DEVICE_LEFT_BUS
    assert time.monotonic() - lost_at < 5.0
