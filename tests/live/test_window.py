"""What a session remembers is bounded, and keeps what a verdict needs."""

from __future__ import annotations

from dataclasses import replace

from gpuprobe.events import (
    AerReported,
    CountersSampled,
    Event,
    GpuLostReported,
    GpuSampled,
    PowerReported,
    ThermalReported,
)
from gpuprobe.live.onsets import Onsets
from gpuprobe.live.window import SAMPLES_LIMIT, RollingWindow
from gpuprobe.reading import Known, Reason, Unavailable
from tests.live_events import GPU, OTHER, base, counted, facts, lost, steady


def filled(*events: Event, **options: int) -> RollingWindow:
    window = RollingWindow(**options)
    for event in events:
        window.add(event)
    return window


def samples(window: RollingWindow) -> list[GpuSampled]:
    return [event for event in window.events() if isinstance(event, GpuSampled)]


def test_full_rate_then_one_a_second_then_nothing() -> None:
    """Twenty minutes at 2 Hz: 120 s whole, 600 s thinned, the rest forgotten."""
    window = filled(*steady(1200, hz=2))

    times = [sample.stamp.monotonic_s - 1000 for sample in samples(window) if sample.stamp]
    whole = [at for at in times if at >= 1200 - 120.6]
    thinned = [at for at in times if at < 1200 - 120.6]
    assert 239 <= len(whole) <= 242
    assert 595 <= len(thinned) <= 602
    assert min(times) >= 1200 - 722


def test_thinning_keeps_the_highest_draw_of_a_second() -> None:
    """One peak among ten samples of a second outlives the thinning."""
    window = filled(*steady(300, power_w=lambda at: 349.0 if abs(at - 100.3) < 0.01 else 200.0))

    assert max(sample.power_w or 0 for sample in samples(window)) == 349.0


def test_a_lost_gpu_keeps_its_last_seconds() -> None:
    """The window ages by the device's own samples: an hour later they are still there."""
    later = [
        replace(event, device=OTHER, stamp=base(event.stamp.monotonic_s + 2600)["stamp"])
        for event in steady(60)
        if event.stamp
    ]

    window = filled(*steady(60), lost(60.1), *later)

    assert len([sample for sample in samples(window) if sample.device == GPU]) == 600


def test_many_devices_share_one_budget() -> None:
    """At 100 Hz the part at full rate gets shorter, and the whole stays bounded."""
    window = filled(*steady(200, hz=100))

    assert len(samples(window)) <= SAMPLES_LIMIT + 600


def test_a_flood_does_not_push_out_the_loss() -> None:
    """Decisive events have room of their own."""
    flood = [AerReported(**base(61 + n / 1000), severity="correctable") for n in range(5000)]

    window = filled(*facts(), lost(60), *flood, keep_events=100)

    kinds = [type(event).__name__ for event in window.events()]
    assert kinds.count("GpuLostReported") == 1
    assert kinds.count("AerReported") == 100
    assert "DeviceIdentified" in kinds


def test_counters_are_kept_where_they_changed() -> None:
    """First, last, and both sides of a rise, out of a thousand readings."""
    readings = [counted(at, correctable_RxErr=0 if at < 500 else 7) for at in range(1000)]

    window = filled(*readings)

    kept = [dict(e.counters) for e in window.events() if isinstance(e, CountersSampled)]
    assert len(kept) == 4
    assert [row["aer_dev_correctable.RxErr"] for row in kept] == [0, 0, 7, 7]


def test_only_news_asks_the_rules() -> None:
    """Samples, facts and equal counters are no news; a loss and a rise are."""
    window = RollingWindow()

    assert not any(window.add(event) for event in (*facts(), *steady(2)))
    assert not window.add(counted(1, correctable_RxErr=4))
    assert not window.add(counted(2, correctable_RxErr=4))
    assert window.add(counted(3, correctable_RxErr=5))
    assert window.add(lost(4))


def test_events_come_in_order_of_time() -> None:
    """Whatever order the sources were polled in."""
    window = filled(lost(5), *reversed(facts()), *steady(3))

    stamps = [event.stamp.wall for event in window.events() if event.stamp]
    assert stamps == sorted(stamps)
    assert isinstance(window.events()[-1], GpuLostReported)


def test_a_state_begins_once() -> None:
    """A brake that lasts is one event; when it ends and begins again, it is another."""
    onsets = Onsets()
    masks = [0, 0x80, 0x84, 0, 0x80 | 0x40]
    rows = [steady(1, hz=1, clocks_event_reasons=mask)[0] for mask in masks]

    begun = [type(event) for row in rows for event in onsets.begun(row)]

    assert begun == [PowerReported, PowerReported, ThermalReported]


def test_the_slowdown_limit_is_looked_up_once() -> None:
    """It is a reading of the card's own limit, or nothing where the card has none."""
    onsets = Onsets()
    (row,) = steady(1, hz=1)
    assert isinstance(row, GpuSampled)

    assert list(onsets.limits(row, {})) == []
    assert onsets.lacks_limits(GPU)
    (limit,) = onsets.limits(row, {"slowdown_temp_c": Known(92)})

    assert isinstance(limit, ThermalReported)
    assert limit.slowdown_c == 92.0
    assert not onsets.lacks_limits(GPU)
    assert list(Onsets().limits(row, {"slowdown_temp_c": Unavailable(Reason.NOT_SUPPORTED)})) == []
