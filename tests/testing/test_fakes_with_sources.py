"""The fake tree through the package's own readers: what a reader sees is what was laid out."""

import pytest

from gpuprobe.events import ConfigSpaceUnreadable, CountersSampled, LinkStateReported
from gpuprobe.identity import PciAddress
from gpuprobe.sources.pci.readings import read_link
from gpuprobe.sources.pci.sysfs import SysfsSource
from gpuprobe.sources.pci.tree import gpus, look_once, path_to_root
from gpuprobe.testing import FakeSysfs, FilesOpened

GPU = PciAddress.parse("0000:04:00.0")
BRIDGES = ["0000:00:01.1", "0000:02:00.0", "0000:03:00.0"]


@pytest.fixture
def machine(tmp_path):
    made = FakeSysfs(tmp_path)
    made.gpu(GPU, bridges=BRIDGES)
    return made


def of(events, kind):
    return [event for event in events if isinstance(event, kind)]


def test_layout(machine):
    """The readers find the GPU, its bridges and its link."""
    assert gpus(machine.root) == [GPU]
    assert [str(one) for one in path_to_root(GPU, machine.root)] == BRIDGES[::-1]
    link = read_link(GPU, machine.root)
    assert (link.speed_gts.value, link.width.value) == (16.0, 16)


def test_presence(machine):
    """Lost, asleep and removed are three different things."""
    assert look_once(GPU, machine.root).config == "answers"
    machine.lose(GPU)
    assert look_once(GPU, machine.root).config == "all-ones"
    machine.suspend(GPU)
    assert look_once(GPU, machine.root).config == "not-asked"
    machine.recover(GPU)
    machine.remove(GPU)
    assert not look_once(GPU, machine.root).directory


def test_a_sleeping_gpu_is_not_touched(machine):
    """The source opens neither config space nor a link file of a sleeping GPU."""
    machine.suspend(GPU)
    source = SysfsSource(root=machine.root, presence_s=0.01)
    with FilesOpened(machine.folder(GPU)) as opened:
        events = [event for tick in range(3) for event in source.look(slow=True, first=tick == 0)]
    assert events
    assert not {name for name in opened.names() if name == "config" or "link" in name}
    assert not of(events, ConfigSpaceUnreadable)


def test_changes_are_seen(machine):
    """A link that changed and a counter that rose each give one event."""
    source = SysfsSource(root=machine.root)
    list(source.look(slow=True, first=True))
    machine.set_link(GPU, speed_gts=2.5)
    machine.count(BRIDGES[2], BadDLLP=2)
    events = list(source.look(slow=True))
    assert {str(event.device) for event in of(events, LinkStateReported)} == {str(GPU), BRIDGES[2]}
    assert "BadDLLP 0 -> 2" in next(
        event.origin.text
        for event in of(events, CountersSampled)
        if str(event.device) == BRIDGES[2]
    )
