"""The NVML source on a scripted library, through the real pynvml."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gpuprobe.events import (
    CountersSampled,
    DeviceIdentified,
    GpuLostReported,
    GpuSampled,
    LossHinted,
    NvmlReturned,
    PowerSampled,
    ProbeStalled,
    ProcessesListed,
    SourceChanged,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.probe import NvmlProbe
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.testing.nvml import RECOVERY_ACTION, UNAVAILABLE, FakeNvml, why_unavailable
from tests.live.nvml_bench import (
    ONE,
    TWO,
    alive,
    collect,
    gather,
    of,
    probing,
    wait_until,
)

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path, [ONE, TWO])


def sampled_both(events: list) -> bool:
    return bool(of(GpuSampled, events, ONE) and of(GpuSampled, events, TWO))


def gaps(samples: list) -> float:
    times = [sample.stamp.monotonic_s for sample in samples]
    return max(later - earlier for earlier, later in itertools.pairwise(times))


# --- sampling --------------------------------------------------------------------------------


def test_when_a_device_last_answered_is_known_as_long_as_it_does(fake: FakeNvml) -> None:
    """For whoever tests presence beside; not before, and not once it is lost or only fails."""

    def age_s(device: PciAddress) -> float:
        return time.monotonic() - probe.answered_s(device)

    with probing(fake, rate_hz=50.0) as probe:
        assert probe.answered_s(TWO) == 0.0
        collect(probe, sampled_both)
        assert wait_until(lambda: age_s(ONE) < 0.2 and age_s(TWO) < 0.2)
        fake.lose(ONE)
        collect(probe, lambda found: of(GpuLostReported, found, ONE))
        assert probe.answered_s(ONE) == 0.0
        fake.unknown(TWO)
        # Between two calls, so that it is not one that runs which makes it unknown.
        assert wait_until(lambda: [probe.answered_s(TWO) for _ in range(50)] == [0.0] * 50)


def test_every_device_is_sampled_with_its_units(fake: FakeNvml) -> None:
    """Power in watts, memory in bytes, from the field of power at this instant."""
    fake.set(ONE, power_mw=123456, temp_c=61, link_gen=3, link_width=8, memory_used_bytes=4096)
    with probing(fake) as probe:
        events = collect(
            probe,
            lambda e: sampled_both(e) and of(CountersSampled, e, TWO) and of(PowerSampled, e, ONE),
        )

    sample = of(GpuSampled, events, ONE)[-1]
    assert sample.power_w == 123.456
    assert (
        sample.temp_c,
        sample.link_gen,
        sample.link_width,
        sample.memory_used_bytes,
    ) == (61, 3, 8, 4096)
    assert sample.stamp.is_absolute
    assert sample.origin.input == "nvml"
    assert of(PowerSampled, events, ONE)[0].samples
    assert {ONE, TWO} == {event.device for event in of(DeviceIdentified, events)}
    assert dict(of(CountersSampled, events, TWO)[0].counters)["pcie_replay"] == 0


def test_a_hundred_samples_a_second_without_a_gap(fake: FakeNvml) -> None:
    """The fixed clock keeps its rate: no drift, and no sample 60 ms late on a shared machine."""
    with probing(fake, rate_hz=100, batch_s=0.1) as probe:
        collect(probe, sampled_both)
        samples = of(GpuSampled, gather(probe, 2.0), ONE)

    assert 170 < len(samples) < 225
    assert gaps(samples) < 0.3


def test_what_is_not_supported_is_asked_once(fake: FakeNvml) -> None:
    """A value that is not offered has its reason, and its call is not made again."""
    fake.unsupported("nvmlDeviceGetUtilizationRates", ONE)
    fake.unsupported("field.82", ONE)
    with probing(fake) as probe:
        collect(probe, lambda e: len(of(GpuSampled, e, ONE)) > 5)
        readings = probe.readings()

    assert isinstance(readings[ONE]["util_percent"], Unavailable)
    assert readings[ONE]["util_percent"].reason is Reason.NOT_SUPPORTED
    assert readings[ONE]["memory_temp_c"].reason is Reason.NOT_SUPPORTED
    assert isinstance(readings[TWO]["util_percent"], Known)
    assert fake.count(ONE, "nvmlDeviceGetUtilizationRates") == 1


def test_an_older_library_gives_the_same_values(tmp_path: Path) -> None:
    """Where the newer call is missing, or the power field, the older one is used."""
    newer = ["nvmlDeviceGetTemperatureV", "nvmlDeviceGetCurrentClocksEventReasons"]
    fake = FakeNvml(tmp_path, [ONE], without=newer)
    fake.set(ONE, temp_c=57, power_mw=99000)
    fake.unsupported("field.186")
    with probing(fake) as probe:
        collect(probe, lambda e: len(of(GpuSampled, e, ONE)) > 5)
        readings = probe.readings()[ONE]

    assert Known(57) == readings["temp_c"]
    assert Known(99.0) == readings["power_w"]
    assert isinstance(readings["clocks_event_reasons"], Known)
    assert fake.count(ONE, "nvmlDeviceGetPowerUsage") > 3
    assert fake.count(ONE, "nvmlDeviceGetCurrentClocksThrottleReasons") > 3


def test_both_spellings_of_one_value_are_not_both_asked(fake: FakeNvml) -> None:
    """Power by its field means that nvmlDeviceGetPowerUsage is never called."""
    with probing(fake) as probe:
        collect(probe, sampled_both)

    assert fake.count(ONE, "nvmlDeviceGetPowerUsage") == 0


def test_a_passing_error_is_said_once_and_the_rest_goes_on(fake: FakeNvml) -> None:
    """UNKNOWN from one call is an event with its code, and other values still come."""
    fake.error(999, ONE, "nvmlDeviceGetPerformanceState")
    with probing(fake) as probe:
        events = collect(probe, lambda e: len(of(GpuSampled, e, ONE)) > 6)

    returned = of(NvmlReturned, events, ONE)
    assert [(event.code, event.name) for event in returned] == [(999, "UNKNOWN")]
    assert of(GpuSampled, events, ONE)[-1].pstate is None
    assert of(GpuSampled, events, ONE)[-1].power_w is not None


def test_a_field_that_never_answers_costs_no_second_pass(fake: FakeNvml) -> None:
    """Another call gives its value: the calm group keeps its pace."""
    fake.error(999, ONE, "field.186")
    with probing(fake, rate_hz=50) as probe:
        events = collect(probe, lambda e: len(of(GpuSampled, e, ONE)) > 60)

    passes = fake.count(ONE, "nvmlDeviceGetCurrentClocksEventReasons")
    assert fake.count(ONE, "nvmlDeviceGetPerformanceState") < passes / 3
    assert of(GpuSampled, events, ONE)[-1].power_w == 250.0


def test_a_device_that_needs_a_reset_is_asked_seldom(fake: FakeNvml) -> None:
    """Where every call fails, once a second is enough; the other device keeps its rate."""
    with probing(fake, rate_hz=20) as probe:
        collect(probe, sampled_both)
        fake.require_reset(ONE)
        events = collect(probe, lambda e: of(NvmlReturned, e, ONE))
        before = fake.count(ONE, "nvmlDeviceGetPerformanceState")
        later = gather(probe, 1.5)

    assert {16} == {event.code for event in of(NvmlReturned, events, ONE)}
    assert fake.count(ONE, "nvmlDeviceGetPerformanceState") - before <= 4
    assert not of(GpuSampled, later, ONE)
    assert len(of(GpuSampled, later, TWO)) > 10  # of 30, on a busy machine


# --- loss ------------------------------------------------------------------------------------


def test_a_lost_device_is_named_within_a_second_and_asked_no_more(fake: FakeNvml) -> None:
    """One event with the address; the other GPU is sampled without a gap."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.lose(ONE)
        began = time.monotonic()
        events = collect(probe, lambda e: of(GpuLostReported, e))
        took = time.monotonic() - began
        at_loss = fake.count(ONE)
        events += gather(probe, 1.5)

    lost = of(GpuLostReported, events)
    assert took < 1.0
    assert [(event.device, event.by) for event in lost] == [(ONE, "nvml")]
    assert "GPU_IS_LOST" in lost[0].origin.text
    assert lost[0].uuid == "GPU-00000000-0000-4000-8000-000000000400"
    assert at_loss == fake.count(ONE)
    assert gaps(of(GpuSampled, events, TWO)) < 0.3
    assert probe.readings()[ONE]["power_w"].reason is Reason.LOST


