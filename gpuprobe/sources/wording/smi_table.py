"""Rows of numbers that sampling tools print: `nvidia-smi --query-gpu --format=csv` and dmon.

A row's columns are known from the header above it, if that is within reach, else only from their
units: a bare `68` without a header stays unread.

Source: `nvidia-smi --help-query-gpu`, nvml.h (clocks-event bits), `nvidia-smi dmon`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from gpuprobe.clock import Stamp
from gpuprobe.events import (
    DeviceIdentified,
    Event,
    GpuLostReported,
    GpuMemoryCounted,
    GpuSampled,
    LinkStateReported,
    NvmlReturned,
    PowerReported,
    ThermalReported,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.smi_report import SPEED_GTS

BRAKE = 0x80
"""Clocks-event bit: an external power brake slows the GPU down."""
HW_THERMAL = 0x40
"""Clocks-event bit: the hardware's thermal slowdown is active."""

_ADDRESS = regex(r"(?<![\w:.])([0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])(?![\w.])")
_DATE = regex(r"\d{4}/\d{2}/\d{2} \d{2}:\d{2}:\d{2}(?:\.\d+)?")
_NUMBER = regex(r"(\d+(?:\.\d+)?)\s*(W|%|MHz|MiB|C)?$")
_UUID = regex(r"GPU-[0-9a-f]{8}-[0-9a-f-]{27}$", re.IGNORECASE)

_COLUMNS = {
    "power.draw": "power_w",
    "power.draw.average": "power_w",
    "power.draw.instant": "power_w",
    "power.limit": "limit_w",
    "enforced.power.limit": "limit_w",
    "temperature.gpu": "temp_c",
    "clocks.sm": "sm_clock_mhz",
    "clocks.current.sm": "sm_clock_mhz",
    "utilization.gpu": "util_percent",
    "pcie.link.gen.current": "link_gen",
    "pcie.link.gen.gpucurrent": "link_gen",
    "pcie.link.gen.max": "link_gen_max",
    "pcie.link.width.current": "link_width",
    "clocks_throttle_reasons.active": "clocks_event_reasons",
    "clocks_event_reasons.active": "clocks_event_reasons",
    "clocks_throttle_reasons.hw_power_brake_slowdown": "brake",
    "clocks_event_reasons.hw_power_brake_slowdown": "brake",
    "clocks_throttle_reasons.hw_thermal_slowdown": "hw_thermal",
    "clocks_event_reasons.hw_thermal_slowdown": "hw_thermal",
    "index": "index",
    "name": "name",
    "uuid": "uuid",
}
_ACTIVE = {"brake": BRAKE, "hw_thermal": HW_THERMAL}
"""Columns that say `Active` or `Not Active`, and the bit that each stands for."""
BUSY = 50
"""Utilisation, per cent, from which a GPU has no reason to lower its link."""

_KNOWN_HEADER = regex(
    r"(?:power\.|temperature\.|clocks|utilization\.|pci|timestamp|index|name|uuid|memory\.|fan\.|ecc\.)"
)


@dataclass(slots=True)
class _Row:
    """What one row says: columns by the names of `GpuSampled`, and who it is about."""

    values: dict[str, float]
    address: str | None = None
    index: int | None = None
    name: str | None = None
    uuid: str | None = None
    stamp: Stamp | None = None


def _cells(text: str) -> list[str]:
    return [cell.strip() for cell in text.split(",")]


def _header(records: Sequence[Record]) -> list[str] | None:
    """Column names of the nearest header above, without their units, or None."""
    for record in records:
        cells = _cells(record.message)
        names = [cell.split(" ")[0].lower() for cell in cells]
        if len(names) > 1 and sum(bool(_KNOWN_HEADER.match(name)) for name in names) >= 2:
            return names
    return None


