"""When a lost device that came back may be asked about again."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprobe.events import DeviceChanged, Origin
from gpuprobe.identity import PciAddress
from gpuprobe.live.returned import Returned
from gpuprobe.testing.sysfs import FakeSysfs

GPU = PciAddress.parse("0000:04:00.0")
SETTLE_S = 3.0


@pytest.fixture
def tree(tmp_path: Path) -> FakeSysfs:
    found = FakeSysfs(tmp_path)
    found.gpu(GPU)
    return found


def changed(what: str) -> DeviceChanged:
    return DeviceChanged(origin=Origin("udev", None, what), device=GPU, what=what)


def test_a_bound_device_that_answers_is_given_once(tree: FakeSysfs) -> None:
    """After it has answered for long enough, and not again."""
    returned = Returned(SETTLE_S, tree.root)
    returned.note(changed("bound"), 100.0)

    assert list(returned.due(102.0)) == []
    assert list(returned.due(103.5)) == [GPU]
    assert list(returned.due(110.0)) == []


def test_answering_alone_is_not_enough(tree: FakeSysfs) -> None:
    """A driver that lost a device which still answers is not asked again."""
    returned = Returned(SETTLE_S, tree.root)
    returned.note(changed("answered"), 100.0)

    assert list(returned.due(200.0)) == []


@pytest.mark.parametrize("trouble", ["silent", "without a driver"])
def test_the_time_begins_anew_with_trouble(tree: FakeSysfs, trouble: str) -> None:
    """A device that reads all ones again, or has lost its driver, has to settle from then on."""
    returned = Returned(SETTLE_S, tree.root)
    returned.note(changed("bound"), 100.0)
    if trouble == "silent":
        tree.lose(GPU)
    else:
        tree.bind(GPU, None)
    assert list(returned.due(104.0)) == []
    if trouble == "silent":
        tree.recover(GPU)
    else:
        tree.bind(GPU, "nvidia")

    assert list(returned.due(106.0)) == []
    assert list(returned.due(107.5)) == [GPU]


@pytest.mark.parametrize("what", ["unbound", "removed"])
def test_one_that_went_again_is_forgotten(tree: FakeSysfs, what: str) -> None:
    """It has to be bound anew."""
    returned = Returned(SETTLE_S, tree.root)
    returned.note(changed("bound"), 100.0)
    returned.note(changed(what), 101.0)

    assert list(returned.due(200.0)) == []
