"""Counts are notes, rises are warnings, an uncorrectable rise decides."""

from __future__ import annotations

from machines import GPU, PORT, host, log, lost, nvml, only, scene

from gpuprobe.checks import Status, counters
from gpuprobe.checks.bus import read_bus
from gpuprobe.diagnosis import Kind
from gpuprobe.reading import Known, Reason, Unavailable


def test_a_quiet_path(tree) -> None:
    """Nothing counted at the GPU or its port."""
    found = only(counters, scene(tree), "AER")

    assert found.status is Status.OK
    assert found.figures == {"functions": 2, "errors": 0}


def test_corrected_errors_at_the_port_are_a_note(tree) -> None:
    """Trouble on a wire may be counted at its other end; the root's totals are not counted twice."""
    tree.count(str(PORT), BadTLP=7)

    found = only(counters, scene(tree), "AER")

    assert found.status is Status.NOTE
    assert found.figures == {f"{PORT} correctable.BadTLP": 7}
    assert f"BadTLP 7 at {PORT}" in found.text


def test_an_uncorrectable_error_is_a_warning(tree) -> None:
    """Since boot, so it is past."""
    tree.count(str(GPU), "fatal", SDES=1)

    assert only(counters, scene(tree), "AER").status is Status.WARN


def test_what_rises_under_load_is_named(tree) -> None:
    """Only the rise is shown, not what was there before."""
    tree.count(str(GPU), RxErr=100)
    before = scene(tree)
    tree.count(str(GPU), RxErr=12)

    found = only(counters, scene(tree, bus=before.bus, after_load=read_bus(tree.root)), "AER")

    assert found.status is Status.WARN
    assert found.figures == {f"{GPU} correctable.RxErr": 12}


def test_an_uncorrectable_rise_under_load_decides(tree) -> None:
    """The link fails now."""
    before = scene(tree)
    tree.count(str(PORT), "nonfatal", CmpltTO=1)

    found = only(counters, scene(tree, bus=before.bus, after_load=read_bus(tree.root)), "AER")

    assert found.status is Status.BAD
    assert found.kind is Kind.PCIE_LINK_ERRORS


def test_without_aer_nothing_is_claimed(tree) -> None:
    """No capability, or a tunnel that hides it."""
    tree.without_aer(str(GPU))
    tree.without_aer(str(PORT))

    assert only(counters, scene(tree), "AER").status is Status.NOT_CHECKED


def test_a_zero_is_no_zero_where_aer_is_switched_off(tree) -> None:
    """By the command line, or by firmware that kept it."""
    off = scene(tree, host=host(cmdline=Known("quiet pci=noaer")))
    kept = "acpi PNP0A08:00: _OSC: platform does not support [AER]\n"
    firmware = scene(tree, this_boot=log("[    0.5] " + kept))

    assert "noaer" in only(counters, off, "AER").text
    assert only(counters, firmware, "AER").status is Status.NOT_CHECKED


def test_lifetime_counts_of_a_healthy_card_are_fine(tree) -> None:
    """A healthy card shows some."""
    found = only(counters, scene(tree), "PCIe counts")

    assert found.status is Status.OK
    assert "bad TLPs 24" in found.text
    assert found.figures["pcie_replay"] == 1


def test_replays_that_rise_under_load_are_a_warning(tree) -> None:
    """The difference of two readings."""
    of = scene(tree, nvml_after_load=nvml(pcie_replay=41))

    found = only(counters, of, "PCIe counts")

    assert found.status is Status.WARN
    assert found.figures == {"replays": 40}


def test_fatal_errors_that_rise_decide(tree) -> None:
    """NVML's own count of them."""
    of = scene(tree, nvml=nvml(pcie_fatal_errors=0), nvml_after_load=nvml(pcie_fatal_errors=1))

    assert only(counters, of, "PCIe counts").kind is Kind.PCIE_LINK_ERRORS


def test_counts_of_a_lost_gpu_are_not_zero(tree) -> None:
    """They are unavailable, with the reason."""
    gone = {key: lost() for key in counters.PCIE_COUNTS}

    found = only(counters, scene(tree, nvml=nvml(**gone)), "PCIe counts")

    assert found.status is Status.NOT_CHECKED
    assert "does not answer" in found.text


def test_without_nvml_the_reason_is_given(tree) -> None:
    """What was left out on purpose says so."""
    left_out = Unavailable(Reason.NOT_ASKED, "--no-nvml", "leave out --no-nvml")

    found = only(counters, scene(tree, nvml=left_out), "PCIe counts")

    assert found.status is Status.NOT_CHECKED
    assert found.how == "leave out --no-nvml"