def test_a_field_alone_can_say_lost(fake: FakeNvml) -> None:
    """A call that returns SUCCESS with GPU_IS_LOST in a field is a loss."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.error(15, TWO, "field.186")
        events = collect(probe, lambda e: of(GpuLostReported, e))

    assert of(GpuLostReported, events)[0].device == TWO


def test_a_device_lost_before_it_was_opened_has_an_index(fake: FakeNvml) -> None:
    """Without an address the event says which index, and guesses none."""
    fake.lose(TWO)
    with probing(fake) as probe:
        events = collect(probe, lambda e: of(GpuLostReported, e) and of(GpuSampled, e, ONE))

    assert of(GpuLostReported, events)[0].index == 1


def test_a_device_that_left_the_list_is_no_loss_of_the_other(fake: FakeNvml) -> None:
    """A hot-unplugged GPU ends its own samples only."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.remove(ONE)
        gather(probe, 0.5)
        later = gather(probe, 1.0)

    assert not of(GpuSampled, later, ONE)
    assert len(of(GpuSampled, later, TWO)) >= 7


# --- events ----------------------------------------------------------------------------------


def test_an_xid_comes_at_once(fake: FakeNvml) -> None:
    """An Xid of NVML's event set is there in well under 100 ms more than a poll."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        gather(probe, 0.3)
        began = time.monotonic()
        fake.xid(TWO, 31)
        events = collect(probe, lambda e: of(XidReported, e))
        took = time.monotonic() - began

    xid = of(XidReported, events)[0]
    assert (xid.code, xid.via, xid.device) == (31, "nvml", TWO)
    assert took < 0.5


def test_an_unavailable_device_that_is_lost_is_found_by_one_more_pass(fake: FakeNvml) -> None:
    """The event alone is a hint; the pass that follows it proves the loss."""
    with probing(fake, rate_hz=0.2) as probe:
        collect(probe, sampled_both)
        gather(probe, 0.3)
        fake.lose(ONE)
        fake.event(ONE, UNAVAILABLE)
        events = collect(probe, lambda e: of(GpuLostReported, e), 3)

    assert [event.what for event in of(LossHinted, events, ONE)] == ["unavailable"]


def test_an_unavailable_device_that_answers_is_left_alone(fake: FakeNvml) -> None:
    """After the event and one more pass no call goes to it: its firmware may hang."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        gather(probe, 0.3)
        fake.event(ONE, UNAVAILABLE)
        events = collect(probe, lambda e: any(c.what == "stopped" for c in of(SourceChanged, e)))
        gather(probe, 0.3)
        before = fake.count(ONE)
        later = gather(probe, 1.0)

    assert not of(GpuLostReported, events)
    assert before == fake.count(ONE)
    assert of(GpuSampled, later, TWO)


