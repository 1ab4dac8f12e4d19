"""Which GPUs an engine uses, and how that is known."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprobe.clock import Stamp
from gpuprobe.events import Origin, ProcessesListed
from gpuprobe.identity import PciAddress
from gpuprobe.live.engine.gpus import EngineGpus
from gpuprobe.testing.sysfs import FakeSysfs
from tests.live.nvml_bench import ONE, TWO
from tests.live.session_bench import machine

TREE = {100, 101}


@pytest.fixture
def tree(tmp_path: Path) -> FakeSysfs:
    return machine(tmp_path)


def listed(device: PciAddress, at_s: float, *pids: int) -> ProcessesListed:
    return ProcessesListed(
        origin=Origin("nvml", None, ""),
        stamp=Stamp(raw="", monotonic_s=at_s),
        device=device,
        pids=pids,
    )


def test_what_the_user_named_counts_alone(tree: FakeSysfs) -> None:
    """A named device stays the engine's whatever NVML lists."""
    gpus = EngineGpus([ONE], {}, tree.root)
    gpus.listed(listed(TWO, 1.0, 101), TREE)

    assert gpus.at(2.0).devices == (ONE,)
    assert "--device" in gpus.at(2.0).how


def test_where_its_processes_are_listed(tree: FakeSysfs) -> None:
    """A worker of the tree on one GPU, a stranger on the other."""
    gpus = EngineGpus([], {}, tree.root)
    gpus.listed(listed(ONE, 1.0, 7777), TREE)
    gpus.listed(listed(TWO, 1.0, 7777, 101), TREE)

    assert str(gpus.at(2.0)) == f"GPU {TWO} (NVML listed its processes there)"


def test_a_list_from_its_last_moment_takes_nothing_away(tree: FakeSysfs) -> None:
    """Empty half a second before the end: it was ending. Empty for a minute: it had moved."""
    gpus = EngineGpus([], {}, tree.root)
    gpus.listed(listed(ONE, 1.0, 101), TREE)
    gpus.listed(listed(TWO, 1.0, 101), TREE)
    gpus.listed(listed(ONE, 60.0), TREE)

    assert gpus.at(60.5).devices == (ONE, TWO)
    assert gpus.at(120.0).devices == (TWO,)


def test_else_those_it_can_see(tree: FakeSysfs) -> None:
    """Two cards of one model: CUDA's order is that of the addresses."""
    whose = EngineGpus([], {"CUDA_VISIBLE_DEVICES": "1"}, tree.root).at(1.0)

    assert whose.devices == (TWO,)
    assert "CUDA_VISIBLE_DEVICES=1" in whose.how


def test_else_all(tree: FakeSysfs) -> None:
    """Nothing says which: every GPU, and that is said."""
    whose = EngineGpus([], {}, tree.root).at(1.0)

    assert whose.devices == (ONE, TWO)
    assert "every GPU" in whose.how


def test_unlike_models_leave_it_open(tmp_path: Path) -> None:
    """CUDA may count the faster card first: all of them, and the doubt is named."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(ONE, bridges=["0000:00:01.0"])
    tree.gpu(TWO, bridges=["0000:00:03.0"], device=0x2B85)

    whose = EngineGpus([], {"CUDA_VISIBLE_DEVICES": "1"}, tree.root).at(1.0)

    assert whose.devices == (ONE, TWO)
    assert "does not tell which" in whose.how


def test_without_sysfs_what_was_seen(tmp_path: Path) -> None:
    """A machine whose sysfs lists none: those that any source saw."""
    assert EngineGpus([], {}, tmp_path).at(1.0, [TWO]).devices == (TWO,)
    assert EngineGpus([], {}, tmp_path).at(1.0).devices == ()
