"""Colours and line styles of the plots: one for light pages and paper, one for dark pages.

The colours are those of Okabe and Ito (jfly.uni-koeln.de/color, 2008), which people with any
colour vision can tell apart. No series is told by its colour alone: each has its own dashes.
"""

from __future__ import annotations

from typing import Any, Final

DASHES: Final = ([1, 0], [7, 3], [2, 2], [7, 3, 2, 3], [1, 4])
"""Dashes of the series of a panel, in their order."""

ROLE_DASHES: Final = {
    "proof": [1, 0],
    "precursor": [6, 3],
    "support": [3, 3],
    "consequence": [1, 3],
    "context": [1, 5],
}
"""Dashes of the lines that mark an event."""

_FONT: Final = "system-ui, 'DejaVu Sans', 'Liberation Sans', Arial, sans-serif"


def _config(
    ink: str, faint: str, paper: str, alarm: str, series: tuple[str, ...]
) -> dict[str, Any]:
    """A Vega-Lite configuration; the specifications themselves name no colour."""
    return {
        "background": paper,
        "font": _FONT,
        "view": {"stroke": faint},
        "axis": {
            "labelColor": ink,
            "titleColor": ink,
            "gridColor": faint,
            "gridOpacity": 0.6,
            "domainColor": faint,
            "tickColor": faint,
            "labelFontSize": 11,
        },
        # One width of axis in every panel, so that equal moments stand below each other.
        "axisY": {"minExtent": 44, "maxExtent": 44},
        "axisX": {"labelOverlap": "parity", "labelBound": True, "labelFlush": True},
        "title": {"color": ink, "anchor": "start", "fontSize": 13, "frame": "group"},
        "legend": {
            "labelColor": ink,
            "orient": "top",
            "direction": "horizontal",
            "title": None,
            "symbolType": "stroke",
            "symbolSize": 500,
            "symbolStrokeWidth": 2,
            "symbolOpacity": 1,
            "labelFontSize": 11,
            "labelLimit": 260,
            "offset": 4,
            "padding": 0,
        },
        "range": {"category": list(series)},
        "style": {
            "event": {"color": ink, "strokeWidth": 1.2},
            "event-label": {"color": ink, "fontSize": 11, "fontWeight": 600},
            # Behind a label, so that it can be read above a line.
            "event-halo": {"stroke": paper, "strokeWidth": 4, "fontSize": 11, "fontWeight": 600},
            "limit": {"color": alarm, "strokeWidth": 1.5, "strokeDash": [7, 3, 2, 3]},
            "limit-label": {"color": alarm, "fontSize": 11},
            "lane-label": {"color": ink, "fontSize": 11},
            "calm": {"color": series[0]},
            "alarm": {"color": alarm},
            "hover": {"color": ink},
        },
    }


LIGHT: Final = _config(
    ink="#1b1f24",
    faint="#d0d7de",
    paper="#ffffff",
    alarm="#c43c00",
    series=("#0072b2", "#d55e00", "#008060", "#a0417f", "#6b5900"),
)
DARK: Final = _config(
    ink="#e6edf3",
    faint="#3d444d",
    paper="#0d1117",
    alarm="#ff9257",
    series=("#56b4e9", "#e69f00", "#2bc79b", "#e29bc8", "#f0e442"),
)
