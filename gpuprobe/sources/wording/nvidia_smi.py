"""What nvidia-smi says when a GPU or the driver does not answer: its table and its `-L` list."""

from __future__ import annotations

import re
from collections.abc import Iterator

from gpuprobe.events import (
    DeviceIdentified,
    DriverUnusable,
    Event,
    GpuMemoryCounted,
    GpuSampled,
    LossHinted,
    SystemDescribed,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import nvml_errors, smi_listing
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_TABLE_ROWS = 20
"""Rows below the columns' names that are looked at: more than a machine has GPUs."""
_OWED = regex(r"(?P<index>\d{1,2}), (?:Reset|Reboot|Drain P2P|Drain and Reset)")
"""A GPU that waits for something, by NVML's names of its recovery actions."""


def _read_no_devices(match: re.Match[str], window: Window) -> Reading:
    return DriverUnusable(what="no-devices", **window.base())


def _read_smi_failed(match: re.Match[str], window: Window) -> Reading:
    return DriverUnusable(what="smi-failed", **window.base())


def _read_versions(match: re.Match[str], window: Window) -> Iterator[Event]:
    yield SystemDescribed(key="driver", value=match["driver"], **window.base())
    if table := smi_listing.read_table(window, match["driver"]):
        yield table
    if match["cuda"]:
        yield SystemDescribed(key="cuda", value=match["cuda"], **window.base())


def _read_table_row(match: re.Match[str], window: Window) -> Iterator[Event]:
    index = int(match["index"])
    device = match["address"]
    name = match["name"].strip()
    lost_name = name.startswith("ERR!") or name.lower().startswith("unknown error")
    yield DeviceIdentified(
        index=index,
        # A name that the table cut short is no name.
        name=None if lost_name or name.endswith("...") else name,
        is_gpu=True,
        **window.base(device),
    )
    if lost_name or match["rest"].count("ERR!") > 1:
        yield LossHinted(what="smi-error", index=index, **window.base(device))
    if counted := re.match(r"\s*(?:On|Off)\s*\|\s+(?P<count>[1-9]\d{0,9})\s*\|", match["rest"]):
        count = int(counted["count"])
        yield GpuMemoryCounted(what="uncorrectable", value=count, **window.base(device))


def _read_error_cells(match: re.Match[str], window: Window) -> Reading:
    cells = match.group()
    # A fan sensor alone fails on healthy cards.
    if cells.count("ERR!") < 2:
        return None
    row = smi_listing.row_above(window)
    return LossHinted(
        what="smi-error",
        index=int(row["index"]) if row else None,
        **window.base(row["address"] if row else None),
    )


def _read_readings(match: re.Match[str], window: Window) -> Reading:
    row = smi_listing.row_above(window)
    util = re.search(r"\|\s*(\d+)%\s", window.text[match.end() :])
    return GpuSampled(
        temp_c=float(match["temp"]),
        power_w=float(match["power"]),
        limit_w=float(match["limit"]),
        util_percent=float(util[1]) if util else None,
        **window.base(row["address"] if row else None),
    )


def _read_owed(match: re.Match[str], window: Window) -> Reading:
    """The rows below the columns' names, or below the command where those were left out."""
    found = []
    for place, record in enumerate(window.after(_TABLE_ROWS), window.index + 1):
        row = _OWED.fullmatch(record.message.strip())
        if row:
            base = window.at(place).base()
            found.append(LossHinted(what="smi-error", index=int(row["index"]), **base))
    return found


def _read_listed(match: re.Match[str], window: Window) -> Iterator[Event]:
    yield DeviceIdentified(
        index=int(match["index"]),
        name=match["name"],
        uuid=match["uuid"],
        is_gpu=True,
        **window.base(),
    )
    if listing := smi_listing.read_list(window):
        yield listing


_TABLE_AND_LIST = (
    Pattern(
        id="smi-recovery-owed",
        needles=("gpu_recovery_action",),
        regex=regex(r"\bindex, ?gpu_recovery_action\b"),
        read=_read_owed,
        examples=(
            "index, gpu_recovery_action\n0, None\n1, Reset",
            "nvidia-smi --query-gpu=index,gpu_recovery_action --format=csv,noheader\n0, Reboot",
        ),
        near=("index, gpu_recovery_action\n0, None\n1, None",),
        source="nvidia-smi --help-query-gpu",
    ),
    Pattern(
        id="smi-no-devices",
        needles=("No devices were found",),
        regex=regex(r"No devices were found"),
        read=_read_no_devices,
        examples=("No devices were found", "gpu-exporter[711]: No devices were found"),
        near=("No devices found",),
        source="nvidia-smi",
    ),
    Pattern(
        id="smi-no-driver",
        needles=("communicate with the NVIDIA driver",),
        regex=regex(
            r"(?:NVIDIA-SMI has failed because it )?(?:could(?:n't|n’t| not)|can(?:'t|’t|not))\s+communicate with the NVIDIA driver"
        ),
        read=_read_smi_failed,
        examples=(
            "NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver. Make sure that the latest NVIDIA driver is installed and running.",
        ),
        near=("Agents communicate with the NVIDIA driver over ioctl",),
        source="nvidia-smi",
    ),
    Pattern(
        id="smi-header",
        needles=("Driver Version:",),
        regex=regex(
            r"NVIDIA-SMI\s+[\d.]+\s+Driver Version:\s*(?P<driver>\d[\d.]+)(?:\s+CUDA Version:\s*(?P<cuda>\d[\d.]*))?"
        ),
        read=_read_versions,
        examples=(
            "| NVIDIA-SMI 560.35.03    Driver Version: 560.35.03    CUDA Version: 12.6     |",
        ),
        near=("Driver Version: unknown",),
        source="nvidia-smi's table",
    ),
    Pattern(
        id="smi-row",
        needles=("| 0", "|  0", "|   0", "|    0", "|     0"),
        regex=smi_listing.ROW,
        read=_read_table_row,
        examples=(
            "|   0  NVIDIA GeForce RTX 4090        Off |   00000000:2B:00.0 Off |                  Off |",
            "|   3  ERR!                       Off  | 00000000:C1:00.0 Off |                 ERR! |",
        ),
        near=("|   0   N/A  N/A      2114      C   python3                 18012MiB |",),
        source="nvidia-smi's table",
    ),
    Pattern(
        id="smi-err-cells",
        needles=("ERR!",),
        regex=regex(r"(?:\||\A)[^|]*ERR!.{0,160}\|"),
        read=_read_error_cells,
        examples=(
            "|ERR!  ERR! ERR!    ERR! / ERR! | Unknown Error        |   Unknown Error      |",
        ),
        near=("|ERR!   48C    P2    98W / 350W |   1024MiB / 24576MiB |     35%      Default |",),
        source="nvidia-smi's table",
    ),
    Pattern(
        id="smi-readings",
        needles=("W / ",),
        regex=regex(
            r"(?:\||\A)[^|]*?\s(?P<temp>\d{1,3})C\s+P\d{1,2}\s+(?P<power>\d+)W / +(?P<limit>\d+)W\s*\|[^|]*"
        ),
        read=_read_readings,
        examples=(
            "| 41%   66C    P2             287W /  350W |   22104MiB /  24576MiB |     97%      Default |",
        ),
        near=("| fan | 20W / 30W |",),
        source="nvidia-smi's table",
    ),
    Pattern(
        id="smi-list",
        needles=("(UUID: GPU-",),
        regex=smi_listing.LISTED,
        read=_read_listed,
        examples=("GPU 1: NVIDIA L40S (UUID: GPU-5f0c1d2e-3a4b-5c6d-7e8f-90a1b2c3d4e5)",),
        near=("  MIG 1g.5gb Device 0: (UUID: MIG-5f0c1d2e-3a4b-5c6d-7e8f-90a1b2c3d4e5)",),
        source="nvidia-smi -L",
    ),
)

FAMILY = Family("nvidia_smi", (*nvml_errors.PATTERNS, *_TABLE_AND_LIST))
