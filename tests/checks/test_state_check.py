"""Memory, recovery action, power, heat: the GPU's own state by its driver."""

from __future__ import annotations

import pytest
from machines import GPU, log, lost, nvml, only, run, sample, scene

from gpuprobe.checks import Status, heat, load, memory, power, recovery
from gpuprobe.diagnosis import Kind
from gpuprobe.reading import Known, Reason, Unavailable

NO = Unavailable(Reason.NOT_SUPPORTED, "NVML code 3")
OWED = (
    "[  100.0] NVRM: Xid (PCI:0000:65:00): 154, GPU recovery action changed from 0x0 (None) "
    "to 0x1 (GPU Reset Required)\n"
)


def test_clean_memory(tree) -> None:
    """No error, no row remapped."""
    assert {f.status for f in run(memory, scene(tree))} == {Status.OK}


def test_uncorrectable_errors_are_a_warning(tree) -> None:
    """They are past; whether a reset is owed is another line."""
    found = only(memory, scene(tree, nvml=nvml(ecc_uncorrected_volatile=2)), "ECC")

    assert found.status is Status.WARN
    assert found.figures["ecc_uncorrected_volatile"] == 2


def test_a_card_without_ecc_is_not_called_clean(tree) -> None:
    """Absent is never zero."""
    found = only(memory, scene(tree, nvml=nvml(ecc_uncorrected_volatile=NO)), "ECC")

    assert found.status is Status.NOT_CHECKED
    assert "unseen" in found.text


def test_a_failed_remap_is_a_memory_error(tree) -> None:
    """No spare row is left."""
    found = only(memory, scene(tree, nvml=nvml(remap_failed=1)), "remapped rows")

    assert found.kind is Kind.GPU_MEMORY_ERROR


def test_a_pending_remap_wants_a_reset(tree) -> None:
    """A warning with the command."""
    found = only(memory, scene(tree, nvml=nvml(remap_pending=1)), "remapped rows")

    assert found.status is Status.WARN
    assert str(GPU) in found.how


@pytest.mark.parametrize(
    ("action", "status"),
    [(0, Status.OK), (1, Status.BAD), (2, Status.BAD), (3, Status.WARN), (4, Status.BAD)],
)
def test_recovery_action_by_nvml(tree, action: int, status: Status) -> None:
    """What holds up peer traffic alone leaves the GPU usable."""
    found = only(recovery, scene(tree, nvml=nvml(recovery_action=action)), "recovery action")

    assert found.status is status
    assert found.kind == (Kind.GPU_HANG if status is Status.BAD else None)


def test_recovery_action_by_the_log_where_nvml_is_silent(tree) -> None:
    """The last Xid 154 of this GPU."""
    silent = Unavailable(Reason.NOT_THERE, "nvmlInit returned LIBRARY_NOT_FOUND")

    found = only(recovery, scene(tree, nvml=silent, this_boot=log(OWED)), "recovery action")

    assert found.status is Status.BAD
    assert "154" in found.text


def test_an_older_driver_that_answers_owes_nothing(tree) -> None:
    """It has no such field; its log is whole and asks for nothing."""
    of = scene(tree, nvml=nvml(recovery_action=NO))
    cut = scene(tree, nvml=nvml(recovery_action=NO), this_boot=log(OWED[:0] + "x\n", whole=False))

    assert only(recovery, of, "recovery action").status is Status.OK
    assert only(recovery, cut, "recovery action").status is Status.NOT_CHECKED


def test_reset_required_is_owed(tree) -> None:
    """Any call that says so."""
    of = scene(tree, nvml=nvml(temp_c=Unavailable(Reason.FAILED, "NVML code 16")))

    assert only(recovery, of, "recovery action").kind is Kind.GPU_HANG


def test_nobody_is_sent_into_a_driver_that_hangs(tree) -> None:
    """No command of another program where NVML did not answer."""
    stuck = Unavailable(Reason.TIMED_OUT, "process 812 is still inside nvmlInit")

    assert only(recovery, scene(tree, nvml=stuck), "recovery action").how == ""


def test_power_and_persistence(tree) -> None:
    """Draw and limit in one line."""
    found = run(power, scene(tree))

    assert {f.status for f in found} == {Status.OK}
    assert "43 W now, limit 450 W" in found[0].text


def test_a_cap_is_a_note_with_the_default(tree) -> None:
    """Somebody set it."""
    found = only(power, scene(tree, nvml=nvml(limit_w=300.0)), "power")

    assert found.status is Status.NOTE
    assert "default 450 W" in found.text


def test_persistence_off_is_a_note_with_its_undo(tree) -> None:
    """The driver lets go of the GPU when its last client ends."""
    found = only(power, scene(tree, nvml=nvml(persistence_mode=0)), "persistence mode")

    assert found.status is Status.NOTE
    assert found.how.endswith(" -pm 1")
    assert "-pm 0" in found.text


def test_a_power_brake_now_is_power(tree) -> None:
    """Something outside the card slows it down; one in the past is a warning."""
    now = only(power, scene(tree, nvml=nvml(clocks_event_reasons=0x80)), "power")
    past = only(power, scene(tree, nvml=nvml(throttle_hw_power_brake_ns=2_500_000_000)), "power")

    assert now.kind is Kind.POWER
    assert past.status is Status.WARN
    assert "2.5 s" in past.text


def test_power_of_a_lost_gpu_is_not_zero(tree) -> None:
    """It is unavailable."""
    found = only(power, scene(tree, nvml=nvml(power_w=lost(), limit_w=lost())), "power")

    assert found.status is Status.NOT_CHECKED


def test_heat(tree) -> None:
    """Core and memory against the slowdown limit."""
    found = only(heat, scene(tree), "temperature")

    assert found.status is Status.OK
    assert found.figures == {"temp_c": 41, "slowdown_temp_c": 93, "memory_temp_c": 52}


def test_unreadable_memory_heat_is_said(tree) -> None:
    """GeForce does not give it."""
    found = only(heat, scene(tree, nvml=nvml(memory_temp_c=NO)), "temperature")

    assert "memory temperature not readable" in found.text


@pytest.mark.parametrize(("reasons", "status"), [(0x40, Status.BAD), (0x20, Status.WARN)])
def test_a_slowdown_by_heat(tree, reasons: int, status: Status) -> None:
    """By the hardware it decides, by the driver it is a warning."""
    found = only(heat, scene(tree, nvml=nvml(clocks_event_reasons=reasons)), "temperature")

    assert found.status is status


def test_under_load_the_extremes_are_kept(tree) -> None:
    """Power, heat and utilisation with their figures."""
    samples = tuple(sample(at / 10, temp_c=60 + at, power_w=300.0 + at) for at in range(10))

    found = only(load, scene(tree, load=Known(samples)), "under load")

    assert found.status is Status.OK
    assert found.figures["temp_c_max"] == 69
    assert found.figures["power_w_max"] == 309
    assert found.figures["samples"] == 10


def test_a_brake_under_load_decides(tree) -> None:
    """One sample of it is enough."""
    samples = (sample(0.0), sample(0.1, reasons=0x80))

    assert only(load, scene(tree, load=Known(samples)), "under load").kind is Kind.POWER


def test_nothing_of_load_without_under_load(tree) -> None:
    """Nobody asked."""
    assert run(load, scene(tree)) == []
