"""What the lines around a program's error say: the frame, the rank, an error before it."""

from __future__ import annotations

import re

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window

TRACEBACK = "Traceback (most recent call last)"
FRAME = regex(r'File "(?P<file>[^"\n]+)", line (?P<line>\d+)(?:, in (?P<function>[^\s,"\\]+))?')
_RAISED = regex(r"Exception raised from (?P<function>\S+) at (?P<at>\S+:\d+)")
_GGML = regex(
    r"current device: (?P<device>-?\d+), in function (?P<function>\S+)(?: at (?P<at>\S+:\d+))?"
)
_EXCEPTION = regex(r"^[\s>|]*(?:[\w.]+\.)?[A-Z]\w*(?:Error|Exception|Interrupt)\b(?::|$)")
_RANKS = (
    regex(r"\[rank(\d+)\]"),
    regex(r"\[(\d+)\] (?:\S+ )?NCCL (?:WARN|INFO)"),
    regex(r"\b[Rr]ank[ =:]{0,2}(\d+)\b"),
    regex(r"(?<![A-Za-z0-9])TP(\d+)\b"),
    regex(r"current device: (\d+)"),
    regex(r"\bGPU=(\d+)\b"),
)
_CUDA_BEFORE = regex(
    r"(?:CUDA|HIP|cuda|Cuda)(?: runtime| driver)? (?:[Ee]rror|failure)\b|cudaError[A-Z]|CUDA_ERROR_[A-Z]|hipError[A-Z]"
    r"|unspecified launch failure|illegal memory access was encountered|device-side assert triggered"
)


def frames(window: Window, reach: int = Window.REACH) -> list[re.Match[str]]:
    """The Python frames of the traceback that ends at this record, innermost first."""
    found = list(FRAME.finditer(window.text))[::-1]
    for record in window.before(reach):
        message = record.message
        if TRACEBACK in message or (_EXCEPTION.search(message) and "File " not in message):
            break
        found += list(FRAME.finditer(message))[::-1]
    return found


def show_frame(frame: re.Match[str]) -> str:
    """A frame as `path:line in function`."""
    where = f"{frame['file']}:{frame['line']}"
    return f"{where} in {frame['function']}" if frame["function"] else where


def where(window: Window) -> str:
    """The frame or function that noticed the error, or ""."""
    inside = _GGML.search(window.text) or _RAISED.search(window.text)
    for record in (*window.after(2),) if inside is None else ():
        inside = _GGML.search(record.message)
        if inside is not None:
            break
    if inside is not None and "device" in inside.re.groupindex:
        at = f" at {inside['at']}" if inside["at"] else ""
        return f"{inside['function']}{at}"
    # Only source lines and carets stand between the innermost frame and the exception.
    python = frames(window, 4)
    if python:
        return show_frame(python[0])
    for record in window.after(6):
        raised = _RAISED.search(record.message)
        if raised is not None:
            return f"{raised['function']} at {raised['at']}"
    return ""


def rank(window: Window) -> int | None:
    """The rank or device index that stands in the line, in its prefix or in ggml's next line."""
    places = [window.text, window.record.raw]
    places += [record.message for record in window.after(1) if "current device:" in record.message]
    for place in places:
        for pattern in _RANKS:
            match = pattern.search(place)
            if match is not None:
                return int(match[1])
    return None


def cuda_error_before(window: Window) -> bool:
    """True when a line shortly before this one already told of a CUDA error."""
    return any(_CUDA_BEFORE.search(record.message) for record in window.before(Window.REACH))
