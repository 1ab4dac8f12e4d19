"""Rows of the child that are packed, and read like samples."""

from __future__ import annotations

import struct

import pytest

from gpuprobe.events import GpuSampled
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.rows import FAST_NAMES, Beside, SampleRows

GPU = PciAddress.parse("0000:04:00.0")
WALL_NS = 1_796_000_000_000_000_000


def packed(*known: dict[str, float | None]) -> SampleRows:
    """One row each second, with these values."""
    rows = [
        wire.pack_row([second * 10**9, *(values.get(name) for name in FAST_NAMES)])
        for second, values in enumerate(known)
    ]
    (layout,) = {layout for layout, _ in rows}
    text = wire.to_text(b"".join(row for _, row in rows))
    return SampleRows(layout, text, Beside(GPU, {"limit_w": 350.0}, WALL_NS, (1, 7)))


def test_it_reads_like_the_samples() -> None:
    """Types, what is not known, the slow values, the device, and the order stay."""
    rows = packed({"power_w": 1.5, "temp_c": 40}, {"power_w": 2.5, "temp_c": 41})

    first, second = rows
    assert isinstance(first, GpuSampled)
    assert (first.power_w, first.temp_c, first.limit_w) == (1.5, 40, 350.0)
    assert isinstance(first.temp_c, int)
    assert first.util_percent is None
    assert first.device == GPU
    assert (first.origin.order, second.origin.order) == ((1, 7), (1, 8))
    assert second.stamp is not None
    assert second.stamp.monotonic_s == 1.0
    assert first.origin.text == "1.5 of 350 W, 40 C"


def test_one_alone_is_as_among_the_others() -> None:
    """Whether the rest was taken apart before or not."""
    before = packed({"power_w": 1.0}, {"power_w": 2.0}, {"power_w": 3.0})
    after = packed({"power_w": 1.0}, {"power_w": 2.0}, {"power_w": 3.0})

    assert list(after) == [before[0], before[1], before[-1]]
    assert after[-1] == before[-1]
    assert before[1:] == after[1:]
    assert len(before) == 3
    with pytest.raises(IndexError):
        before[3]


def test_columns_come_without_taking_rows_apart() -> None:
    """Times, a value, and one that the device does not offer."""
    rows = packed({"power_w": 1.5, "link_gen": 4}, {"power_w": 2.5, "link_gen": 5})

    assert rows.times_s == [0.0, 1.0]
    assert rows.column("power_w") == [1.5, 2.5]
    assert rows.column("link_gen") == [4, 5]
    assert rows.column("util_percent") == [None, None]


def test_values_stand_where_the_layout_says() -> None:
    """As the answers of the calls lie in memory: gaps, other sizes, numbers that are scaled."""
    places = {
        "temp_c": wire.Place(40, "i"),
        "power_w": wire.Place(16, "I", 0.001),
        "memory_used_bytes": wire.Place(48, "Q"),
    }
    row = struct.pack("=q8xI20xi4xQ8x", 5 * 10**9, 118_251, -3, 2**40)
    rows = SampleRows(
        wire.layout(len(row), places), wire.to_text(row * 2), Beside(GPU, {}, WALL_NS, (1, 1))
    )

    assert rows.column("power_w") == [118.251, 118.251]
    assert (rows[1].temp_c, rows[1].power_w, rows[1].memory_used_bytes) == (-3, 118.251, 2**40)
    assert next(iter(rows)).power_w == 118.251
    newest = dict(zip(FAST_NAMES, rows.newest_row()[1:], strict=True))
    assert {name: value for name, value in newest.items() if value is not None} == {
        "temp_c": -3,
        "power_w": 118.251,
        "memory_used_bytes": 2**40,
    }


def test_the_newest_row_is_for_readings() -> None:
    """Every place has its value or None."""
    rows = packed({"power_w": 1.0}, {"power_w": 2.0, "memory_used_bytes": None})

    newest = dict(zip(FAST_NAMES, rows.newest_row()[1:], strict=True))
    assert newest == {**dict.fromkeys(FAST_NAMES), "power_w": 2.0}


def test_a_value_of_another_type_is_no_reading() -> None:
    """A generation is a whole number; half a generation says nothing."""
    (sample,) = packed({"power_w": 1.0, "link_gen": 4.5})

    assert sample.link_gen is None
    assert sample.power_w == 1.0


@pytest.mark.parametrize("value", [2**63, {"u": "failed", "c": 999}, "x"])
def test_what_cannot_be_packed_is_sent_as_it_is(value: object) -> None:
    """A number of more than 63 bits, a call that failed."""
    row = [1, value, *[None] * (len(FAST_NAMES) - 1)]
    assert wire.pack_row(row) == ("", b"")
