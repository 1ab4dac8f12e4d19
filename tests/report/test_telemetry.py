"""Telemetry of a report: no spike is lost, however long the recording."""

from __future__ import annotations

from pathlib import Path

from gpuprobe.report.telemetry_types import MOST_BUCKETS
from tests.live_events import START, facts, lost, steady
from tests.recording.recording_bench import record
from tests.report.report_bench import gathered_of, recorded

CSV = """timestamp, pci.bus_id, power.draw [W], temperature.gpu
2026/03/04 12:00:00.000, 00000000:41:00.0, 210.00 W, 61
2026/03/04 12:00:01.000, 00000000:41:00.0, 305.00 W, 62
"""


def test_spikes_and_dips_survive_the_buckets(tmp_path: Path) -> None:
    """One sample of 812 W and one of 3 W among 6,000 are the extremes of frame and figures."""
    values = {100.0: 812.0, 400.0: 3.0}
    events = steady(600.0, power_w=lambda s: values.get(s, 300.0))
    path = record(tmp_path / "r.gpuprobe", [*facts(), *events])

    telemetry = gathered_of(path).report.telemetry

    assert telemetry is not None
    device = telemetry.devices[0]
    assert device.samples["power_w_max"].max() == 812.0
    assert device.samples["power_w_min"].min() == 3.0
    assert device.samples["count"].sum() == 6000
    figure = next(one for one in device.figures if one.name == "power_w")
    assert (figure.low, figure.high) == (3.0, 812.0)


def test_buckets_are_bounded_and_narrow_round_the_incident(tmp_path: Path) -> None:
    """Half of them lie in the minutes round the loss, and all in order of time."""
    events = [*facts(), *steady(3600.0, hz=2.0), lost(3000.0)]
    events.sort(key=lambda event: event.stamp.wall if event.stamp and event.stamp.wall else START)
    telemetry = gathered_of(record(tmp_path / "r.gpuprobe", events)).report.telemetry

    assert telemetry is not None
    samples = telemetry.devices[0].samples
    assert len(samples) <= MOST_BUCKETS
    assert samples["at"].is_monotonic_increasing
    assert telemetry.focus is not None
    begin, end = telemetry.focus
    near = samples[(samples["at"] >= begin) & (samples["at"] < end)]
    assert len(near) > len(samples) * 0.4
    assert near["width_s"].median() < samples["width_s"].max() / 2


def test_last_is_before_the_loss(tmp_path: Path) -> None:
    """The figure of the last sample is the last one before the GPU was lost."""
    events = [*facts(), *steady(20.0, power_w=lambda s: 100.0 + s), lost(10.05)]
    events.sort(key=lambda event: event.stamp.wall if event.stamp and event.stamp.wall else START)
    telemetry = gathered_of(record(tmp_path / "r.gpuprobe", events)).report.telemetry

    assert telemetry is not None
    figure = next(one for one in telemetry.devices[0].figures if one.name == "power_w")
    assert figure.last == 110.0
    assert figure.high == 119.9


def test_reasons_are_shares_of_single_bits(tmp_path: Path) -> None:
    """Half of the samples with 0x84 make half of 0x4 and half of 0x80, and none of 0x8."""
    mask = {"clocks_event_reasons": lambda s: 0x84 if s >= 5.0 else 0}
    path = record(tmp_path / "r.gpuprobe", [*facts(), *steady(10.0, **mask)])
    telemetry = gathered_of(path).report.telemetry

    assert telemetry is not None
    samples = telemetry.devices[0].samples
    shares = {bit: (samples[f"reason_{bit}"] * samples["count"]).sum() / 100 for bit in
              ("0x4", "0x80", "0x8")}  # fmt: skip
    assert shares == {"0x4": 0.5, "0x80": 0.5, "0x8": 0.0}


def test_counters_transients_and_links_have_frames(tmp_path: Path) -> None:
    """Rises count from the begin; the driver's own samples keep their extremes."""
    telemetry = gathered_of(recorded(tmp_path / "r.gpuprobe")).report.telemetry

    assert telemetry is not None
    device = telemetry.devices[0]
    assert device.transients["power_w_max"].max() == 204.0
    assert device.transients["power_w_min"].min() == 200.0
    assert device.slowdown_c == 90.0


def test_samples_of_a_log_are_telemetry_too(tmp_path: Path) -> None:
    """What nvidia-smi printed is enough for figures, where its zone is known."""
    from gpuprobe.options import Options
    from gpuprobe.report.gathering import gather

    log = tmp_path / "samples.csv"
    log.write_text(CSV)
    telemetry = gather([log], Options(timezone="UTC")).report.telemetry

    assert telemetry is not None
    figures = {one.name: one for one in telemetry.devices[0].figures}
    assert figures["power_w"].high == 305.0


def test_without_samples_there_is_none(tmp_path: Path) -> None:
    """A recording of events alone has no telemetry, and no figures are made up."""
    path = record(tmp_path / "r.gpuprobe", [*facts(), lost(3.0)])

    assert gathered_of(path).report.telemetry is None
