"""The panels of a report: one Vega-Lite specification each, for the page and for pictures.

All panels of a device have one time axis. A band goes from the smallest to the largest value of
each bucket, so that no spike is lost; a line shows its mean. Needs the extra `report`.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from gpuprobe.report import event_marks, plot_tables
from gpuprobe.report.palette import DASHES, ROLE_DASHES
from gpuprobe.report.plot_tables import Table
from gpuprobe.report.telemetry_types import MOST_BUCKETS, DeviceTelemetry, Telemetry

if TYPE_CHECKING:
    import altair as alt

HEIGHT: Final = 150
"""Pixels of a panel's plot."""

MOST_COUNTERS: Final = len(DASHES)

HOVER: Final = "hover"
"""Name of the layer that shows values and zooms; a picture does without it."""


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


@dataclass(frozen=True, slots=True)
class Series:
    """A line with its band.

    Attributes:
        column: Its name in the table, without `_min`. label: In the legend. table: Where it is.
        line: Which value the line shows.
    """

    column: str
    label: str
    table: str = "samples"
    line: str = "mean"


def plots(telemetry: Telemetry, device: DeviceTelemetry, most: int = MOST_BUCKETS) -> DevicePlots:
    """The panels of one device.

    Args:
        telemetry: For the time axis and the marks.
        device: Whose readings.
        most: Buckets a panel, at most.

    Raises:
        ImportError: The extra `report` is not installed.
    """
    marks = event_marks.numbered(telemetry, device)
    focus = telemetry.focus or (telemetry.begin, telemetry.end)
    rises, left_out = plot_tables.counters(device, MOST_COUNTERS)
    tables = {
        "samples": plot_tables.samples(device, most),
        "transients": plot_tables.transients(device, most),
        "reasons": plot_tables.reasons(device, most),
        "counters": rises,
        "links": plot_tables.links(device),
        "marks": event_marks.rows(marks, *focus) if marks else {},
    }
    tables = {name: table for name, table in tables.items() if table}
    whole = (telemetry.begin, telemetry.end)
    made = _Panels(tables, device.slowdown_c, left_out, whole)
    return DevicePlots(
        device=device.device,
        name=device.name,
        panels=tuple(made.all()),
        tables=tables,
        marks=tuple(marks),
        whole=whole,
        focus=focus,
    )


def set_domain(spec: dict[str, Any], axis: tuple[datetime, datetime]) -> None:
    """Give every layer of a panel's specification the same time axis."""
    domain = [int(moment.timestamp() * 1000) for moment in axis]
    timed = [layer["encoding"] for layer in spec["layer"] if "scale" in _encoded(layer, "x")]
    # Vega-Lite spells the domain of bars with an end otherwise, and then joins the two.
    plain = [encoding for encoding in timed if "x2" not in encoding]
    for encoding in timed:
        encoding["x"]["scale"].pop("domain", None)
    for encoding in plain or timed:
        encoding["x"]["scale"]["domain"] = domain


def _encoded(layer: dict[str, Any], channel: str) -> dict[str, Any]:
    found = layer.get("encoding", {}).get(channel, {})
    return found if isinstance(found, dict) else {}