@pytest.mark.parametrize("code", [62, 119])
def test_after_a_firmware_hang_no_call_is_made_at_all(fake: FakeNvml, code: int) -> None:
    """The child leaves, and none follows until `take`."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        gather(probe, 0.3)
        pid = probe.pid
        fake.xid(ONE, code)
        collect(probe, lambda e: of(XidReported, e))
        assert wait_until(lambda: not alive(pid))
        before = fake.count()
        gather(probe, 0.5)
        assert before == fake.count()
        assert fake.count(name="nvmlShutdown") == 0

        probe.take()
        collect(probe, sampled_both)


def test_a_device_that_another_source_saw_lost_is_left_alone(fake: FakeNvml) -> None:
    """`skip` ends the calls to one device, `cease` all calls."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        probe.skip(ONE)
        collect(probe, lambda e: any(c.device == ONE for c in of(SourceChanged, e)))
        gather(probe, 0.5)
        before = fake.count(ONE)
        assert of(GpuSampled, gather(probe, 0.5), TWO)
        assert before == fake.count(ONE)

        pid = probe.pid
        probe.cease("the kernel log says Xid 119")
        assert wait_until(lambda: not alive(pid))
        before = fake.count()
        gather(probe, 0.5)
        assert before == fake.count()


def test_a_changed_recovery_action_is_read_at_once(fake: FakeNvml) -> None:
    """The event brings the new action before the next second."""
    with probing(fake) as probe:
        collect(probe, lambda e: of(CountersSampled, e, ONE))
        gather(probe, 0.2)
        fake.set(ONE, recovery_action=1)
        fake.event(ONE, RECOVERY_ACTION, 1)
        events = collect(probe, lambda e: of(CountersSampled, e, ONE), 0.7)

    assert dict(of(CountersSampled, events, ONE)[-1].counters)["recovery_action"] == 1


