"""Something failed, and what would decide it was not among the inputs.

When:
    A CUDA error that a lost GPU and a faulty program print alike (719, 999, 46, 100, 101, 3, 304);
    an engine that died without saying why; nvidia-smi without a handle for a GPU; an Xid whose
    meaning is not known; a device-lost error of Vulkan or Direct3D; a call into the driver that
    does not return; a task of the driver's that hangs in the kernel; or only somebody's own words
    about an Xid, a loss, or a CUDA error of this kind.

What it is worth:
    It is an honest answer. It comes with the one command whose output would settle the matter.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from gpuprobe.diagnosis import Kind, Role
from gpuprobe.events import (
    AerReported,
    ConfigSpaceUnreadable,
    CudaFailed,
    DriverUnusable,
    EngineChanged,
    Event,
    GpuHung,
    GpuLostReported,
    GpuSampled,
    HostFaulted,
    LossHinted,
    NvmlReturned,
    OtherFailed,
    ProbeStalled,
    ProfilerSeen,
    ProseMentioned,
    XidReported,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.rules import xids
from gpuprobe.rules.absence import asked_for, came_back
from gpuprobe.rules.base import Finding, Rule, moment, stall_words
from gpuprobe.rules.elsewhere import is_elsewhere
from gpuprobe.rules.gpu_hang import API_DRIVERS
from gpuprobe.timeline import Timeline

DEADLY = frozenset({"worker-exited", "engine-dead", "failed-to-start", "stopping", "cpu-fallback"})
"""Life-cycle words that mean an engine is in trouble."""

ON_REQUEST = frozenset({128 + 1, 128 + 2, 128 + 15})
"""Exit codes of a program that was told to end by SIGHUP, SIGINT or SIGTERM."""

OPEN_CODES = frozenset({3, 46, 100, 101, 304, 719, 999})
"""CUDA errors that a lost GPU can cause, among other things."""

DISPLAY = ("nvidia-modeset", "nvidia-drm", "nvidia-x")
"""Display drivers whose failures come from a GPU that hangs, is lost or waits for a reset."""

WAITS = regex(r"time(?:d )?out|waiting for GPU|channel state")

OF_THE_DRIVER = regex(r"(?:\btask |s! \[)(?:nvidia|nv_queue|irq/\d+-nvidia|UVM |dcgm)")
"""Tasks that do nothing but call the driver, where one hangs or keeps a CPU for itself."""

RESET_STATUS = "0x62"
"""What the driver's calls for a GPU end with that has to be reset first."""

STUCK = ("hung-task", "soft-lockup")
"""How the kernel tells of a task that hangs."""

HARD = ("cuda", "nvml", "gpu", "nccl", "driver")
"""An exception that mentions one of these is about the GPU's side."""


OBSERVERS = frozenset({"dcgm", "bmc", "slurm", "kubernetes", "nccl"})
"""Who speaks of a GPU, its links or its node whatever the words are."""