def _parse(text: str, header: list[str] | None) -> _Row:
    """One CSV row; unknown and failed cells are left out."""
    row = _Row({})
    cells = _cells(text)
    # A framing may have taken the stamp, the first column, off the row.
    shift = len(header) - len(cells) if header else 0
    for place, cell in enumerate(cells):
        name = header[place + shift] if header and shift in (0, 1) else None
        key = _COLUMNS.get(name) if name else None
        if date := _DATE.match(cell):
            row.stamp = _stamp(date.group())
        elif _ADDRESS.fullmatch(cell):
            row.address = cell
        elif _UUID.match(cell):
            row.uuid = cell
        elif re.fullmatch(r"0x[0-9A-Fa-f]{16}", cell):
            mask = int(cell, 16)
            # `.supported` prints many bits; an active mask has few.
            if key == "clocks_event_reasons" or (header is None and mask.bit_count() <= 4):
                row.values["clocks_event_reasons"] = mask
        elif key in _ACTIVE:
            if cell == "Active":
                reasons = int(row.values.get("clocks_event_reasons", 0))
                row.values["clocks_event_reasons"] = reasons | _ACTIVE[key]
        elif key == "name":
            row.name = cell if not cell.startswith("[") else None
        elif number := _NUMBER.match(cell):
            _put(row, key, header is None, float(number[1]), number[2])
    return row


def _put(row: _Row, key: str | None, by_unit: bool, value: float, unit: str | None) -> None:
    if key == "index":
        row.index = int(value)
    elif key not in (None, "uuid", "name"):
        row.values.setdefault(str(key), value)
    elif by_unit and unit == "W":
        row.values.setdefault("limit_w" if "power_w" in row.values else "power_w", value)
    elif by_unit and unit == "%":
        row.values.setdefault("util_percent", value)


def _stamp(raw: str) -> Stamp | None:
    layout = "%Y/%m/%d %H:%M:%S.%f" if "." in raw else "%Y/%m/%d %H:%M:%S"
    with suppress(ValueError):
        return Stamp(raw, wall=datetime.strptime(raw, layout), resolution_s=0.001)
    return None


def _base(window: Window, row: _Row, device: str | None) -> dict[str, Any]:
    base = window.base(device)
    if base["stamp"] is None and row.stamp is not None:
        base["stamp"] = row.stamp
    return base


def _sampled(row: _Row, base: dict[str, Any], *, lost: bool = False) -> GpuSampled:
    get = row.values.get
    generation, width, mask = get("link_gen"), get("link_width"), get("clocks_event_reasons")
    return GpuSampled(
        power_w=get("power_w"),
        limit_w=get("limit_w"),
        temp_c=get("temp_c"),
        sm_clock_mhz=get("sm_clock_mhz"),
        util_percent=get("util_percent"),
        link_gen=None if generation is None else int(generation),
        link_width=None if width is None else int(width),
        clocks_event_reasons=None if mask is None else int(mask),
        lost=lost,
        **base,
    )


def _neighbours_address(window: Window) -> str | None:
    """The address of the rows around, if they all have the same one."""
    around = (*window.before(window.REACH), *window.after(window.REACH))
    seen = {
        found[1].lower()
        for record in around
        if record.message.count(",") >= 2
        for cell in _cells(record.message)
        if (found := _ADDRESS.fullmatch(cell))
    }
    return seen.pop() if len(seen) == 1 else None


def _read_row(match: re.Match[str], window: Window) -> Iterator[Event]:
    text = window.text
    header = _header(window.before(window.REACH))
    named = _DATE.search(text) or _ADDRESS.search(text) or window.record.stamps
    if header is None and (text.count(",") < 2 or not named):
        return  # a list in a sentence or in some other program's line
    row = _parse(text, header)
    base = _base(window, row, row.address)
    if row.address and (row.name or row.uuid or row.index is not None):
        yield DeviceIdentified(name=row.name, uuid=row.uuid, index=row.index, is_gpu=True, **base)
    if not row.values:
        return
    yield _sampled(row, base)
    if slow := _slow_link(row, base):
        yield slow
    mask = int(row.values.get("clocks_event_reasons", 0))
    power, limit = row.values.get("power_w"), row.values.get("limit_w")
    if mask & BRAKE:
        yield PowerReported(what="brake", power_w=power, limit_w=limit, **base)
    if mask & HW_THERMAL:
        yield ThermalReported(what="slowdown", temp_c=row.values.get("temp_c"), **base)