# --- calls that do not return ----------------------------------------------------------------


def test_one_device_hangs_and_the_other_goes_on(fake: FakeNvml) -> None:
    """The stall is named in its deadline; leaving is prompt; the child ends when let go."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.hang(ONE, "nvmlDeviceGetCurrPcieLinkGeneration")
        began = time.monotonic()
        events = collect(probe, lambda e: of(ProbeStalled, e))
        took = time.monotonic() - began
        events += gather(probe, 1.0)
        pid = probe.pid
        began = time.monotonic()
        probe.stop()
        left = time.monotonic() - began

        stall = of(ProbeStalled, events)[0]
        assert len(of(ProbeStalled, events)) == 1
        assert ("nvmlDeviceGetCurrPcieLinkGeneration", ONE, pid) == (
            stall.call,
            stall.device,
            stall.pid,
        )
        assert stall.tid != pid
        assert took < 1.0
        assert gaps(of(GpuSampled, events, TWO)) < 0.3
        assert left < 1.3
        assert [pid] == [held.pid for held in probe.left_behind]
        assert "nvmlDeviceGetCurrPcieLinkGeneration" in str(probe.left_behind[0])
        time.sleep(0.3)
        assert alive(pid)

        fake.let_go()
        assert wait_until(lambda: not alive(pid))
    assert fake.count(name="nvmlShutdown") == 0 or stall.pid == pid


def test_a_device_that_is_held_by_an_abandoned_child_is_left_alone(fake: FakeNvml) -> None:
    """Started again, the probe opens the other device only, as long as the first child lives."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.hang(ONE)
        collect(probe, lambda e: of(ProbeStalled, e))
        probe.stop()
        before = fake.count(ONE)
        probe.start()
        events = collect(probe, lambda e: len(of(GpuSampled, e, TWO)) > 3)
        assert before == fake.count(ONE)
        assert not of(GpuSampled, events, ONE)

        fake.let_go()
        assert wait_until(lambda: not alive(probe.left_behind[0].pid))
        probe.stop()
        probe.start()
        collect(probe, sampled_both)


