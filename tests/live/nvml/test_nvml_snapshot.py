"""One reading of everything, whatever the driver does."""

from __future__ import annotations

import os
import time
from pathlib import Path

import pytest

from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.snapshot import ALL_NAMES, NvmlSnapshot, read_snapshot
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from tests.live.nvml_bench import ONE, TWO, alive, wait_until

pytestmark = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


@pytest.fixture
def fake(tmp_path: Path) -> FakeNvml:
    return FakeNvml(tmp_path, [ONE, TWO])


def read(fake: FakeNvml, deadline_s: float = 6.0, **options) -> NvmlSnapshot:
    options.setdefault("root", Path(fake.folder) / "empty")
    return read_snapshot(deadline_s, env={**os.environ, **fake.env}, **options)


def test_every_name_has_a_reading(fake: FakeNvml) -> None:
    """Every published value is known, or unavailable for a reason other than a late answer."""
    fake.set(ONE, power_mw=77000, recovery_action=2)
    found = read(fake)

    assert set(found) == {ONE, TWO}
    assert set(ALL_NAMES) <= set(found[ONE])
    assert found[ONE]["power_w"] == Known(77.0)
    assert found[ONE]["recovery_action"] == Known(2)
    assert found.reason is None
    late = [name for name, one in found[ONE].items() if getattr(one, "reason", "") == "timed-out"]
    assert not late
    assert isinstance(found.system["driver_version"], Known)
    assert wait_until(lambda: fake.count(name="nvmlShutdown") == 1)


def test_what_was_read_before_a_hang_is_there(fake: FakeNvml) -> None:
    """A call of the calm group that does not return leaves what the fast group gave."""
    fake.hang(ONE, "nvmlDeviceGetCurrPcieLinkWidth")
    found = read(fake, 2.5)
    fake.let_go()

    assert isinstance(found[ONE]["power_w"], Known)
    assert isinstance(found[ONE]["temp_c"], Known)
    missing = found[ONE]["link_width"]
    assert isinstance(missing, Unavailable)
    assert missing.reason is Reason.TIMED_OUT


def test_a_hang_of_one_device_costs_that_device_alone(fake: FakeNvml) -> None:
    """The other is whole, and the whole ends at the deadline."""
    fake.hang(ONE, "nvmlDeviceGetRemappedRows")
    began = time.monotonic()
    found = read(fake, 2.5)
    took = time.monotonic() - began
    fake.let_go()

    assert took < 3.0
    assert isinstance(found[TWO]["remap_pending"], Known)
    assert isinstance(found[ONE]["power_w"], Known)
    missing = found[ONE]["remap_pending"]
    assert isinstance(missing, Unavailable)
    assert missing.reason is Reason.TIMED_OUT
    assert "nvmlDeviceGetRemappedRows" in missing.detail
    assert "nvmlDeviceGetRemappedRows" in str(found.left_behind[0])
    assert wait_until(lambda: not alive(found.left_behind[0].pid))


def test_a_hang_of_the_library_is_a_reason(fake: FakeNvml) -> None:
    """No device, and why."""
    fake.hang()
    began = time.monotonic()
    found = read(fake, 1.5)
    took = time.monotonic() - began
    fake.let_go()

    assert took < 2.0
    assert not found
    assert found.reason is not None
    assert found.reason.reason is Reason.TIMED_OUT
    assert "nvmlInit" in found.reason.detail


def test_a_lost_device_is_lost_and_the_other_is_read(fake: FakeNvml) -> None:
    """Lost while it is read: its values say so."""
    fake.lose(ONE, after=10)
    found = read(fake)

    assert found[ONE]["power_w"].reason is Reason.LOST
    assert isinstance(found[TWO]["power_w"], Known)


def test_without_a_driver_there_is_a_hint(fake: FakeNvml) -> None:
    """DRIVER_NOT_LOADED is said with what to do."""
    fake.unload_driver()
    found = read(fake)

    assert not found
    assert found.reason is not None
    assert found.reason.reason is Reason.NOT_THERE
    assert "modprobe" in found.reason.hint


def test_chosen_devices_alone_are_read(fake: FakeNvml) -> None:
    """No value of another device is asked for."""
    found = read(fake, devices=[TWO])

    assert set(found) == {TWO}
    assert fake.count(ONE, "nvmlDeviceGetPerformanceState") == 0


def test_a_sleeping_device_is_shown_as_asleep(fake: FakeNvml, tmp_path: Path) -> None:
    """It is not opened; where all sleep, NVML is not opened at all."""
    root = tmp_path / "root"
    states: dict[PciAddress, Path] = {}
    for address, status in ((ONE, "suspended"), (TWO, "active")):
        folder = root / "sys/bus/pci/devices" / str(address)
        (folder / "power").mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
        states[address] = folder / "power/runtime_status"
        states[address].write_text(status + "\n")
    found = read(fake, root=root)

    assert found[ONE]["power_w"].reason is Reason.ASLEEP
    assert isinstance(found[TWO]["power_w"], Known)
    assert fake.count(ONE) == 0
    states[TWO].write_text("suspended\n")
    before = fake.count()
    assert read(fake, root=root).reason is not None
    assert fake.count() == before


@pytest.mark.parametrize(("code", "reason"), [(15, Reason.LOST), (999, Reason.FAILED)])
def test_a_device_that_cannot_be_opened_has_its_address_from_sysfs(
    fake: FakeNvml, tmp_path: Path, code: int, reason: Reason
) -> None:
    """NVML lists two, one cannot be opened, sysfs has one more: that one it is."""
    root = tmp_path / "root"
    for address in (ONE, TWO):
        folder = root / "sys/bus/pci/devices" / str(address)
        folder.mkdir(parents=True)
        (folder / "vendor").write_text("0x10de\n")
        (folder / "class").write_text("0x030200\n")
    fake.error(code, ONE)
    found = read(fake, root=root)

    assert found[ONE]["power_w"].reason is reason
    assert isinstance(found[TWO]["power_w"], Known)
    assert [index for index, _ in found.unopened] == [0]
    assert read(fake).unopened
    assert set(read(fake)) == {TWO}


def test_a_device_lost_while_it_is_opened_has_every_name_lost(fake: FakeNvml) -> None:
    """Lost, and not late: also what is read once, when a device is opened."""
    fake.error(15, ONE, "nvmlDeviceGetVbiosVersion")
    found = read(fake)

    assert {getattr(one, "reason", None) for one in found[ONE].values()} == {Reason.LOST}
    assert isinstance(found[TWO]["vbios"], Known)
