"""What no sensor knows, as one-line questions; and what the inputs say to a maintainer."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from gpuprobe.diagnosis import Diagnosis, Kind, Role, Verdict
from gpuprobe.events import CudaFailed, DeviceAssertFailed, OtherFailed, ProfilerSeen
from gpuprobe.report.comparing import Run, compare
from gpuprobe.report.contents import Question, plural
from gpuprobe.timeline import Timeline

_PLACE: Final = re.compile(r"[\w./+-]{1,300}\.(?:cuh?|h|hpp|cpp|py):\d{1,7}")

_EAGER: Final = (
    "--enforce-eager",
    "--disable-cuda-graph",
    "--no-cuda-graph",
    "--disable-piecewise-cuda-graph",
)

_PROGRAM: Final = {
    Kind.APPLICATION_FAULT: "a fault of the program itself",
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
    was_set = ""
    if blocking:
        was_set = f"CUDA_LAUNCH_BLOCKING={blocking} was set in this run"
    elif env:
        was_set = "CUDA_LAUNCH_BLOCKING was not set in this run; what does a run with it show?"
    dumped = env.get("CUDA_ENABLE_COREDUMP_ON_EXCEPTION", "")
    core = f"CUDA_ENABLE_COREDUMP_ON_EXCEPTION={dumped} was set in this run" if dumped else ""
    profilers = sorted({event.name for event in timeline.of(ProfilerSeen)})
    if "compute-sanitizer" in profilers:
        core = "compute-sanitizer was attached in this run"
    named = [event.origin.text for event in timeline.of(DeviceAssertFailed)]
    if named and not core:
        core = f"the failed assertion names its place: {_place_of(named[0])}"
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


def _place_of(text: str) -> str:
    """`IndexKernel.cu:111`, out of the words of a failed assertion, or its first words."""
    match = _PLACE.search(text)
    return match[0] if match else text[:80]


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
        yield from _own_words(timeline, first)
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


def _own_words(timeline: Timeline, first: Verdict) -> Iterator[str]:
    """What the program itself says: the assertion that failed, and the frame that saw the error."""
    cited = {(item.input, item.line, item.ref) for item in first.evidence}
    told = [
        event
        for event in timeline.of(DeviceAssertFailed, CudaFailed)
        if (event.origin.input, event.origin.line, event.origin.ref) in cited
    ]
    for event in told:
        if isinstance(event, DeviceAssertFailed):
            yield f"The assertion that failed: {event.condition} at {_place_of(event.origin.text)}."
            break
    for event in told:
        if isinstance(event, CudaFailed) and event.where:
            yield f"The frame that met the error, which may be later than its cause: {event.where}."
            break


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