def _slow_link(row: _Row, base: dict[str, Any]) -> LinkStateReported | None:
    """The link of a busy GPU that runs below its best generation; at idle that is saving power."""
    now, best = row.values.get("link_gen"), row.values.get("link_gen_max")
    if now is None or best is None or now >= best or row.values.get("util_percent", 0) < BUSY:
        return None
    return LinkStateReported(
        what="sampled",
        speed_gts=SPEED_GTS.get(int(now)),
        max_speed_gts=SPEED_GTS.get(int(best)),
        **base,
    )


def _read_lost_row(match: re.Match[str], window: Window) -> Iterator[Event]:
    row = _parse(window.text, _header(window.before(window.REACH)))
    base = _base(window, row, row.address or _neighbours_address(window))
    yield GpuLostReported(by="nvml", index=row.index, uuid=row.uuid, **base)
    yield _sampled(row, base, lost=True)


def _read_reset_row(match: re.Match[str], window: Window) -> Reading:
    row = _parse(window.text, _header(window.before(window.REACH)))
    return NvmlReturned(
        code=16, name="RESET_REQUIRED", index=row.index, **_base(window, row, row.address)
    )


def _read_unknown_row(match: re.Match[str], window: Window) -> Reading:
    """A row without a single figure; on some healthy GPUs one column or another is unknown."""
    row = _parse(window.text, _header(window.before(window.REACH)))
    if row.values:
        return None
    return NvmlReturned(
        code=999, name="UNKNOWN", index=row.index, **_base(window, row, row.address)
    )


def _read_dmon(match: re.Match[str], window: Window) -> Iterator[Event]:
    """Rows below a `# gpu pwr gtemp ...` header: the header's record reads them all."""
    names = match["names"].split()
    for record in window.after(window.REACH):
        values = record.message.split()[1:]
        if record.message.lstrip().startswith("#"):
            continue
        if len(values) != len(names) or not all(re.fullmatch(r"[\d.]+|-", v) for v in values):
            return
        cells = {n: float(v) for n, v in zip(names, values, strict=True) if v != "-"}
        yield GpuSampled(
            power_w=cells.get("pwr"),
            temp_c=cells.get("gtemp", cells.get("temp")),
            sm_clock_mhz=cells.get("pclk"),
            util_percent=cells.get("sm"),
            **window.base(),
        )


_MEMORY_COLUMNS = {
    "ecc.errors.uncorrected.volatile.total": "uncorrectable",
    "ecc.errors.uncorrected.volatile.dram": "uncorrectable",
    "ecc.errors.uncorrected.volatile.device_memory": "uncorrectable",
    "remapped_rows.pending": "remap-pending",
    "remapped_rows.failure": "remap-failed",
}


def _read_memory_header(match: re.Match[str], window: Window) -> Iterator[Event]:
    """Rows below a header with counts of memory errors: the header's record reads them all."""
    names = _cells(match["header"])
    for place, record in enumerate(window.after(16), start=window.index + 1):
        cells = _cells(record.message)
        if len(cells) != len(names):
            return
        row = Window(window.records, place, record.message, window.input, window.input_order)
        address = next((cell for cell in cells if _ADDRESS.fullmatch(cell)), None)
        counts: dict[str, int] = {}
        for name, cell in zip(names, cells, strict=True):
            what = _MEMORY_COLUMNS.get(name.split(" ")[0])
            value = int(cell) if cell.isdecimal() else int(cell == "Yes")
            if what and value:
                counts[what] = max(value, counts.get(what, 0))
        for what, value in counts.items():
            yield GpuMemoryCounted(what=what, value=value, **row.base(address))