def _failures(timeline: Timeline) -> Iterator[tuple[Event, str]]:
    for event in timeline.events:
        match event:
            case _ if event.setting in ("prose", "code"):
                continue
            case CudaFailed():
                code = f"CUDA {event.code}" if event.code is not None else "a CUDA error"
                yield event, f"{code} “{event.message}”, which a healthy GPU can give too"
            case LossHinted(what=what) if what != "crash-dump":
                yield event, "words that go with a lost GPU and do not prove it"
            case NvmlReturned() if not _went_on(timeline, event):
                yield event, f"an NVML call that was answered with {event.name}"
            case DriverUnusable():
                yield event, "no usable GPU, for a reason that is not named"
            case GpuHung(driver=driver) if driver in API_DRIVERS:
                yield event, "a lost device in the words of a graphics API"
            case XidReported() if xids.kind_of(event) is Kind.CANNOT_TELL:
                yield event, f"Xid {event.code}, whose meaning is not known: not harmless"
            case ConfigSpaceUnreadable() if not came_back(timeline, event, None):
                yield event, "a PCI device that does not answer and may be a GPU"
            case AerReported(severity="fatal", driver="pcieport") if _ends_nowhere(timeline, event):
                yield event, "a fatal error at a port; what sits below it is not among the inputs"
            case AerReported(severity="fatal", driver="vfio-pci") if _ends_nowhere(timeline, event):
                yield (
                    event,
                    "an error of a PCI device that a virtual machine holds, which could not be "
                    "recovered; what it is is not among the inputs",
                )
            case AerReported(severity="non-fatal" | "fatal", by_board=True) if _ends_nowhere(
                timeline, event
            ):
                yield (
                    event,
                    "a PCIe error that was not corrected in the board's own log; whose it was is "
                    "not among the inputs",
                )
            case ProbeStalled() if not _went_on(timeline, event):
                yield event, stall_words(event)
            case EngineChanged(what=what) if what in DEADLY:
                yield event, "the engine stopped working"
            case EngineChanged(what="stopped", code=int(code)) if code and code not in ON_REQUEST:
                yield event, f"the engine's exit code {code} {_last_words(timeline, event)}"
            case HostFaulted(what=what, module=module) if what in STUCK and (
                module or OF_THE_DRIVER.search(event.origin.text)
            ):
                yield event, "a task that hangs in the GPU's driver; a hang alone is no loss"
            case HostFaulted(what="oops", module=module) if module:
                yield event, f"a fault of the kernel in the GPU's driver ({module})"
            case OtherFailed(what=what, where=where) if where in DISPLAY and WAITS.search(what):
                yield event, "the display driver waits for the GPU"
            case OtherFailed(what=what, where=where) if where in OBSERVERS or (
                not _is_missing_module(what) and any(word in what.lower() for word in HARD)
            ):
                side = "node's" if where in ("slurm", "kubernetes") else "GPU's"
                yield event, f"an error on the {side} side"
            case _:
                continue


def _last_words(timeline: Timeline, end: Event) -> str:
    """What the engine said before its end, as far as it names an error."""
    said = [
        event
        for event in timeline.of(OtherFailed)
        if event.what and event.origin.input == end.origin.input
    ]
    if not said:
        return "and no word of why"
    return f"after “{said[-1].what[:120]}”, and no word of a GPU"


def _is_missing_module(what: str) -> bool:
    """A module that is not installed is no error of the GPU's side, whatever its name."""
    return what.startswith("ModuleNotFoundError")


def _went_on(timeline: Timeline, event: ProbeStalled | NvmlReturned) -> bool:
    """Whether the device was sampled afterwards: the call came back late, or its error passed."""
    return any(
        event.device in (None, sample.device)
        and (timeline.seconds_between(event, sample) or 0.0) > 0
        for sample in timeline.of(GpuSampled)
    )


def _left_over(timeline: Timeline) -> list[tuple[Event, str]]:
    """Traces of a fault whose own line was cut off: a reset owed, or clean-up beside hung tasks."""
    known = list(timeline.of(XidReported))
    if any(xids.kind_of(event) for event in known):
        return []
    hung = any(event.what == "hung-task" for event in timeline.of(HostFaulted))
    waiting = [
        (event, "a GPU that waits for a reset, without the fault that led there")
        for event in timeline.of(OtherFailed)
        if event.where == "NVRM" and RESET_STATUS in event.what
    ]
    return waiting + [
        (event, "a reset or a reboot that the driver asks for, without the fault that led there")
        if event.code == 154
        else (event, "the clean-up of a program's channels beside tasks that hang")
        for event in known
        if (event.code == 154 and event.recovery_action) or (event.code == 45 and hung)
    ]


def _ends_nowhere(timeline: Timeline, event: AerReported) -> bool:
    """Whether no line says what sits below the port that reported its own error."""
    return not timeline.is_gpu(event.device) and event.device not in timeline.parents().values()


def find(timeline: Timeline) -> Sequence[Finding]:
    """At most one finding: what failed, and that nothing here decides why."""
    failures = list(_failures(timeline))
    failures = [
        (event, says)
        for event, says in failures
        if (not isinstance(event, ConfigSpaceUnreadable) or event.driver == "vfio-pci")
        and not asked_for(timeline, event, event.device)
    ]
    failures.extend(_left_over(timeline))
    own = [pair for pair in failures if not is_elsewhere(timeline, pair[0].device)]
    failures = own or failures
    prose = spoken_of(timeline) or ([] if failures else _cuda_errors_told(timeline))
    if not failures and not prose:
        return []
    if not failures:
        return [_only_prose(prose)]
    return [finding_of(timeline, failures, prose)]


