"""Live evidence in the rules: presence, stalls, both spellings of one Xid."""

from __future__ import annotations

import pytest

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import (
    AdminActed,
    ConfigSpaceUnreadable,
    DeviceChanged,
    Event,
    FirmwareFaulted,
    GpuSampled,
    LossHinted,
    NvmlReturned,
    PresenceTested,
    ProbeStalled,
    Setting,
    XidReported,
)
from tests.live_events import OTHER, base, counted, facts, judged, lost, steady


def presence(at_s: float, config: str = "answers", *, directory: bool = True) -> PresenceTested:
    return PresenceTested(**base(at_s, source="sysfs"), directory=directory, config=config)


def ones(at_s: float, from_state: str | None = "D0") -> ConfigSpaceUnreadable:
    return ConfigSpaceUnreadable(
        **base(at_s, "ff ff ff ff", "sysfs"), how="all-ones", from_state=from_state
    )


def stall(at_s: float, state: str = "D") -> ProbeStalled:
    return ProbeStalled(**base(at_s), call="nvmlX", pid=9, state=state, waited_s=2.0)


def first(*events: Event):
    return judged(*facts(), *events).verdicts[0]


@pytest.mark.parametrize(
    ("events", "words"),
    [
        ([lost(5)], "(the driver lost it)"),
        ([lost(5), presence(5.1)], "The driver lost GPU 0000:41:00.0; its config space still"),
        ([presence(5, "all-ones"), ones(5)], "(config space reads all ones)"),
        (
            [lost(5), presence(5.5, directory=False)],
            "(its directory is gone and the driver lost it)",
        ),
        (
            [lost(5), presence(6, "all-ones")],
            "(config space reads all ones and the driver lost it)",
        ),
    ],
)
def test_the_sentence_names_the_tests_that_failed(events: list[Event], words: str) -> None:
    """(a) directory, (b) config space, (c) driver; each confirmed."""
    found = first(*events)

    assert found.kind is Kind.DEVICE_LEFT_BUS
    assert found.certainty is Certainty.CONFIRMED
    assert words in found.summary


def test_all_ones_without_a_look_at_the_power_state_are_likely() -> None:
    """Somebody's reading of ff: the card may be powered down."""
    assert first(ones(5)).certainty is Certainty.LIKELY


def test_all_ones_in_d3cold_are_likely_at_most() -> None:
    """Powered down reads the same."""
    assert first(presence(5, "all-ones"), ones(5, "D3cold")).certainty is Certainty.LIKELY


def test_a_directory_that_is_gone_is_no_loss_by_itself() -> None:
    """A removal in order takes it away, too."""
    gone = DeviceChanged(**base(5, source="sysfs"), what="removed")

    assert first(presence(5, directory=False), gone).kind is Kind.NO_FAULT


def test_all_ones_after_a_removal_on_purpose_are_quiet() -> None:
    """Somebody switched the slot off."""
    act = AdminActed(**base(3, source="/dev/kmsg"), what="slot-power")

    assert first(act, presence(5, "all-ones"), ones(5)).kind is Kind.NO_FAULT


def test_answering_after_more_than_a_minute_is_still_a_loss() -> None:
    """It came back, but it was gone."""
    back = DeviceChanged(**base(90, source="sysfs"), what="answered")

    assert first(presence(5, "all-ones"), ones(5), back).kind is Kind.DEVICE_LEFT_BUS


def test_answering_within_a_minute_is_the_link() -> None:
    """It bounced."""
    back = DeviceChanged(**base(20, source="sysfs"), what="answered")

    assert first(presence(5, "all-ones"), ones(5), back).kind is Kind.PCIE_LINK_ERRORS


def test_a_stall_supports_the_loss_that_shows_later() -> None:
    """The call hung ten seconds before config space went: one verdict, the stall its support."""
    found = judged(*facts(), stall(5), presence(15, "all-ones"), ones(15))

    assert [verdict.kind for verdict in found.verdicts] == [Kind.DEVICE_LEFT_BUS]
    support = [e for e in found.verdicts[0].evidence if e.role is Role.SUPPORT]
    assert any("state D" in item.says for item in support)


