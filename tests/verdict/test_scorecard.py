"""Why did it leave: what speaks for and against each cause, and what nobody saw."""

from __future__ import annotations

import pytest

from gpuprobe.api import diagnose_text
from gpuprobe.catalog.causes import cause_rules
from gpuprobe.diagnosis import Cause, Kind

LOSS = "2027-05-05T10:00:00+00:00 n1 kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
HEAD = "timestamp, pci.bus_id, power.draw [W], power.limit [W], temperature.gpu, clocks_event_reasons.active, utilization.gpu [%]\n"


def sample(
    second: int, *, watts: float = 210.0, temp: int = 60, reasons: int = 0, load: int = 97
) -> str:
    return f"2027/05/05 09:59:{second:02d}.000, 00000000:1A:00.0, {watts:.2f} W, 350.00 W, {temp}, 0x{reasons:016x}, {load} %\n"


def line(time: str, text: str) -> str:
    return f"2027-05-05T{time}+00:00 n1 kernel: {text}\n"


def scorecard(text: str) -> dict[str, Cause]:
    verdict = diagnose_text(text).verdicts[0]
    assert verdict.kind is Kind.DEVICE_LEFT_BUS
    return {row.cause: row for row in verdict.causes}


def rules(row: Cause, side: str = "pro") -> list[str]:
    return [entry.rule for entry in getattr(row, side)]


def test_with_nothing_but_the_loss_nothing_was_seen() -> None:
    """All six rows are there, none is for or against, and each names what it would need."""
    card = scorecard(LOSS)

    assert set(card) == {"power", "link", "heat", "firmware", "card", "host"}
    assert {row.score for row in card.values()} == {"not-seen"}
    assert all(entry.text for name in ("power", "link", "heat") for entry in card[name].not_seen)


@pytest.mark.parametrize(
    ("before", "cause", "rule"),
    [
        (line("09:59:50", "NVRM: Xid (PCI:0000:1a:00): 119, pid=9, name=a, Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x0 0x0)."), "firmware", "F1"),
        (line("09:50:00", "NVRM: Xid (PCI:0000:1a:00): 48, pid=9, name=a, DBE (double bit error) detected"), "card", "C2"),
        (line("09:50:00", "NVRM: Xid (PCI:0000:1a:00): 54, Auxiliary power is not connected"), "power", "P3"),
        (line("09:50:00", "mce: [Hardware Error]: CPU 4: Machine Check: 0 Bank 5: bea0000000000108"), "host", "H2"),
        (line("10:00:00", "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus."), "host", "P8"),
    ],
    ids=["firmware", "card", "power", "host", "two-at-once"],
)  # fmt: skip
def test_what_came_before_speaks_for_its_cause(before: str, cause: str, rule: str) -> None:
    """Each sign stands in the row of its cause, under its rule, with its figure."""
    row = scorecard(before + LOSS)[cause]

    assert row.score in ("for", "mixed")
    assert rule in rules(row)
    assert all("(" in entry.text for entry in row.pro)


def test_corrected_errors_before_the_loss_speak_for_the_link() -> None:
    """Three or more, on the GPU or the port above it, clearly before."""
    errors = "".join(
        line(
            f"09:5{n}:00",
            "nvidia 0000:1a:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
        )
        for n in range(4)
    )

    assert rules(scorecard(errors + LOSS)["link"]) == ["L1"]
    assert rules(scorecard(errors.replace("1a:00", "3a:00") + LOSS)["link"]) == []


def test_a_power_brake_in_the_samples_speaks_for_power() -> None:
    """Clock-event reason 0x80 of this GPU."""
    assert "P3" in rules(scorecard(HEAD + sample(50) + sample(55, reasons=0x80) + LOSS)["power"])


def test_power_below_its_limit_rules_out_only_what_lasts() -> None:
    """The figures are in the rule-out, with the word about spikes; the cause stays open."""
    verdict = diagnose_text(HEAD + sample(50, watts=213.0) + sample(55) + LOSS).verdicts[0]
    (power,) = [item for item in verdict.ruled_out if item.kind == Kind.POWER]

    assert power.figures["power_w_max"] == 213.0
    assert power.figures["limit_w"] == 350.0
    assert "no sustained over-power" in power.why
    assert {row.cause: row.score for row in verdict.causes}["power"] != "against"


def test_an_idle_gpu_is_told_by_its_last_samples() -> None:
    """Lost while idle speaks in a row of its own, with the figure."""
    card = scorecard(HEAD + "".join(sample(50 + n, load=0) for n in range(4)) + LOSS)

    assert any("F4" in rules(row, side) for row in card.values() for side in ("pro", "against"))


def test_samples_that_were_taken_are_not_listed_as_unseen() -> None:
    """What was among the inputs is not asked for."""
    before = {entry.rule for row in scorecard(LOSS).values() for entry in row.not_seen}
    after = {
        entry.rule
        for row in scorecard(HEAD + sample(50) + sample(55) + LOSS).values()
        for entry in row.not_seen
    }

    assert "T1" in before
    assert "T1" not in after


def test_two_incidents_that_differ_in_one_reading_differ_in_that_row() -> None:
    """One more reading of temperature changes the row for heat and no other."""
    cool = scorecard(HEAD + sample(50) + sample(55) + LOSS)
    hot = scorecard(HEAD + sample(50) + sample(55, reasons=0x40) + LOSS)
    changed = {
        name
        for name in cool
        if (cool[name].score, cool[name].pro) != (hot[name].score, hot[name].pro)
    }

    assert changed == {"heat"}


def test_the_row_with_the_most_for_it_is_first() -> None:
    """Ranked, never ruled: the loss stays whatever the card says."""
    verdict = diagnose_text(HEAD + sample(55, reasons=0x80) + LOSS).verdicts[0]

    assert verdict.causes[0].cause == "power"


def test_every_entry_names_a_rule_of_the_catalogue() -> None:
    """A reader can look each rule up."""
    known = cause_rules()
    for row in scorecard(HEAD + sample(55, reasons=0x80) + LOSS).values():
        for entry in (*row.pro, *row.against, *row.not_seen):
            assert entry.rule in known


def test_other_verdicts_have_no_scorecard() -> None:
    """Only a loss asks why the device left."""
    assert diagnose_text("RuntimeError: CUDA error: misaligned address\n").verdicts[0].causes == ()
