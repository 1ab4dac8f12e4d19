"""The table of facts: what a maintainer asks before anything else."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Final

from gpuprobe.diagnosis import Verdict
from gpuprobe.events import (
    BootStarted,
    DeviceIdentified,
    Event,
    LinkStateReported,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.recording.about import boot_line
from gpuprobe.report.contents import Fact
from gpuprobe.report.engine_facts import LENGTH, of_engine, source_of
from gpuprobe.report.telemetry_types import Figure, Telemetry
from gpuprobe.timeline import Timeline

_WANTED: Final = (
    "GPU", "Address", "Driver", "Firmware", "Link", "Power limit", "Kernel", "Engine",
    "Command line", "Framework", "CUDA", "Model",
)  # fmt: skip
"""What every report should say, so that what it cannot say is said too."""

_GSP: Final = re.compile(r"\bGSP(?: Firmware| FW)?(?: Version)?\s*[:=]\s*(\d{3}\.\d[\d.]*)", re.I)
_NVRM: Final = re.compile(
    r"(?P<kind>Open )?Kernel Module[^\d]*(?:for \S+)?\s+(?P<version>\d{3}\.\d[\d.]*)", re.I
)
"""`NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  580.159.04  Release Build  (…)`."""

_MACHINE: Final = {
    "machine": "Machine",
    "board": "Board",
    "bios": "BIOS",
    "os": "System",
    "container": "Container",
}
_DESCRIBED: Final = {
    "chassis": "Machine", "laptop": "Laptop", "vm": "Virtual machine", "wsl": "WSL",
    "container": "Container", "egpu": "External GPU", "riser": "Riser",
    "power-cap": "Power cap set", "aer-disabled": "AER switched off", "aspm": "ASPM",
}  # fmt: skip


def facts(
    timeline: Timeline,
    verdict: Verdict,
    about: Mapping[str, str],
    telemetry: Telemetry | None,
) -> tuple[Fact, ...]:
    """Rows in the order a maintainer reads; what the inputs do not say is one row at the end.

    Args:
        timeline: Of the host that the verdict is about.
        verdict: The first one.
        about: What the newest recording says of itself, or nothing.
        telemetry: The readings, for limit and link.
    """
    found = [
        *_of_device(timeline, verdict, about, telemetry),
        *_of_system(timeline, about),
        *of_engine(timeline, about),
    ]
    rows: dict[tuple[str, str], Fact] = {}
    for fact in found:
        if fact.value.strip():
            rows.setdefault((fact.label, fact.value), fact)
    missing = [name for name in _WANTED if all(label != name for label, _ in rows)]
    shown = [Fact(row.label, row.value[:LENGTH].strip(), row.source) for row in rows.values()]
    if missing:
        shown.append(Fact("Not in these inputs", ", ".join(missing)))
    return tuple(shown)


def _of_device(
    timeline: Timeline,
    verdict: Verdict,
    about: Mapping[str, str],
    telemetry: Telemetry | None,
) -> Iterator[Fact]:
    device = verdict.device
    slot = device.pci.slot if device and device.pci else None
    measured = telemetry.devices[0] if telemetry and telemetry.devices else None
    if measured and slot and measured.device != str(slot):
        measured = next((one for one in telemetry.devices if one.device == str(slot)), None)  # type: ignore[union-attr]
    name = (device.name if device else None) or (measured.name if measured else None)
    if name:
        yield Fact("GPU", name)
    if device and device.pci:
        yield Fact("Address", str(device.pci))
    elif measured and device is None:
        yield Fact("Address", measured.device)
    if device and device.uuid:
        yield Fact("UUID", device.uuid)
    for event in timeline.of(DeviceIdentified):
        if event.serial and event.device and event.device.slot == slot:
            yield Fact("Serial", event.serial, source_of(event))
    yield from _driver(timeline, about, slot)
    link = None
    for state in timeline.of(LinkStateReported):
        same = slot is None or (state.device is not None and state.device.slot == slot)
        if state.what == "sampled" and same and (state.speed_gts or state.width):
            link = state
    if link is not None:
        yield Fact("Link", _link(link), source_of(link))
    figures = {figure.name: figure for figure in measured.figures} if measured else {}
    yield from _limit(timeline, slot, figures.get("limit_w"))
    modes = _about_card(timeline, "gpu-modes", slot)
    if modes is not None:
        yield Fact("Modes", modes.value, source_of(modes))
    if link is None and "link_gen" in figures and "link_width" in figures:
        gen, width = figures["link_gen"], figures["link_width"]
        low, high = f"Gen{gen.low:g} x{width.low:g}", f"Gen{gen.high:g} x{width.high:g}"
        yield Fact("Link", f"{low} to {high}" if low != high else high, "samples")


def _about_card(timeline: Timeline, key: str, slot: PciAddress | None) -> SystemDescribed | None:
    """The last line that describes this property of the card, or of the only one there is."""
    found = [event for event in timeline.of(SystemDescribed) if event.key == key]
    slots = {event.device.slot for event in found if event.device is not None}
    if slot is None and len(slots) > 1:
        return None
    own = [one for one in found if slot is None or (one.device and one.device.slot == slot)]
    return own[-1] if own else None


def _limit(timeline: Timeline, slot: PciAddress | None, limit: Figure | None) -> Iterator[Fact]:
    """The power limit in force, beside the card's own."""
    bounds = _about_card(timeline, "power-limits", slot)
    parts = []
    if limit is not None:
        spread = f"{limit.low:g} to " if limit.low != limit.high else ""
        parts.append(f"{spread}{limit.high:g} W")
    if bounds is not None:
        parts.append(f"({bounds.value})" if parts else bounds.value)
    if parts:
        source = "samples" if limit is not None else source_of(bounds) if bounds else ""
        yield Fact("Power limit", " ".join(parts), source)


