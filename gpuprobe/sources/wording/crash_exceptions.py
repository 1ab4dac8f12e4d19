"""Programs that end by an exception: C++'s terminate, and tracebacks that no other family knows."""

from __future__ import annotations

import re

from gpuprobe.events import OtherFailed
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import surroundings
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.surroundings import FRAME, TRACEBACK

# What other families read: its traceback needs no event of its own.
_KNOWN = regex(
    r"(?:CUDA|HIP|cuda|Cuda|NCCL|Triton|nccl)\b|cudaError|hipError|CUDNN|CUBLAS|NVML|nvml|GPU"
    r"|out of memory|OutOfMemory|OOM|JSONDecodeError|Unknown key: '|DistBackendError|DistStoreError"
    r"|XlaRuntimeError|JaxRuntimeError|EngineDead|EngineGenerate|EngineCore|launch failure"
    r"|KeyboardInterrupt|SystemExit|GeneratorExit|StopIteration|CancelledError|BrokenPipe"
)

_EXCEPTION = regex(r"^(?P<name>(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*)(?P<said>:.*)?$")
_LOOKS_RAISED = regex(r"^(?:\w+\.)*\w*(?:Error|Exception|Interrupt|Exit|Warning|Timeout)\b")
_MARKS = regex(r"^[\s>|]*")


def _read_terminate(match: re.Match[str], window: Window) -> Reading:
    thrown = match["thrown"] or "an exception"
    said = next(
        (r.message.split("what():", 1)[1] for r in window.after(1) if "what():" in r.message), ""
    )
    what = f"terminate called: {thrown}"
    return OtherFailed(**window.base(), what=f"{what}: {said.strip()[:200]}" if said else what)


def _ending(window: Window) -> tuple[str, str] | None:
    """The exception's line and the innermost frame of the traceback that starts here."""
    frame, after_frame = "", False
    for record in window.after(Window.REACH):
        content = _MARKS.sub("", record.message).rstrip()
        found = FRAME.search(content)
        raised = _LOOKS_RAISED.match(content) is not None
        if TRACEBACK in content:
            return None
        if found is not None:
            frame, after_frame = surroundings.show_frame(found), True
        elif not content or set(content) <= set("^~ "):
            continue
        elif content.startswith("[Previous line") or (after_frame and not raised):
            after_frame = False
        elif raised or _EXCEPTION.match(content):
            return content, frame
        elif frame and record.message[:1] not in (" ", "\t", ">", "|"):
            # Source that spans several lines goes on, anything else ends the traceback.
            return None
    return None


def _read_traceback(match: re.Match[str], window: Window) -> Reading:
    ending = _ending(window)
    if ending is None:
        return None
    what, where = ending
    if _KNOWN.search(what):
        return None
    if re.match(r"EOFError|.*UnpicklingError", what):
        # Another family decides by the frames whether a cache is to blame.
        frames = " ".join(record.message for record in window.after(Window.REACH))
        if re.search(r"_inductor|numba[/\\]core|vllm[/\\]compilation", frames):
            return None
    return OtherFailed(**window.base(), what=what[:300], where=where)


PATTERNS = (
    Pattern(
        id="crash-terminate",
        needles=("terminate called ",),
        regex=regex(
            r"terminate called (?:after throwing an instance of ['\"`](?P<thrown>[^'\"\n]+)|without an active exception|recursively)"
        ),
        read=_read_terminate,
        examples=("terminate called after throwing an instance of 'std::runtime_error'",),
        source="libstdc++ vterminate.cc",
    ),
    Pattern(
        id="crash-traceback",
        needles=(TRACEBACK,),
        regex=regex(re.escape(TRACEBACK)),
        read=_read_traceback,
        examples=(
            'Traceback (most recent call last):\n  File "/srv/app/serve.py", line 31, in <module>\n    main()\nValueError: max_model_len is too large',
            "> Traceback (most recent call last):\n>   File \"/srv/app/serve.py\", line 31, in load\n>     open(path)\n> FileNotFoundError: [Errno 2] No such file or directory: 'weights.bin'",
        ),
        near=(
            'Traceback (most recent call last):\n  File "/srv/app/serve.py", line 31, in <module>\n    main()\nRuntimeError: CUDA error: unspecified launch failure',
            'Traceback (most recent call last):\n  File "/srv/app/serve.py", line 31, in <module>\n    main()\nKeyboardInterrupt',
        ),
        source="Python traceback module",
    ),
)
