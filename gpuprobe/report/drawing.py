"""Plots for a page and as pictures, by the libraries of the extra `report`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, Final

from gpuprobe.errors import GpuprobeError
from gpuprobe.report import panels
from gpuprobe.report.palette import LIGHT
from gpuprobe.report.panels import HOVER, DevicePlots, Panel
from gpuprobe.report.plot_tables import Table
from gpuprobe.report.telemetry_types import MOST_BUCKETS, Telemetry
from gpuprobe.reporters.plain import cut

INSTALL: Final = "pip install 'gpuprobe[report]'"

PICTURE_WIDTH: Final = 900
"""Pixels of a plot in a picture, at scale 1."""

FEWEST_BUCKETS: Final = 60
"""Where even this many do not fit on the page, the last devices go without plots."""


class PlotsMissingError(GpuprobeError):
    """The libraries that draw are not installed."""


@dataclass(frozen=True, slots=True)
class Payload:
    """What the page's script draws.

    Attributes:
        text: JSON without a single `<`, `>` or `&`. devices: Whose plots are in it.
        left_out: Addresses of devices for which there was no room.
    """

    text: str
    devices: tuple[DevicePlots, ...]
    left_out: tuple[str, ...]


def check_installed() -> None:
    """Do nothing where plots can be made.

    Raises:
        PlotsMissingError: The extra is not installed.
    """
    try:
        import altair as alt
        import vl_convert

        _ = alt.__version__, vl_convert.__version__
    except ImportError as error:
        raise PlotsMissingError("plots need altair and vl-convert", hint=INSTALL) from error


def library() -> str:
    """The JavaScript of Vega, Vega-Lite and Vega-Embed, which can stand in a script element.

    Raises:
        PlotsMissingError: The extra is not installed.
    """
    check_installed()
    import vl_convert

    text = vl_convert.javascript_bundle()
    # Inside a string or a regex a backslash before the slash changes nothing.
    return text.replace("</script", "<\\/script").replace("<!--", "<\\!--")


def payload(telemetry: Telemetry, room: int) -> Payload:
    """The panels of every device in at most `room` characters.

    Where there is too much, the devices after the first get fewer buckets, then all of them; a
    bucket's smallest and largest value stay, so no spike is lost.

    Args:
        telemetry: The readings.
        room: Characters of JSON, at most.

    Raises:
        PlotsMissingError: The extra is not installed.
    """
    check_installed()
    devices = telemetry.devices
    for first, others in _sizes():
        made = [
            panels.plots(telemetry, device, others if number else first)
            for number, device in enumerate(devices)
        ]
        text = _json(_page(made))
        if len(text) <= room:
            return Payload(text, tuple(made), ())
    while made and len(text) > room:
        made.pop()
        text = _json(_page(made))
    left_out = tuple(device.device for device in devices[len(made) :])
    return Payload(text, tuple(made), left_out)


def _sizes() -> Iterator[tuple[int, int]]:
    """Buckets of the first device and of each other one."""
    others = MOST_BUCKETS
    while others > FEWEST_BUCKETS * 4:
        yield MOST_BUCKETS, others
        others //= 2
    first = MOST_BUCKETS
    while first >= FEWEST_BUCKETS:
        yield first, min(first, others)
        first //= 2
        others = max(FEWEST_BUCKETS, others // 2)


def _page(made: list[DevicePlots]) -> list[dict[str, Any]]:
    return [
        {
            "whole": [_ms(moment) for moment in one.whole],
            "focus": [_ms(moment) for moment in one.focus],
            "tables": {name: _packed(table) for name, table in one.tables.items()},
            "panels": [
                {"name": panel.name, "title": panel.title, "spec": panel.spec,
                 "columns": panel.columns}
                for panel in one.panels
            ],
        }
        for one in made
    ]  # fmt: skip


def _ms(moment: Any) -> int:
    return int(moment.timestamp() * 1000)


def _packed(table: Table) -> dict[str, Any]:
    """Columns with less to write: one value that holds throughout, moments from a common begin."""
    rows = len(table["at"])
    begin = min(table["at"])
    columns: dict[str, Any] = {}
    for name, values in table.items():
        plain = [value - begin for value in values] if name in ("at", "until") else values
        same = rows > 1 and all(value == plain[0] for value in plain)
        columns[name] = plain[0] if same else plain
    return {"rows": rows, "begin": begin, "columns": columns}


def _json(value: Any) -> str:
    r"""JSON that no HTML parser can read as markup, whatever is in it: `<` becomes `\u003c`."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"), allow_nan=False)
    for letter in "<>&":
        text = text.replace(letter, f"\\u{ord(letter):04x}")
    return text


# --- pictures --------------------------------------------------------------------------------


def pictures(telemetry: Telemetry) -> Iterator[tuple[str, bytes]]:
    """File name and PNG of each device's panels, one below the other.

    They show what the page shows first: the minutes around the incident, or all there is.

    Raises:
        PlotsMissingError: The extra is not installed.
    """
    check_installed()
    import vl_convert

    for device in telemetry.devices:
        made = panels.plots(telemetry, device)
        if made.panels:
            picture = vl_convert.vegalite_to_png(
                picture_spec(made), scale=1.5, allowed_base_urls=[], config=LIGHT
            )
            yield picture_name(made.device), picture


def picture_name(device: str) -> str:
    """`plots-0000-04-00.0.png` for `0000:04:00.0`: a colon cannot stand in every file's name."""
    plain = "".join(letter if letter.isalnum() or letter in ".-" else "-" for letter in device)
    return f"plots-{plain}.png"


def picture_spec(made: DevicePlots) -> dict[str, Any]:
    """All panels of a device as one specification, without what only a mouse needs."""
    heading = " ".join(part for part in (made.device, made.name) if part)
    key = [
        cut(f"{one.number}  {one.mark.at:%H:%M:%S}  {one.label}", 110) for one in made.marks[:12]
    ]
    if len(made.marks) > 12:
        key.append(f"… and {len(made.marks) - 12} more events")
    datasets = {name: _rows(table) for name, table in made.tables.items()}
    span = " to ".join(f"{moment:%Y-%m-%d %H:%M:%S}" for moment in made.focus)
    return {
        "$schema": "https://vega.github.io/schema/vega-lite/v6.json",
        "title": {
            "text": f"{heading}, {span} UTC",
            "subtitle": key,
            "fontSize": 15,
            "subtitleFontSize": 11,
            "subtitlePadding": 6,
            "offset": 14,
        },
        "datasets": datasets,
        "padding": 12,
        "spacing": 14,
        "resolve": {"scale": dict.fromkeys(("color", "strokeDash", "shape"), "independent")},
        "vconcat": [_still(panel, made) for panel in made.panels],
    }


def _still(panel: Panel, made: DevicePlots) -> dict[str, Any]:
    spec = json.loads(json.dumps(panel.spec))
    for unwanted in ("params", "autosize", "$schema"):
        spec.pop(unwanted, None)
    spec["layer"] = [layer for layer in spec["layer"] if layer.get("name") != HOVER]
    panels.set_domain(spec, made.focus)
    spec["width"] = PICTURE_WIDTH
    return spec  # type: ignore[no-any-return]


def _rows(table: Table) -> list[dict[str, Any]]:
    names = list(table)
    return [dict(zip(names, values, strict=True)) for values in zip(*table.values(), strict=True)]