def finding_of(
    timeline: Timeline, failures: Sequence[tuple[Event, str]], prose: Sequence[Event]
) -> Finding:
    """The open question of these failures, each with what it means; at least one.

    `prose` is what somebody says of it, from `spoken_of`.
    """
    root, says = next(
        ((event, says) for event, says in failures if isinstance(event, CudaFailed)), failures[0]
    )
    finding = Finding(
        kind=Kind.CANNOT_TELL,
        certainty=None,
        summary=_summary(timeline, root, says),
        root=root,
        background=True,
    )
    finding.cite(Role.SUPPORT, [root], says)
    for event, words in failures:
        late = isinstance(event, EngineChanged) or getattr(event, "teardown", False)
        unwound = isinstance(event, OtherFailed) and "terminate called" in event.origin.text
        role = Role.CONSEQUENCE if late or unwound else Role.SUPPORT
        finding.cite(role, [event], words)
    others = list(timeline.of(OtherFailed))
    finding.cite(Role.CONTEXT, others, "what the program died of")
    finding.cite(Role.CONTEXT, timeline.of(ProfilerSeen), "a profiler can give 719 by itself")
    _mention_prose(finding, prose)
    return finding


def _summary(timeline: Timeline, root: Event, says: str) -> str:
    """The question that stays open, and what the inputs do hold."""
    if isinstance(root, CudaFailed) and root.code in OPEN_CODES:
        side = "" if timeline.has_kernel_log() else "only the program's side, "
        return (
            f"It cannot be told whether the GPU left the bus {moment(root)}".rstrip()
            + f": the inputs hold {side}CUDA {root.code} “{root.message}”, which a lost GPU and a "
            "fault on a healthy one print alike"
        )
    if isinstance(root, ProbeStalled):
        return f"{says[0].upper()}{says[1:]} {moment(root)}; a hang alone does not tell what failed"
    return f"It cannot be told what failed {moment(root)}".rstrip() + f": the inputs hold {says}"


def spoken_of(timeline: Timeline) -> list[Event]:
    """What somebody's own sentences say of Xids and losses, in their words or in a log's."""
    return [
        event
        for event in timeline.events
        if event.setting == "prose"
        and (
            (isinstance(event, ProseMentioned) and event.topic in ("xid", "loss"))
            or isinstance(event, XidReported | GpuLostReported)
            or (isinstance(event, LossHinted) and event.what in ("no-handle", "status-lost"))
        )
    ]


def _cuda_errors_told(timeline: Timeline) -> list[Event]:
    """Errors that a lost GPU can cause, which somebody quotes in a title or a sentence."""
    return [
        event
        for event in timeline.all_of(CudaFailed)
        if event.setting == "prose" and event.code in OPEN_CODES
    ]


def _about(event: Event, otherwise: str) -> str:
    if isinstance(event, CudaFailed):
        return f"CUDA {event.code} “{event.message}”"
    code = getattr(event, "xid", None) or getattr(event, "code", None)
    return f"Xid {code}" if code is not None else otherwise


def _mention_prose(finding: Finding, prose: Sequence[Event]) -> None:
    if not prose:
        return
    finding.cite(Role.CONTEXT, prose, "somebody's own words, not a log's")
    first = prose[0]
    about = _about(first, "a loss")
    line = f"line {first.origin.line}" if first.origin.line else "the text"
    finding.summary += f"; {line} speaks of {about} in prose, and the kernel log would prove it"
    finding.tags.add("prose")


def _only_prose(prose: Sequence[Event]) -> Finding:
    first = prose[0]
    about = _about(first, "a lost GPU")
    line = f"line {first.origin.line}" if first.origin.line else "the text"
    finding = Finding(
        kind=Kind.CANNOT_TELL,
        certainty=None,
        summary=(
            f"It cannot be told: {line} speaks of {about} in somebody's own words, and no "
            "machine-made line is among the inputs"
        ),
        root=first,
        background=True,
        tags={"prose"},
    )
    finding.cite(Role.CONTEXT, prose, "somebody's own words, not a log's")
    return finding


RULE = Rule(Kind.CANNOT_TELL, find)
