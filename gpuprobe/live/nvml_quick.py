"""The calls of the fast and calm groups without what the binding adds to each.

At ten samples a second the binding's own work (a new buffer, a lookup and a check a call) costs as
much as the driver's. So these calls keep their buffer and their function. They go into the library
that the binding has loaded, in the binding's structures, and raise the binding's errors; whatever
is not found here is left to the binding.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any, Final

from gpuprobe.live import wire
from gpuprobe.live.nvml_calls import Call, Group

LIBRARY: Final = "libnvidia-ml.so.1"
GROUPS: Final = (Group.FAST, Group.CALM)

SAMPLES: Final = 512
"""Room for the driver's own samples; an H200 keeps 120."""
TOO_SMALL: Final = 7
TIMEOUT: Final = 10
"""NVML's codes: more samples than room; nothing happened while it waited."""

_NUMBERS: Final[dict[str, Any]] = {
    "nvmlDeviceGetPowerUsage": ctypes.c_uint,
    "nvmlDeviceGetTemperature": ctypes.c_uint,
    "nvmlDeviceGetClockInfo": ctypes.c_uint,
    "nvmlDeviceGetCurrentClocksEventReasons": ctypes.c_ulonglong,
    "nvmlDeviceGetCurrentClocksThrottleReasons": ctypes.c_ulonglong,
    "nvmlDeviceGetPerformanceState": ctypes.c_int,
    "nvmlDeviceGetCurrPcieLinkGeneration": ctypes.c_uint,
    "nvmlDeviceGetCurrPcieLinkWidth": ctypes.c_uint,
}
"""Calls that give one number, and its type."""


@functools.cache
def _library() -> ctypes.CDLL | None:
    """The same library that the binding opened: the name is one already loaded."""
    try:
        return ctypes.CDLL(LIBRARY)
    except OSError:
        return None


def quick(nvml: Any, call: Call) -> Callable[..., Any] | None:
    """A function that is called as the binding's is, and gives the same; None for no such.

    It is for one thread: what it gives is overwritten by its next call.

    Args:
        nvml: The pynvml module, with the library open.
        call: One of the list.
    """
    library = _library()
    if library is None or call.group not in GROUPS:
        return None
    try:
        return _made(nvml, library, call)
    except AttributeError:  # the library or the binding has no such name
        return None


def _made(nvml: Any, library: ctypes.CDLL, call: Call) -> Callable[..., Any] | None:
    error, name = nvml.NVMLError, call.function
    if name in _NUMBERS:
        return _number(error, library[name], _NUMBERS[name](), call.args)
    if name == "nvmlDeviceGetUtilizationRates":
        return _structure(error, library[name], nvml.c_nvmlUtilization_t())
    if name == "nvmlDeviceGetTemperatureV":
        return _temperature(nvml, library[name], call.args[0])
    if name == "nvmlDeviceGetMemoryInfo" and call.args:
        out = nvml.c_nvmlMemory_v2_t()
        out.version = call.args[0]
        return _structure(error, library["nvmlDeviceGetMemoryInfo_v2"], out)
    if name == "nvmlDeviceGetFieldValues":
        return _fields(nvml, library[name])
    return None


def quick_samples(nvml: Any) -> Callable[..., bytes]:
    """`nvmlDeviceGetSamples` in one call, not two: `wire.SAMPLE` after `wire.SAMPLE`."""
    library = _library()
    function: Any = getattr(library, "nvmlDeviceGetSamples", None)
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
    library = _library()
    function: Any = getattr(library, "nvmlEventSetWait_v2", None)
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


def _number(error: Any, function: Any, out: Any, args: tuple[int, ...]) -> Callable[..., Any]:
    arguments = (*map(ctypes.c_uint, args), ctypes.byref(out))

    def ask(handle: Any, *_args: int) -> Any:
        code = function(handle, *arguments)
        if code:
            raise error(code)
        return out.value

    return ask


def _structure(error: Any, function: Any, out: Any) -> Callable[..., Any]:
    reference = ctypes.byref(out)

    def ask(handle: Any, *_args: int) -> Any:
        code = function(handle, reference)
        if code:
            raise error(code)
        return out

    return ask


def _temperature(nvml: Any, function: Any, sensor: int) -> Callable[..., Any]:
    out = nvml.c_nvmlTemperature_v1_t()
    out.version, out.sensorType = nvml.nvmlTemperature_v1, sensor
    fill = _structure(nvml.NVMLError, function, out)

    def ask(handle: Any, *_args: int) -> Any:
        return fill(handle).temperature

    return ask


def _fields(nvml: Any, function: Any) -> Callable[..., Any]:
    error, structure = nvml.NVMLError, nvml.c_nvmlFieldValue_t
    asked: Any = None
    arguments: tuple[Any, ...] = ()
    values: list[Any] = []  # views of the room, which cost more to make than to read

    def ask(handle: Any, fields: list[tuple[int, int]]) -> Any:
        nonlocal asked, arguments, values
        if fields is not asked:
            asked, room = fields, (structure * len(fields))()
            values = list(room)
            for value, field in zip(values, fields, strict=True):
                value.fieldId, value.scopeId = field
            arguments = (ctypes.c_int(len(fields)), ctypes.byref(room))
        code = function(handle, *arguments)
        if code:
            raise error(code)
        return values

    return ask
