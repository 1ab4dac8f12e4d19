"""What no sensor knows, as one-line questions; and what the inputs say to a maintainer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpuprobe.diagnosis import Diagnosis, Kind, Role
from gpuprobe.events import CudaFailed, OtherFailed, ProfilerSeen
from gpuprobe.report.comparing import Run, compare
from gpuprobe.report.contents import Question, plural
from gpuprobe.timeline import Timeline

_EAGER: Final = (
    "--enforce-eager",
    "--disable-cuda-graph",
    "--no-cuda-graph",
    "--disable-piecewise-cuda-graph",
)

_PROGRAM: Final = {
    Kind.APPLICATION_FAULT: "a fault of a program on a GPU that works",
    Kind.GPU_OUT_OF_MEMORY: "GPU memory that ran out",
    Kind.JIT_CACHE_CORRUPT: "a damaged file of a JIT cache",
    Kind.PROCESS_CRASH: "a crash of a process without a sign of the GPU",
    Kind.COLLECTIVE_TIMEOUT: "ranks that waited for one another",
}
"""Verdicts that point at the program or at what lies round it."""

_HOST: Final = frozenset({Kind.HOST_OUT_OF_MEMORY, Kind.HOST_RESET, Kind.DRIVER_UNUSABLE})
_FAULT_WORDS: Final = {Kind.DEVICE_LEFT_BUS: "the loss", Kind.HOST_RESET: "the reset"}


def questions(
    timeline: Timeline, argv: Sequence[str], env: Mapping[str, str], runs: Sequence[Run]
) -> tuple[Question, ...]:
    """One line each, answered where an input does."""
    failed = sum(run.failed for run in runs)
    often = f"{failed} of {len(runs)} recordings given here show it" if len(runs) > 1 else ""
    blocking = env.get("CUDA_LAUNCH_BLOCKING", "")
    was_set = f"CUDA_LAUNCH_BLOCKING={blocking} was set in this run" if blocking else ""
    dumped = env.get("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "")
    core = f"CUDA_ENABLE_COREDUMP_ON_EXCEPTION={dumped} was set in this run" if dumped else ""
    profilers = sorted({event.name for event in timeline.of(ProfilerSeen)})
    if "compute-sanitizer" in profilers:
        core = "compute-sanitizer was attached in this run"
    return (
        Question("What is the smallest thing that triggers it: request, lengths, script?"),
        Question("How often does it happen: in how many of how many runs?", often),
        Question("Which version is the first that shows it, and which the last that does not?"),
        Question(
            "Did CUDA_LAUNCH_BLOCKING=1 change the frame or the outcome; is the frame the same "
            "each time?",
            was_set,
        ),
        Question(
            "Does it happen without CUDA graphs and compilation, and with another attention "
            "backend?",
            ", ".join(f"this run had {flag}" for flag in _EAGER if flag in argv),
        ),
        Question("Which kernel was it: what does a CUDA core dump or compute-sanitizer say?", core),
        Question(
            "Did it work before, and what changed since: driver, kernel, BIOS, engine, cabling?"
        ),
        Question("Does another program die at a like load; is a GPU memory test clean?"),
    )


def maintainer(diagnosis: Diagnosis, timeline: Timeline, runs: Sequence[Run]) -> tuple[str, ...]:
    """Whether anything points at the engine, and which of its flags goes with the fault."""
    return tuple(_maintainer(diagnosis, timeline, runs))


def _maintainer(diagnosis: Diagnosis, timeline: Timeline, runs: Sequence[Run]) -> Iterator[str]:
    first = diagnosis.verdicts[0]
    pointing = [verdict for verdict in diagnosis.verdicts if verdict.kind in _PROGRAM]
    if first.kind is Kind.NO_FAULT:
        yield "Nothing in these inputs failed, so nothing in them points anywhere."
    elif first.kind is Kind.CANNOT_TELL:
        yield (
            "These inputs do not say whether the engine or something below it failed; what is "
            "listed under not checked would decide it."
        )
    elif pointing:
        for verdict in pointing[:3]:
            sure = f", {verdict.certainty.value}" if verdict.certainty else ""
            yield f"This points at the program or its input: {_PROGRAM[verdict.kind]}{sure}."
    elif first.kind in _HOST:
        yield "Nothing in these inputs points at the engine; what failed is the host."
    else:
        yield _below(diagnosis, timeline)
    profilers = sorted({event.name for event in timeline.of(ProfilerSeen)})
    if profilers:
        yield (
            f"A profiler was attached ({', '.join(profilers)}), which can give CUDA error 719 on "
            "a healthy GPU."
        )
    yield from compare(runs, _FAULT_WORDS.get(first.kind, "the fault"))


def _below(diagnosis: Diagnosis, timeline: Timeline) -> str:
    """For a fault of the device: what speaks for the engine's part in it, and what was seen."""
    first = diagnosis.verdicts[0]
    later = sum(item.count for item in first.evidence if item.role is Role.CONSEQUENCE)
    text = "Nothing in these inputs points at the engine"
    if later:
        text += f": {plural(later, 'line')} that came after it {'is' if later == 1 else 'are'} "
        text += "read as consequences"
    seen = []
    if not timeline.has_kernel_log():
        seen.append("no kernel log is among them")
    if not any(timeline.of(CudaFailed, OtherFailed)):
        seen.append("no error of the engine is among them")
    if seen:
        text += f"; but {' and '.join(seen)}"
    return f"{text}. That the engine's load set it off is not excluded by this."
