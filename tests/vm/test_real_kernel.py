from pathlib import Path

import pytest
import virtual_machine as vm

pytestmark = pytest.mark.vm

GUEST = Path(__file__).with_name("guest.py")


def start(folder):
    # Asked here and not when tests are collected: it may download the kernel.
    if (why := vm.why_unavailable()) is not None:
        pytest.skip(why)
    made = vm.Machine(folder, GUEST)
    try:
        assert made.read(vm.BOOT_S) == {"ready": True}
    except BaseException:
        made.close()
        raise
    return made


@pytest.fixture
def fresh(tmp_path):
    made = start(tmp_path)
    yield made
    made.close()


@pytest.fixture(scope="module")
def running(tmp_path_factory):
    made = start(tmp_path_factory.mktemp("vm"))
    yield made
    made.close()


@pytest.fixture
def shared(running):
    """One machine for what leaves the device as it was; the sources begin anew each time."""
    ask(running, do="begin")
    return running


def ask(machine, **message):
    machine.tell(**message)
    return machine.read()


def kinds(found):
    return [verdict["kind"] for verdict in found["verdicts"]]


def of_type(found, name):
    return [event for event in found["events"] if event["type"] == name]


def test_nothing_happens(shared):
    """A device at rest gives no verdict but no-fault, and its link and presence were read."""
    found = ask(shared, do="watch", seconds=5)
    assert found["answer"] == "no-fault"
    assert of_type(found, "PresenceTested")
    assert "Known" in found["available"]["kernel-log"]
    assert "Known" in found["available"]["udev"]


def test_correctable_error(fresh):
    """A correctable error injected by the kernel's own module is a link error, not a loss."""
    # A machine of its own: from then on aer_inject answers for the root port's error registers,
    # and what QEMU injects is no longer seen.
    ask(fresh, do="correctable")
    found = ask(fresh, do="watch", seconds=5)
    assert found["answer"] == "pcie-link-errors"
    assert "device-left-bus" not in kinds(found)
    assert found["verdicts"][0]["device"] == vm.DEVICE


def test_surprise_down_that_recovers(shared):
    """A surprise down from which the kernel recovers the device is a link error, not a loss."""
    ask(shared, do="mark")
    shared.monitor("pcie_aer_inject_error rp1 SDN")
    found = ask(shared, do="watch", seconds=10)
    assert found["answer"] == "pcie-link-errors"
    assert "device-left-bus" not in kinds(found)
    assert ask(shared, do="look")["config"] == "8680d310"


def test_slot_power_cut(fresh):
    """A slot whose power is cut under the driver is a loss, proved by config space and link."""
    assert ask(fresh, do="look")["config"] == "8680d310"
    dumb_after_s = ask(fresh, do="cut")["done"]
    assert dumb_after_s < 1
    seen = ask(fresh, do="look")
    assert seen["config"] == "ffffffff"
    assert seen["current_link_speed"] == "Unknown"
    assert seen["current_link_width"] == "63"
    assert seen["vendor"] == "0x8086"
    assert seen["driver"] == "e1000e"
    found = ask(fresh, do="watch", seconds=5)
    assert found["answer"] == "device-left-bus"
    verdict = found["verdicts"][0]
    assert verdict["certainty"] == "confirmed"
    assert verdict["device"] == vm.DEVICE
    assert of_type(found, "ConfigSpaceUnreadable")[0]["after_s"] < 3


def test_unplugged_by_the_hypervisor(fresh):
    """device_del asks the guest to let go: a removal on purpose, named, and no loss."""
    ask(fresh, do="mark")
    fresh.monitor("device_del net0")
    found = ask(fresh, do="watch", seconds=12)
    assert ask(fresh, do="look") == {"there": False}
    assert "device-left-bus" not in kinds(found)
    assert [event for event in of_type(found, "DeviceChanged") if event["device"] == vm.DEVICE]


def test_removed_through_sysfs(fresh):
    """A write to `remove` is a removal on purpose, named, and no loss."""
    ask(fresh, do="remove")
    found = ask(fresh, do="watch", seconds=5)
    assert ask(fresh, do="look") == {"there": False}
    assert "device-left-bus" not in kinds(found)
    assert [event for event in of_type(found, "DeviceChanged") if event["device"] == vm.DEVICE]
