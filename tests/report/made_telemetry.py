"""Telemetry of our own making: a load at a steady power, and then the device is gone."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import numpy as np
import pandas as pd

from gpuprobe.report.telemetry_types import (
    REASON_BITS,
    DeviceTelemetry,
    Figure,
    Mark,
    Telemetry,
)

LOST = datetime(2026, 3, 14, 7, 44, 58, tzinfo=UTC)
ADDRESS = "0000:04:00.0"
FIELDS = (
    ("power_w", 210.0, 12.0),
    ("limit_w", 350.0, 0.0),
    ("temp_c", 64.0, 3.0),
    ("memory_temp_c", 78.0, 3.0),
    ("sm_clock_mhz", 1700.0, 60.0),
    ("mem_clock_mhz", 9500.0, 0.0),
    ("util_percent", 97.0, 3.0),
    ("link_gen", 3.0, 0.0),
    ("link_width", 16.0, 0.0),
    ("memory_used_bytes", 20.5 * 2**30, 2**28),
    ("memory_total_bytes", 24.0 * 2**30, 0.0),
    ("rx_bytes_per_s", 4.0e8, 1.0e8),
    ("tx_bytes_per_s", 1.5e8, 0.5e8),
)
MARKS = (
    Mark(LOST - timedelta(seconds=200), "the link trains down to 2.5 GT/s", "precursor", ADDRESS),
    Mark(LOST, "Xid 79: the GPU has fallen off the bus", "proof", ADDRESS),
    Mark(LOST + timedelta(seconds=1), "Xid 154: recovery action", "consequence", ADDRESS),
    Mark(LOST + timedelta(seconds=3), "CUDA error: unspecified launch failure", "consequence"),
)


def samples(buckets: int = 2000, seconds: float = 600, end: datetime = LOST) -> pd.DataFrame:
    """Buckets of equal width that end at `end`."""
    random = np.random.default_rng(79)
    width = seconds / buckets
    begin = pd.Timestamp(end) - pd.Timedelta(seconds=seconds)
    columns: dict[str, object] = {
        "at": begin + pd.to_timedelta(np.arange(buckets) * width, unit="s"),
        "width_s": np.full(buckets, width),
        "run": np.zeros(buckets, dtype="int64"),
        "count": np.full(buckets, 10, dtype="int64"),
    }
    for name, middle, spread in FIELDS:
        mean = middle + spread * np.sin(np.arange(buckets) / 40) * random.uniform(0.8, 1, buckets)
        columns[f"{name}_min"] = mean - spread * random.uniform(0, 1, buckets)
        columns[f"{name}_mean"] = mean
        columns[f"{name}_max"] = mean + spread * random.uniform(0, 1, buckets)
    for bit in REASON_BITS:
        columns[f"reason_{bit:#x}"] = np.zeros(buckets)
    frame = pd.DataFrame(columns)
    frame.loc[buckets // 3 : buckets // 2, "reason_0x4"] = 0.6
    frame.loc[buckets - 9 : buckets - 6, "reason_0x8"] = 1.0
    frame.loc[: buckets // 10, "reason_0x1"] = 1.0
    frame.loc[buckets - 200 : buckets - 150, "link_gen_min"] = 1.0
    return frame


def transients(frame: pd.DataFrame) -> pd.DataFrame:
    """The driver's power samples: like `frame`, with peaks."""
    names = ["at", "width_s", "run", "power_w_min", "power_w_mean", "power_w_max"]
    made = frame[names].copy()
    made["power_w_max"] += 40
    made["power_w_min"] -= 40
    return made


def device(
    address: str = ADDRESS, frame: pd.DataFrame | None = None, **changes: object
) -> DeviceTelemetry:
    """One device, everything read."""
    frame = samples() if frame is None else frame
    at = frame["at"]
    rises = [(at.iloc[-50 + 10 * n], 0, "aer_dev_correctable.RxErr", n, n) for n in range(5)]
    rises += [(at.iloc[-30], 0, "pcie_replay", 4, 0), (at.iloc[-20], 0, "pcie_replay", 6, 2)]
    parts: dict[str, object] = {
        "device": address,
        "name": "NVIDIA GeForce RTX 3090",
        "figures": (
            Figure("power_w", "Power draw", "W", 61.2, 209.4, 262.0, 214.0),
            Figure("temp_c", "Core temperature", "C", 51, 63.9, 68, 66),
            Figure("link_gen", "Link generation", "", 1, 2.9, 3, 3),
        ),
        "samples": frame,
        "transients": transients(frame),
        "counters": pd.DataFrame(rises, columns=["at", "run", "name", "value", "rise"]),
        "links": pd.DataFrame(
            [(at.iloc[0], 0, 8.0, 16), (at.iloc[-1], 0, 2.5, 16)],
            columns=["at", "run", "speed_gts", "width"],
        ),
        "slowdown_c": 93.0,
    }
    return DeviceTelemetry(**{**parts, **changes})  # type: ignore[arg-type]


def telemetry(*devices: DeviceTelemetry, marks: tuple[Mark, ...] = MARKS) -> Telemetry:
    """The devices, or one, with the marks of a loss."""
    shown = devices or (device(),)
    begin = min(one.samples["at"].iloc[0] for one in shown).to_pydatetime()
    return Telemetry(
        devices=shown,
        marks=marks,
        begin=begin,
        end=LOST + timedelta(seconds=10),
        focus=(LOST - timedelta(minutes=5), LOST + timedelta(seconds=10)),
        samples=20000,
        interval_s=0.1,
    )
