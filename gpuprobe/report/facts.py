"""The table of facts: what a maintainer asks before anything else."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gpuprobe.diagnosis import Verdict
from gpuprobe.events import (
    BootStarted,
    DeviceIdentified,
    Event,
    LinkStateReported,
    ProfilerSeen,
    SystemDescribed,
)
from gpuprobe.report.contents import Fact
from gpuprobe.report.telemetry_types import Telemetry
from gpuprobe.timeline import Timeline

LENGTH: Final = 2000

ENGINES: Final = (
    "vllm", "sglang", "tensorrt-llm", "lmdeploy", "mlc-llm", "llama-cpp-python", "exllamav2",
)  # fmt: skip
FRAMEWORKS: Final = ("torch", "jax", "tensorflow", "onnxruntime-gpu")
_MODEL: Final = re.compile(
    r"(?<!\S)(?:--model(?:-path|-name)?|-m|--hf-repo|--model_path)[= ](?P<flag>[^\s-]\S*)"
    r"|\b(?:vllm|trtllm-serve) serve (?P<serve>[^\s-]\S*)|trtllm-serve (?P<trt>[^\s-]\S*)"
    r"|['\"]?\bmodel(?:_path|_tag)?['\"]?\s?[:=]\s?'(?P<quoted>[^']+)'"
)
_WANTED: Final = (
    "GPU", "Address", "Driver", "Firmware", "Link", "Power limit", "Kernel", "Engine",
    "Command line", "Framework", "CUDA", "Model",
)  # fmt: skip
"""What every report should say, so that what it cannot say is said too."""

_GSP: Final = re.compile(r"\bGSP(?: Firmware| FW)?(?: Version)?\s*[:=]\s*(\d{3}\.\d[\d.]*)", re.I)
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
        *_of_engine(timeline, about),
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


def source_of(event: Event) -> str:
    """`kernel.log:12`, or the row."""
    origin = event.origin
    if origin.line is not None:
        return f"{origin.input}:{origin.line}"
    return f"{origin.input} ({origin.ref})" if origin.ref else origin.input


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
    yield from _driver(timeline, about)
    link = None
    for state in timeline.of(LinkStateReported):
        same = slot is None or (state.device is not None and state.device.slot == slot)
        if state.what == "sampled" and same and (state.speed_gts or state.width):
            link = state
    if link is not None:
        yield Fact("Link", _link(link), source_of(link))
    figures = {figure.name: figure for figure in measured.figures} if measured else {}
    if link is None and "link_gen" in figures and "link_width" in figures:
        gen, width = figures["link_gen"], figures["link_width"]
        low, high = f"Gen{gen.low:g} x{width.low:g}", f"Gen{gen.high:g} x{width.high:g}"
        yield Fact("Link", f"{low} to {high}" if low != high else high, "samples")
    if "limit_w" in figures:
        limit = figures["limit_w"]
        spread = (
            f"{limit.low:g} to {limit.high:g}" if limit.low != limit.high else f"{limit.high:g}"
        )
        yield Fact("Power limit", f"{spread} W", "samples")


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


def _driver(timeline: Timeline, about: Mapping[str, str]) -> Iterator[Fact]:
    driver = timeline.described("driver")
    if driver is not None:
        yield Fact("Driver", driver.value, source_of(driver))
    elif "driver" in about:
        yield Fact("Driver", about["driver"], "recording")
    else:
        for event in timeline.of(DeviceIdentified):
            if event.driver_version:
                yield Fact("Driver", event.driver_version, source_of(event))
                break
    for line in timeline.of(SystemDescribed, DeviceIdentified):
        if match := _GSP.search(line.origin.text):
            yield Fact("Firmware", f"GSP {match[1]}", source_of(line))
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
        yield Fact("Boot line", line.value, source_of(line))
    elif "boot-line" in about:
        yield Fact("Boot line", about["boot-line"], "recording")
    for key, label in _DESCRIBED.items():
        if (found := timeline.described(key)) is not None:
            yield Fact(label, found.value, source_of(found))
    for key, label in _MACHINE.items():
        if key in about:
            yield Fact(label, about[key], "recording")
    if "memory-bytes" in about and about["memory-bytes"].isdecimal():
        yield Fact("Host memory", f"{int(about['memory-bytes']) / 2**30:.0f} GiB", "recording")


def _of_engine(timeline: Timeline, about: Mapping[str, str]) -> Iterator[Fact]:
    versions = _versions(about)
    engine = timeline.described("engine")
    if engine is not None:
        yield Fact("Engine", engine.value, source_of(engine))
    for name in ENGINES:
        if name in versions:
            yield Fact("Engine", f"{name} {versions[name]}", "recording")
    command = timeline.described("engine-argv")
    lines = []
    if "engine.command" in about:
        lines.append(about["engine.command"])
        yield Fact("Command line", about["engine.command"], "recording")
    if command is not None:
        lines.append(command.value)
        label = "Arguments" if "engine.command" in about else "Command line"
        yield Fact(label, command.value, source_of(command))
    framework = timeline.described("framework")
    if framework is not None:
        yield Fact("Framework", framework.value, source_of(framework))
    for name in FRAMEWORKS:
        if name in versions:
            yield Fact("Framework", f"{name} {versions[name]}", "recording")
    cuda = timeline.described("cuda")
    if cuda is not None:
        yield Fact("CUDA", cuda.value, source_of(cuda))
    for name in ("nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"):
        if name in versions:
            yield Fact("CUDA", f"{versions[name]} (runtime)", "recording")
    model = model_of(lines)
    if model:
        yield Fact("Model", model)
    if env := environment(about):
        yield Fact("Environment", " ".join(f"{k}={v}" for k, v in env.items()), "recording")
    known = {*ENGINES, *FRAMEWORKS, "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"}
    others = [f"{name} {version}" for name, version in versions.items() if name not in known]
    if others:
        yield Fact("Other packages", ", ".join(others), "recording")
    profilers = sorted({event.name for event in timeline.of(ProfilerSeen)})
    if profilers:
        yield Fact("Profiler", ", ".join(profilers))


def _versions(about: Mapping[str, str]) -> dict[str, str]:
    start = "engine.version."
    return {key.removeprefix(start): v for key, v in about.items() if key.startswith(start)}


def environment(about: Mapping[str, str]) -> dict[str, str]:
    """Variables that the recording tells of the engine."""
    start = "engine.env."
    return {key.removeprefix(start): v for key, v in about.items() if key.startswith(start)}


def argv_of(about: Mapping[str, str]) -> tuple[str, ...]:
    """The engine's command line that a recording holds, or nothing."""
    try:
        found = json.loads(about.get("engine.argv", "[]"))
    except (ValueError, RecursionError):
        return ()
    return tuple(str(word) for word in found) if isinstance(found, list) else ()


def model_of(lines: Iterable[str]) -> str:
    """The model named on a command line, or ""."""
    for line in lines:
        if match := _MODEL.search(line[:LENGTH]):
            return next(group for group in match.groups() if group).strip("'\",")
    return ""
