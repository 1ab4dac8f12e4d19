"""Plots for a page and as pictures, by the libraries of the extra `report`."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

from gpuprobe.errors import GpuprobeError
from gpuprobe.report import panels
from gpuprobe.report.panel_specs import HOVER
from gpuprobe.report.panels import DevicePlots, Panel
from gpuprobe.report.plot_tables import Table
from gpuprobe.report.telemetry_types import Telemetry
from gpuprobe.reporters.plain import cut

INSTALL: Final = "pip install 'gpuprobe[report]'"

PICTURE_WIDTH: Final = 900
"""Pixels of a plot in a picture, at scale 1."""

ENOUGH_BUCKETS: Final = 250
"""With as many the plots of a device that did not fail can be read."""

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
        import altair as alt  # noqa: F401
        import vl_convert  # noqa: F401
    except ImportError as error:
        raise PlotsMissingError("plots need altair and vl-convert", hint=INSTALL) from error


def library() -> str:
    """The JavaScript of Vega, Vega-Lite and Vega-Embed, which can stand in a script element.

    Raises:
        PlotsMissingError: The extra is not installed.
    """
    check_installed()
    return _bundle()


@lru_cache(maxsize=1)
def _bundle() -> str:
    import vl_convert

    # No snippet of ours: its usual one puts `vegaEmbed` where the page's script finds it.
    bundle: Any = vl_convert.javascript_bundle
    text: str = bundle()
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
    whole = [panels.plots(telemetry, device) for device in telemetry.devices]
    made, kept = list(whole), len(whole)
    text = _json(_page(made))
    reserve = 0.97
    while len(text) > room and kept:
        sizes, kept = _sizes(whole[:kept], room * reserve)
        made = [
            panels.thinner(one, device, most)
            for one, device, most in zip(whole, telemetry.devices, sizes, strict=False)
        ]
        text = _json(_page(made))
        reserve -= 0.1
        if reserve < 0.3:
            kept -= 1
    left_out = tuple(device.device for device in telemetry.devices[len(made) :])
    return Payload(text, tuple(made), left_out)


def _sizes(whole: list[DevicePlots], room: float) -> tuple[list[int], int]:
    """Buckets of each device, and for how many devices there is room with them."""
    for kept in range(len(whole), 0, -1):
        shown = whole[:kept]
        costs, rows = [_cost(one) for one in shown], [_rows_of(one) for one in shown]
        left = room - len(_json(_page(shown))) + sum(costs)
        # The first one, which failed, whole if the others can still be read.
        share = min(1.0, (left - costs[0]) / max(1, sum(costs[1:])))
        if kept > 1 and all(share * one >= min(one, ENOUGH_BUCKETS) for one in rows[1:]):
            return [rows[0], *(int(share * one) for one in rows[1:])], kept
        share = min(1.0, left / max(1, sum(costs)))
        if all(share * one >= min(one, FEWEST_BUCKETS) for one in rows):
            return [int(share * one) for one in rows], kept
    return [], 0


def _rows_of(one: DevicePlots) -> int:
    return max(len(one.tables.get(name, {}).get("at", ())) for name in ("samples", "transients"))


def _cost(one: DevicePlots) -> int:
    """Characters of what there is less of with fewer buckets."""
    names = [name for name in ("samples", "transients", "reasons") if name in one.tables]
    return sum(len(_json(_packed(one.tables[name]))) for name in names)


def _page(made: list[DevicePlots]) -> dict[str, Any]:
    """What the script reads; layers that are alike in several panels stand there once."""
    layers: dict[str, int] = {}
    devices = []
    for one in made:
        shown = []
        for panel in one.panels:
            texts = [json.dumps(layer) for layer in panel.spec["layer"]]
            places = [layers.setdefault(text, len(layers)) for text in texts]
            spec = {**panel.spec, "layer": places}
            shown.append({"spec": spec, "columns": panel.columns})
        devices.append({
            "whole": panels.milliseconds(one.whole),
            "focus": panels.milliseconds(one.focus),
            "tables": {name: _packed(table) for name, table in one.tables.items()},
            "panels": shown,
        })  # fmt: skip
    return {"layers": [json.loads(text) for text in layers], "devices": devices}


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
    for device in telemetry.devices:
        # A picture has no room for more; the smallest and largest of each bucket stay.
        made = panels.thinner(panels.plots(telemetry, device), device, PICTURE_WIDTH)
        if made.panels:
            yield picture_name(made.device), _drawn(json.dumps(picture_spec(made)))


def _drawn(spec: str) -> bytes:
    """A PNG, drawn in a process of its own: what that takes is not held beside the readings."""
    argv = [sys.executable, "-I", "-m", "gpuprobe.report.draw"]
    with suppress(OSError):
        done = subprocess.run(argv, input=spec.encode(), capture_output=True, check=False)  # noqa: S603
        if done.returncode == 0 and done.stdout:
            return done.stdout
    from gpuprobe.report.draw import png

    # Where this package is found by PYTHONPATH alone, the other process does not find it.
    return png(spec)


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
    panels.with_ends(spec, panels.milliseconds(made.focus))
    spec.update(width=PICTURE_WIDTH, title=panel.title)
    return spec  # type: ignore[no-any-return]


def _rows(table: Table) -> list[dict[str, Any]]:
    names = list(table)
    return [dict(zip(names, values, strict=True)) for values in zip(*table.values(), strict=True)]
