"""The child's messages as events and readings; damaged ones as nothing."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest

from gpuprobe.events import (
    GpuLostReported,
    GpuSampled,
    NvmlReturned,
    XidReported,
    taken_apart,
)
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.messages import Translator
from gpuprobe.live.nvml.rows import FAST_NAMES
from gpuprobe.reading import Known, Reason, Unavailable

ONE = PciAddress.parse("0000:04:00.0")
TIMES = {"m": 5_000_000_000, "w": 1_796_000_000_000_000_000}


_NONE = " -" * (len(FAST_NAMES) - 1)
DAMAGED = (
    "",
    "16",
    f"16 8d{_NONE}{_NONE}",
    f"12 8d{_NONE}",
    f"16 7d{_NONE}",
    f"16 8s{_NONE}",
    f"16 -8d{_NONE}",
    f"99999 8d{_NONE}",
    f"32 8d 8d{_NONE[:-2]}",
    f"x 8d{_NONE}",
    f"24 12d{_NONE}",
    f"20 8d{_NONE}",
    5,
)
"""Layouts of rows that are none: too short or long, no letter, two values in one place."""


def message(kind: str, **fields: Any) -> dict[str, Any]:
    return {"t": kind, **TIMES, **fields}


@pytest.fixture
def translator() -> Translator:
    found = Translator(order=3)
    found.events(message("hello", pid=1, driver="580.1", nvml="13", cuda=13000, count=1))
    came = {"pci": "0000:04:00.0", "uuid": "GPU-1", "name": "A", "index": 0, "mig": False}
    found.events(message("came", slot=0, **came))
    return found


def row(at: int, **known: Any) -> list[Any]:
    return [at, *(known.get(name) for name in FAST_NAMES)]


def samples(*rows: list[Any]) -> dict[str, Any]:
    """A message of rows without a value that failed, as the child packs them."""
    packed = [wire.pack_row(row) for row in rows]
    (layout,) = {layout for layout, _ in packed}
    text = wire.to_text(b"".join(row for _, row in packed))
    return message("samples", slot=0, layout=layout, rows=text)


def failing(*rows: list[Any]) -> dict[str, Any]:
    """A message of rows of which a value failed."""
    return message("rows", slot=0, rows=list(rows))


@pytest.mark.parametrize("sent", [samples, failing])
def test_each_row_has_its_own_time_on_both_clocks(
    translator: Translator, sent: Callable[..., dict[str, Any]]
) -> None:
    """A row read 40 ms before the message was made is 40 ms older by either clock."""
    rows = [row(4_960_000_000, power_w=10.5), row(5_000_000_000, power_w=11.0)]
    first, second = taken_apart(translator.events(sent(*rows)))

    assert isinstance(first, GpuSampled)
    assert first.stamp is not None
    assert second.stamp is not None
    assert first.stamp.monotonic_s == pytest.approx(4.96)
    assert first.stamp.wall is not None
    assert second.stamp.wall == datetime.fromtimestamp(1_796_000_000, UTC)
    assert (second.stamp.wall - first.stamp.wall).total_seconds() == pytest.approx(0.04)  # type: ignore[operator]
    assert first.origin.order < second.origin.order
    assert first.origin.order[0] == 3


def test_what_failed_or_is_not_offered_is_none_and_has_its_reason(translator: Translator) -> None:
    """Absent is never zero."""
    failed = {"u": "failed", "c": 999}
    translator.events(
        message("absent", slot=0, values={"util_percent": {"u": "not-supported", "c": 3}})
    )
    (sample,) = translator.events(failing(row(1, power_w=0.0, temp_c=failed)))
    readings = translator.devices[0].newest()

    assert isinstance(sample, GpuSampled)
    assert (sample.power_w, sample.temp_c, sample.util_percent) == (0.0, None, None)
    assert readings["power_w"] == Known(0.0)
    assert readings["temp_c"] == Unavailable(Reason.FAILED, "NVML code 999")
    assert isinstance(readings["util_percent"], Unavailable)
    assert readings["util_percent"].reason is Reason.NOT_SUPPORTED


def test_a_row_without_any_value_is_no_sample(translator: Translator) -> None:
    """Slow values of a second ago do not make a sample."""
    translator.events(message("sample", slot=0, group="slow", values={"limit_w": 350.0}))
    failed = {name: {"u": "failed", "c": 16} for name in FAST_NAMES}

    assert translator.events(failing(row(1, **failed))) == []
    assert translator.events(samples(row(1))) == []


def test_rates_come_from_two_readings_and_not_from_a_wrap(translator: Translator) -> None:
    """Bytes a second are a difference over its time; a count that fell gives none."""

    def slow(at_s: float, received: int, sent: int) -> None:
        values = {"pcie_rx_bytes": received, "pcie_tx_bytes": sent}
        translator.events(
            {**message("sample", slot=0, group="slow", values=values), "m": int(at_s * 1e9)}
        )

    def rate() -> Any:
        (sample,) = taken_apart(translator.events(samples(row(1, power_w=1.0))))
        assert isinstance(sample, GpuSampled)
        return sample.rx_bytes_per_s, sample.tx_bytes_per_s

    slow(1.0, 1000, 0)
    assert rate() == (None, None)
    slow(3.0, 5000, 800)
    assert rate() == (2000.0, 400.0)
    slow(4.0, 10, 900)
    assert rate() == (None, None)


def test_a_loss_is_said_once_and_empties_the_readings(translator: Translator) -> None:
    """Two threads may find it."""
    lost = message("lost", slot=0, pci="0000:04:00.0", index=0, call="nvmlX", code=15)
    first, second = translator.events(lost), translator.events(lost)

    assert [type(event) for event in first] == [GpuLostReported]
    assert second == []
    assert translator.devices[0].newest()["power_w"] == Unavailable(
        Reason.LOST, "nvmlX returned GPU_IS_LOST"
    )


@pytest.mark.parametrize("late", [0, 1])
def test_a_row_behind_the_loss_is_a_sample_and_no_reading(
    translator: Translator, late: int
) -> None:
    """Another thread said so while the last pass was being made."""
    rows = (samples, failing)[late](row(4_900_000_000, power_w=100.0))
    translator.events(message("lost", slot=0, pci="0000:04:00.0", index=0, call="nvmlX", code=15))

    (sample,) = taken_apart(translator.events(rows))

    assert isinstance(sample, GpuSampled)
    assert translator.devices[0].newest()["power_w"] == Unavailable(
        Reason.LOST, "nvmlX returned GPU_IS_LOST"
    )


def test_a_device_that_was_left_alone_can_still_be_lost(translator: Translator) -> None:
    """Its slot was used again, and opening it said so."""
    translator.events(message("gone", slot=0, pci="0000:04:00.0", why="skipped"))
    lost = message("lost", slot=0, pci="0000:04:00.0", index=0, call="nvmlX", code=15)

    assert [type(event) for event in translator.events(lost)] == [GpuLostReported]
    assert translator.events(lost) == []


def test_a_slot_used_again_keeps_what_was_known_of_the_first(translator: Translator) -> None:
    """The readings of a device stay after another has its slot."""
    translator.events(samples(row(1, power_w=5.0)))
    came = {"pci": "0000:05:00.0", "uuid": "GPU-2", "name": "B", "index": 1, "mig": False}
    translator.events(message("came", slot=0, **came))

    assert translator.past[ONE].newest()["power_w"] == Known(5.0)
    assert str(translator.devices[0].pci) == "0000:05:00.0"


def test_an_error_about_the_library_has_no_device(translator: Translator) -> None:
    """And one about a device has its address and index."""
    about = message("nvml", slot=0, call="nvmlX", code=999, name="UNKNOWN")
    (event,) = translator.events(about)
    assert isinstance(event, NvmlReturned)
    assert (event.device, event.index, event.code) == (ONE, 0, 999)
    (event,) = translator.events(message("nvml", call="nvmlY", code=999, name="UNKNOWN"))
    assert event.device is None


def test_an_xid_event_has_the_uuid(translator: Translator) -> None:
    """Type 0x8 with its number."""
    (event,) = translator.events(message("event", slot=0, type=8, data=43))

    assert isinstance(event, XidReported)
    assert (event.code, event.uuid, event.via, event.device) == (43, "GPU-1", "nvml", ONE)


@pytest.mark.parametrize(
    "damaged",
    [
        {"t": "samples"},
        {"t": "rows", **TIMES, "slot": 0, "rows": []},
        {"t": "rows", **TIMES, "slot": 0, "rows": [[1]]},
        {"t": "rows", **TIMES, "slot": 0, "rows": 5},
        {"t": "rows", **TIMES, "slot": 0, "rows": [[1, *["x"] * len(FAST_NAMES)]]},
        {**samples(row(1, power_w=1.0)), "rows": ""},
        {**samples(row(1, power_w=1.0)), "rows": "AAAA"},
        {**samples(row(1, power_w=1.0)), "rows": 5},
        *({**samples(row(1, power_w=1.0)), "layout": layout} for layout in DAMAGED),
        {**samples(row(1, power_w=1.0)), "w": 10**30},
        {"t": "sample", **TIMES, "slot": 0, "group": "slow", "values": []},
        {"t": "came", **TIMES, "slot": 9, "pci": "nonsense"},
        {"t": "power", **TIMES, "slot": 0, "samples": []},
        {"t": "error", **TIMES, "text": ""},
        {"t": "event", **TIMES, "slot": 0, "type": 8, "data": "31"},
        {"t": "nvml", **TIMES, "call": "x", "code": "lost", "name": "y"},
        {"t": "nvml", **TIMES, "call": ["x"], "code": 9, "name": "y"},
        {"t": "lost", **TIMES, "slot": 0, "pci": "0000:04:00.0", "call": 5, "code": 15},
        {"t": "gone", **TIMES, "slot": 0, "why": 5},
        {"t": "nothing-known"},
        {"t": "base"},
        {"t": 7},
    ],
)
def test_a_damaged_message_gives_nothing(translator: Translator, damaged: dict[str, Any]) -> None:
    """A child that lies harms nobody."""
    assert translator.events(damaged) == []
