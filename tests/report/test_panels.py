"""The panels: what is drawn, that no spike is lost, and that both forms compile."""

from __future__ import annotations

import json
from dataclasses import replace
from datetime import timedelta

import numpy as np
import pandas as pd
import pytest

from gpuprobe.report import event_marks, plot_tables
from gpuprobe.report.telemetry_types import Mark
from tests.report.made_telemetry import ADDRESS, LOST, device, samples, telemetry

NAMES = [
    "power", "temperature", "sm-clock", "clock-reasons", "memory-clock", "link", "errors",
    "pcie-rate", "memory",
]  # fmt: skip


@pytest.mark.parametrize("most", [1999, 500, 61, 7, 1])
def test_a_spike_of_one_bucket_survives_any_thinning(most: int) -> None:
    """The largest and the smallest value of each reading stay, however few buckets are left."""
    frame = samples()
    frame.loc[777, "power_w_max"] = 611.5
    frame.loc[1234, "sm_clock_mhz_min"] = 210

    table = plot_tables.samples(device(frame=frame), most)

    assert len(table["at"]) <= most
    assert max(table["power_w_max"]) == 611.5
    assert min(table["sm_clock_mhz_min"]) == 210
    assert table["at"][0] == frame["at"].iloc[0].value // 1_000_000


def test_thinning_never_joins_two_recordings() -> None:
    """Buckets of two runs stay apart, so that no line goes from one to the other."""
    frame = samples(100)
    frame.loc[50:, "run"] = 1

    table = plot_tables.samples(device(frame=frame), 10)

    assert set(table["power_w_part"]) == {1, 2}


def test_a_gap_breaks_a_line_and_a_lone_bucket_is_a_point() -> None:
    """Where nothing was read for long there is no line; a bucket alone has a negative part."""
    frame = samples(100)
    gone = [4, 5, 6, 7, 8, 9, 10, 12, 13, 14, 15, 16, 17]
    frame.loc[gone, ["power_w_min", "power_w_mean", "power_w_max"]] = np.nan

    parts = plot_tables.samples(device(frame=frame), 2000)["power_w_part"][:20]

    assert parts == [1] * 4 + [None] * 7 + [-2] + [None] * 6 + [3] * 2


def test_what_is_read_less_often_is_still_a_line() -> None:
    """A reading of every third bucket is no row of points."""
    frame = samples(60)
    frame.loc[frame.index % 3 > 0, ["rx_bytes_per_s_min", "rx_bytes_per_s_max"]] = np.nan

    parts = plot_tables.samples(device(frame=frame), 2000)["rx_mb_per_s_part"]

    assert {part for part in parts if part is not None} == {1}


def test_what_was_not_read_has_no_column_and_no_panel() -> None:
    """A card without memory temperature or counters shows neither, and no zero."""
    pytest.importorskip("altair")
    from gpuprobe.report import panels

    frame = samples(50)
    for made in ("min", "mean", "max"):
        frame[f"memory_temp_c_{made}"] = np.nan
        frame[f"rx_bytes_per_s_{made}"] = np.nan
        frame[f"tx_bytes_per_s_{made}"] = np.nan
    one = device(frame=frame, counters=pd.DataFrame(columns=["at", "run", "name", "value", "rise"]))

    made = panels.plots(telemetry(one), one)

    assert [panel.name for panel in made.panels] == [
        name for name in NAMES if name not in ("errors", "pcie-rate")
    ]
    assert "memory_temp_c_min" not in made.tables["samples"]


def test_reasons_are_stretches_with_their_share() -> None:
    """Neighbouring buckets with a reason make one bar; a pause in the recording ends it."""
    frame = samples(100)
    frame["reason_0x4"] = 0.0
    frame["reason_0x8"] = 0.0
    frame["reason_0x1"] = 0.0
    frame.loc[10:19, "reason_0x4"] = 0.4
    frame.loc[50:59, "reason_0x8"] = 1.0
    frame.loc[55:, "at"] += pd.Timedelta(hours=1)

    table = plot_tables.reasons(device(frame=frame), 2000)

    assert table["reason"] == ["power cap", "hardware slowdown", "hardware slowdown"]
    assert table["share"] == [0.5, 1.0, 1.0]
    assert table["alarm"] == [False, True, True]
    assert table["until"][1] - table["at"][1] < 60_000