def test_a_call_that_returns_late_is_said_and_sampling_goes_on(fake: FakeNvml) -> None:
    """A stall that ended is told apart from one that lasts."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.hang(ONE, "nvmlDeviceGetCurrPcieLinkGeneration")
        collect(probe, lambda e: of(ProbeStalled, e))
        fake.let_go()
        collect(probe, lambda e: any("returned after" in x.origin.text for x in e))
        collect(probe, lambda e: of(GpuSampled, e, ONE))


def test_no_signal_ends_a_child_inside_a_call(fake: FakeNvml) -> None:
    """SIGINT, SIGHUP and SIGTERM do nothing to it."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.hang(ONE)
        collect(probe, lambda e: of(ProbeStalled, e))
        assert probe.pid is not None
        for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
            os.kill(probe.pid, number)
        time.sleep(0.2)

        assert alive(probe.pid)
        assert of(GpuSampled, gather(probe, 0.5), TWO)


def test_state_d_is_noticed(fake: FakeNvml) -> None:
    """A thread that the kernel will not interrupt is named with its state."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.hang(ONE, "nvmlDeviceGetCurrPcieLinkGeneration", in_d=True)
        events = collect(probe, lambda e: any(s.state == "D" for s in of(ProbeStalled, e)))

    assert "state D" in of(ProbeStalled, events)[-1].origin.text


def test_the_whole_library_hangs_and_a_second_child_takes_the_others(fake: FakeNvml) -> None:
    """The GPU that hung first is skipped, the other sampled again; there is no third child."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        first = probe.pid
        fake.hang(ONE)
        wait_until(lambda: any(c.ended_ns is None for c in fake.calls(ONE)))
        fake.hang(TWO)
        events = collect(probe, lambda e: any("second" in x.origin.text for x in e))
        began = fake.count(ONE)
        fake.heal(TWO)
        events += collect(probe, lambda e: of(GpuSampled, e, TWO))
        second = probe.pid
        gather(probe, 0.5)

        assert {ONE, TWO} == {stall.device for stall in of(ProbeStalled, events)}
        assert second not in (None, first)
        assert alive(first)
        assert began == fake.count(ONE)
        fake.hang(TWO)
        gather(probe, 2.0)
        assert probe.pid == second


def test_a_hang_at_the_start_is_reported_and_left(fake: FakeNvml) -> None:
    """nvmlInit that does not return has a name, and stop does not wait for it."""
    fake.hang(call="nvmlInitWithFlags")
    with probing(fake) as probe:
        events = collect(probe, lambda e: of(ProbeStalled, e))
        began = time.monotonic()
        probe.stop()

        assert time.monotonic() - began < 1.3
        assert of(ProbeStalled, events)[0].call == "nvmlInit"


def test_one_device_that_hangs_at_its_opening_does_not_hold_the_other(fake: FakeNvml) -> None:
    """Each device is opened in its own thread."""
    fake.hang(ONE)
    with probing(fake) as probe:
        events = collect(probe, lambda e: of(GpuSampled, e, TWO) and of(ProbeStalled, e))

    assert not of(GpuSampled, events, ONE)


def test_a_slow_library_is_no_stall(fake: FakeNvml) -> None:
    """Calls of 20 ms make samples late, and nothing else."""
    fake.slow(20)
    with probing(fake, deadlines_s={}) as probe:
        events = collect(probe, lambda e: len(of(GpuSampled, e, ONE)) > 2)

    assert not of(ProbeStalled, events)


def test_a_stopped_child_is_noticed_and_ended(fake: FakeNvml, monkeypatch) -> None:
    """A child that is outside of any call and says nothing is reported, and may be killed."""
    monkeypatch.setattr("gpuprobe.live.nvml.stall.SILENT_S", 0.5)
    with probing(fake, rate_hz=1) as probe:
        collect(probe, sampled_both)
        time.sleep(0.5)
        pid = probe.pid
        assert pid is not None
        os.kill(pid, signal.SIGSTOP)
        events = collect(probe, lambda e: any(s.state == "T" for s in of(ProbeStalled, e)))
        probe.stop()
        if not probe.left_behind:
            assert wait_until(lambda: not alive(pid))
        os.kill(pid, signal.SIGCONT) if alive(pid) else None

    assert of(ProbeStalled, events)


