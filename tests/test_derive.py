"""Arithmetic on samples: slopes, extremes, windows, rises."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gpuprobe.derive import extent, rises, slope_per_s, window_before
from gpuprobe.events import CountersSampled, Origin
from gpuprobe.identity import PciAddress

GPU = PciAddress.parse("0000:41:00.0")


def counted(order: int, *, source: str = "sysfs", **counters: int) -> CountersSampled:
    return CountersSampled(
        origin=Origin(source, None, "", None, (0, order)),
        device=GPU,
        counters=tuple(counters.items()),
    )


def test_extent_of_nothing_is_nothing() -> None:
    """No reading, no figure."""
    assert extent([]) is None


def test_extent_tells_both_ends_and_the_extremes() -> None:
    """A ramp from 50 to 70 in ten seconds rises by two a second."""
    found = extent([(float(at), 50.0 + 2 * at) for at in range(11)])

    assert found is not None
    assert (found.low, found.high, found.first, found.last, found.count) == (50, 70, 50, 70, 11)
    assert found.slope_per_s == pytest.approx(2.0)


def test_a_slope_needs_three_moments() -> None:
    """Two points, or many of one moment, give no slope."""
    assert slope_per_s([(0.0, 1.0), (1.0, 9.0)]) is None
    assert slope_per_s([(5.0, 1.0), (5.0, 2.0), (5.0, 3.0)]) is None


@given(st.lists(st.floats(-1e3, 1e3), min_size=3, max_size=40), st.floats(-50, 50))
def test_a_slope_does_not_depend_on_the_offset(values: list[float], offset: float) -> None:
    """Shifting all values or all times changes no slope."""
    points = [(float(at), value) for at, value in enumerate(values)]
    shifted = [(at + offset, value + offset) for at, value in points]

    first, second = slope_per_s(points), slope_per_s(shifted)

    assert first is not None
    assert second == pytest.approx(first, abs=1e-6)


def test_a_window_says_its_rate_and_its_span() -> None:
    """Ten readings a second for 30 s, the loss 50 ms after the last."""
    times = [at / 10 for at in range(301)]

    found = window_before(times, 30.05, 120.0)

    assert found is not None
    assert found.rate_hz == pytest.approx(10.0)
    assert found.span_s == pytest.approx(30.0)
    assert found.ended_s == pytest.approx(0.05)


def test_a_window_reaches_back_only_so_far() -> None:
    """Of five minutes, the last 120 s count."""
    times = [at / 2 for at in range(601)]

    found = window_before(times, 300.0, 120.0)

    assert found is not None
    assert found.span_s == pytest.approx(120.0)


def test_a_window_holds_no_thinned_readings() -> None:
    """Readings thinned to one a second are not claimed to be at ten a second."""
    times = [float(at) for at in range(60)] + [60 + at / 10 for at in range(200)]

    found = window_before(times, 79.9, 120.0)

    assert found is not None
    assert found.rate_hz == pytest.approx(10.0)
    assert 18.0 <= found.span_s <= 22.0


def test_a_window_ends_at_a_pause() -> None:
    """What came before a pause of 20 s is not part of the window."""
    times = [at / 10 for at in range(100)] + [30 + at / 10 for at in range(100)]

    found = window_before(times, 40.0, 120.0)

    assert found is not None
    assert found.span_s == pytest.approx(9.9)


def test_few_readings_make_no_window() -> None:
    """Four readings carry no claim."""
    assert window_before([0.0, 0.1, 0.2, 0.3], 1.0, 120.0) is None
    assert window_before([], 1.0, 120.0) is None


def test_a_first_reading_is_no_rise() -> None:
    """A lifetime count of 1280 is where it starts."""
    assert rises([counted(1, l0=1280), counted(2, l0=1280)]) == []


def test_a_rise_has_its_first_and_last_reading() -> None:
    """3 to 5 to 9 is a rise by 6, first seen in the second reading."""
    events = [counted(1, RxErr=3), counted(2, RxErr=5), counted(3, RxErr=5), counted(4, RxErr=9)]

    (rise,) = rises(events)

    assert (rise.before, rise.after, rise.by) == (3, 9, 6)
    assert rise.event is events[1]
    assert rise.last is events[3]


def test_a_counter_that_began_anew_counts_on() -> None:
    """5 to 7, reset to 0, then 4: six in all, and never a negative rise."""
    events = [counted(1, RxErr=5), counted(2, RxErr=7), counted(3, RxErr=0), counted(4, RxErr=4)]

    (rise,) = rises(events)

    assert rise.by == 6


def test_two_sources_do_not_share_a_count() -> None:
    """NVML's count and sysfs' count of one name are two counters."""
    events = [counted(1, replay=0), counted(2, source="nvml", replay=9)]

    assert rises(events) == []
