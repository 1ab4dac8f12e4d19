"""The host beside the GPU, read from a made-up tree."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from gpuprobe.events import (
    Event,
    HostFaulted,
    HostSampled,
    OomKilled,
    PowerReported,
    SystemDescribed,
)
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.cgroup import read_cgroup
from gpuprobe.sources.host import HostSource
from gpuprobe.sources.host_readings import read_host, read_sensors
from gpuprobe.testing.sysfs import FakeSysfs

GPU = "0000:41:00.0"


@pytest.fixture
def machine(tmp_path: Path) -> FakeSysfs:
    made = FakeSysfs(tmp_path)
    made.gpu(GPU)
    return made


@pytest.fixture
def source(machine: FakeSysfs) -> HostSource:
    """A source that has read the healthy machine once."""
    machine.hwmon(
        "nct6798", in1_input=12096, in1_lcrit_alarm=0, temp1_input=41000, temp1_crit=100000,
        fan2_input=900, fan2_alarm=0,
    )  # fmt: skip
    made = HostSource(root=machine.root)
    assert told(made, slow=True) == []
    return made


def told(source: HostSource, *, slow: bool) -> list[Event]:
    """What a look gives beside figures."""
    return [event for event in source.look(slow=slow) if not isinstance(event, HostSampled)]


def events(machine: FakeSysfs, count: int) -> None:
    machine.cgroup.joinpath("memory.events").write_text(f"low 0\nmax 9\noom 3\noom_kill {count}\n")


def throttle(machine: FakeSysfs, *counts: int) -> None:
    for cpu, count in enumerate(counts):
        place = f"sys/devices/system/cpu/cpu{cpu}"
        machine.write(f"{place}/thermal_throttle/package_throttle_count", f"{count}\n")
        machine.write(f"{place}/thermal_throttle/core_throttle_count", "1\n")
        machine.write(f"{place}/topology/physical_package_id", f"{cpu // 2}\n")


def test_a_reading_has_units_and_reasons(machine: FakeSysfs) -> None:
    """Bytes, percent, microseconds; what a machine does not have is unavailable, not 0."""
    found = read_host(machine.root)

    assert found.memory.total_bytes == Known(65841532 * 1024)
    assert found.memory.available_bytes == Known(48234496 * 1024)
    assert found.pressure["memory"].some_avg10_percent == Known(0.0)
    assert found.pressure["io"].some_total_us == Known(1024)
    assert found.load1 == Known(0.52)
    assert isinstance(found.package_throttles, Unavailable)
    assert found.package_throttles.reason is Reason.NOT_SUPPORTED
    assert found.sensors == ()


def test_a_missing_proc_is_a_reason(tmp_path: Path) -> None:
    """Nothing is there: every value says so."""
    found = read_host(tmp_path)

    for value in (found.memory.total_bytes, found.pressure["cpu"].some_total_us, found.load1, found.cgroup.memory_bytes):  # fmt: skip
        assert isinstance(value, Unavailable)
    assert isinstance(HostSource(root=tmp_path).available(), Unavailable)


def test_the_tightest_limit_above_counts(machine: FakeSysfs) -> None:
    """A group without a limit below one that has one; cores from quota and period."""
    slice_limit = machine.cgroup.parent / "memory.max"
    slice_limit.write_text("34359738368\n")
    (machine.cgroup / "cpu.max").write_text("250000 100000\n")
    found = read_cgroup(machine.root)

    assert found.memory_limit_bytes == Known(32 << 30)
    assert found.limit_path == str(slice_limit.parent)
    assert found.cpu_limit_cores == Known(2.5)
    assert found.oom_kills == Known(0)


def test_no_limit_is_no_number(machine: FakeSysfs) -> None:
    """`max` is the absence of a limit, said so."""
    found = read_cgroup(machine.root)

    assert isinstance(found.memory_limit_bytes, Unavailable)
    assert found.memory_limit_bytes.reason is Reason.NOT_THERE
    assert isinstance(found.cpu_limit_cores, Unavailable)


def test_version_1_is_read_as_well(tmp_path: Path) -> None:
    """Separate trees for memory and cpu, nanoseconds, and a huge number for no limit."""
    machine = FakeSysfs(tmp_path)
    machine.write("proc/77/cgroup", "4:memory:/job\n3:cpu,cpuacct:/job\n0::/\n")
    memory, cpu = "sys/fs/cgroup/memory", "sys/fs/cgroup/cpu/job"
    machine.write(f"{memory}/memory.limit_in_bytes", "9223372036854771712\n")
    machine.write(f"{memory}/job/memory.limit_in_bytes", "1073741824\n")
    machine.write(f"{memory}/job/memory.usage_in_bytes", "4096\n")
    machine.write(
        f"{memory}/job/memory.oom_control", "oom_kill_disable 0\nunder_oom 0\noom_kill 2\n"
    )
    machine.write(f"{cpu}/cpu.cfs_quota_us", "-1\n")
    machine.write(f"{cpu}/cpu.cfs_period_us", "100000\n")
    machine.write(f"{cpu}/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_time 5000000\n")
    found = read_cgroup(machine.root, pid=77)

    assert found.memory_limit_bytes == Known(1 << 30)
    assert (found.memory_bytes, found.oom_kills) == (Known(4096), Known(2))
    assert isinstance(found.cpu_limit_cores, Unavailable)
    assert (found.throttled_periods, found.throttled_us) == (Known(4), Known(5000))


def test_a_cgroup_may_be_named(machine: FakeSysfs) -> None:
    """Of an engine's unit, say."""
    other = machine.root / "sys/fs/cgroup/other"
    other.mkdir()
    (other / "memory.current").write_text("123\n")

    assert read_cgroup(machine.root, folder=other).memory_bytes == Known(123)


