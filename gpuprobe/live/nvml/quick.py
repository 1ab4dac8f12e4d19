"""Two calls without what the binding adds to them: the driver's own samples, and the wait.

They go into the library that the binding has loaded, in the binding's structures, and raise the
binding's errors; whatever is not found here is left to the binding.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final

from gpuprobe.live.nvml import wire

LIBRARY: Final = "libnvidia-ml.so.1"
SAMPLES: Final = 512
"""Room for the driver's own samples; an H200 keeps 120."""
TOO_SMALL: Final = 7
TIMEOUT: Final = 10
"""NVML's codes: more samples than room; nothing happened while it waited."""


@functools.cache
def library() -> Any:
    """The same library that the binding opened: the name is one already loaded; None for none."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        return None


def quick_samples(nvml: Any) -> Callable[..., bytes]:
    """`nvmlDeviceGetSamples` in one call, not two: `wire.SAMPLE` after `wire.SAMPLE`."""
    function: Any = getattr(library(), "nvmlDeviceGetSamples", None)
    room = ctypes.create_string_buffer(SAMPLES * wire.SAMPLE.size)
    kind_of_value, count = ctypes.c_int(), ctypes.c_uint()

    def ask(handle: Any, kind: int, since: int) -> bytes:
        code, count.value = TOO_SMALL, SAMPLES
        if function is not None:
            after = ctypes.c_ulonglong(since)
            places = (ctypes.byref(kind_of_value), ctypes.byref(count), room)
            code = function(handle, kind, after, *places)
        if code == TOO_SMALL:
            _, samples = nvml.nvmlDeviceGetSamples(handle, kind, since)
            pack = wire.SAMPLE.pack
            return b"".join(pack(one.timeStamp, one.sampleValue.uiVal) for one in samples)
        if code:
            raise nvml.NVMLError(code)
        return ctypes.string_at(room, count.value * wire.SAMPLE.size)

    return ask


def quick_wait(nvml: Any) -> Callable[..., Any]:
    """`nvmlEventSetWait` that gives None when nothing happened, which is how most waits end."""
    function: Any = getattr(library(), "nvmlEventSetWait_v2", None)
    out = nvml.c_nvmlEventData_t()
    reference = ctypes.byref(out)

    def wait(events: Any, limit_ms: int) -> Any:
        if function is None:
            code, found = _by_binding(nvml, events, limit_ms)
        else:
            code, found = function(events, reference, ctypes.c_uint(limit_ms)), out
        if code == TIMEOUT:
            return None
        if code:
            raise nvml.NVMLError(code)
        return found

    return wait


def _by_binding(nvml: Any, events: Any, limit_ms: int) -> tuple[int, Any]:
    try:
        return 0, nvml.nvmlEventSetWait(events, limit_ms)
    except nvml.NVMLError as error:
        return error.value, None