def test_a_lost_device_has_no_width() -> None:
    """Width 63, which is how a device that is gone reads, is not drawn as lanes."""
    at = pd.Timestamp(LOST)
    frame = pd.DataFrame(
        [(at, 0, 16.0, 16), (at, 0, -1.0, 63)], columns=["at", "run", "speed_gts", "width"]
    )

    table = plot_tables.links(device(links=frame))

    assert table["link_gen"] == [4, None]
    assert table["link_width"] == [16, None]


def test_marks_that_lie_together_share_a_label() -> None:
    """Their numbers are joined, and the words are those of the proof."""
    shown = event_marks.numbered(telemetry(), device())

    table = event_marks.rows(shown, LOST - timedelta(minutes=5), LOST + timedelta(seconds=10))

    assert table["text"] == [
        "1 the link trains down to 2.5 GT/s",
        "2–4 Xid 79: the GPU has falle…",
        "",
        "",
    ]
    assert table["short"] == ["1", "2–4", "", ""]
    assert table["side"][:2] == ["left", "right"]


def test_marks_of_another_device_are_not_shown() -> None:
    """A mark about one GPU is on its plots only; one about none is on all."""
    whole = telemetry(device(), device("0000:05:00.0"))

    shown = event_marks.numbered(whole, whole.devices[1])

    assert [one.label for one in shown] == ["CUDA error: unspecified launch failure"]


def test_a_label_is_plain_text() -> None:
    """Control characters of a log line are written out in labels."""
    mark = Mark(LOST, "\x1b[31m</script>\u2028<!--", "proof", ADDRESS)

    [shown] = event_marks.numbered(replace(telemetry(), marks=(mark,)), device())

    assert shown.label == "\\x1b[31m</script>\\u2028<!--"


def test_every_panel_fits_the_schema_and_compiles(monkeypatch: pytest.MonkeyPatch) -> None:
    """Altair finds no fault in the specifications, and Vega-Lite no reason to warn."""
    pytest.importorskip("altair")
    vl_convert = pytest.importorskip("vl_convert")
    from gpuprobe.report import panel_specs, panels

    for made in (panel_specs.lines, panel_specs.reasons, panel_specs.counters, panel_specs.states):
        made.cache_clear()
    monkeypatch.setattr(panel_specs, "VALIDATE", True)
    shown = panels.plots(telemetry(), device())
    frame = samples(50).drop(columns=[f"link_{what}_{made}" for what in ("gen", "width")
                                      for made in ("min", "mean", "max")])  # fmt: skip
    from_sysfs = panels.plots(telemetry(), device(frame=frame))

    assert [panel.name for panel in shown.panels] == NAMES
    states = next(panel for panel in from_sysfs.panels if panel.name == "link")
    assert "links" in states.columns
    for panel in (*shown.panels, states):
        vega = vl_convert.vegalite_to_vega(panel.spec)
        [x] = [scale for scale in vega["scales"] if scale["name"] == "x"]
        assert x["domainMin"] == {"signal": str(panels.milliseconds(shown.whole)[0])}
        for table, columns in panel.columns.items():
            made_tables = shown.tables if panel is not states else from_sysfs.tables
            assert set(columns) <= set(made_tables[table])


def test_series_differ_by_more_than_their_colour() -> None:
    """In black and white the lines of a panel are told by their dashes."""
    pytest.importorskip("altair")
    from gpuprobe.report import panels

    for panel in panels.plots(telemetry(), device()).panels:
        coloured = [layer for layer in panel.spec["layer"] if _type(layer) == "line"]
        for layer in coloured:
            dashes = layer["encoding"]["strokeDash"]
            assert dashes["field"] == layer["encoding"]["color"]["field"]
            ranges = [json.dumps(one) for one in dashes["scale"]["range"]]
            assert len(set(ranges)) == len(ranges)


def _type(layer: dict[str, dict[str, str]]) -> str:
    return layer["mark"]["type"]


def test_the_axis_ends_above_the_limit() -> None:
    """The power limit and the labels above it lie within the plot."""
    pytest.importorskip("altair")
    from gpuprobe.report import panels

    power = panels.plots(telemetry(), device()).panels[0]

    [low, high] = power.spec["layer"][0]["encoding"]["y"]["scale"]["domain"]
    assert low == 0
    assert high > 350 * 1.1