def test_sensors_have_units_limits_and_owners(machine: FakeSysfs) -> None:
    """Degrees, volts, watts; a label where there is one; the PCI function it belongs to."""
    machine.hwmon(
        "amdgpu", device=GPU, temp1_input=65000, temp1_crit=100000, power1_input=215000000
    )
    machine.hwmon("corsairpsu", in1_input=12050)
    found = {(s.chip, s.kind): s for s in read_sensors(machine.root)}

    assert found["amdgpu", "temp_c"].value == Known(65.0)
    assert found["amdgpu", "temp_c"].critical == 100.0
    assert str(found["amdgpu", "power_w"].device) == GPU
    assert found["amdgpu", "power_w"].value == Known(215.0)
    assert found["corsairpsu", "voltage_v"].value.value == pytest.approx(12.05)
    assert found["corsairpsu", "voltage_v"].device is None


def test_sensors_of_a_sleeping_device_are_left_alone(machine: FakeSysfs) -> None:
    """Reading them would wake it."""
    machine.hwmon("amdgpu", device=GPU, temp1_input=65000)
    machine.suspend(GPU)

    assert list(read_sensors(machine.root)) == []


def test_an_oom_kill_in_the_cgroup_is_told_once(machine: FakeSysfs, source: HostSource) -> None:
    """A count that rose, with the group and its limit; none for what was there before."""
    (machine.cgroup / "memory.max").write_text("1073741824\n")
    events(machine, 2)
    (event,) = told(source, slow=False)

    assert isinstance(event, OomKilled)
    assert event.cgroup
    assert "2 processes" in event.origin.text
    assert "limit 1073741824 bytes" in event.origin.text
    assert event.origin.ref == str(machine.cgroup)
    assert told(source, slow=False) == []


def test_old_oom_kills_are_history(machine: FakeSysfs) -> None:
    """A count above 0 at the first look says nothing about now; nor does one that began anew."""
    events(machine, 7)
    source = HostSource(root=machine.root)

    assert told(source, slow=False) == []
    events(machine, 0)
    assert told(source, slow=False) == []


def test_another_groups_oom_kill_is_not_this_engines(
    machine: FakeSysfs, source: HostSource
) -> None:
    """The kernel's own count rises for kills anywhere: a figure in the reading, no event."""
    machine.write("proc/vmstat", "pgfault 1\noom_kill 5\n")

    assert told(source, slow=False) == []
    assert told(source, slow=True) == []
    assert source.latest.host_oom_kills == Known(5)


def test_cpu_heat_is_told_and_packages_count_once(machine: FakeSysfs) -> None:
    """Two CPUs of a package show the same count."""
    throttle(machine, 3, 3, 1, 1)
    source = HostSource(root=machine.root)
    told(source, slow=True)
    assert source.latest.package_throttles == Known(4)
    assert source.latest.core_throttles == Known(4)
    throttle(machine, 5, 5, 1, 1)
    assert told(source, slow=False) == []
    (event,) = told(source, slow=True)

    assert isinstance(event, HostFaulted)
    assert event.what == "cpu-heat"
    assert "2 times" in event.origin.text