# --- the driver comes and goes ---------------------------------------------------------------


def test_the_driver_is_reloaded(fake: FakeNvml) -> None:
    """Unloaded: said once, with what helps; loaded again: sampled again."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.unload_driver()
        events = collect(
            probe, lambda e: any(c.what == "unavailable" for c in of(SourceChanged, e))
        )
        available = probe.available()
        gather(probe, 0.6)
        fake.load_driver()
        later = collect(probe, sampled_both)

    assert not of(GpuLostReported, events + later)
    assert isinstance(available, Unavailable)
    assert "modprobe" in available.hint


def test_a_driver_that_should_be_there_is_an_error(fake: FakeNvml, tmp_path: Path) -> None:
    """With an NVIDIA GPU in sysfs, NVML that cannot be opened is an event with its code."""
    root = tmp_path / "root"
    sysfs_gpu(root, ONE, "active")
    fake.unload_driver()
    with probing(fake, root=root) as probe:
        events = collect(probe, lambda e: of(NvmlReturned, e))
        events += gather(probe, 0.6)

    assert [(event.code, event.name) for event in of(NvmlReturned, events)] == [
        (9, "DRIVER_NOT_LOADED")
    ]


def test_released_and_taken_again(fake: FakeNvml) -> None:
    """After `released` no process holds NVML; `take` samples again."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        pid = probe.pid
        probe.release()
        collect(probe, lambda e: any(c.what == "released" for c in of(SourceChanged, e)), 2)
        assert not alive(pid)
        before = fake.count()
        gather(probe, 0.5)
        assert before == fake.count()

        probe.take()
        events = collect(probe, sampled_both)
    assert any(c.what == "taken" for c in of(SourceChanged, events))


def test_another_driver_version_needs_another_process(fake: FakeNvml, monkeypatch) -> None:
    """LIB_RM_VERSION_MISMATCH ends the child; a new one loads the new library."""
    monkeypatch.setattr("gpuprobe.live.nvml.probe.RESTART_S", 0.2)
    fake.error(18, None, "nvmlInitWithFlags")
    with probing(fake) as probe:
        events = collect(probe, lambda e: any("MISMATCH" in x.origin.text for x in e))
        first = probe.pid
        wait_until(lambda: not alive(first))
        fake.heal()
        events += collect(probe, sampled_both)

        assert probe.pid != first


def test_a_child_that_dies_is_replaced(fake: FakeNvml, monkeypatch) -> None:
    """A crash of the library is said, and sampling goes on later."""
    monkeypatch.setattr("gpuprobe.live.nvml.probe.RESTART_S", 0.2)
    with probing(fake) as probe:
        collect(probe, sampled_both)
        assert probe.pid is not None
        os.kill(probe.pid, signal.SIGKILL)
        events = collect(probe, lambda e: any("ended with -9" in x.origin.text for x in e))
        collect(probe, sampled_both)

    assert of(SourceChanged, events)


def test_a_device_that_comes_is_sampled(tmp_path: Path, monkeypatch) -> None:
    """A GPU that NVML lists later is opened, and the others once only."""
    fake = FakeNvml(tmp_path, [ONE])
    with probing(fake) as probe:
        collect(probe, lambda e: of(GpuSampled, e, ONE))
        fake.add(TWO)
        events = collect(probe, lambda e: of(GpuSampled, e, TWO))

    assert [event.device for event in of(DeviceIdentified, events)] == [TWO]


# --- asleep, missing, gone -------------------------------------------------------------------


def sysfs_gpu(root: Path, address: object, status: str) -> Path:
    folder = root / "sys/bus/pci/devices" / str(address)
    (folder / "power").mkdir(parents=True, exist_ok=True)
    (folder / "vendor").write_text("0x10de\n")
    (folder / "class").write_text("0x030000\n")
    (folder / "power/runtime_status").write_text(status + "\n")
    return folder


