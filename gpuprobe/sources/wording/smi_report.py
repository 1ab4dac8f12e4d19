"""The long text of `nvidia-smi -q`: one reading a line, under the heading of its GPU.

Each pattern is anchored on a line of its own. Which GPU it belongs to stands in the heading
`GPU 00000000:04:00.0` above, or in the `Bus Id` line of its PCI section; where both are further
away than a window reaches, the event names no device.

Source: `nvidia-smi -q` of drivers 390 to 595.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence

from gpuprobe.events import (
    DeviceIdentified,
    Event,
    GpuMemoryCounted,
    LinkStateReported,
    NvmlReturned,
    PowerReported,
    SystemDescribed,
    ThermalReported,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading

SPEED_GTS = {1: 2.5, 2: 5.0, 3: 8.0, 4: 16.0, 5: 32.0, 6: 64.0}
"""Transfer rate of a PCIe generation, GT/s per lane."""

_HEADING = regex(
    r"(?<![\w:] )\bGPU (?P<address>[0-9A-Fa-f]{8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])\s*$"
)
_BUS_ID = regex(
    r"\bBus Id\s*:\s*(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
)


def _device(window: Window) -> str | None:
    """The address in the nearest heading above, or None."""
    for record in window.before(window.REACH):
        found = _HEADING.search(record.raw) or _BUS_ID.search(record.raw)
        if found:
            return found["address"]
    return None


def _value(records: Sequence[Record], label: str) -> float | None:
    """The number behind the first line `label : 12.5 C` of `records`, or None."""
    shape = regex(rf"(?:^|\s){label}\s*:\s*(\d+(?:\.\d+)?)")
    for record in records:
        if found := shape.search(record.raw):
            return float(found[1])
    return None


def _read_heading(match: re.Match[str], window: Window) -> Reading:
    return DeviceIdentified(is_gpu=True, **window.base(match["address"]))


def _read_name(match: re.Match[str], window: Window) -> Reading:
    return DeviceIdentified(name=match["name"], is_gpu=True, **window.base(_device(window)))


def _read_uuid(match: re.Match[str], window: Window) -> Reading:
    return DeviceIdentified(uuid=match["uuid"], is_gpu=True, **window.base(_device(window)))


def _read_serial(match: re.Match[str], window: Window) -> Reading:
    device = _device(window)
    # Monitors, disks and boards have serial numbers as well: only under a GPU's heading.
    return (
        DeviceIdentified(serial=match["serial"], is_gpu=True, **window.base(device))
        if device
        else None
    )


def _read_version(match: re.Match[str], window: Window) -> Reading:
    key = "driver" if match["what"] == "Driver" else "cuda"
    return SystemDescribed(key=key, value=match["value"], **window.base())


def _read_unknown(match: re.Match[str], window: Window) -> Reading:
    return NvmlReturned(code=999, name="UNKNOWN", **window.base(_device(window)))


def _read_reset_required(match: re.Match[str], window: Window) -> Reading:
    return NvmlReturned(code=16, name="RESET_REQUIRED", **window.base(_device(window)))


def _read_link(match: re.Match[str], window: Window) -> Reading:
    below = window.after(12)
    split = next((i for i, r in enumerate(below) if "Link Width" in r.raw), len(below))
    generations, widths = below[:split], below[split : split + 4]
    current = _value(generations, "Current")
    best = _value(generations, "Max")
    width = _value(widths, "Current")
    best_width = _value(widths, "Max")
    if current is None and width is None:
        return None
    return LinkStateReported(
        what="sampled",
        speed_gts=SPEED_GTS.get(int(current)) if current else None,
        width=int(width) if width is not None else None,
        max_speed_gts=SPEED_GTS.get(int(best)) if best else None,
        max_width=int(best_width) if best_width is not None else None,
        **window.base(_device(window)),
    )


def _read_temperature(match: re.Match[str], window: Window) -> Reading:
    below = window.after(10)
    heading = next((i for i, r in enumerate(below) if _HEADING.search(r.raw)), len(below))
    return ThermalReported(
        what="reading",
        temp_c=float(match["temp"]),
        slowdown_c=_value(below[:heading], "GPU Slowdown Temp"),
        memory_temp_c=_value(below[:heading], "Memory Current Temp"),
        **window.base(_device(window)),
    )


def _read_power(match: re.Match[str], window: Window) -> Reading:
    limit = _value(window.after(4), r"(?:Current |Enforced )?Power Limit")
    return PowerReported(
        what="reading",
        power_w=float(match["power"]),
        limit_w=limit,
        **window.base(_device(window)),
    )


def _read_slowdown(match: re.Match[str], window: Window) -> Reading:
    device = _device(window)
    if match["what"].endswith("Power Brake"):
        return PowerReported(what="brake", **window.base(device))
    return ThermalReported(what="slowdown", **window.base(device))


def _section(window: Window, names: tuple[str, ...], reach: int) -> str:
    """Which of the headings `names` stands nearest above, or ""."""
    for record in window.before(reach):
        if (text := record.raw.strip()) in names:
            return text
    return ""


def _read_ecc(match: re.Match[str], window: Window) -> Reading:
    if _section(window, ("Volatile", "Aggregate"), 16) != "Volatile":
        return None
    return GpuMemoryCounted(
        what="uncorrectable", value=int(match["count"]), **window.base(_device(window))
    )


def _read_remapped(match: re.Match[str], window: Window) -> Reading:
    if not any("Remapped Rows" in record.raw for record in window.before(6)):
        return None
    what = "remap-pending" if match["what"] == "Pending" else "remap-failed"
    return GpuMemoryCounted(what=what, **window.base(_device(window)))


def _read_retirement(match: re.Match[str], window: Window) -> Reading:
    return GpuMemoryCounted(what="remap-pending", **window.base(_device(window)))


def _line(
    name: str,
    needles: tuple[str, ...],
    text: str,
    read: Callable[[re.Match[str], Window], Reading | Iterator[Event]],
    example: str,
    near: str,
) -> Pattern:
    return Pattern(
        id=f"smi-q-{name}",
        needles=needles,
        regex=regex(text),
        read=read,
        examples=(example,),
        near=(near,),
        source="nvidia-smi -q",
    )


FAMILY = Family(
    "smi_report",
    (
        _line(
            "heading", ("GPU 0",), _HEADING.pattern.replace("[0-9A-Fa-f]{8}", "0[0-9A-Fa-f]{7}"), _read_heading,
            "GPU 00000000:3B:00.0",
            "NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.",
        ),
        _line(
            "name", ("Product Name",), r"Product Name\s+:\s+(?P<name>(?!GPU is lost|Unknown Error|N/A)\S.{0,160}\S)", _read_name,
            "    Product Name                          : NVIDIA A30",
            "    Product Name                          : Unknown Error",
        ),
        _line(
            "uuid", ("GPU UUID",), r"GPU UUID\s*:\s+(?P<uuid>GPU-[0-9a-fA-F-]{36})", _read_uuid,
            "    GPU UUID                              : GPU-0b1c2d3e-4f50-6172-8394-a5b6c7d8e9f0",
            "GPU UUID cache not valid!",
        ),
        _line(
            "serial", ("Serial Number",), r"Serial Number\s+:\s+(?P<serial>\d{6,20})\b", _read_serial,
            "GPU 00000000:3B:00.0\n    Serial Number                         : 1320321000123",
            "Serial Number    : 99887766",
        ),
        _line(
            "version", ("Driver Version", "CUDA Version"), r"(?P<what>Driver|CUDA) Version\s{2,}:\s+(?P<value>\d[\d.]+)", _read_version,
            "Driver Version                            : 550.163.01",
            "Driver Version: see below",
        ),
        _line(
            "link", ("PCIe Generation",), r"PCIe Generation\s*$", _read_link,
            "            PCIe Generation\n                Max                       : 4\n                Current                   : 1\n            Link Width\n                Max                       : 16x\n                Current                   : 8x",
            "PCIe Generation 4 is recommended",
        ),
        _line(
            "temperature", ("GPU Current Temp",), r"GPU Current Temp\s+:\s+(?P<temp>\d+) C", _read_temperature,
            "        GPU Current Temp                  : 81 C",
            "        GPU Current Temp                  : N/A",
        ),
        _line(
            "power", ("Power Draw",), r"(?<!Average )Power Draw\s+:\s+(?P<power>\d+(?:\.\d+)?) W", _read_power,
            "        Power Draw                        : 289.31 W",
            "        Power Draw                        : [N/A]",
        ),
        _line(
            "slowdown", ("Slowdown",), r"(?P<what>HW Power Brake|HW Thermal|SW Thermal) Slowdown\s+:\s+Active", _read_slowdown,
            "            HW Thermal Slowdown           : Active",
            "            HW Thermal Slowdown           : Not Active",
        ),
        _line(
            "ecc", ("Uncorrectable",), r"(?:SRAM|DRAM) Uncorrectable(?: Parity| SEC-DED)?\s+:\s+(?P<count>[1-9]\d*)", _read_ecc,
            "        Volatile\n            DRAM Correctable              : 0\n            DRAM Uncorrectable            : 3",
            "        Aggregate\n            DRAM Uncorrectable            : 3",
        ),
        _line(
            "remapped", ("Pending", "Remapping Failure Occurred"), r"(?P<what>Pending|Remapping Failure Occurred)\s+:\s+Yes", _read_remapped,
            "    Remapped Rows\n        Correctable Error                 : 0\n        Uncorrectable Error               : 2\n        Pending                           : Yes",
            "    Retired Pages\n        Pending                           : Yes",
        ),
        _line(
            "retirement", ("Pending Page Blacklist",), r"Pending Page Blacklist\s+:\s+Yes", _read_retirement,
            "        Pending Page Blacklist      : Yes",
            "        Pending Page Blacklist      : No",
        ),
        _line(
            "unknown", (": Unknown Error",), r"\S\s{2,}: Unknown Error\s*$", _read_unknown,
            "    Persistence Mode                      : Unknown Error",
            "Failed to reset: Unknown Error",
        ),
        _line(
            "reset-required", ("GPU requires re", "GPU Recovery Action"),
            r"[:\[]\s*GPU requires (?:reset|restart)|GPU Recovery Action\s+:\s+(?:Reset|Reboot|Drain and Reset|Bus Reset)", _read_reset_required,
            "    GPU Recovery Action                   : Reset",
            "    GPU Recovery Action                   : None",
        ),
    ),
)  # fmt: skip
