"""The window before a loss: what moved, or that nothing did, never filled from nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprobe.diagnosis import Kind, Role, RuledOut, Verdict
from gpuprobe.events import HostSampled
from tests.live_events import PORT, base, counted, drawn, facts, judged, lost, steady


def verdict(*events: Any) -> Verdict:
    return judged(*facts(), *events).verdicts[0]


def none_seen(found: Verdict) -> RuledOut | None:
    return next((row for row in found.ruled_out if row.kind == "precursor"), None)


def precursors(found: Verdict) -> list[str]:
    return [item.says for item in found.evidence if item.role is Role.PRECURSOR]


def test_steady_until_the_loss_is_a_finding() -> None:
    """60 s at 10 Hz, nothing moved: said with span, rate and figures."""
    found = verdict(*steady(60), lost(60.05))

    row = none_seen(found)
    assert row is not None
    assert row.why.startswith("no precursor in the 60 s sampled at 10 Hz before the loss")
    assert "210 W of 350 W (60 % at most)" in row.why
    assert "Gen4 x16 throughout" in row.why
    assert row.why.endswith(
        "what is shorter than 100 ms was not seen (1 s for link width, load and memory in use)"
    )
    assert row.figures["window_s"] == pytest.approx(59.9)
    assert precursors(found) == []


def test_without_samples_there_is_no_such_finding() -> None:
    """No recording, no "no precursor"."""
    assert none_seen(verdict(lost(60))) is None


def test_samples_that_ended_long_before_say_nothing() -> None:
    """A pause of half a minute before the loss: the samples are not about it."""
    assert none_seen(verdict(*steady(60), lost(90))) is None


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"temp_c": lambda at: 60 + at / 3}, "the core went from 60 to"),
        ({"clocks_event_reasons": lambda at: 0x40 if at > 50 else 0}, "for its temperature"),
        ({"clocks_event_reasons": lambda at: 0x80 if at > 50 else 0}, "power brake"),
        ({"power_w": lambda at: 349.0 if at > 50 else 210.0}, "at its limit"),
        ({"link_width": lambda at: 8 if at > 50 else 16}, "from x16 to x8"),
        ({"link_gen": lambda at: 1 if at > 50 else 4}, "from Gen4 to Gen1 under load"),
    ],
)
def test_what_moved_is_a_precursor(changed: dict[str, Any], words: str) -> None:
    """One reading that moved is named, and "no precursor" is not said."""
    found = verdict(*steady(60, **changed), lost(60.05))

    assert none_seen(found) is None
    assert any(words in says for says in precursors(found)), precursors(found)


def test_a_load_that_was_read_before_the_link_fell_is_none() -> None:
    """The load is read once a second and repeated: the second before it is idle proves nothing."""
    ended = steady(
        60,
        link_gen=lambda at: 1 if at > 30 else 4,
        util_percent=lambda at: 0.0 if at > 30.9 else 98.0,
    )

    assert not any("under load" in says for says in precursors(verdict(*ended, lost(60.05))))


def test_a_generation_that_falls_at_idle_is_no_precursor() -> None:
    """An idle card lowers its link by itself."""
    idle = steady(
        60,
        link_gen=lambda at: 1 if at > 30 else 4,
        util_percent=lambda at: 0.0 if at > 30 else 98.0,
    )

    assert none_seen(verdict(*idle, lost(60.05))) is not None


def test_rising_counters_are_a_precursor() -> None:
    """AER of the port above rose half a minute before the loss."""
    events = [
        counted(0, correctable_BadTLP=3),
        counted(30, correctable_BadTLP=40),
        *steady(60),
        lost(60.05),
    ]

    found = verdict(*events)

    assert none_seen(found) is None
    assert any("BadTLP rose from 3 to 40" in says for says in precursors(found))
    link = next(cause for cause in found.causes if cause.cause == "link")
    assert any(entry.rule == "L1" for entry in link.pro)


def test_flat_counters_are_named_in_the_finding() -> None:
    """Two equal readings are "AER flat"; a lifetime count is no error."""
    events = [counted(at, correctable_BadTLP=40) for at in (0, 30, 59)]

    row = none_seen(verdict(*events, *steady(60), lost(60.05)))

    assert row is not None
    assert "AER flat" in row.why
    assert row.figures["counters_risen"] == 0


def test_power_is_ruled_out_with_its_resolution() -> None:
    """Wherever power is judged, the time between samples stands beside it."""
    found = verdict(*steady(60), drawn(59, 215.0, 260.0, 240.0), lost(60.05))

    (row,) = [row for row in found.ruled_out if row.kind == "power"]
    assert "read every 100 ms" in row.why
    assert "at most 260 W" in row.why
    assert "not seen by any software" in row.why
    assert row.figures["interval_ms"] == 100


def test_the_drivers_own_samples_can_speak_against_it() -> None:
    """A draw above the limit among them: power is not ruled out."""
    found = verdict(*steady(60), drawn(59, 215.0, 420.0), lost(60.05))

    assert not [row for row in found.ruled_out if row.kind == "power"]


def test_one_changed_reading_changes_its_rows_alone() -> None:
    """Two incidents that differ in temperature differ in heat and nowhere else."""
    cool = verdict(*steady(60), lost(60.05))
    warm = verdict(*steady(60, temp_c=64.0), lost(60.05))

    def rows(found: Verdict) -> dict[str, Any]:
        kept = {row.kind: row.figures for row in found.ruled_out if row.kind != "precursor"}
        scores = {cause.cause: cause.score for cause in found.causes}
        return {**kept, **scores}

    first, second = rows(cool), rows(warm)
    assert {name for name in first if first[name] != second[name]} == {"thermal"}


def test_a_load_step_right_before_the_loss_speaks_for_power() -> None:
    """From 90 to 240 W two seconds before: rule P6, at a modest mean draw."""
    found = verdict(*steady(60, power_w=lambda at: 240.0 if at > 58 else 90.0), lost(60.05))

    power = next(cause for cause in found.causes if cause.cause == "power")
    assert any(entry.rule == "P6" and "90 to 240 W" in entry.text for entry in power.pro)


def test_other_answers_have_no_such_row() -> None:
    """The window is about a loss: rising counters alone have no "no precursor"."""
    events = [counted(1, correctable_RxErr=1), counted(9, correctable_RxErr=30)]

    found = verdict(*steady(10), *events)

    assert found.kind is Kind.PCIE_LINK_ERRORS
    assert none_seen(found) is None
    assert str(PORT) not in found.summary


def test_what_held_its_clocks_is_given_as_a_share_of_time() -> None:
    """At the power limit for a third of the window: normal, said with its share, no precursor."""
    capped = steady(60, clocks_event_reasons=lambda at: 0x4 if at >= 40 else 0)

    row = none_seen(verdict(*capped, lost(60.05)))

    assert row is not None
    assert "at its power limit 33 % of the time" in row.why
    assert row.figures["at_its_power_limit_percent_of_time"] == pytest.approx(33.3)


def test_link_changes_and_traffic_are_counted() -> None:
    """An idle card that lowered its link twice; the most that went over it, both ways."""
    idle = steady(
        60,
        util_percent=0.0,
        link_gen=lambda at: 1 if 20 <= at < 30 or at >= 50 else 4,
        rx_bytes_per_s=lambda at: 12.5e9 if at == 7.0 else 1e6,
        tx_bytes_per_s=2e9,
    )

    row = none_seen(verdict(*idle, lost(60.05)))

    assert row is not None
    assert "link Gen1 x16 and Gen4 x16 in 3 changes" in row.why
    assert "PCIe at most 12.5 GB/s to it and 2 from it" in row.why
    assert row.figures["link_changes"] == 3


def test_traffic_that_nobody_measured_is_not_told() -> None:
    """No reading of PCIe traffic: no figure of it."""
    row = none_seen(verdict(*steady(60), lost(60.05)))

    assert row is not None
    assert "PCIe at most" not in row.why


def test_the_hosts_memory_is_told_where_it_was_sampled() -> None:
    """The least that was available and the highest pressure within the window, not before it."""
    early, low, last = (
        HostSampled(
            **base(at, source="host", device=None),
            memory_available_bytes=gib << 30,
            memory_pressure_percent=wait,
        )
        for at, gib, wait in ((-200, 1, 90.0), (20, 12, 3.5), (50, 40, 0.0))
    )

    row = none_seen(verdict(early, low, last, *steady(60), lost(60.05)))

    assert row is not None
    assert "host memory at least 12 GiB available; memory pressure at most 3.5 %" in row.why
    assert row.figures["host_available_gib_min"] == 12


def test_the_hosts_memory_before_a_short_window_still_holds_in_it() -> None:
    """It is read every 30 s, and at once where much of it goes."""
    before = HostSampled(**base(-25, source="host", device=None), memory_available_bytes=12 << 30)

    row = none_seen(verdict(before, *steady(5), lost(5.05)))

    assert row is not None
    assert row.figures["host_available_gib_min"] == 12
