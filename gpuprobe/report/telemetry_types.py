"""What a report says of the GPUs' readings: figures for a table, frames for plots."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd

REASON_BITS = {
    0x1: "idle",
    0x2: "application clocks",
    0x4: "power cap",
    0x8: "hardware slowdown",
    0x10: "sync boost",
    0x20: "software thermal",
    0x40: "hardware thermal",
    0x80: "power brake",
    0x100: "display clocks",
}
"""Bits of NVML's clock-event reasons, in words."""

MOST_BUCKETS = 2000
"""Rows of a device's frame of samples, at most."""


@dataclass(frozen=True, slots=True)
class Figure:
    """One reading of a device over all that was sampled.

    Attributes:
        name: As in `gpuprobe.events.GpuSampled`: `power_w`.
        label: For people: `Power draw`.
        unit: `W`, `°C`, `MHz`, `%`, `GiB`, `MB/s`, or "".
        low: Smallest. mean: Mean of all samples. high: Largest. All in `unit`.
        last: The last one before the device failed, or of all where it did not; None: not read.
    """

    name: str
    label: str
    unit: str
    low: float
    mean: float
    high: float
    last: float | None = None


@dataclass(frozen=True, slots=True)
class Mark:
    """A moment to mark on the time axis.

    Attributes:
        at: When, aware. label: A few words; may hold a log's own words, so treat it as hostile.
        role: `proof`, `support`, `precursor`, `consequence` or `context`.
        device: Address it is about, or None: shown on every device's plots.
    """

    at: datetime
    label: str
    role: str
    device: str | None = None


@dataclass(frozen=True, slots=True, eq=False)
class DeviceTelemetry:
    """The readings of one GPU.

    Attributes:
        device: PCI address. name: Marketing name, or None.
        figures: Rows of the summary table.
        samples: A row a bucket, in order of time, at most `MOST_BUCKETS`. Columns: `at`
            (`datetime64[ns, UTC]`, its begin), `width_s`, `run` (which recording, plots break
            between two), `count` (samples in it); of each name in `telemetry.FIELDS` `NAME_min`,
            `NAME_mean`, `NAME_max` (`float64`, NaN where not read; bytes, W, C, MHz, percent as
            their names say); and `reason_0x4` and so on, the share of its samples (0 to 1) with
            that clock-event reason. Buckets near the incident are narrower.
        transients: The driver's own power samples: `at`, `width_s`, `run`, `power_w_min`,
            `power_w_mean`, `power_w_max`; empty where there are none.
        counters: Rises of counters: `at`, `run`, `name` (`aer_dev_correctable.RxErr`,
            `pcie_replay`), `value` (as read), `rise` (since the recording began); at most
            `MOST_BUCKETS`; those that never rose are left out.
        links: States of the link as sysfs shows it: `at`, `run`, `speed_gts`, `width`.
        slowdown_c: Temperature at which it slows down, where an input says so.
        reasons: Clock-event reason to the share of the samples (0 to 1) that had it; empty where
            none was read.
    """

    device: str
    name: str | None
    figures: tuple[Figure, ...]
    samples: pd.DataFrame
    transients: pd.DataFrame
    counters: pd.DataFrame
    links: pd.DataFrame
    slowdown_c: float | None = None
    reasons: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Telemetry:
    """The readings of every GPU, on one time axis.

    Attributes:
        devices: The failed one first. marks: In order of time.
        begin: First sample. end: Last sample.
        focus: Where the plots look first: the minutes around the incident, or None for all.
        samples: How many samples there are in all. interval_s: Usual time between two.
        pauses: Where the first device was not sampled for much longer: begin, and seconds.
    """

    devices: tuple[DeviceTelemetry, ...]
    marks: tuple[Mark, ...]
    begin: datetime
    end: datetime
    focus: tuple[datetime, datetime] | None = None
    samples: int = 0
    interval_s: float | None = None
    pauses: tuple[tuple[datetime, float], ...] = ()
