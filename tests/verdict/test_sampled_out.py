"""What the samples before a fault rule out: a figure a row, and nothing from nothing."""

from __future__ import annotations

from typing import Any

import pytest

from gpuprobe.diagnosis import Kind, RuledOut
from gpuprobe.events import (
    CountersSampled,
    Event,
    HostSampled,
    LinkStateReported,
    PresenceTested,
    XidReported,
)
from tests.live_events import base, counted, facts, judged, steady

GIB = 2**30
ALL = {
    Kind.DEVICE_LEFT_BUS,
    Kind.THERMAL,
    Kind.POWER,
    Kind.PCIE_LINK_ERRORS,
    Kind.GPU_MEMORY_ERROR,
    Kind.GPU_OUT_OF_MEMORY,
    Kind.HOST_OUT_OF_MEMORY,
}


def fault(at_s: float = 60.05) -> XidReported:
    """A program's own fault."""
    text = "NVRM: Xid (PCI:0000:41:00): 43, pid=9, name=python3, Ch 00000008"
    return XidReported(**base(at_s, text, "kernel"), code=43, process="python3")


def counters(at_s: float, **values: int) -> CountersSampled:
    read = {"pcie_replay": 3, "ecc_uncorrected_volatile": 0, "remap_pending": 0, **values}
    return CountersSampled(**base(at_s), counters=tuple(read.items()))


def beside() -> list[Event]:
    """Counters read twice, the host's memory, the best link, and the GPU after the fault."""
    host = {"memory_available_bytes": 100 * GIB, "memory_total_bytes": 128 * GIB}
    return [
        counters(1),
        counters(50),
        HostSampled(**base(55, source="host", device=None), **host),
        LinkStateReported(**base(0, source="sysfs"), what="sampled", width=16, max_width=16),
        PresenceTested(**base(60.6, source="sysfs"), directory=True, config="answers"),
    ]


def samples(**changed: Any) -> list[Event]:
    memory = {"memory_used_bytes": 20 * GIB, "memory_total_bytes": 80 * GIB}
    return steady(60, **{**memory, **changed})


def ruled_out(*events: Event) -> dict[str, RuledOut]:
    first = judged(*facts(), *events).verdicts[0]
    assert first.kind is Kind.APPLICATION_FAULT
    return {str(row.kind): row for row in first.ruled_out}


def test_each_cause_that_was_read_is_ruled_out_with_its_figures() -> None:
    """Heat, power, link, ECC, both memories and the bus, with rate, span and source."""
    found = ruled_out(*samples(), *beside(), fault())

    assert set(found) == ALL
    assert found[Kind.THERMAL].figures["core_temp_c_max"] == 61.0
    assert found[Kind.THERMAL].figures["slowdown_c"] == 90.0
    assert found[Kind.POWER].figures["power_w_second_max"] == 210.0
    assert found[Kind.PCIE_LINK_ERRORS].figures["replays_risen"] == 0
    assert found[Kind.GPU_MEMORY_ERROR].figures["ecc_uncorrected_volatile"] == 0
    assert found[Kind.GPU_OUT_OF_MEMORY].figures["used_gib_max"] == 20.0
    assert found[Kind.HOST_OUT_OF_MEMORY].figures["host_available_gib_min"] == 100.0
    assert "0.6 s after the fault" in found[Kind.DEVICE_LEFT_BUS].why
    for kind in ALL - {Kind.DEVICE_LEFT_BUS}:
        assert found[kind].figures["rate_hz"] == 10.0
        assert found[kind].figures["source"] == "nvml"


def test_without_samples_nothing_is_ruled_out_by_them() -> None:
    """Counters and the host's memory alone have no span and no rate."""
    assert set(ruled_out(*beside(), fault())) == {Kind.DEVICE_LEFT_BUS}


def test_samples_that_ended_long_before_say_nothing() -> None:
    """Half a minute between the last sample and the fault."""
    assert set(ruled_out(*samples(), *beside()[:-1], fault(90))) <= {Kind.DEVICE_LEFT_BUS}


@pytest.mark.parametrize(
    ("changed", "gone"),
    [
        ({"temp_c": lambda at: 80.0 if at > 50 else 61.0}, Kind.THERMAL),
        ({"temp_c": None}, Kind.THERMAL),
        ({"clocks_event_reasons": lambda at: 0x40 if at > 50 else 0}, Kind.THERMAL),
        ({"clocks_event_reasons": lambda at: 0x80 if at > 50 else 0}, Kind.POWER),
        ({"power_w": lambda at: 360.0 if at > 50 else 210.0}, Kind.POWER),
        ({"limit_w": None}, Kind.POWER),
        ({"link_width": lambda at: 8 if at > 50 else 16}, Kind.PCIE_LINK_ERRORS),
        ({"link_width": 8}, Kind.PCIE_LINK_ERRORS),
        ({"link_gen": lambda at: 1 if at > 50 else 4}, Kind.PCIE_LINK_ERRORS),
        ({"memory_used_bytes": 79 * GIB}, Kind.GPU_OUT_OF_MEMORY),
    ],
)
def test_one_reading_changes_its_own_row_alone(changed: dict[str, Any], gone: Kind) -> None:
    """Two incidents that differ in one reading differ in that row only."""
    found = ruled_out(*samples(**changed), *beside(), fault())
    usual = ruled_out(*samples(), *beside(), fault())

    assert set(found) == ALL - {gone}
    assert {kind: row.why for kind, row in usual.items() if kind in found} == {
        kind: row.why for kind, row in found.items()
    }


def test_spikes_over_the_limit_are_no_sustained_draw() -> None:
    """A card that swings over its limit and back within a second keeps it on average."""
    swing = samples(power_w=lambda at: 500.0 if round(at * 10) % 2 else 100.0)

    row = ruled_out(*swing, *beside(), fault())[Kind.POWER]

    assert row.figures["power_w_max"] == 500.0
    assert row.figures["power_w_second_max"] == 300.0
    assert "spikes shorter than a sample are not seen by any software" in row.why


@pytest.mark.parametrize(
    ("event", "gone"),
    [
        (counters(55, pcie_replay=9), Kind.PCIE_LINK_ERRORS),
        (counters(55, ecc_uncorrected_volatile=1), Kind.GPU_MEMORY_ERROR),
        (counters(55, remap_pending=1), Kind.GPU_MEMORY_ERROR),
    ],
)
def test_a_counter_that_rose_rules_nothing_out(event: Event, gone: Kind) -> None:
    """Its row is not there."""
    assert gone not in ruled_out(*samples(), *beside(), event, fault())


def test_a_gpu_that_no_longer_answers_is_not_said_to_be_there() -> None:
    """All ones after the fault: the row has the kernel log's part alone, or is gone."""
    gone = PresenceTested(**base(60.7, source="sysfs"), directory=True, config="unreadable")

    found = ruled_out(*samples(), *beside(), gone, fault())

    assert "answered" not in found.get(Kind.DEVICE_LEFT_BUS, RuledOut("", "", {})).why


def test_errors_at_the_port_keep_the_link_in_play() -> None:
    """AER counters of the port above the GPU that rose."""
    rising = [counted(1, correctable_BadTLP=0), counted(40, correctable_BadTLP=900)]

    assert Kind.PCIE_LINK_ERRORS not in ruled_out(*samples(), *beside(), *rising, fault())
