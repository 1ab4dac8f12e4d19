"""The panels of a report: one Vega-Lite specification each, for the page and for pictures.

All panels of a device have one time axis. A band goes from the smallest to the largest value of
each bucket, so that no spike is lost; a line shows its mean. Needs the extra `report`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

from gpuprobe.report import event_marks, panel_specs, plot_tables
from gpuprobe.report.palette import DASHES
from gpuprobe.report.panel_specs import Series
from gpuprobe.report.plot_tables import Table
from gpuprobe.report.telemetry_types import MOST_BUCKETS, DeviceTelemetry, Telemetry

HEIGHT: Final = 150
"""Pixels of a panel's plot."""

MOST_COUNTERS: Final = len(DASHES)

_HEADROOM: Final = 25
"""Pixels that the data leave free at the top, for the labels of the marks."""

_MARGIN: Final = 0.02
"""Share of the time axis that is added behind the last reading."""

_LINK: Final = (
    Series("link_gen", "generation", line="min"),
    Series("link_width", "lanes", line="min"),
)


@dataclass(frozen=True, slots=True)
class Panel:
    """One plot.

    Attributes:
        name: `power`. title: For people, with the unit.
        spec: The specification, without its data; it names the tables it draws.
        columns: Table to the columns of it that are drawn.
    """

    name: str
    title: str
    spec: dict[str, Any]
    columns: dict[str, tuple[str, ...]]


@dataclass(frozen=True, slots=True)
class DevicePlots:
    """The panels of a device, with what they draw.

    Attributes:
        device: PCI address. name: Marketing name, or None.
        panels: In order. tables: Name to table, as in `gpuprobe.report.plot_tables`.
        marks: The marked moments, with their numbers.
        whole: Begin and end of the time axis. focus: The part to show first.
    """

    device: str
    name: str | None
    panels: tuple[Panel, ...]
    tables: dict[str, Table]
    marks: tuple[event_marks.Numbered, ...]
    whole: tuple[datetime, datetime]
    focus: tuple[datetime, datetime]


def plots(telemetry: Telemetry, device: DeviceTelemetry) -> DevicePlots:
    """The panels of one device.

    Raises:
        ImportError: The extra `report` is not installed.
    """
    marks = event_marks.numbered(telemetry, device)
    begin, end = telemetry.focus or (telemetry.begin, telemetry.end)
    # A little more on the right: a loss is often the last thing there, and is drawn there.
    focus = (begin, end + (end - begin) * _MARGIN)
    rises, left_out = plot_tables.counters(device, MOST_COUNTERS)
    fixed = {
        "counters": rises,
        "links": plot_tables.links(device),
        "marks": event_marks.rows(marks, *focus) if marks else {},
    }
    tables = _buckets(device, MOST_BUCKETS)
    tables |= {name: table for name, table in fixed.items() if table}
    whole = (telemetry.begin, max(focus[1], telemetry.end))
    made = _Panels(tables, device.slowdown_c, left_out, milliseconds(whole))
    return DevicePlots(
        device=device.device,
        name=device.name,
        panels=tuple(made.all()),
        tables=tables,
        marks=tuple(marks),
        whole=whole,
        focus=focus,
    )


def thinner(made: DevicePlots, device: DeviceTelemetry, most: int) -> DevicePlots:
    """The same panels with at most `most` buckets; no extreme is lost, so the axes stay."""
    return replace(made, tables=made.tables | _buckets(device, most))


def milliseconds(axis: tuple[datetime, datetime]) -> tuple[int, int]:
    """Both ends in milliseconds since 1970."""
    begin, end = (int(moment.timestamp() * 1000) for moment in axis)
    return begin, max(end, begin + 1)


def _buckets(device: DeviceTelemetry, most: int) -> dict[str, Table]:
    tables = {
        "samples": plot_tables.samples(device, most),
        "transients": plot_tables.transients(device, most),
        "reasons": plot_tables.reasons(device, most),
    }
    return {name: table for name, table in tables.items() if table}