def test_a_sleeping_device_is_not_opened_until_it_wakes(fake: FakeNvml, tmp_path: Path) -> None:
    """No call goes to it while the kernel's note says suspended."""
    root = tmp_path / "root"
    folder = sysfs_gpu(root, ONE, "suspended")
    sysfs_gpu(root, TWO, "active")
    with probing(fake, root=root) as probe:
        events = collect(probe, lambda e: of(GpuSampled, e, TWO))
        gather(probe, 0.3)
        assert not of(GpuSampled, events, ONE)
        assert not [c for c in fake.calls(ONE) if c.name != "nvmlDeviceGetPciInfo_v3"]

        (folder / "power/runtime_status").write_text("active\n")
        collect(probe, lambda e: of(GpuSampled, e, ONE))
        (folder / "power/runtime_status").write_text("suspended\n")
        collect(probe, lambda e: any(c.what == "stopped" for c in of(SourceChanged, e)))
        gather(probe, 0.3)
        before = fake.count(ONE)
        gather(probe, 0.5)
        assert before == fake.count(ONE)


def test_nvml_is_not_opened_while_every_device_sleeps(fake: FakeNvml, tmp_path: Path) -> None:
    """Opening NVML would wake them; it is opened when the first wakes."""
    root = tmp_path / "root"
    folders = [sysfs_gpu(root, pci, "suspended") for pci in (ONE, TWO)]
    with probing(fake, root=root) as probe:
        gather(probe, 0.5)
        assert fake.count() == 0
        assert Reason.ASLEEP is probe.available().reason

        (folders[1] / "power/runtime_status").write_text("active\n")
        events = collect(probe, lambda e: of(GpuSampled, e, TWO))
    assert not of(GpuSampled, events, ONE)


def test_without_a_library_it_says_what_to_install(tmp_path: Path) -> None:
    """No driver: one event with the reason, a hint, and nothing else."""
    probe = NvmlProbe(env={"PATH": os.environ["PATH"]}, root=tmp_path)
    probe.start()
    try:
        events = collect(probe, lambda e: of(SourceChanged, e))
        available = probe.available()
    finally:
        probe.stop()

    if "LIBRARY_NOT_FOUND" not in events[0].origin.text:
        pytest.skip("this machine has a driver")
    assert [event.what for event in of(SourceChanged, events)] == ["unavailable"]
    assert Reason.NOT_THERE is available.reason
    assert available.hint


def test_stop_leaves_nothing_and_start_begins_anew(fake: FakeNvml) -> None:
    """The child exits in order, and the probe can be used again."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        pid = probe.pid
        began = time.monotonic()
        probe.stop()
        assert time.monotonic() - began < 1.0
        assert not alive(pid)
        assert not probe.left_behind
        assert fake.count(name="nvmlShutdown") == 1

        probe.start()
        collect(probe, sampled_both)


def test_the_child_leaves_when_its_parent_is_killed(fake: FakeNvml, tmp_path: Path) -> None:
    """SIGKILL of the parent closes the pipe, and that is enough."""
    script = (
        "import sys, time\n"
        "from pathlib import Path\n"
        "from gpuprobe.live.nvml.probe import NvmlProbe\n"
        "probe = NvmlProbe(root=Path(sys.argv[1]))\n"
        "probe.start()\n"
        "print(probe.pid, flush=True)\n"
        "time.sleep(60)\n"
    )
    parent = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "none")],
        stdout=subprocess.PIPE,
        env={**os.environ, **fake.env},
        text=True,
    )
    assert parent.stdout is not None
    child = int(parent.stdout.readline())
    fake.wait_for("nvmlDeviceGetPerformanceState")
    parent.kill()
    parent.wait()
    parent.stdout.close()

    assert wait_until(lambda: not alive(child))


def test_a_device_is_given_back_when_its_call_returns(fake: FakeNvml) -> None:
    """The GPU that made the library hang is sampled again once the abandoned child has left."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        fake.hang(ONE)
        wait_until(lambda: any(c.ended_ns is None for c in fake.calls(ONE)))
        fake.hang(TWO)
        collect(probe, lambda e: any("second" in x.origin.text for x in e))
        fake.heal(TWO)
        collect(probe, lambda e: of(GpuSampled, e, TWO))
        fake.heal(ONE)
        events = collect(probe, lambda e: of(GpuSampled, e, ONE))

    assert any(f"the call about {ONE} has returned" in event.origin.text for event in events)


