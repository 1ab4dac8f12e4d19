"""When power was short."""

from __future__ import annotations

from _judging import findings, kinds, only, pci

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.POWER
HEAD = "timestamp, pci.bus_id, clocks_event_reasons.active, power.draw [W], temperature.gpu\n"


def sample(reasons: int) -> str:
    return f"2027/01/05 10:00:00.000, 00000000:1A:00.0, 0x{reasons:016x}, 250.00 W, 61\n"


def test_a_power_brake_in_a_sample_is_a_finding() -> None:
    """Clock-event reason 0x80 names the GPU that was braked."""
    verdict = only(HEAD + sample(0x80))

    assert verdict.kind is KIND
    assert pci(verdict) == "0000:1a:00.0"
    assert "power brake" in verdict.summary


def test_the_power_limit_at_work_is_normal() -> None:
    """Clock-event reason 0x4 is how a busy card behaves."""
    assert findings(KIND, HEAD + sample(0x4)) == []
    assert kinds(HEAD + sample(0x4)) == [Kind.NO_FAULT]


def test_missing_plugs_are_a_finding() -> None:
    """Xid 54 says that the auxiliary power is not connected."""
    verdict = only(
        "[    9.000000] NVRM: Xid (PCI:0000:1a:00): 54, Auxiliary power is not connected\n"
    )

    assert verdict.kind is KIND


def test_under_voltage_of_the_host_is_the_host_s() -> None:
    """The line names no GPU, and no GPU is guessed."""
    verdict = only("[  200.000000] hwmon hwmon1: Undervoltage detected!\n")

    assert (verdict.kind, verdict.device) == (KIND, None)
    assert verdict.certainty is Certainty.CONFIRMED


def test_before_a_loss_it_is_the_precursor() -> None:
    """A brake that leads to a loss is no verdict of its own."""
    text = (
        HEAD
        + sample(0x80)
        + "[  900.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
    )

    assert kinds(text) == [Kind.DEVICE_LEFT_BUS]