FAMILY = Family(
    "smi_table",
    (
        Pattern(
            id="smi-csv-lost",
            needles=("[GPU is lost]",),
            regex=regex(r"\[GPU is lost\].*\Z"),
            read=_read_lost_row,
            examples=(
                "2026/05/11 09:12:44.700, [GPU is lost], [GPU is lost], [GPU is lost]",
                "1, 00000000:41:00.0, [GPU is lost], [GPU is lost]",
            ),
            near=("GPU is lost",),
            source="nvidia-smi --query-gpu",
        ),
        Pattern(
            id="smi-csv-reset",
            needles=("[GPU requires reset]", "[GPU requires restart]"),
            regex=regex(r"\[GPU requires (?:reset|restart)\].*\Z"),
            read=_read_reset_row,
            examples=("2026/05/11 09:12:44.700, 00000000:41:00.0, [GPU requires reset], 41",),
            near=("GPU requires reset",),
            source="nvidia-smi --query-gpu",
        ),
        Pattern(
            id="smi-csv-unknown",
            needles=("[Unknown Error]",),
            regex=regex(r"(?:,\s*\[Unknown Error\]){2,}\s*\Z"),
            read=_read_unknown_row,
            examples=(
                "2026/05/11 09:12:44.700, 0, 00000000:41:00.0, [Unknown Error], [Unknown Error]",
            ),
            near=(
                "2026/05/11 09:12:44.700, 00000000:41:00.0, 71, 402.15 W, [Unknown Error], [Unknown Error]",
                "2026/05/11 09:12:44.700, 00000000:41:00.0, [Unknown Error]",
            ),
            source="nvidia-smi --query-gpu",
        ),
        Pattern(
            id="smi-csv-memory",
            needles=("ecc.errors.uncorrected.volatile.", "remapped_rows."),
            regex=regex(
                r"(?<![\w=,.])(?P<header>(?:[\w.]+(?: \[\w+\])?, )*(?:ecc\.errors\.uncorrected\.volatile\.\w+|remapped_rows\.(?:pending|failure))(?:, [\w.]+(?: \[\w+\])?)*)\s*\Z"
            ),
            read=_read_memory_header,
            examples=(
                "gpu_bus_id, remapped_rows.pending, remapped_rows.failure\n00000000:41:00.0, 1, 0",
                "index, ecc.errors.uncorrected.volatile.total\n0, 3",
            ),
            near=("index, ecc.errors.uncorrected.volatile.total\n0, 0",),
            source="nvidia-smi --query-gpu, --query-remapped-rows",
        ),
        Pattern(
            id="smi-csv-row",
            needles=(", 000000", " W, ", ", 0x0000000000000", " %, ", " MHz, "),
            regex=regex(
                r"(?:, 000000[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}:|\d W, |, 0x0000000000000[0-9A-Fa-f]{3}|\d %, |\d MHz, ).*\Z"
            ),
            read=_read_row,
            examples=(
                "2026/05/11 09:12:43.690, 00000000:41:00.0, 0x0000000000000080, 402.15 W, 71",
                "timestamp, pci.bus_id, power.draw [W], temperature.gpu\n2026/05/11 09:12:43.690, 00000000:41:00.0, 402.15 W, 71",
                "index, power.draw, temperature.gpu\n0, 88.10 W, 52",
                "index, uuid, pci.bus_id\n1, GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc, 00000008:41:00.0",
            ),
            near=("The card draws 300 W, which is a lot.", "rsp 0xffff, 0x0000000000000080"),
            source="nvidia-smi --query-gpu",
        ),
        Pattern(
            id="smi-dmon",
            needles=("# gpu ",),
            regex=regex(r"# gpu (?P<names>[a-z ]*\bpwr\b[a-z ]*|[a-z ]*\bsm\b[a-z ]*)$"),
            read=_read_dmon,
            examples=(
                "# gpu    pwr  gtemp  mtemp     sm    mem\n# Idx      W      C      C      %      %\n    0    210     66      -     98     40",
            ),
            near=("# gpu memory is small",),
            source="nvidia-smi dmon",
        ),
    ),
)
