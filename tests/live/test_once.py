"""One reading of everything, on a fake machine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from gpuprobe.live.board import Board
from gpuprobe.live.once import OnceReport, read_once
from gpuprobe.live.session import Session
from gpuprobe.reading import Known, Reading, Reason, Unavailable
from gpuprobe.sources.host import HostSource
from gpuprobe.sources.pci.sysfs import SysfsSource
from gpuprobe.testing.nvml import FakeNvml, why_unavailable
from gpuprobe.testing.sysfs import FakeSysfs
from tests.live.nvml_bench import ONE, TWO
from tests.live.session_bench import PORTS, machine, probe_on

needs_compiler = pytest.mark.skipif(why_unavailable() is not None, reason=str(why_unavailable()))


def once(tree: FakeSysfs, fake: FakeNvml | None = None) -> OnceReport:
    sources: list[Any] = [SysfsSource(2, root=tree.root), HostSource(4, root=tree.root)]
    if fake is not None:
        sources.insert(0, probe_on(fake, tree.root))
    session = Session(sources, root=tree.root)
    session.start()
    try:
        return read_once(session, Board(), root=tree.root)
    finally:
        session.stop()


def bus(report: OnceReport, number: int = 0) -> dict[str, Reading[Any]]:
    return {figure.name: figure.reading for figure in report.gpus[number].bus}


def test_the_gpu_and_every_port_above_it(tmp_path: Path) -> None:
    """Link, power state and AER of both ends, with the address before a port's."""
    tree = machine(tmp_path)
    tree.count(ONE, "correctable", BadTLP=3)
    report = once(tree)
    port = PORTS[ONE]

    assert bus(report)["speed_gts"] == Known(16.0)
    assert bus(report)[f"{port}.width"] == Known(16)
    assert bus(report)["power_state"] == Known("D0")
    assert bus(report)["aer_dev_correctable.TOTAL_ERR_COR"] == Known(3)
    assert {figure.name for figure in report.host} >= {"memory.total_bytes", "load1"}
    assert (report.answer, report.exit_code) == ("no-fault", 0)


def test_a_sleeping_gpu_is_left_alone(tmp_path: Path) -> None:
    """Its link is not read, and that is said."""
    tree = machine(tmp_path)
    tree.suspend(ONE)
    report = once(tree)

    link = bus(report)["speed_gts"]
    assert isinstance(link, Unavailable)
    assert link.reason is Reason.ASLEEP
    assert report.gpus[0].state == "asleep"
    assert report.exit_code == 0, "the other one was looked at"


def test_all_ones_are_seen_in_one_reading(tmp_path: Path) -> None:
    """It lasts as long as that takes."""
    tree = machine(tmp_path)
    tree.lose(ONE)

    report = once(tree)

    assert (report.answer, report.exit_code) == ("device-left-bus", 79)
    assert report.gpus[0].state == "lost"


def test_without_a_gpu_it_cannot_be_told(tmp_path: Path) -> None:
    """Nothing to look at is no "no fault"."""
    report = once(FakeSysfs(tmp_path))

    assert (report.answer, report.exit_code) == ("cannot-tell", 3)


@needs_compiler
def test_a_driver_that_does_not_answer_is_no_look(tmp_path: Path) -> None:
    """NVML was asked about NVIDIA's GPUs and cannot be opened: on the bus is not enough."""
    fake = FakeNvml(tmp_path, [ONE, TWO])
    fake.hang(call="nvmlInitWithFlags")

    report = once(machine(tmp_path), fake)
    fake.heal()

    assert {gpu.state for gpu in report.gpus} == {"on the bus"}
    assert (report.answer, report.exit_code) == ("cannot-tell", 3)


@needs_compiler
def test_a_driver_that_is_not_loaded_is_unusable(tmp_path: Path) -> None:
    """NVML says so in as many words."""
    fake = FakeNvml(tmp_path, [ONE, TWO])
    fake.unload_driver()

    report = once(machine(tmp_path), fake)

    assert (report.answer, report.exit_code) == ("driver-unusable", 1)


@needs_compiler
def test_values_come_in_the_order_of_the_list_of_calls(tmp_path: Path) -> None:
    """Names and units as published, the driver's versions beside them."""
    report = once(machine(tmp_path), FakeNvml(tmp_path, [ONE, TWO]))
    figures = {figure.name: figure for figure in report.gpus[0].nvml}

    assert figures["power_w"].unit == "W"
    assert list(figures)[:3] == ["pci_device_id", "name", "uuid"]
    assert {figure.name for figure in report.system} >= {"driver_version", "nvml_version"}
    assert report.gpus[0].looked_at
