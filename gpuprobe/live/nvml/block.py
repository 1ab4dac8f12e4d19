"""The answers of the fast and calm groups in one block of memory, which is sent as a row.

Between two passes everything has left the processor's caches, so what a pass costs is how much it
touches: the binding's own work (a new buffer, a lookup and a check a call), a dict and a list cost
as much as the driver's. So these calls go into the library that the binding has loaded, with the
same arguments each time, and nobody takes their answers apart here.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.calls import CALLS, Group
from gpuprobe.live.nvml.plan import LOST, DeviceLost, Step
from gpuprobe.live.nvml.quick import library

GROUPS: Final = (Group.FAST, Group.CALM)

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

_CODES: Final[dict[Any, str]] = {
    ctypes.c_int: "i",
    ctypes.c_uint: "I",
    ctypes.c_ulonglong: "Q",
}
_FIELD_CODES: Final = {0: "d", 1: "I", 2: "Q", 3: "Q", 4: "q", 5: "i", 6: "H"}
"""By the value type of a field."""


_pack_time: Final = struct.Struct("=q").pack_into


class NotQuick(Exception):  # noqa: N818 - a condition, not a programming error
    """A call is none of those, or the library or the binding has not what it takes."""


@dataclass
class _Answer:
    """One call's part of the block.

    Attributes:
        function: Its name in the library. kind: What it fills.
        before: Arguments between the handle and the answer.
        places: Offset within the answer and code of each value, by name.
        fill: Prepares the answer before the first call.
    """

    function: str
    kind: Any
    before: tuple[Any, ...]
    places: dict[str, tuple[int, str]]
    fill: Callable[[Any], None] = lambda _: None


class Block:
    """Makes the calls of a device that answers them all; for one thread.

    Args:
        nvml: The pynvml module, with the library open.
        handle: The device.
        steps: The calls of each group.
        enter: Called with a call's number before it is made; it may raise `Stopped`.

    Attributes:
        layout: Where the values of a row stand: see `wire`.

    Raises:
        NotQuick: Something in it needs the binding.
        DeviceLost: A call or a field said GPU_IS_LOST. Stopped: By `enter`.
    """

    def __init__(
        self,
        nvml: Any,
        handle: Any,
        steps: Mapping[Group, Sequence[Step]],
        enter: Callable[[int], None],
    ) -> None:
        self._enter = enter
        self._calls: dict[Group, list[tuple[int, Any, tuple[Any, ...]]]] = {}
        self._fields: dict[Group, list[tuple[Any, int]]] = {}
        self._places: dict[str, wire.Place] = {}
        try:
            answers = {
                group: [(step, _answer(nvml, step)) for step in steps[group]] for group in GROUPS
            }
            self._size = 8 + sum(
                _rounded(answer.kind) for found in answers.values() for _, answer in found
            )
            self._room = (ctypes.c_char * self._size)()
            offset = 8
            for group, found in answers.items():
                self._calls[group], self._fields[group] = [], []
                for step, answer in found:
                    self._add(group, handle, step, answer, offset)
                    offset += _rounded(answer.kind)
        except (AttributeError, KeyError) as error:
            raise NotQuick(str(error)) from None
        self.layout = wire.layout(self._size, self._places)

    def _add(self, group: Group, handle: Any, step: Step, answer: _Answer, offset: int) -> None:
        """Give a call its part of the block; fields are read once to know their types."""
        room = answer.kind.from_buffer(self._room, offset)
        answer.fill(room)
        function = getattr(library(), answer.function)
        arguments = (handle, *answer.before, ctypes.byref(room))
        self._calls[group].append((step.number, function, arguments))
        places = answer.places
        if step.fields:
            self._enter(step.number)
            code = function(*arguments)
            if code == LOST:
                raise DeviceLost(step.function)
            if code:
                raise NotQuick(step.function)
            for view, value in zip(list(room), step.gives, strict=True):
                if view.nvmlReturn == LOST:
                    raise DeviceLost(f"{step.function}({view.fieldId})")
                self._fields[group].append((view, view.valueType))
                at = ctypes.addressof(view) - ctypes.addressof(room) + type(view).value.offset
                places[value.name] = (at, _FIELD_CODES[view.valueType])
        for value in step.gives:
            at, code = places[value.name]
            self._places[value.name] = wire.Place(offset + at, code, value.scale)

    def read(self, group: Group) -> bool:
        """Make the calls of a group; False where one failed, and the others are not made.

        Raises:
            DeviceLost: A call or a field said GPU_IS_LOST. Stopped: By `enter`.
        """
        for number, function, arguments in self._calls[group]:
            self._enter(number)
            code = function(*arguments)
            if code:
                if code == LOST:
                    raise DeviceLost(CALLS[number - 1].function)
                return False
        for view, kind in self._fields[group]:
            if view.nvmlReturn or view.valueType != kind:
                if view.nvmlReturn == LOST:
                    raise DeviceLost(f"nvmlDeviceGetFieldValues({view.fieldId})")
                return False
        return True

    def row(self, at_ns: int) -> bytes:
        """What the calls have filled, with its time."""
        _pack_time(self._room, 0, at_ns)
        return bytes(self._room)

    def value(self, name: str) -> Any:
        """The newest of one value, or None for one that is not among these."""
        place = self._places.get(name)
        return None if place is None else place.read(self._room)


def _rounded(kind: Any) -> int:
    """Its size, up to the next eight bytes, so that each answer is aligned."""
    return -(-ctypes.sizeof(kind) // 8) * 8


def _answer(nvml: Any, step: Step) -> _Answer:
    """What a call needs; its values stand at `places`, but for fields, whose types vary.

    Raises:
        NotQuick: It is none of these calls. AttributeError: The binding lacks a structure.
    """
    name, given = step.function, tuple(map(ctypes.c_uint, step.args))
    if name in _NUMBERS:
        kind = _NUMBERS[name]
        return _Answer(name, kind, given, {step.gives[0].name: (0, _CODES[kind])})
    if name == "nvmlDeviceGetUtilizationRates":
        kind = nvml.c_nvmlUtilization_t
        return _Answer(name, kind, (), dict(_parts(kind, step)))
    if name == "nvmlDeviceGetTemperatureV":
        kind = nvml.c_nvmlTemperature_v1_t
        version, (sensor,) = nvml.nvmlTemperature_v1, step.args

        def fill(room: Any) -> None:
            room.version, room.sensorType = version, sensor

        place = (kind.temperature.offset, "i")
        return _Answer(name, kind, (), {step.gives[0].name: place}, fill)
    if name == "nvmlDeviceGetMemoryInfo":
        if not step.args:
            kind = nvml.c_nvmlMemory_t
            return _Answer(name, kind, (), dict(_parts(kind, step)))
        kind = nvml.c_nvmlMemory_v2_t
        version = step.args[0]
        return _Answer(
            "nvmlDeviceGetMemoryInfo_v2",
            kind,
            (),
            dict(_parts(kind, step)),
            lambda room: setattr(room, "version", version),
        )
    if name == "nvmlDeviceGetFieldValues":
        fields = list(step.fields)

        def fill_fields(room: Any) -> None:
            for value, field in zip(room, fields, strict=True):
                value.fieldId, value.scopeId = field

        kind = nvml.c_nvmlFieldValue_t * len(fields)
        return _Answer(name, kind, (ctypes.c_int(len(fields)),), {}, fill_fields)
    raise NotQuick(name)


def _parts(kind: Any, step: Step) -> Iterator[tuple[str, tuple[int, str]]]:
    """Where the parts of a structure stand that a call gives."""
    types = dict(item[:2] for item in kind._fields_)
    for value in step.gives:
        yield value.name, (getattr(kind, value.part).offset, _CODES[types[value.part]])