def _link(event: LinkStateReported) -> str:
    parts = []
    if event.speed_gts is not None:
        parts.append(f"{event.speed_gts:g} GT/s")
    if event.width is not None:
        parts.append(f"x{event.width}")
    best = []
    if event.max_speed_gts is not None:
        best.append(f"{event.max_speed_gts:g} GT/s")
    if event.max_width is not None:
        best.append(f"x{event.max_width}")
    return " ".join(parts) + (f" (best {' '.join(best)})" if best else "")


def driver_text(raw: str) -> str:
    """`580.159.04 (open kernel module)`, from what /proc/driver/nvidia/version says."""
    match = _NVRM.search(raw)
    if match is None:
        return raw
    return f"{match['version']} ({'open' if match['kind'] else 'proprietary'} kernel module)"


def _driver(
    timeline: Timeline, about: Mapping[str, str], slot: PciAddress | None
) -> Iterator[Fact]:
    driver = timeline.described("driver")
    if driver is not None:
        yield Fact("Driver", driver_text(driver.value), source_of(driver))
    elif "driver" in about:
        raw = about["driver"]
        short = driver_text(raw)
        # Who built it is nobody's business, and the part that matters stands before it.
        line = raw.partition("Release Build")[0].strip()
        yield Fact("Driver", short, f"recording: {line}" if short != raw else "recording")
    else:
        for event in timeline.of(DeviceIdentified):
            if event.driver_version:
                yield Fact("Driver", event.driver_version, source_of(event))
                break
    firmware = [
        (words, found)
        for key, words in (("gsp-firmware", "GSP"), ("vbios", "VBIOS"))
        if (found := _about_card(timeline, key, slot)) is not None
    ]
    if firmware:
        text = ", ".join(f"{words} {found.value}" for words, found in firmware)
        yield Fact("Firmware", text, source_of(firmware[0][1]))
    for told in timeline.of(SystemDescribed, DeviceIdentified):
        if match := _GSP.search(told.origin.text):
            yield Fact("Firmware", f"GSP {match[1]}", source_of(told))
            break
    module = timeline.described("open-module")
    if module is not None:
        yield Fact("Kernel module", module.value, source_of(module))


def _of_system(timeline: Timeline, about: Mapping[str, str]) -> Iterator[Fact]:
    kernel: Event | None = timeline.described("kernel")
    value = getattr(kernel, "value", None)
    for event in timeline.of(BootStarted):
        if value is None and event.kernel:
            kernel, value = event, event.kernel
    if value is not None and kernel is not None:
        yield Fact("Kernel", value, source_of(kernel))
    elif "kernel" in about:
        yield Fact("Kernel", about["kernel"], "recording")
    line = timeline.described("cmdline")
    if line is not None:
        yield Fact("Boot line", boot_line(line.value), source_of(line))
    elif "boot-line" in about:
        yield Fact("Boot line", boot_line(about["boot-line"]), "recording")
    for key, label in _DESCRIBED.items():
        if (found := timeline.described(key)) is not None:
            yield Fact(label, found.value, source_of(found))
    for key, label in _MACHINE.items():
        if key in about:
            yield Fact(label, about[key], "recording")
    if "cpu" in about:
        count = f"{about['cpus']} × " if "cpus" in about else ""
        yield Fact("Processor", f"{count}{about['cpu']}", "recording")
    if "memory-bytes" in about and about["memory-bytes"].isdecimal():
        yield Fact("Host memory", f"{int(about['memory-bytes']) / 2**30:.0f} GiB", "recording")