class _Panels:
    """Makes the panels of a device from its tables."""

    def __init__(
        self,
        tables: dict[str, Table],
        slowdown_c: float | None,
        left_out: int,
        whole_ms: tuple[int, int],
    ) -> None:
        self.tables = tables
        self.slowdown_c = slowdown_c
        self.left_out = left_out
        self.whole_ms = whole_ms
        self.marked = "marks" in tables

    def all(self) -> Iterator[Panel]:
        power = (
            Series("power_w", "draw"),
            Series("power_w", "driver's samples", "transients", "max"),
            Series("limit_w", "limit", setting=True),
        )
        yield from self.lines("power", "Power, W", power)
        heat = (Series("temp_c", "core"), Series("memory_temp_c", "memory"))
        yield from self.lines("temperature", "Temperature, °C", heat, slowdown_c=self.slowdown_c)
        # Apart: beside 10 GHz of memory nobody sees the SM slow down.
        yield from self.lines("sm-clock", "SM clock, MHz", (Series("sm_clock_mhz", "SM"),))
        yield from self.reasons()
        clock = (Series("mem_clock_mhz", "memory"),)
        yield from self.lines("memory-clock", "Memory clock, MHz", clock, height=HEIGHT // 2)
        yield from self.link()
        yield from self.counters()
        rate = (Series("rx_mb_per_s", "to the GPU"), Series("tx_mb_per_s", "from the GPU"))
        yield from self.lines("pcie-rate", "PCIe rate, MB/s", rate)
        memory = (
            Series("memory_used_gib", "used"),
            Series("memory_total_gib", "all there is", setting=True),
        )
        yield from self.lines("memory", "Memory, GiB", memory)

    def lines(
        self,
        name: str,
        title: str,
        wanted: Sequence[Series],
        *,
        height: int = HEIGHT,
        log: bool = False,
        slowdown_c: float | None = None,
    ) -> Iterator[Panel]:
        """A panel of lines with bands; none where nothing of it was read."""
        series = tuple(one for one in wanted if self.has(one))
        if not series:
            return
        text = panel_specs.lines(series, height, self.marked, log, slowdown_c)
        columns: dict[str, tuple[str, ...]] = {"samples": ("at", "until")}
        for one in series:
            names = [f"{one.column}_{made}" for made in ("min", "mean", "max", "part")]
            columns[one.table] = (*columns.get(one.table, ("at",)), *names)
        y = None if log else self.ends(series, height, name == "temperature", slowdown_c)
        yield self.panel(name, title, text, columns, y)

    def has(self, series: Series) -> bool:
        return f"{series.column}_min" in self.tables.get(series.table, {})

    def ends(
        self, series: Sequence[Series], height: int, near: bool, slowdown_c: float | None
    ) -> tuple[float, float]:
        """Ends of the axis of values: from 0, or from near the lowest."""
        values = [
            value
            for one in series
            for made in ("min", "max")
            for value in self.tables[one.table][f"{one.column}_{made}"]
            if value is not None
        ]
        if slowdown_c is not None:
            values.append(slowdown_c)
        low = min(values) - 2 if near else min(0, *values)
        high = max(low + 1, *values)
        return low, low + (high - low) * height / (height - _HEADROOM)

    def reasons(self) -> Iterator[Panel]:
        if "reasons" not in self.tables:
            return
        shown = tuple(dict.fromkeys(self.tables["reasons"]["reason"]))
        columns = {"reasons": ("at", "until", "reason", "share", "alarm")}
        text = panel_specs.reasons(shown, self.marked)
        yield self.panel("clock-reasons", "What held the clocks down", text, columns)

    def link(self) -> Iterator[Panel]:
        """Generation and lanes, from the driver, or from sysfs where that says nothing."""
        title = "PCIe link: generation and lanes"
        if any(self.has(one) for one in _LINK):
            yield from self.lines("link", title, _LINK, log=True)
        elif "links" in self.tables:
            columns = {"links": ("at", "run", "link_gen", "link_width")}
            text = panel_specs.states(_LINK, HEIGHT, self.marked)
            yield self.panel("link", title, text, columns)

    def counters(self) -> Iterator[Panel]:
        if "counters" not in self.tables:
            return
        title = "Replays, AER and other error counters: rise since the recording began"
        if self.left_out:
            title += f" ({self.left_out} more counters not drawn)"
        columns = {"counters": ("at", "run", "name", "rise")}
        highest = max(1, *self.tables["counters"]["rise"])
        y = (0.0, highest * HEIGHT / (HEIGHT - _HEADROOM))
        yield self.panel("errors", title, panel_specs.counters(HEIGHT, self.marked), columns, y)

    def panel(
        self,
        name: str,
        title: str,
        text: str,
        columns: Mapping[str, tuple[str, ...]],
        y: tuple[float, float] | None = None,
    ) -> Panel:
        drawn = dict(columns)
        if self.marked:
            drawn["marks"] = tuple(self.tables["marks"])
        spec = with_ends(json.loads(text), self.whole_ms, y)
        return Panel(name, title, spec, drawn)


def with_ends(
    spec: dict[str, Any], x_ms: tuple[int, int], y: tuple[float, float] | None = None
) -> dict[str, Any]:
    """Set the ends of the axes in every layer of `spec`, and return it."""
    # As expressions: Vega-Lite spells a domain of moments in two ways and then joins the two.
    begin, end = ({"expr": str(moment)} for moment in x_ms)
    for layer in spec["layer"]:
        encoding = layer.get("encoding", {})
        scale = encoding.get("x", {}).get("scale")
        if scale is not None:
            scale.update(domainMin=begin, domainMax=end)
        scale = encoding.get("y", {}).get("scale")
        if scale is not None and y is not None:
            scale["domain"] = list(y)
    return spec
