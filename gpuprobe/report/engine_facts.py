"""Facts of the engine: its command line, its model, its versions, what its environment sets."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Final

from gpuprobe.events import CudaFailed, EngineChanged, Event, ProfilerSeen
from gpuprobe.recording.about import is_told, shortened
from gpuprobe.report.contents import Fact
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
_ENDED: Final = re.compile(r"ended .*")


def source_of(event: Event) -> str:
    """`kernel.log:12`, or the row."""
    origin = event.origin
    if origin.line is not None:
        return f"{origin.input}:{origin.line}"
    return f"{origin.input} ({origin.ref})" if origin.ref else origin.input


def of_engine(timeline: Timeline, about: Mapping[str, str]) -> Iterator[Fact]:
    """Rows about the engine, in the order a maintainer reads them."""
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
    yield from _ran(timeline)
    if "engine.python-version" in about:
        yield Fact("Python", about["engine.python-version"], "recording")
    framework = timeline.described("framework")
    if framework is not None:
        yield Fact("Framework", framework.value, source_of(framework))
    used = {event.framework for event in timeline.of(CudaFailed)} & versions.keys()
    frameworks = [name for name in FRAMEWORKS if name in versions and (not used or name in used)]
    for name in frameworks:
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
    known = {*ENGINES, *frameworks, "nvidia-cuda-runtime", "nvidia-cuda-runtime-cu12"}
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
    """Variables that the recording tells of the engine, but for those that say nothing of a run."""
    start = "engine.env."
    told = {key.removeprefix(start): v for key, v in about.items() if key.startswith(start)}
    # A recording may be older than the list of names.
    return {name: shortened(value) for name, value in told.items() if is_told(name)}


def _ran(timeline: Timeline) -> Iterator[Fact]:
    """How long the engine ran, where the probe started it or watched it from its start."""
    started = [event for event in timeline.of(EngineChanged) if event.what == "started"]
    ends = [event for event in timeline.of(EngineChanged) if event.what == "stopped"]
    if len(started) == 1 and ends:
        gap = timeline.seconds_between(started[0], ends[-1])
        if gap is not None and gap > 0:
            how = f", {match[0]}" if (match := _ENDED.search(ends[-1].origin.text)) else ""
            yield Fact("Ran for", f"{_span(gap)}{how}", source_of(ends[-1]))


def _span(seconds: float) -> str:
    if seconds < 120:
        return f"{seconds:.1f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.1f} h"


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