def test_a_lost_device_is_asked_again_when_it_is_given_back(fake: FakeNvml) -> None:
    """Skipped until then; from then on sampled by a new child, as is the other."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        first = probe.pid
        fake.lose(ONE)
        collect(probe, lambda e: of(GpuLostReported, e))
        fake.heal(ONE)
        assert probe.untouchable == {ONE}
        assert not of(GpuSampled, gather(probe, 0.5), ONE)
        probe.give_back(ONE)
        collect(probe, sampled_both)

        assert probe.pid != first
        assert not probe.untouchable


def test_processes_are_listed_when_they_change(fake: FakeNvml) -> None:
    """At first and at each change, and no more often."""
    fake.set(ONE, process=4711)
    with probing(fake) as probe:
        events = collect(probe, sampled_both)
        events += gather(probe, 2.5)
        assert [listed.pids for listed in of(ProcessesListed, events, ONE)] == [(4711,)]
        assert [listed.pids for listed in of(ProcessesListed, events, TWO)] == [()]
        fake.set(ONE, process=4712, memory_used_bytes=1 << 30)
        (again,) = of(ProcessesListed, collect(probe, lambda e: of(ProcessesListed, e)))

    assert (again.device, again.pids) == (ONE, (4712,))


def test_readings_come_together_and_a_loss_brings_them_at_once(fake: FakeNvml) -> None:
    """With a long batch a loss does not wait for it, and what was read before comes before."""
    with probing(fake, rate_hz=20, batch_s=30.0) as probe:
        first = collect(probe, lambda e: of(GpuSampled, e, ONE))
        waiting = gather(probe, 1.0)
        began = time.monotonic()
        fake.lose(ONE)
        events = collect(probe, lambda e: of(GpuLostReported, e))
        took = time.monotonic() - began

    assert len(of(GpuSampled, first + waiting, ONE)) <= 2
    kinds = [type(event) for event in events if event.device == ONE]
    assert kinds.index(GpuLostReported) > 10
    assert kinds.count(GpuSampled) > 10
    assert took < 1.0


def test_a_stall_brings_the_readings_before_it(fake: FakeNvml) -> None:
    """What waits in a child whose call hangs is fetched when the stall is seen."""
    with probing(fake, rate_hz=20, batch_s=30.0) as probe:
        collect(probe, lambda e: of(GpuSampled, e, ONE))
        gather(probe, 0.5)
        fake.hang(ONE)
        collect(probe, lambda e: of(ProbeStalled, e) and len(of(GpuSampled, e, ONE)) > 5)


def test_users_are_asked_while_memory_changes(fake: FakeNvml) -> None:
    """With the same memory in use nobody is asked who uses it, once that has settled."""
    with probing(fake) as probe:
        collect(probe, sampled_both)
        gather(probe, 3.0)
        settled = users(fake)
        gather(probe, 2.2)
        assert users(fake) == settled > 0
        fake.set(ONE, memory_used_bytes=3 << 30)
        gather(probe, 2.2)

    assert users(fake) > settled


def users(fake: FakeNvml) -> int:
    """How often the library was asked who computes on the first GPU."""
    return sum(
        "ComputeRunningProcesses" in call.name and call.device == ONE for call in fake.calls()
    )
