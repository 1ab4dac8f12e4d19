"""Which GPUs are this process's, by the device files it has open."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprobe.identity import PciAddress
from gpuprobe.inside.whose import gpus_of_this_process, open_minors
from gpuprobe.live.presence import take_inventory
from gpuprobe.testing.sysfs import FakeSysfs

# Minors follow the order in which they are put in, not that of the addresses.
FIRST, SECOND, THIRD = "0000:41:00.0", "0000:21:00.0", "0000:a1:00.0"


@pytest.fixture
def machine(tmp_path: Path) -> FakeSysfs:
    made = FakeSysfs(tmp_path)
    for address in (FIRST, SECOND, THIRD):
        made.gpu(address, bridges=[f"{address[:5]}{int(address[5:7], 16) - 1:02x}:01.0"])
    return made


def opened(tmp_path: Path, *targets: str) -> Path:
    """A folder of links, as /proc/self/fd."""
    folder = tmp_path / "fd"
    folder.mkdir()
    for number, target in enumerate(("/dev/null", "/dev/nvidiactl", "/dev/nvidia-uvm", *targets)):
        (folder / str(number)).symlink_to(target)
    return folder


def ours(*names: str) -> tuple[PciAddress, ...]:
    return tuple(PciAddress.parse(name) for name in names)


def test_the_gpus_that_are_open_are_this_process_s(machine: FakeSysfs, tmp_path: Path) -> None:
    """By the driver's minors, also where a device file was deleted and opened twice."""
    files = opened(tmp_path, "/dev/nvidia1", "/dev/nvidia1", "/dev/nvidia2 (deleted)")
    found = gpus_of_this_process(take_inventory(machine.root), {}, files)

    assert found.sure
    assert set(found.gpus) == set(ours(SECOND, THIRD))
    assert "/dev/nvidia1, /dev/nvidia2" in found.why


def test_without_an_open_one_the_environment_decides(machine: FakeSysfs, tmp_path: Path) -> None:
    """A front end that never started CUDA; /dev/nvidiactl alone says nothing."""
    before = take_inventory(machine.root)
    files = opened(tmp_path)

    assert gpus_of_this_process(before, {}, files).gpus == before.gpus
    wish = {"CUDA_VISIBLE_DEVICES": "0"}
    assert gpus_of_this_process(before, wish, files).gpus == ours(SECOND)
    assert open_minors(tmp_path / "no-such-folder") == frozenset()


def test_open_and_visible_together_narrow_it_down(machine: FakeSysfs, tmp_path: Path) -> None:
    """A program opens all while it looks around, and uses those that it may see."""
    files = opened(tmp_path, "/dev/nvidia0", "/dev/nvidia1", "/dev/nvidia2")
    wish = {"CUDA_VISIBLE_DEVICES": "2", "CUDA_DEVICE_ORDER": "PCI_BUS_ID"}
    found = gpus_of_this_process(take_inventory(machine.root), wish, files)

    assert (found.gpus, found.sure) == (ours(THIRD), True)


def test_a_uuid_that_cannot_be_looked_up_is_settled_by_what_is_open(
    machine: FakeSysfs, tmp_path: Path
) -> None:
    """MIG instances have UUIDs that only the driver knows."""
    wish = {"CUDA_VISIBLE_DEVICES": "MIG-5c9f8a4e-0000-5000-8000-000000000000"}
    files = opened(tmp_path, "/dev/nvidia0")
    found = gpus_of_this_process(take_inventory(machine.root), wish, files)

    assert (found.gpus, found.sure) == (ours(FIRST), True)


def test_an_open_gpu_that_the_driver_has_forgotten_is_the_one_that_is_missing(
    machine: FakeSysfs, tmp_path: Path
) -> None:
    """After a removal its minor leads nowhere; with two missing it could be either."""
    before = take_inventory(machine.root)
    files = opened(tmp_path, "/dev/nvidia0")
    machine.remove(FIRST)
    assert gpus_of_this_process(before, {}, files).gpus == ours(FIRST)

    machine.remove(SECOND)
    assert gpus_of_this_process(before, {}, files).gpus == before.gpus