@pytest.mark.parametrize(
    ("file", "value", "kind", "what"),
    [
        ("temp1_input", 101000, HostFaulted, "heat"),
        ("fan2_alarm", 1, HostFaulted, "fan"),
        ("in1_lcrit_alarm", 1, PowerReported, "under-voltage"),
    ],
)
def test_a_sensor_that_turns_bad_is_told_once(
    machine: FakeSysfs, source: HostSource, file: str, value: int, kind: type, what: str
) -> None:
    """Heat at the critical limit, a fan's alarm, a voltage below its lower critical limit."""
    machine.write(f"sys/class/hwmon/hwmon0/{file}", f"{value}\n")
    (event,) = told(source, slow=True)

    assert isinstance(event, kind)
    assert event.what == what
    assert "nct6798" in event.origin.text
    assert told(source, slow=True) == []


def test_a_voltage_that_is_back_is_told(machine: FakeSysfs, source: HostSource) -> None:
    """Low, then normal again."""
    machine.write("sys/class/hwmon/hwmon0/in1_lcrit_alarm", "1\n")
    told(source, slow=True)
    machine.write("sys/class/hwmon/hwmon0/in1_lcrit_alarm", "0\n")
    (event,) = told(source, slow=True)

    assert event.what == "voltage-normal"
    assert not event.gpu


def test_alarms_and_limits_that_were_never_set_up_say_nothing(machine: FakeSysfs) -> None:
    """An alarm that stands from boot on, a limit of 0 or 127, a reading of 255."""
    machine.hwmon(
        "it8686", fan1_input=0, fan1_alarm=1, in0_input=0, in0_alarm=1,
        temp1_input=45000, temp1_crit=0, temp2_input=127000, temp2_crit=127000,
        temp3_input=255000, temp3_crit=100000,
    )  # fmt: skip
    source = HostSource(root=machine.root)

    assert [*told(source, slow=True), *told(source, slow=True)] == []


@pytest.mark.parametrize(
    ("path", "content", "key", "value"),
    [
        ("sys/class/dmi/id/product_name", "ProLiant DL380\n", "chassis", "ProLiant DL380"),
        ("sys/class/dmi/id/chassis_type", "10\n", "laptop", "10"),
        ("proc/sys/kernel/osrelease", "5.15.167.4-microsoft-standard-WSL2\n", "wsl", "5.15.167.4-microsoft-standard-WSL2"),
        ("run/.containerenv", "", "container", "podman"),
        ("proc/self/cgroup", "0::/kubepods.slice/pod1\n", "container", "kubepods"),
    ],
)  # fmt: skip
def test_it_tells_what_machine_it_is(
    machine: FakeSysfs, path: str, content: str, key: str, value: str
) -> None:
    """Facts a verdict may need; the kernel and its command line always."""
    machine.write(path, content)
    found = {e.key: e.value for e in HostSource(root=machine.root).describe()}

    assert found[key] == value
    assert {"kernel", "cmdline"} <= found.keys()


def test_a_plain_server_is_no_laptop_and_no_container(machine: FakeSysfs) -> None:
    """Near misses."""
    machine.write("sys/class/dmi/id/chassis_type", "23\n")

    assert {e.key for e in HostSource(root=machine.root).describe()} == {"kernel", "cmdline"}


def test_the_thread_reads_and_ends_at_once(machine: FakeSysfs) -> None:
    """Started, polled and stopped as a source; the last reading stays."""
    source = HostSource(root=machine.root, interval_s=0.01)
    source.start()
    end = time.monotonic() + 5
    while source.latest is None and time.monotonic() < end:
        time.sleep(0.01)  # a rise needs a reading before it
    events(machine, 1)
    found: list = []
    while not any(isinstance(e, OomKilled) for e in found) and time.monotonic() < end:
        found += source.poll()
        time.sleep(0.01)
    began = time.monotonic()
    source.stop()

    assert time.monotonic() - began < 1.0
    assert any(isinstance(e, OomKilled) for e in found)
    assert any(isinstance(e, SystemDescribed) for e in found)
    assert source.latest is not None


def test_memory_is_told_with_each_full_look_and_when_much_of_it_went(machine: FakeSysfs) -> None:
    """A change of a twentieth at once; less of one with the next full look only."""
    source = HostSource(root=machine.root)

    def sampled(*, slow: bool) -> list[int | None]:
        found = [e for e in source.look(slow=slow) if isinstance(e, HostSampled)]
        return [event.memory_available_bytes for event in found]

    def free(kib: int) -> int:
        machine.write("proc/meminfo", f"MemTotal: 1000000 kB\nMemAvailable: {kib} kB\n")
        return kib * 1024

    assert sampled(slow=True) == sampled(slow=True) != []
    assert sampled(slow=False) == []
    half = free(500_000)
    assert sampled(slow=False) == [half]
    slightly = free(480_000)
    assert sampled(slow=False) == []
    assert sampled(slow=True) == [slightly]
    much = free(400_000)
    assert sampled(slow=False) == [much]
