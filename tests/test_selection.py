"""Times, boots and devices that the user leaves out."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from gpuprobe.api import diagnose_text
from gpuprobe.diagnosis import Diagnosis, Kind
from gpuprobe.errors import UsageError
from gpuprobe.identity import PciAddress
from gpuprobe.options import Options

TWO_DAYS = (
    "2027-01-01T10:00:00+00:00 n1 kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
    "2027-01-02T10:00:00+00:00 n1 kernel: NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=a, MMU Fault\n"
)
TWO_BOOTS = (
    "[    0.000000] Linux version 6.12.0 (a@b)\n"
    "[  500.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
    "[    0.000000] Linux version 6.12.0 (a@b)\n"
    "[  300.000000] NVRM: Xid (PCI:0000:1b:00): 31, pid=7, name=a, MMU Fault\n"
)


def judged(text: str, **options: object) -> Diagnosis:
    return diagnose_text(text, options=Options(**options))  # type: ignore[arg-type]


def test_without_options_the_loss_of_the_first_day_is_the_answer() -> None:
    """What the other tests leave out is there."""
    assert judged(TWO_DAYS).answer is Kind.DEVICE_LEFT_BUS


@pytest.mark.parametrize(
    "since",
    [
        "2027-01-02",
        "2027-01-01T12:00:00+01:00",
        datetime(2027, 1, 1, 11, tzinfo=UTC),
        datetime(2027, 1, 1, 11),
    ],
)
def test_since_leaves_out_what_is_known_to_be_earlier(since: datetime | str) -> None:
    """A time as text or as a value, with a zone or without."""
    assert judged(TWO_DAYS, since=since).answer is Kind.APPLICATION_FAULT


def test_until_leaves_out_what_is_known_to_be_later() -> None:
    """Both ends can be set."""
    found = judged(TWO_DAYS, since="2027-01-01", until="2027-01-01T23:00:00")

    assert [verdict.kind for verdict in found.verdicts] == [Kind.DEVICE_LEFT_BUS]
    assert judged(TWO_DAYS, until="2026-12-31").answer is Kind.NO_FAULT


def test_bounds_are_in_the_user_s_zone() -> None:
    """--timezone is the zone of --since as well."""
    assert (
        judged(TWO_DAYS, since="2027-01-01T15:00:00", timezone="+09:00").answer
        is Kind.DEVICE_LEFT_BUS
    )
    assert (
        judged(TWO_DAYS, since="2027-01-01T15:00:00", timezone="-03:00").answer
        is Kind.APPLICATION_FAULT
    )


def test_what_has_no_known_time_stays() -> None:
    """Nothing is lost for want of a stamp."""
    assert judged(TWO_BOOTS, since="2030-01-01").answer is Kind.DEVICE_LEFT_BUS


@pytest.mark.parametrize(
    ("boot", "kind"), [("0", Kind.APPLICATION_FAULT), ("-1", Kind.DEVICE_LEFT_BUS)]
)
def test_a_boot_is_chosen_by_number_from_the_end(boot: str, kind: Kind) -> None:
    """0 is the last, -1 the one before it."""
    assert judged(TWO_BOOTS, boot=boot).answer is kind


def test_a_boot_is_chosen_by_its_journal_id() -> None:
    """The id, or its first eight digits at least."""
    boots = ("aaaa0000bbbb1111cccc2222dddd3333", "1111222233334444555566667777aaaa")
    first, second, third, fourth = TWO_BOOTS.splitlines(keepends=True)
    text = f"-- Boot {boots[0]} --\n{first}{second}-- Boot {boots[1]} --\n{third}{fourth}"
    text = text.replace("[", "2027-01-01T10:00:00+0000 n1 kernel: [")

    assert judged(text, boot=boots[0]).answer is Kind.DEVICE_LEFT_BUS
    assert judged(text, boot=boots[1][:8]).answer is Kind.APPLICATION_FAULT


@pytest.mark.parametrize("boot", ["-2", "3", "deadbeef", "yesterday"])
def test_a_boot_that_is_not_there_is_a_usage_error(boot: str) -> None:
    """The hint says how many there are."""
    with pytest.raises(UsageError) as caught:
        judged(TWO_BOOTS, boot=boot)
    assert "2" in caught.value.hint


def test_a_device_leaves_the_others_out_and_keeps_what_names_none() -> None:
    """Only verdicts about this function's card; the engine's error names none and stays."""
    text = (
        TWO_DAYS
        + "2027-01-02T10:00:01+00:00 n1 vllm[7]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    )
    found = judged(text, device=PciAddress.parse("1b:00.1"))

    assert [verdict.kind for verdict in found.verdicts] == [Kind.APPLICATION_FAULT]
    assert len(found.verdicts[0].evidence) == 2


@pytest.mark.parametrize(
    "options",
    [{"since": "tomorrow"}, {"until": "25:00"}, {"timezone": "Nowhere"}, {"boot_time": "x"}],
)
def test_what_names_no_time_is_a_usage_error(options: dict[str, str]) -> None:
    """Each option says what it wants."""
    with pytest.raises(UsageError) as caught:
        judged(TWO_DAYS, **options)
    assert caught.value.hint


def test_what_leaves_out_all_of_an_input_is_said() -> None:
    """Nothing failed in nothing: the note says what times there are, by one clock."""
    text = TWO_DAYS.replace("+00:00", "+01:00")
    found = judged(text, since="2027-02-01")
    (note,) = found.inputs[0].notes

    assert found.answer is Kind.NO_FAULT
    assert note.endswith("it goes from 2027-01-01 09:00:00 to 2027-01-02 09:00:00 UTC")
    assert judged(text, since="2027-01-02").inputs[0].notes == ()
    assert judged(TWO_BOOTS, boot="-1").inputs[0].notes == ()
