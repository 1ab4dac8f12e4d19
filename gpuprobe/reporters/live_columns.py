"""The columns of the live screen: what each shows of a row, and how much room it needs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from gpuprobe.live.board import Row

BLOCKS = "▁▂▃▄▅▆▇█"

GPU_COLUMNS = 16
"""Columns of the first cell: index, address, state, name."""

GAP = 2
"""Columns between two cells."""

SPARK_MAX = 30
"""Widest cell; a mark of a sparkline is a second."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column of the table.

    Attributes:
        title: Its head. rank: The lower, the longer it stays when the screen gets narrow.
        least: Columns that its values need.
        value: The first line of the cell. note: The third.
        history: Which history the sparkline shows. top: Value at the sparkline's full height.
    """

    title: str
    rank: int
    least: int
    value: Callable[[Row], str]
    history: str
    top: Callable[[Row], float | None]
    note: Callable[[Row], str] = lambda row: ""


def spark(values: Sequence[float | None], top: float | None, blocks: str = BLOCKS) -> str:
    """A sparkline from zero to `top`; a blank where there is no reading."""
    if not top or top <= 0:
        top = max((value for value in values if value), default=1.0)
    last = len(blocks) - 1
    return "".join(
        " " if value is None else blocks[min(last, max(0, round(value / top * last)))]
        for value in values
    )


def number(value: float | None, unit: str, digits: int = 0) -> str:
    """A value with its unit, or a dash where there is none."""
    return "-" if value is None else f"{value:.{digits}f} {unit}"


def gib(value: float | None, digits: int = 1) -> str:
    """Bytes as GiB."""
    return "-" if value is None else f"{value / 2**30:.{digits}f}"


def rate(value: float | None) -> str:
    """Bytes a second, short."""
    if value is None:
        return "-"
    for unit, size in (("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if value >= size:
            return f"{value / size:.1f}{unit}"
    return f"{value:.0f}"


def link(row: Row) -> str:
    """Generation and width now."""
    generation, width = row.link
    if generation is None and width is None:
        return "-"
    return f"Gen{generation or '?'} x{width or '?'}"


def power(row: Row) -> str:
    """Drawn now, of the limit."""
    if row.latest is None or row.latest.power_w is None:
        return "-"
    limit = row.latest.limit_w
    return f"{row.latest.power_w:.0f}/{limit:.0f} W" if limit else f"{row.latest.power_w:.0f} W"


def _share(row: Row) -> str:
    if row.latest is None or not row.latest.limit_w or row.latest.power_w is None:
        return ""
    return f"{100 * row.latest.power_w / row.latest.limit_w:.0f} % of limit"


def clock(row: Row) -> str:
    """SM clock and P-state."""
    if row.latest is None:
        return "-"
    state = f" P{row.latest.pstate}" if row.latest.pstate is not None else ""
    return number(row.latest.sm_clock_mhz, "MHz") + state


def memory(row: Row) -> str:
    """Used of all, whole GiB on a large card: the cell stays as narrow."""
    if row.latest is None or row.latest.memory_used_bytes is None:
        return "-"
    total = row.latest.memory_total_bytes
    digits = 0 if (total or 0) >= 100 * 2**30 else 1
    return f"{gib(row.latest.memory_used_bytes, digits)}/{gib(total, digits)} GiB"


def traffic(row: Row) -> str:
    """PCIe, in and out."""
    if row.latest is None or row.latest.rx_bytes_per_s is None:
        return "-"
    return f"{rate(row.latest.rx_bytes_per_s)}/{rate(row.latest.tx_bytes_per_s)}B/s"


def _best(row: Row) -> str:
    generation, width = row.best
    return f"of Gen{generation} x{width}" if generation and width else ""


def _memory_heat(row: Row) -> str:
    found = row.latest.memory_temp_c if row.latest is not None else None
    return f"mem {found:.0f} °C" if found is not None else ""


COLUMNS = (
    Column(
        "Power",
        0,
        13,
        power,
        "power_w",
        lambda row: row.latest.limit_w if row.latest else None,
        _share,
    ),
    Column(
        "Temp",
        1,
        10,
        lambda row: number(row.latest.temp_c if row.latest else None, "°C"),
        "temp_c",
        lambda row: 100.0,
        _memory_heat,
    ),
    Column(
        "Clock",
        2,
        11,
        clock,
        "sm_clock_mhz",
        lambda row: row.history["sm_clock_mhz"].high,
        lambda row: ", ".join(reversed(row.reasons)),  # the gravest first
    ),
    Column("Link", 3, 11, link, "link_gen", lambda row: row.history["link_gen"].high, _best),
    Column(
        "PCIe in/out",
        5,
        12,
        traffic,
        "rx_bytes_per_s",
        lambda row: row.history["rx_bytes_per_s"].high,
    ),
    Column(
        "Memory",
        6,
        13,
        memory,
        "memory_used_bytes",
        lambda row: row.latest.memory_total_bytes if row.latest else None,
    ),
    Column(
        "Busy",
        4,
        8,
        lambda row: number(row.latest.util_percent if row.latest else None, "%"),
        "util_percent",
        lambda row: 100.0,
    ),
)


def layout(columns: int) -> list[tuple[Column, int]]:
    """The columns that fit a terminal, in the order of the screen, each with its width.

    What is left over makes the sparklines longer.
    """
    room = columns - GPU_COLUMNS
    kept: list[Column] = []
    for column in sorted(COLUMNS, key=lambda column: column.rank):
        if not kept or column.least + GAP <= room:
            kept.append(column)
            room -= column.least + GAP
    more, odd = divmod(max(0, room), len(kept))
    shown = [column for column in COLUMNS if column in kept]
    return [
        (column, min(SPARK_MAX, column.least + more + (place < odd)))
        for place, column in enumerate(shown)
    ]