def test_a_stall_of_a_hung_firmware_is_its_support() -> None:
    """No second verdict beside the firmware's."""
    fault = FirmwareFaulted(**base(9, source="/dev/kmsg"), what="heartbeat")
    found = judged(*facts(), stall(5), fault)

    assert [verdict.kind for verdict in found.verdicts] == [Kind.GPU_FIRMWARE_HANG]


def test_a_stall_of_another_gpu_does_not_support_a_loss() -> None:
    """It stays a question of its own."""
    other = ProbeStalled(**base(5, device=OTHER), call="nvmlX", pid=9, waited_s=2.0)
    found = judged(*facts(), other, presence(15, "all-ones"), ones(15))

    cited = [e.says for e in found.verdicts[0].evidence if e.role is Role.SUPPORT]
    assert not any("did not return" in says for says in cited)


def test_an_error_that_passed_is_no_fault() -> None:
    """NVML answered UNKNOWN once, and samples went on."""
    error = NvmlReturned(**base(5), code=999, name="UNKNOWN")

    assert first(error, *steady(10)).kind is Kind.NO_FAULT
    assert first(error, *steady(3)).kind is Kind.CANNOT_TELL


def test_unavailable_by_event_alone_is_no_loss() -> None:
    """Lost, or its firmware hangs: it cannot be told."""
    assert first(LossHinted(**base(5), what="unavailable")).kind is Kind.CANNOT_TELL


def test_one_xid_by_two_ways_counts_once() -> None:
    """The kernel's line and NVML's event are one fault."""
    kernel = XidReported(**base(5, "NVRM: Xid 13", "/dev/kmsg"), code=13, message="Graphics")
    nvml = XidReported(**base(5.05, "NVML event: Xid 13"), code=13, via="nvml")

    found = first(kernel, nvml)

    assert found.kind is Kind.APPLICATION_FAULT
    assert "twice" not in found.summary
    assert "twice" in first(kernel, XidReported(**base(9, "again", "/dev/kmsg"), code=13)).summary


def test_two_corrected_errors_are_possible_and_a_lifetime_is_nothing() -> None:
    """Below three: possible. A first reading, however high: nothing."""
    few = first(counted(1, correctable_RxErr=900), counted(9, correctable_RxErr=902))

    assert (few.kind, few.certainty) == (Kind.PCIE_LINK_ERRORS, Certainty.POSSIBLE)
    assert first(counted(1, correctable_RxErr=900)).kind is Kind.NO_FAULT


def test_requests_that_a_device_does_not_support_are_no_trouble() -> None:
    """UnsupReq is counted when somebody asks for what is not there."""
    events = [counted(1, nonfatal_UnsupReq=0), counted(9, nonfatal_UnsupReq=5)]

    assert first(*events).kind is Kind.NO_FAULT


def test_uncorrected_errors_that_were_counted_are_confirmed() -> None:
    """A fatal count that rose while watched, and the device is still there."""
    found = first(counted(1, fatal_DLP=0), counted(9, fatal_DLP=1))

    assert (found.kind, found.certainty) == (Kind.PCIE_LINK_ERRORS, Certainty.CONFIRMED)
    assert "uncorrectable PCIe errors once" in found.summary


def test_samples_alone_say_nothing_failed() -> None:
    """A GPU at work is no verdict."""
    samples = steady(20)

    assert all(isinstance(event, GpuSampled) for event in samples)
    assert first(*samples).kind is Kind.NO_FAULT


@pytest.mark.parametrize(
    ("setting", "sampled_s", "answer"),
    [
        (Setting.BARE, 60.0, Kind.NO_FAULT),
        (Setting.BARE, 30.5, Kind.DEVICE_LEFT_BUS),
        (Setting.LOG, 60.0, Kind.DEVICE_LEFT_BUS),
    ],
)
def test_kernel_lines_that_a_program_shows_are_old_where_the_gpu_is_read_on(
    setting: Setting, sampled_s: float, answer: Kind
) -> None:
    """A start script prints dmesg with last week's Xid 79; the driver reads the GPU all along."""
    shown = {**base(30.0, "NVRM: Xid 79", source="engine"), "setting": setting}

    found = judged(*facts(), *steady(sampled_s), XidReported(**shown, code=79))

    assert found.answer is answer
