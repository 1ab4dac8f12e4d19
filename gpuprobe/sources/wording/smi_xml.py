"""The XML of `nvidia-smi -q -x`: counts of memory errors, rows and slowdowns that are not healthy.

Source: `nvidia-smi -q -x` of drivers 390 to 595.
"""

from __future__ import annotations

import re

from gpuprobe.events import GpuMemoryCounted, NvmlReturned, PowerReported, ThermalReported
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_GPU = regex(
    r"<(?:gpu id=\"|pci_bus_id>)(?P<address>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
)
_SECTION = regex(r"<(?P<name>volatile|aggregate)>")
_BITS = regex(r"<(?P<name>single_bit|double_bit)>")
_SOURCE = "nvidia-smi -q -x"


def _above(shape: re.Pattern[str], window: Window) -> re.Match[str] | None:
    """The nearest match above, of what one window reaches."""
    found = (shape.search(record.message) for record in window.before(window.REACH))
    return next(filter(None, found), None)


def _device(window: Window) -> str | None:
    found = _above(_GPU, window)
    return found["address"] if found else None


def _name(shape: re.Pattern[str], window: Window) -> str:
    found = _above(shape, window)
    return found["name"] if found else ""


def _read_ecc(match: re.Match[str], window: Window) -> Reading:
    # Aggregate counts are those of the card's life.
    if _name(_SECTION, window) != "volatile":
        return None
    if match["tag"] == "total" and _name(_BITS, window) != "double_bit":
        return None
    return GpuMemoryCounted(
        what="uncorrectable", value=int(match["count"]), **window.base(_device(window))
    )


def _read_rows(match: re.Match[str], window: Window) -> Reading:
    what = "remap-failed" if match["what"] == "failure" else "remap-pending"
    return GpuMemoryCounted(what=what, **window.base(_device(window)))


def _read_slowdown(match: re.Match[str], window: Window) -> Reading:
    base = window.base(_device(window))
    if match["what"] == "thermal":
        return ThermalReported(what="slowdown", **base)
    return PowerReported(what="brake", **base)


def _read_reset(match: re.Match[str], window: Window) -> Reading:
    return NvmlReturned(code=16, name="RESET_REQUIRED", **window.base(_device(window)))


FAMILY = Family(
    "smi_xml",
    (
        Pattern(
            id="smi-xml-ecc",
            needles=("ram_uncorrectable", "total>"),
            regex=regex(r"<(?P<tag>[sd]ram_uncorrectable\w*|total)>(?P<count>[1-9]\d*)</"),
            read=_read_ecc,
            examples=(
                "<volatile>\n<dram_uncorrectable>6</dram_uncorrectable>",
                "<volatile>\n<double_bit>\n<total>4</total>",
            ),
            near=(
                "<volatile>\n<dram_uncorrectable>0</dram_uncorrectable>",
                "<aggregate>\n<dram_uncorrectable>6</dram_uncorrectable>",
                "<volatile>\n<single_bit>\n<total>4</total>",
                "<fb_memory_usage>\n<total>81559 MiB</total>",
            ),
            source=_SOURCE,
        ),
        Pattern(
            id="smi-xml-rows",
            needles=("remapped_row_",),
            regex=regex(r"<remapped_row_(?P<what>pending|failure)>Yes</"),
            read=_read_rows,
            examples=("<remapped_row_failure>Yes</remapped_row_failure>",),
            near=("<remapped_row_failure>No</remapped_row_failure>",),
            source=_SOURCE,
        ),
        Pattern(
            id="smi-xml-slowdown",
            needles=("_reason_hw_",),
            regex=regex(
                r"<clocks_(?:event|throttle)_reason_hw_(?P<what>thermal|power_brake)_slowdown>Active</"
            ),
            read=_read_slowdown,
            examples=(
                "<clocks_event_reason_hw_thermal_slowdown>Active</clocks_event_reason_hw_thermal_slowdown>",
                "<clocks_throttle_reason_hw_power_brake_slowdown>Active</clocks_throttle_reason_hw_power_brake_slowdown>",
            ),
            near=(
                "<clocks_event_reason_hw_thermal_slowdown>Not Active</clocks_event_reason_hw_thermal_slowdown>",
            ),
            source=_SOURCE,
        ),
        Pattern(
            id="smi-xml-reset",
            needles=("reset_required>",),
            regex=regex(r"<reset_required>Yes</"),
            read=_read_reset,
            examples=("<reset_required>Yes</reset_required>",),
            near=("<reset_required>No</reset_required>",),
            source=_SOURCE,
        ),
    ),
)