class _Panels:
    """Makes the panels of a device from its tables."""

    def __init__(
        self,
        tables: dict[str, Table],
        slowdown_c: float | None,
        left_out: int,
        whole: tuple[datetime, datetime],
    ) -> None:
        self.tables = tables
        self.slowdown_c = slowdown_c
        self.left_out = left_out
        self.whole = whole

    def all(self) -> Iterator[Panel]:
        power = [Series("power_w", "draw (mean, band: min to max)")]
        if "transients" in self.tables:
            power.append(Series("power_w", "driver's own samples (max)", "transients", "max"))
        limit = Series("limit_w", "limit")
        yield from self.panel("power", "Power, W", [*power, limit])
        heat = [Series("temp_c", "core"), Series("memory_temp_c", "memory")]
        rules = self.slowdown() if self.slowdown_c is not None else []
        yield from self.panel("temperature", "Temperature, °C", heat, zero=False, more=rules)
        # Apart: beside 10 GHz of memory nobody sees the SM slow down.
        clock = [Series("sm_clock_mhz", "SM clock (mean, band: min to max)")]
        yield from self.panel("sm-clock", "SM clock, MHz", clock)
        if "reasons" in self.tables:
            yield self.reasons()
        clock = [Series("mem_clock_mhz", "memory clock")]
        yield from self.panel("memory-clock", "Memory clock, MHz", clock, height=HEIGHT // 2)
        yield from self.link()
        if "counters" in self.tables:
            yield self.counters()
        rate = [Series("rx_mb_per_s", "to the GPU"), Series("tx_mb_per_s", "from the GPU")]
        yield from self.panel("pcie-rate", "PCIe rate, MB/s", rate)
        memory = [Series("memory_used_gib", "used"), Series("memory_total_gib", "all there is")]
        yield from self.panel("memory", "Memory, GiB", memory)

    def panel(
        self,
        name: str,
        title: str,
        wanted: Sequence[Series],
        *,
        zero: bool = True,
        more: Sequence[alt.Chart] = (),
        log: bool = False,
        height: int = HEIGHT,
    ) -> Iterator[Panel]:
        """A panel of lines with bands; none where nothing of it was read."""
        series = [one for one in wanted if f"{one.column}_min" in self.tables.get(one.table, {})]
        if not series:
            return
        labels = [one.label for one in series]
        axis = _log_y() if log else self.linear_y(series, zero)
        layers = [_band(one, labels, axis) for one in series]
        layers += [_line(one, labels) for one in series]
        layers += [_alone(one, labels) for one in series if self.has_alone(one)]
        columns: dict[str, tuple[str, ...]] = {}
        for one in series:
            names = [f"{one.column}_{made}" for made in ("min", "mean", "max", "part")]
            columns[one.table] = (*columns.get(one.table, ("at", "until")), *names)
        tips = [
            (f"{one.column}_{made}", f"{one.label.partition(' (')[0]}, {made}")
            for one in series
            if one.table == "samples"
            for made in ("min", "mean", "max")
        ]
        yield self.finished(name, title, [*layers, *more], columns, tips, height=height)

    def linear_y(self, series: Sequence[Series], zero: bool) -> alt.Y:
        """The axis of values, with room at the top for the labels of the marks."""
        import altair as alt

        ends = [
            value
            for one in series
            for made in ("min", "max")
            for value in self.tables[one.table][f"{one.column}_{made}"]
            if value is not None
        ]
        if series[0].column == "temp_c" and self.slowdown_c is not None:
            ends.append(self.slowdown_c)
        low = min(0.0, *ends) if zero else min(ends) - 2
        high = max(*ends, low + 1)
        scale = alt.Scale(domain=[low, high + _HEADROOM * (high - low)], nice=False)
        axis = alt.Axis(tickCount=5, format="~s" if high >= 1000 else "~f")
        return alt.Y(title=None, scale=scale, axis=axis)

    def has_alone(self, series: Series) -> bool:
        parts = self.tables[series.table][f"{series.column}_part"]
        return any(part is not None and part < 0 for part in parts)

    def slowdown(self) -> list[alt.Chart]:
        import altair as alt

        base = alt.Chart(alt.InlineData(values=[{}]))
        place = alt.YDatum(self.slowdown_c)
        text = f"slows down at {self.slowdown_c:g} °C"
        return [
            base.mark_rule(style="limit").encode(y=place),
            base.mark_text(style="limit-label", align="left", baseline="bottom", dx=4, dy=-2)
            .encode(y=place, x=alt.value(0), text=alt.datum(text)),
        ]  # fmt: skip

    def reasons(self) -> Panel:
        """A lane for each reason; its words stand above its bars."""
        import altair as alt

        base = alt.Chart(alt.NamedData("reasons"))
        shown = list(dict.fromkeys(self.tables["reasons"]["reason"]))
        lane = alt.Y("reason:N", axis=None, scale=alt.Scale(domain=shown, paddingInner=0))
        bars = [
            base.transform_filter(f"{sign}datum.alarm")
            .mark_bar(style=style, clip=True, yOffset=16, y2Offset=-3)
            .encode(
                x=_x(),
                x2="until:T",
                y=lane,
                opacity=alt.Opacity(
                    "share:Q", scale=alt.Scale(domain=[0, 1], range=[0.2, 1]), legend=None
                ),
                tooltip=[
                    alt.Tooltip("reason:N", title="held by"),
                    alt.Tooltip("share:Q", title="share of samples, up to", format=".0%"),
                    _moment("at", "from"),
                    _moment("until", "to"),
                ],
            )
            for sign, style in (("!", "calm"), ("", "alarm"))
        ]
        names = (
            alt.Chart(alt.InlineData(values=[{"reason": words} for words in shown]))
            .mark_text(style="lane-label", align="left", baseline="middle", dx=3)
            .encode(y=alt.Y("reason:N", bandPosition=8 / _LANE), x=alt.value(0), text="reason:N")
        )
        columns = {"reasons": ("at", "until", "reason", "share", "alarm")}
        title = "What held the clocks down"
        height = _LANE * len(shown)
        return self.finished("clock-reasons", title, [*bars, names], columns, (), height=height)

    def link(self) -> Iterator[Panel]:
        """Generation and lanes, from the driver, or from sysfs where that says nothing."""
        title = "PCIe link: generation and lanes"
        series = [
            Series("link_gen", "generation", line="min"),
            Series("link_width", "lanes", line="min"),
        ]
        if any(f"{one.column}_min" in self.tables.get("samples", {}) for one in series):
            yield from self.panel("link", title, series, log=True)
        elif "links" in self.tables:
            import altair as alt

            base = alt.Chart(alt.NamedData("links"))
            labels = [one.label for one in series]
            dashes = alt.Scale(domain=labels, range=list(DASHES[: len(labels)]))
            layers = [
                base.transform_filter(f"isValid(datum.{one.column})")
                .transform_calculate(series=json.dumps(one.label))
                .mark_line(interpolate="step-after", clip=True, point=True)
                .encode(
                    x=_x(),
                    y=_of(_log_y(), one.column),
                    detail="run:N",
                    color=_colour(labels),
                    strokeDash=alt.StrokeDash("series:N", title=None, scale=dashes),
                )
                for one in series
            ]
            columns = {"links": ("at", "run", "link_gen", "link_width")}
            tips = [("link_gen", "generation"), ("link_width", "lanes")]
            yield self.finished("link", title, layers, columns, tips, tipped="links")

    def counters(self) -> Panel:
        import altair as alt

        base = alt.Chart(alt.NamedData("counters"))
        scale = alt.Scale(range=list(DASHES))
        highest = max(1, *self.tables["counters"]["rise"])
        rises = alt.Scale(domain=[0, highest * (1 + _HEADROOM)], nice=False)
        lines = base.mark_line(
            interpolate="step-after", clip=True, point=alt.OverlayMarkDef(size=30)
        ).encode(
            x=_x(),
            y=alt.Y("rise:Q", title=None, scale=rises, axis=alt.Axis(tickMinStep=1, format="~s")),
            detail="run:N",
            color=alt.Color("name:N", sort=None, title=None),
            strokeDash=alt.StrokeDash("name:N", sort=None, title=None, scale=scale),
        )
        title = "Replays and AER errors since the recording began"
        if self.left_out:
            title += f" ({self.left_out} more counters not drawn)"
        columns = {"counters": ("at", "run", "name", "rise")}
        tips = [("name", "counter"), ("rise", "rise")]
        return self.finished("errors", title, [lines], columns, tips, tipped="counters")

    def finished(
        self,
        name: str,
        title: str,
        layers: Sequence[alt.Chart],
        columns: dict[str, tuple[str, ...]],
        tips: Sequence[tuple[str, str]],
        *,
        tipped: str = "samples",
        height: int = HEIGHT,
    ) -> Panel:
        """The layers with the marks above them and what the mouse does."""
        import altair as alt

        drawn = list(layers)
        if "marks" in self.tables:
            # A lane has words of its own.
            drawn += _marks()[: 1 if name == "clock-reasons" else None]
            columns = {**columns, "marks": tuple(self.tables["marks"])}
        table = tipped if tips else next(iter(columns))
        drawn.append(_hover(table, tips, wide="until" in self.tables[table]))
        chart = alt.layer(*drawn).properties(width="container", height=height, title=title)
        # Otherwise its few own rows would be moved to the top, where the tables will stand.
        with alt.data_transformers.enable(consolidate_datasets=False):
            spec = chart.resolve_scale(opacity="independent").to_dict()
        # Themes and sizes are the page's; the version is the library's that draws it.
        spec.pop("config", None)
        set_domain(spec, self.whole)
        spec["autosize"] = {"type": "fit-x", "contains": "padding"}
        return Panel(name, title, spec, columns)


_LANE: Final = 36
"""Pixels of a lane."""

_HEADROOM: Final = 0.16
"""Share of a plot's height that its data leave free at the top."""

_NARROW: Final = 520
"""Pixels of a plot below which marks have their numbers only."""


def _x(column: str = "at") -> alt.X:
    import altair as alt

    return alt.X(f"{column}:T", title=None, scale=alt.Scale(type="utc"))


def _moment(column: str, title: str) -> alt.Tooltip:
    import altair as alt

    return alt.Tooltip(
        f"{column}:T", title=title, format="%Y-%m-%d %H:%M:%S.%L", formatType="utcFormat"
    )


def _log_y() -> alt.Y:
    """Generations and lanes on one axis: each step of either can be seen."""
    import altair as alt

    scale = alt.Scale(type="log", base=2, domain=[0.8, 40], nice=False)
    return alt.Y(title=None, scale=scale, axis=alt.Axis(values=[1, 2, 3, 4, 5, 8, 16], format="d"))


def _of(axis: alt.Y, column: str) -> alt.Y:
    made = axis.copy()
    made.shorthand = f"{column}:Q"
    return made


def _base(series: Series, *, alone: bool = False) -> alt.Chart:
    """What was read; a bucket that stands alone makes a point, not a line."""
    import altair as alt

    test = f"datum.{series.column}_part {'<' if alone else '>'} 0"
    return (
        alt.Chart(alt.NamedData(series.table))
        .transform_filter(test)
        .transform_calculate(series=json.dumps(series.label))
    )


def _colour(labels: Sequence[str]) -> alt.Color:
    import altair as alt

    return alt.Color("series:N", title=None, scale=alt.Scale(domain=list(labels)))


def _band(series: Series, labels: Sequence[str], axis: alt.Y) -> alt.Chart:
    return (
        _base(series)
        .mark_area(clip=True, opacity=0.3)
        .encode(
            x=_x(),
            y=_of(axis, f"{series.column}_min"),
            y2=f"{series.column}_max:Q",
            detail=f"{series.column}_part:N",
            color=_colour(labels),
        )
    )


def _line(series: Series, labels: Sequence[str]) -> alt.Chart:
    import altair as alt

    dashes = alt.Scale(domain=list(labels), range=list(DASHES[: len(labels)]))
    return (
        _base(series)
        .mark_line(clip=True, strokeWidth=1.5)
        .encode(
            x=_x(),
            y=f"{series.column}_{series.line}:Q",
            detail=f"{series.column}_part:N",
            color=_colour(labels),
            strokeDash=alt.StrokeDash("series:N", title=None, scale=dashes),
        )
    )


def _alone(series: Series, labels: Sequence[str]) -> alt.Chart:
    return (
        _base(series, alone=True)
        .mark_point(clip=True, size=25, filled=True, opacity=1)
        .encode(x=_x(), y=f"{series.column}_max:Q", color=_colour(labels))
    )


def _marks() -> list[alt.Chart]:
    import altair as alt

    base = alt.Chart(alt.NamedData("marks"))
    # Not by a scale: the panel's own lines have that of dashes.
    dashes = alt.expr(f"({json.dumps(ROLE_DASHES)})[datum.role]")
    rules = base.mark_rule(style="event", clip=True, strokeDash=dashes).encode(
        x=_x(),
        tooltip=[alt.Tooltip("label:N", title="event"), alt.Tooltip("role:N"), _moment("at", "at")],
    )
    side = {
        "align": alt.expr("datum.side"),
        "dx": alt.expr("datum.side == 'left' ? 4 : -4"),
        "baseline": "top",
        "clip": True,
    }
    chosen = f"width < {_NARROW} ? datum.short : datum.text"
    texts = [
        base.transform_calculate(shown=chosen)
        .mark_text(style=style, **side)
        .encode(x=_x(), y=alt.value(3), text="shown:N")
        for style in ("event-halo", "event-label")
    ]
    return [rules, *texts]


def _hover(table: str, tips: Sequence[tuple[str, str]], *, wide: bool) -> alt.Chart:
    """Bars nobody sees, one a bucket: the one pointed at is tinted and says its values."""
    import altair as alt

    pointed = alt.selection_point(name="pointed", on="pointerover", clear="pointerout")
    zoom = alt.selection_interval(
        name="zoom",
        encodings=["x"],
        bind="scales",
        # A page scrolls with the wheel; a plot zooms with the wheel and a key.
        zoom="wheel![event.ctrlKey || event.shiftKey]",
        clear="dblclick",
    )
    base = alt.Chart(alt.NamedData(table), name=HOVER)
    fields = [
        alt.Tooltip(f"{name}:{'N' if name == 'name' else 'Q'}", title=title) for name, title in tips
    ]
    shown = [_moment("at", "from" if wide else "at"), *fields] if fields else []
    seen = alt.when(pointed, empty=False).then(alt.value(0.2)).otherwise(alt.value(0))
    if wide:
        marked = base.mark_bar(style="hover", clip=True).encode(
            x=_x(), x2="until:T", y=alt.value(0), y2=alt.value("height")
        )
    else:
        marked = base.mark_rule(style="hover", clip=True, strokeWidth=8).encode(x=_x())
    encoded = marked.encode(opacity=seen, tooltip=shown) if shown else marked.encode(opacity=seen)
    return encoded.add_params(pointed, zoom)
