"""GPUs and the ports above them, read from a made-up tree."""

from __future__ import annotations

import itertools
import sys
import time
from pathlib import Path

import pytest

from gpuprobe.events import (
    BridgeLinked,
    ConfigSpaceUnreadable,
    CountersSampled,
    DeviceChanged,
    DeviceIdentified,
    Event,
    LinkStateReported,
    PresenceTested,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.sources.pci import sysfs
from gpuprobe.sources.pci import tree as pci_tree
from gpuprobe.sources.pci.readings import (
    read_aer,
    read_aspm_policy,
    read_function,
    read_link,
    read_port_status,
    read_power,
)
from gpuprobe.sources.pci.sysfs import SLOW_EVERY, SysfsSource
from gpuprobe.sources.pci.tree import (
    Presence,
    gpus,
    look,
    look_once,
    path_to_root,
    read_config,
)
from gpuprobe.testing.sysfs import FakeSysfs

GPU = PciAddress.parse("0000:41:00.0")
OTHER = PciAddress.parse("0000:81:00.0")
SWITCH = [PciAddress.parse(a) for a in ("0000:40:01.0", "0000:3f:00.0", "0000:00:03.1")]


@pytest.fixture
def machine(tmp_path: Path) -> FakeSysfs:
    """One GPU below a switch, one below its own root port."""
    made = FakeSysfs(tmp_path)
    made.gpu(GPU, bridges=SWITCH[::-1], hotplug=True)
    made.gpu(OTHER, bridges=["0000:80:01.0"], vendor=0x1002, driver="amdgpu")
    return made


class Clock:
    """Time as the source sees it, a tenth of a second a tick."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now = 1000.0
        monkeypatch.setattr(sysfs.time, "monotonic", lambda: self.now)


@pytest.fixture
def ticks(machine: FakeSysfs, monkeypatch: pytest.MonkeyPatch) -> Ticks:
    return Ticks(SysfsSource(root=machine.root), Clock(monkeypatch))


class Ticks:
    def __init__(self, source: SysfsSource, clock: Clock) -> None:
        self.source = source
        self._clock = clock
        self._number = itertools.count()

    @property
    def now(self) -> float:
        return self._clock.now

    def run(self, number: int) -> list[Event]:
        found: list[Event] = []
        for _ in range(number):
            tick = next(self._number)
            found += self.source.look(slow=tick % SLOW_EVERY == 0, first=tick == 0)
            self._clock.now += 0.1
        return found


def of(kind, found):
    return [event for event in found if isinstance(event, kind)]


# --- readings -------------------------------------------------------------------------------


def test_gpus_are_found_in_order_and_displays_that_compute_nothing_are_not(
    machine: FakeSysfs,
) -> None:
    """Any vendor, VGA or 3D; a management controller's display and an emulated one are left out."""
    machine.gpu("0000:05:00.0", bridges=["0000:00:05.0"], vendor=0x1A03, driver="ast")
    machine.gpu("0000:06:00.0", bridges=["0000:00:06.0"], vendor=0x1234, driver=None)
    machine.gpu("0000:07:00.0", bridges=["0000:00:07.0"], class_code=0x020000, driver="e1000e")
    machine.gpu("0000:c1:00.0", bridges=["0000:c0:01.0"], class_code=0x030200)
    machine.gpu("0000:c2:00.0", bridges=["0000:c0:02.0"], vendor=0x1002, class_code=0x120000)

    assert [str(found) for found in gpus(machine.root)] == [
        "0000:41:00.0",
        "0000:81:00.0",
        "0000:c1:00.0",
        "0000:c2:00.0",
    ]


def test_the_path_leads_to_the_root_port(machine: FakeSysfs) -> None:
    """Nearest port first; nothing for a function that is not there."""
    assert path_to_root(GPU, machine.root) == SWITCH
    assert path_to_root(PciAddress.parse("0000:99:00.0"), machine.root) == []


def test_a_link_is_read_at_both_of_its_bests(machine: FakeSysfs) -> None:
    """Now and at best, as numbers."""
    machine.set_link(GPU, speed_gts=2.5, width=8)
    link = read_link(GPU, machine.root)

    assert (link.speed_gts, link.width) == (Known(2.5), Known(8))
    assert (link.max_speed_gts, link.max_width) == (Known(16.0), Known(16))


def test_width_63_is_a_lost_device_and_no_width(machine: FakeSysfs) -> None:
    """A device that reads all ones has no link state; its port has no speed and no lanes."""
    machine.lose(GPU)
    link = read_link(GPU, machine.root)
    port = read_link(SWITCH[0], machine.root)

    assert isinstance(link.width, Unavailable)
    assert link.width.reason is link.speed_gts.reason is Reason.LOST
    assert port.width == Known(0)
    assert port.speed_gts.reason is Reason.NOT_SUPPORTED


def test_a_function_without_link_files_is_not_lost(machine: FakeSysfs) -> None:
    """Conventional PCI has none: not supported."""
    for file in machine.folder(GPU).glob("*_link_*"):
        file.unlink()

    assert read_link(GPU, machine.root).speed_gts.reason is Reason.NOT_SUPPORTED


def test_a_sleeping_device_is_not_read(machine: FakeSysfs) -> None:
    """Suspended: link and config are asleep, not lost, and their files are left alone."""
    machine.suspend(GPU)
    for name in ("config", "current_link_speed", "current_link_width"):
        (machine.folder(GPU) / name).unlink()

    assert read_link(GPU, machine.root).width.reason is Reason.ASLEEP
    assert read_config(GPU, machine.root).reason is Reason.ASLEEP
    assert look_once(GPU, machine.root).config == "not-asked"
    assert read_power(GPU, machine.root).power_state == Known("D3cold")


def test_a_device_without_runtime_power_management_is_judged_by_its_power_state(
    machine: FakeSysfs,
) -> None:
    """`unsupported` says nothing; D3cold does."""
    (machine.folder(GPU) / "power/runtime_status").write_text("unsupported\n")
    assert look_once(GPU, machine.root).config == "answers"
    (machine.folder(GPU) / "power_state").write_text("D3cold\n")
    assert look_once(GPU, machine.root).config == "not-asked"


def test_aer_counters_are_read_by_file_and_absence_is_no_zero(machine: FakeSysfs) -> None:
    """Names and totals; root ports have theirs; a function without AER is not supported."""
    machine.count(GPU, "correctable", BadTLP=3)
    found = read_aer(GPU, machine.root)
    root = read_aer(SWITCH[-1], machine.root)

    assert found["aer_dev_correctable"].value["BadTLP"] == 3
    assert found["aer_dev_correctable"].value["TOTAL_ERR_COR"] == 3
    assert "aer_rootport_total_err_cor" not in found
    assert root["aer_rootport_total_err_cor"].value == {"total": 3}
    machine.without_aer(GPU)
    reasons = {reading.reason for reading in read_aer(GPU, machine.root).values()}
    assert reasons == {Reason.NOT_SUPPORTED}


def test_who_a_function_is_survives_its_loss(machine: FakeSysfs) -> None:
    """Ids and driver come from the kernel's cache."""
    machine.lose(GPU)
    found = read_function(GPU, machine.root)

    assert (found.vendor_id, found.class_code) == (0x10DE, 0x030000)
    assert (found.driver, found.numa_node) == (Known("nvidia"), Known(0))
    machine.bind(GPU, None)
    assert read_function(GPU, machine.root).driver.reason is Reason.NOT_THERE


def test_aspm_policy(machine: FakeSysfs) -> None:
    """The policy that stands in brackets among all of them."""
    assert read_aspm_policy(machine.root) == Known("default")


def test_a_port_says_whether_its_link_is_up_to_root_alone(machine: FakeSysfs) -> None:
    """Link active and card present from its registers; without root, not permitted."""
    up = read_port_status(SWITCH[0], machine.root)
    assert (up.link_active, up.card_present, up.width) == (Known(True), Known(True), Known(16))
    machine.restrict_config(SWITCH[0])
    denied = read_port_status(SWITCH[0], machine.root)
    assert denied.link_active.reason is Reason.NOT_PERMITTED
    assert "sudo" in denied.link_active.hint


@pytest.mark.parametrize("config", [b"", b"\xde", b"\x10" * 4096, bytes(4096), b"\xff" * 4096])
def test_any_bytes_in_config_are_survived(machine: FakeSysfs, config: bytes) -> None:
    """Garbage and loops in the capability list give a reason or a value, never an error."""
    (machine.folder(SWITCH[0]) / "config").write_bytes(config)

    assert isinstance(read_port_status(SWITCH[0], machine.root).link_active, Known | Unavailable)
    assert look_once(SWITCH[0], machine.root).directory


# --- presence -------------------------------------------------------------------------------


def test_one_silent_moment_is_no_loss(machine: FakeSysfs) -> None:
    """All ones once, then an answer: present."""
    machine.lose(GPU)
    found = look([GPU], machine.root, sleep=lambda _: machine.recover(GPU))

    assert found[GPU].config == "answers"


def test_silence_over_four_tries_is_a_loss_and_others_do_not_wait(machine: FakeSysfs) -> None:
    """All ones at each of four tries; one pause serves all, and none is made for the living."""
    machine.lose(GPU)
    machine.lose(OTHER)
    pauses: list[float] = []
    found = look([GPU, OTHER], machine.root, sleep=pauses.append)

    assert found[GPU].gone
    assert found[OTHER].gone
    assert len(pauses) == 3
    assert 0.5 <= sum(pauses) <= 0.7
    machine.recover(GPU)
    assert not look([GPU], machine.root, sleep=pytest.fail)[GPU].gone


def test_a_removed_directory_is_gone(machine: FakeSysfs) -> None:
    """Test (a) needs no config space."""
    machine.remove(GPU)

    assert look_once(GPU, machine.root) == Presence(
        False, "not-asked", "", f"{pci_tree.device_path(GPU, machine.root)} is gone"
    )


# --- the source -----------------------------------------------------------------------------


def test_it_begins_with_what_is_there(ticks: Ticks) -> None:
    """Each GPU, the ports above it, its presence, its links and counters as first read."""
    found = ticks.run(1)

    assert {str(e.device) for e in of(DeviceIdentified, found)} == {str(GPU), str(OTHER)}
    links = {(e.device, e.parent) for e in of(BridgeLinked, found)}
    assert {(GPU, SWITCH[0]), (SWITCH[0], SWITCH[1]), (SWITCH[1], SWITCH[2])} < links
    assert {e.config for e in of(PresenceTested, found)} == {"answers"}
    assert {e.device for e in of(LinkStateReported, found)} >= {GPU, *SWITCH}
    assert not of(DeviceChanged, found)
    assert all(e.stamp.is_absolute and e.stamp.monotonic_s for e in found)


def test_a_root_port_that_the_kernels_aer_driver_serves_is_said(
    machine: FakeSysfs, ticks: Ticks
) -> None:
    """Only then does a quiet log mean that the link was quiet."""
    top = SWITCH[-1]
    machine.write(f"sys/bus/pci_express/devices/{top}:pcie002/driver/bind", "")

    granted = [e for e in of(SystemDescribed, ticks.run(1)) if e.key == "aer-granted"]

    assert [e.device for e in granted] == [top]


def test_nothing_happens_when_nothing_changes(ticks: Ticks) -> None:
    """A healthy machine gives no event after the first look."""
    ticks.run(1)

    assert ticks.run(50) == []


def test_a_loss_is_told_once_within_a_second_and_the_other_gpu_is_not_in_it(
    ticks: Ticks, machine: FakeSysfs
) -> None:
    """Config space reads all ones, awake: a presence event, the finding, the port's side of it."""
    ticks.run(5)
    machine.lose(GPU)
    found = ticks.run(SLOW_EVERY + 2)

    (gone,) = of(PresenceTested, found)
    (unreadable,) = of(ConfigSpaceUnreadable, found)
    assert (gone.device, gone.directory, gone.config) == (GPU, True, "all-ones")
    assert (unreadable.how, unreadable.driver, unreadable.from_state) == (
        "all-ones",
        "nvidia",
        "D0",
    )
    assert "runtime_status active" in unreadable.origin.text
    assert unreadable.origin.input == "sysfs"
    assert unreadable.origin.ref.endswith(f"devices/{GPU}")
    assert {e.device for e in found} <= {GPU, *SWITCH}
    assert ticks.run(30) == []


def test_a_test_waits_a_second_at_most_for_a_device_that_answered_somebody_else(
    ticks: Ticks, machine: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The driver may go on answering from memory: a loss is told, only later."""
    asked: list[int] = []
    read = sysfs.os.pread
    ticks.run(1)
    ticks.source.answered_s = lambda device: ticks.now if device == GPU else 0.0
    monkeypatch.setattr(
        sysfs.os, "pread", lambda fd, size, at: (asked.append(size), read(fd, size, at))[1]
    )
    ticks.run(20)

    # Ten ticks a second: the one that answers is read twice in two seconds, the other each time.
    assert asked.count(4) == 2 + 20
    machine.lose(GPU)
    assert len(of(ConfigSpaceUnreadable, ticks.run(10 + SLOW_EVERY))) == 1


def test_a_kernel_without_runtime_power_management_is_no_trouble(
    ticks: Ticks, machine: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The file that tells whether a function sleeps is missing: nothing is said on stderr."""
    said: list[object] = []
    monkeypatch.setattr(sys, "unraisablehook", said.append)
    (machine.folder(GPU) / "power/runtime_status").unlink()

    ticks.run(5)

    assert said == []


def test_a_device_that_answers_nobody_is_tested_each_time(ticks: Ticks, machine: FakeSysfs) -> None:
    """Its last answer is old: the call about it hangs, or the driver says that it is lost."""
    ticks.run(5)
    ticks.source.answered_s = lambda _: ticks.now - 0.3
    machine.lose(GPU)

    assert len(of(ConfigSpaceUnreadable, ticks.run(8))) == 1


def test_a_short_silence_is_not_told(ticks: Ticks, machine: FakeSysfs) -> None:
    """Half a second of all ones, as in a reset: no event."""
    ticks.run(1)
    machine.lose(GPU)
    found = ticks.run(5)
    machine.recover(GPU)
    found += ticks.run(20)

    assert not of(PresenceTested, found)
    assert not of(ConfigSpaceUnreadable, found)


def test_a_device_that_answers_again_is_told(ticks: Ticks, machine: FakeSysfs) -> None:
    """Lost, then back: `answered`, and a second loss is told anew."""
    ticks.run(1)
    machine.lose(GPU)
    ticks.run(15)
    machine.recover(GPU)
    found = ticks.run(15)

    assert [e.what for e in of(DeviceChanged, found)] == ["answered"]
    machine.lose(GPU)
    assert len(of(ConfigSpaceUnreadable, ticks.run(15))) == 1


def test_a_removal_in_order_names_no_driver(ticks: Ticks, machine: FakeSysfs) -> None:
    """It answered to the end: perhaps on purpose, so nothing says that a driver was cut off."""
    ticks.run(3)
    machine.remove(GPU)
    found = ticks.run(3)

    (change,) = of(DeviceChanged, found)
    assert (change.what, change.device, change.driver) == ("removed", GPU, None)
    assert [e.directory for e in of(PresenceTested, found)] == [False]
    assert not of(ConfigSpaceUnreadable, found)


def test_a_removal_after_silence_names_the_driver(ticks: Ticks, machine: FakeSysfs) -> None:
    """It read all ones with its driver bound, then its directory went."""
    ticks.run(3)
    machine.lose(GPU)
    ticks.run(2)
    machine.remove(GPU)
    (change,) = of(DeviceChanged, ticks.run(3))

    assert (change.what, change.driver) == ("removed", "nvidia")


def test_a_sleeping_gpu_stays_asleep_and_is_not_lost(ticks: Ticks, machine: FakeSysfs) -> None:
    """Falling asleep and waking up are presence events; no loss, no link event."""
    ticks.run(1)
    machine.suspend(GPU)
    found = ticks.run(25)
    assert [e.config for e in of(PresenceTested, found)] == ["not-asked"]
    assert not of(ConfigSpaceUnreadable, found)
    assert not of(LinkStateReported, found)
    machine.recover(GPU)
    assert [e.config for e in of(PresenceTested, ticks.run(12))] == ["answers"]


def test_counters_are_told_when_one_rose(ticks: Ticks, machine: FakeSysfs) -> None:
    """Values by file and name, in words what rose; of the port as well as of the GPU."""
    ticks.run(1)
    machine.count(GPU, "correctable", RxErr=2)
    found = of(CountersSampled, ticks.run(SLOW_EVERY + 2))

    assert {e.device for e in found} == {GPU, SWITCH[-1]}
    own = next(e for e in found if e.device == GPU)
    assert ("aer_dev_correctable.RxErr", 2) in own.counters
    assert "aer_dev_correctable.RxErr 0 -> 2" in own.origin.text


def test_a_link_is_told_when_it_changed(ticks: Ticks, machine: FakeSysfs) -> None:
    """Seen from both ends, with the best that each could do."""
    ticks.run(1)
    machine.set_link(GPU, width=4)
    found = of(LinkStateReported, ticks.run(SLOW_EVERY + 2))

    assert {(e.device, e.width, e.max_width) for e in found} == {(GPU, 4, 16), (SWITCH[0], 4, 16)}


def test_a_gpu_that_comes_later_is_watched(ticks: Ticks, machine: FakeSysfs) -> None:
    """Hot-plug: added, identified, then watched like the others; back after removal, too."""
    ticks.run(1)
    machine.gpu("0000:c1:00.0", bridges=["0000:c0:01.0"])
    found = ticks.run(SLOW_EVERY + 2)
    assert [e.what for e in of(DeviceChanged, found)] == ["added"]
    machine.remove("0000:c1:00.0")
    ticks.run(SLOW_EVERY + 2)
    machine.gpu("0000:c1:00.0", bridges=["0000:c0:01.0"])
    assert [e.what for e in of(DeviceChanged, ticks.run(SLOW_EVERY + 2))] == ["added"]


def test_a_named_function_is_watched_whatever_its_class(
    machine: FakeSysfs, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`--device` on something that is no GPU: watched as one, and nothing else is."""
    card = PciAddress.parse("0000:09:00.0")
    machine.gpu(card, bridges=["0000:00:09.0"], class_code=0x020000, driver="e1000e")
    ticks = Ticks(SysfsSource(root=machine.root, devices=[card]), Clock(monkeypatch))
    first = ticks.run(1)
    machine.lose(card)
    machine.lose(GPU)
    found = ticks.run(12)

    assert [e.is_gpu for e in of(DeviceIdentified, first)] == [True]
    assert {e.device for e in of(ConfigSpaceUnreadable, found)} == {card}


def test_the_thread_tells_a_loss_and_ends_at_once(machine: FakeSysfs) -> None:
    """Started, polled and stopped as a source."""
    source = SysfsSource(2, root=machine.root)
    assert isinstance(source.available(), Known)
    source.start()
    found: list[Event] = []
    deadline = time.monotonic() + 5
    while not of(PresenceTested, found) and time.monotonic() < deadline:
        found += source.poll()
        time.sleep(0.01)
    machine.lose(GPU)
    while not of(ConfigSpaceUnreadable, found) and time.monotonic() < deadline:
        found += source.poll()
        time.sleep(0.01)
    began = time.monotonic()
    source.stop()

    assert time.monotonic() - began < 1.0
    assert of(ConfigSpaceUnreadable, found)
    assert [e.value for e in of(SystemDescribed, found)] == ["default"]
    orders = [e.origin.order for e in found]
    assert orders == sorted(orders)
    assert orders[0][0] == 2


def test_without_sysfs_or_gpu_it_says_so(tmp_path: Path) -> None:
    """A reason and, for a container, the mount that would help."""
    empty = SysfsSource(root=tmp_path).available()
    assert isinstance(empty, Unavailable)
    assert "mount" in empty.hint
    (tmp_path / "sys/bus/pci/devices").mkdir(parents=True)
    none = SysfsSource(root=tmp_path).available()
    assert isinstance(none, Unavailable)
    assert "lists no GPU" in none.detail


@pytest.mark.skipif(not Path("/proc/self/fd").is_dir(), reason="needs /proc")
def test_no_descriptor_is_left_open(machine: FakeSysfs) -> None:
    """Starting and stopping twenty times leaves as many open files as before."""
    source = SysfsSource(root=machine.root, presence_s=0.01)

    def turns(number: int) -> None:
        for _ in range(number):
            source.start()
            time.sleep(0.02)
            source.stop()

    def is_open() -> int:
        return len(list(Path("/proc/self/fd").iterdir()))

    turns(2)
    before = is_open()
    turns(20)
    until = time.monotonic() + 5  # the last thread may be on its way out
    while is_open() > before and time.monotonic() < until:
        time.sleep(0.01)
    assert is_open() <= before
