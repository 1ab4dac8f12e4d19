"""Vega-Lite specifications of the panels, made with Altair; no figure of a report is in them.

Equal panels of several devices share one: what differs, the ends of the axes, is set afterwards.
Needs the extra `report`. Channels are given as objects (`alt.Text("name:N")`): of a text Altair
makes the same object, by going through all of its classes each time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any, Final, ParamSpec

from gpuprobe.report.palette import DASHES, ROLE_DASHES

if TYPE_CHECKING:
    import altair as alt

HOVER: Final = "hover"
"""Name of the layer that shows values and zooms; a picture does without it."""

LANE: Final = 36
"""Pixels of a lane: words above, bars below."""

VALIDATE = False
"""Whether each specification is checked against Vega-Lite's schema; the tests do."""

_STAMPS: Final = {
    "date": "%b %d",
    "day": "%b %d",
    "hours": "%H:%M",
    "minutes": "%H:%M",
    "seconds": ":%S",
    "milliseconds": ".%L",
}
"""What stands below the time axis, by how far apart the ticks are."""

_NARROW: Final = 520
"""Pixels of a plot below which marks have their numbers only."""


@dataclass(frozen=True, slots=True)
class Series:
    """A line with its band.

    Attributes:
        column: Its name in the table, without `_min`. label: In the legend. table: Where it is.
        line: Which value the line shows.
        setting: Somebody's setting rather than a reading: its mean is value enough to show.
    """

    column: str
    label: str
    table: str = "samples"
    line: str = "mean"
    setting: bool = False


Arguments = ParamSpec("Arguments")


def _unchecked(made: Callable[Arguments, str]) -> Callable[Arguments, str]:
    """Without Altair's check of every part as it is made, which takes longer than making them."""

    @wraps(made)
    def quick(*args: Arguments.args, **kwargs: Arguments.kwargs) -> str:
        from altair.utils.schemapi import debug_mode

        with debug_mode(VALIDATE):
            return made(*args, **kwargs)

    return quick


@lru_cache(maxsize=64)
@_unchecked
def lines(
    series: tuple[Series, ...], height: int, marked: bool, log: bool, slowdown_c: float | None
) -> str:
    """Lines with bands, as JSON."""
    labels = [one.label for one in series]
    axis = _log_y() if log else _linear_y()
    layers = [_band(one, labels, axis) for one in series]
    layers += [_line(one, labels) for one in series]
    layers += [_alone(one, labels) for one in series]
    if slowdown_c is not None:
        layers += _threshold(slowdown_c, f"slows down at {slowdown_c:g} °C")
    tips = tuple(
        (f"{one.column}_{made}", one.label if one.setting else f"{one.label}, {made}")
        for one in series
        if one.table == "samples"
        for made in (("mean",) if one.setting else ("min", "mean", "max"))
    )
    return _finished(layers, "samples", tips, height=height, marked=marked)


