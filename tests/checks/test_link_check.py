"""The link now, at best, which hop limits it, and its generation under load."""

from __future__ import annotations

import pytest
from machines import GPU, PORT, nvml, only, run, sample, scene

from gpuprobe.checks import Status, link
from gpuprobe.checks.bus import read_bus
from gpuprobe.checks.pcie import (
    generation,
    hops,
    narrowest,
    practical_bytes_per_s,
    raw_bytes_per_s,
)
from gpuprobe.diagnosis import Kind
from gpuprobe.reading import Known, Reason, Unavailable
from gpuprobe.testing.sysfs import FakeSysfs


def test_an_idle_link_at_gen1_is_healthy(tree) -> None:
    """The best is named; no load was asked for, so the generation is not judged."""
    tree.set_link(str(GPU), speed_gts=2.5)

    found = only(link, scene(tree), "link")

    assert found.status is Status.OK
    assert found.figures["gen"] == 1
    assert found.figures["best_gen"] == 4
    assert [f.what for f in run(link, scene(tree))] == ["link"]


def test_a_low_generation_while_it_works_is_a_warning(tree) -> None:
    """One look is no verdict: the command that samples is named."""
    tree.set_link(str(GPU), speed_gts=2.5)

    found = only(link, scene(tree, nvml=nvml(util_percent=97)), "link")

    assert found.status is Status.WARN
    assert "97 %" in found.text
    assert found.how == "gpuprobe check --under-load 30"
    assert found.kind is None


def test_a_narrow_link_is_a_warning_and_no_answer(tree) -> None:
    """Lanes do not step down at idle, yet a narrow link alone is no verdict."""
    tree.set_link(str(GPU), width=8)

    found = only(link, scene(tree), "link")

    assert found.status is Status.WARN
    assert "x8 of x16" in found.text
    assert found.kind is None


def test_a_slot_that_limits_is_named(tmp_path) -> None:
    """A Gen4 card in a Gen3 slot."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[str(PORT)], port_speed_gts=8.0)

    found = only(link, scene(tree), "link")

    assert found.status is Status.NOTE
    assert found.figures["best_gen"] == 3
    assert found.figures["limited_by"] == str(PORT)
    assert "Gen4 x16" in found.text


def test_a_hop_above_a_switch_that_limits_is_named(tmp_path) -> None:
    """The ports of the switch have no link between them."""
    tree = FakeSysfs(tmp_path)
    way = ["0000:00:01.0", "0000:02:00.0", "0000:03:00.0"]
    tree.gpu(str(GPU), bridges=way)
    tree.set_link("0000:02:00.0", width=4, max_width=16)
    tree.set_link("0000:00:01.0", max_width=4)
    gpu = read_bus(tree.root).value[0]

    path = hops(gpu)

    assert [str(hop) for hop in path] == [
        "0000:00:01.0 - 0000:02:00.0",
        f"0000:03:00.0 - {GPU}",
    ]
    assert narrowest(path) is path[0]
    assert "the hop 0000:00:01.0 - 0000:02:00.0" in only(link, scene(tree), "link").text


def test_a_gpu_on_the_root_bus_has_a_link_of_its_own(tmp_path) -> None:
    """As in a virtual machine without a port above it."""
    tree = FakeSysfs(tmp_path)
    tree.gpu(str(GPU), bridges=[])

    assert only(link, scene(tree), "link").status is Status.OK


def test_a_lost_gpus_link_is_not_judged(tree) -> None:
    """63 lanes are no width."""
    tree.lose(str(GPU))
    found = only(link, scene(tree, nvml=Known({})), "link")

    assert found.status is Status.NOT_CHECKED
    assert "63" in found.text


def test_the_driver_tells_where_sysfs_does_not(tree) -> None:
    """In a container without /sys."""
    nothing = Unavailable(Reason.NOT_THERE, "no /sys/bus/pci here")
    found = only(link, scene(None, bus=nothing), "link")

    assert found.status is Status.OK
    assert found.figures["width"] == 16


def test_the_driver_tells_a_speed_that_sysfs_does_not_know(tree) -> None:
    """As in some virtual machines, where only the width is a number."""
    (tree.folder(str(GPU)) / "current_link_speed").write_text("Unknown\n")
    (tree.folder(str(PORT)) / "current_link_speed").write_text("Unknown\n")

    assert only(link, scene(tree), "link").figures["gen"] == 4
    alone = scene(tree, nvml=Unavailable(Reason.NOT_THERE, "LIBRARY_NOT_FOUND"))
    assert only(link, alone, "link").figures["width"] == 16


def test_a_sleeping_gpus_link_is_left_alone(tree) -> None:
    """Reading it would wake the card."""
    tree.suspend(str(GPU))

    assert "sleeps" in only(link, scene(tree), "link").text


def test_a_low_generation_under_load_is_a_link_error(tree) -> None:
    """It held for samples on end while the GPU worked."""
    samples = tuple(sample(at / 10, link_gen=1) for at in range(5))

    found = only(link, scene(tree, load=Known(samples)), "link under load")

    assert found.status is Status.BAD
    assert found.kind is Kind.PCIE_LINK_ERRORS
    assert found.figures == {"gen": 1, "best_gen": 4, "width": 16, "samples": 5}


def test_a_single_dip_is_a_transition(tree) -> None:
    """One sample does not hold."""
    samples = tuple(sample(at / 10, link_gen=1 if at == 2 else 4) for at in range(5))

    assert only(link, scene(tree, load=Known(samples)), "link under load").status is Status.OK


def test_idle_samples_judge_nothing(tree) -> None:
    """Somebody forgot to start the load."""
    samples = tuple(sample(at / 10, link_gen=1, util_percent=2, power_w=30.0) for at in range(5))

    found = only(link, scene(tree, load=Known(samples)), "link under load")

    assert found.status is Status.NOT_CHECKED
    assert "no load ran" in found.text


def test_power_tells_of_load_where_utilisation_does_not(tree) -> None:
    """MIG gives none."""
    samples = tuple(sample(at / 10, util_percent=None) for at in range(3))

    assert only(link, scene(tree, load=Known(samples)), "link under load").status is Status.OK


def test_a_driver_of_odd_types_breaks_nothing(tree) -> None:
    """Values of NVML may be anything."""
    of = scene(
        None,
        bus=Unavailable(Reason.NOT_THERE),
        nvml=nvml(link_gen="four", link_width=Unavailable(Reason.NOT_SUPPORTED)),
    )

    assert only(link, of, "link").status is Status.NOT_CHECKED


@pytest.mark.parametrize(
    ("speed", "width", "gigabytes"),
    [(2.5, 16, 4.0), (8.0, 16, 15.75), (16.0, 16, 31.5), (32.0, 8, 31.5), (64.0, 16, 121.0)],
)
def test_raw_rates(speed: float, width: int, gigabytes: float) -> None:
    """As the specification's coding gives them, one direction."""
    assert raw_bytes_per_s(speed, width) / 1e9 == pytest.approx(gigabytes, rel=0.005)


def test_practical_rate_is_what_copies_reach() -> None:
    """About 13 GB/s over Gen3 x16."""
    assert 12e9 < practical_bytes_per_s(8.0, 16) < 13.5e9
    assert generation(8.0) == 3
    assert generation(7.9) is None