@lru_cache(maxsize=64)
@_unchecked
def reasons(shown: tuple[str, ...], marked: bool) -> str:
    """A lane for each reason; its words stand above its bars."""
    import altair as alt

    base = alt.Chart(alt.NamedData("reasons"))
    # No words at the axis, but as wide as in the other panels.
    blank = alt.Axis(labels=False, ticks=False, domain=False, grid=False, title=None)
    scale = alt.Scale(domain=list(shown), paddingInner=0)
    share = alt.Scale(domain=[0, 1], range=[0.2, 1])
    bars = [
        base.transform_filter(f"{sign}datum.alarm")
        .mark_bar(style=style, clip=True, height=LANE - 19, yOffset=6.5)
        .encode(
            x=_x(),
            x2=alt.X2("until:T"),
            y=alt.Y("reason:N", axis=blank, scale=scale),
            opacity=alt.Opacity("share:Q", scale=share, legend=None),
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
        .encode(
            y=alt.Y("reason:N", bandPosition=8 / LANE),
            x=_fixed("XValue", 0),
            text=alt.Text("reason:N"),
        )
    )
    # Lanes have words of their own, so the marks have none here.
    marks = _marks()[:1] if marked else []
    height = LANE * len(shown)
    return _finished([*bars, names, *marks], "reasons", (), height=height, marked=False)


@lru_cache(maxsize=4)
@_unchecked
def states(series: tuple[Series, ...], height: int, marked: bool) -> str:
    """Steps between states of the link as sysfs shows it."""
    import altair as alt

    labels = [one.label for one in series]
    layers = [
        alt.Chart(alt.NamedData("links"))
        .transform_filter(f"isValid(datum.{one.column})")
        .transform_calculate(series=json.dumps(one.label))
        .mark_line(interpolate="step-after", clip=True, point=True)
        .encode(
            x=_x(),
            y=_of(_log_y(), one.column),
            detail=alt.Detail("run:N"),
            color=_colour(labels),
            strokeDash=_dashes(labels),
        )
        for one in series
    ]
    tips = tuple((one.column, one.label) for one in series)
    return _finished(layers, "links", tips, height=height, marked=marked)


@lru_cache(maxsize=4)
@_unchecked
def counters(height: int, marked: bool) -> str:
    """Steps of the counters that rose."""
    import altair as alt

    steps = alt.Axis(tickMinStep=1, format=",d")
    layer = (
        alt.Chart(alt.NamedData("counters"))
        .mark_line(interpolate="step-after", clip=True, point=alt.OverlayMarkDef(size=30))
        .encode(
            x=_x(),
            y=alt.Y("rise:Q", title=None, scale=alt.Scale(nice=False), axis=steps),
            detail=alt.Detail("run:N"),
            color=alt.Color("name:N", sort=None, title=None),
            strokeDash=alt.StrokeDash(
                "name:N", sort=None, title=None, scale=alt.Scale(range=list(DASHES))
            ),
        )
    )
    tips = (("name", "counter"), ("rise", "rise"))
    return _finished([layer], "counters", tips, height=height, marked=marked)


def _finished(
    layers: Sequence[alt.Chart],
    tipped: str,
    tips: Sequence[tuple[str, str]],
    *,
    height: int,
    marked: bool,
) -> str:
    """The layers with the marks above them and what the mouse does, as JSON."""
    import altair as alt

    drawn = [*layers, *(_marks() if marked else ())]
    drawn.append(_hover(tipped, tips))
    # All at once: each method of a chart copies everything that is in it.
    resolve = alt.Resolve(scale=alt.ScaleResolveMap(opacity="independent"))
    chart = alt.layer(*drawn, width="container", height=height, resolve=resolve)
    # Otherwise its few own rows would be moved to the top, where the tables will stand.
    with alt.data_transformers.enable(consolidate_datasets=False):
        spec = chart.to_dict(validate=VALIDATE)
    # Themes are the page's.
    spec.pop("config", None)
    spec["autosize"] = {"type": "fit-x", "contains": "padding"}
    return json.dumps(spec)


def _x() -> alt.X:
    import altair as alt

    axis = alt.Axis(format=_STAMPS)
    return alt.X("at:T", title=None, scale=alt.Scale(type="utc"), axis=axis)


def _fixed(channel: str, value: object) -> Any:
    """A value of one channel, such as `XValue`; the classes have no types of their own."""
    import altair as alt

    return getattr(alt, channel)(value)


def _moment(column: str, title: str) -> alt.Tooltip:
    import altair as alt

    return alt.Tooltip(
        f"{column}:T", title=title, format="%Y-%m-%d %H:%M:%S.%L", formatType="utcFormat"
    )


def _linear_y() -> alt.Y:
    import altair as alt

    return alt.Y(title=None, scale=alt.Scale(nice=False), axis=alt.Axis(tickCount=5, format=",~f"))


def _log_y() -> alt.Y:
    """Generations and lanes on one axis: each step of either can be seen."""
    import altair as alt

    scale = alt.Scale(type="log", base=2, domain=[0.8, 40], nice=False)
    return alt.Y(title=None, scale=scale, axis=alt.Axis(values=[1, 2, 3, 4, 5, 8, 16], format="d"))


def _of(axis: alt.Y, column: str) -> alt.Y:
    made = axis.copy()
    made.shorthand = f"{column}:Q"
    return made


def _colour(labels: Sequence[str]) -> alt.Color:
    import altair as alt

    return alt.Color("series:N", title=None, scale=alt.Scale(domain=list(labels)))


def _dashes(labels: Sequence[str]) -> alt.StrokeDash:
    import altair as alt

    scale = alt.Scale(domain=list(labels), range=list(DASHES[: len(labels)]))
    return alt.StrokeDash("series:N", title=None, scale=scale)


def _base(series: Series, *, alone: bool = False) -> alt.Chart:
    """What was read; a bucket that stands alone makes a point, not a line."""
    import altair as alt

    return (
        alt.Chart(alt.NamedData(series.table))
        .transform_filter(f"datum.{series.column}_part {'<' if alone else '>'} 0")
        .transform_calculate(series=json.dumps(series.label))
    )


def _band(series: Series, labels: Sequence[str], axis: alt.Y) -> alt.Chart:
    import altair as alt

    made: alt.Chart = (
        _base(series)
        .mark_area(clip=True, opacity=0.3)
        .encode(
            x=_x(),
            y=_of(axis, f"{series.column}_min"),
            y2=alt.Y2(f"{series.column}_max:Q"),
            detail=alt.Detail(f"{series.column}_part:N"),
            color=_colour(labels),
        )
    )
    return made


def _line(series: Series, labels: Sequence[str]) -> alt.Chart:
    import altair as alt

    made: alt.Chart = (
        _base(series)
        .mark_line(clip=True, strokeWidth=1.5)
        .encode(
            x=_x(),
            y=alt.Y(f"{series.column}_{series.line}:Q"),
            detail=alt.Detail(f"{series.column}_part:N"),
            color=_colour(labels),
            strokeDash=_dashes(labels),
        )
    )
    return made


def _alone(series: Series, labels: Sequence[str]) -> alt.Chart:
    import altair as alt

    made: alt.Chart = (
        _base(series, alone=True)
        .mark_point(clip=True, size=25, filled=True, opacity=1)
        .encode(x=_x(), y=alt.Y(f"{series.column}_max:Q"), color=_colour(labels))
    )
    return made


def _threshold(value: float, words: str) -> list[alt.Chart]:
    import altair as alt

    base = alt.Chart(alt.InlineData(values=[{}]))
    text = base.mark_text(style="limit-label", align="left", baseline="bottom", dx=4, dy=-2).encode(
        y=alt.YDatum(value), x=_fixed("XValue", 0), text=alt.TextDatum(words)
    )
    return [base.mark_rule(style="limit").encode(y=alt.YDatum(value)), text]


def _marks() -> list[alt.Chart]:
    """A line for each mark, and its label with a halo that keeps it readable."""
    import altair as alt

    base = alt.Chart(alt.NamedData("marks"))
    # Not by a scale: the panel's own lines have that of dashes.
    dashes = alt.expr(f"({json.dumps(ROLE_DASHES)})[datum.role]")
    rules = base.mark_rule(style="event", clip=True, strokeDash=dashes).encode(
        x=_x(),
        tooltip=[alt.Tooltip("label:N", title="event"), alt.Tooltip("role:N"), _moment("at", "at")],
    )
    side: dict[str, Any] = {
        "align": alt.expr("datum.side"),
        "dx": alt.expr("datum.side == 'left' ? 4 : -4"),
        "baseline": "top",
        "clip": True,
    }
    chosen = f"width < {_NARROW} ? datum.short : datum.text"
    texts = [
        base.transform_calculate(shown=chosen)
        .mark_text(style=style, **side)
        .encode(x=_x(), y=_fixed("YValue", 3), text=alt.Text("shown:N"))
        for style in ("event-halo", "event-label")
    ]
    return [rules, *texts]


def _hover(table: str, tips: Sequence[tuple[str, str]]) -> alt.Chart:
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
    wide = table == "samples"
    fields = [
        alt.Tooltip(f"{name}:{'N' if name == 'name' else 'Q'}", title=title) for name, title in tips
    ]
    base = alt.Chart(alt.NamedData(table), name=HOVER)
    if not fields:
        # The lanes' own bars have values: nothing may lie above them.
        unseen: alt.Chart = base.mark_point(opacity=0, size=1).encode(x=_x())
        return unseen.add_params(zoom)
    seen = alt.when(pointed, empty=False).then(alt.value(0.2)).otherwise(alt.value(0))
    shown = [_moment("at", "from" if wide else "at"), *fields]
    if wide:
        marked = base.mark_bar(style="hover", clip=True).encode(
            x=_x(), x2=alt.X2("until:T"), y=_fixed("YValue", 0), y2=_fixed("Y2Value", "height")
        )
    else:
        marked = base.mark_rule(style="hover", clip=True, strokeWidth=8).encode(x=_x())
    made: alt.Chart = marked.encode(opacity=seen, tooltip=shown)
    return made.add_params(pointed, zoom)
