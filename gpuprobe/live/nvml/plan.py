"""Which calls of a group one device answers, and reading them. Takes the NVML module as given.

A call that is not supported is dropped after its first answer. Where two calls give one value,
the first that answers is kept. GPU_IS_LOST, of a call or of a single field, ends everything.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from gpuprobe.live.nvml.calls import CALLS, Call, Group, Value, values
from gpuprobe.live.nvml.quick import quick_samples
from gpuprobe.live.nvml.wire import SAMPLE
from gpuprobe.reading import Reason

SUCCESS: Final = 0
NOT_FOUND: Final = 6
LOST: Final = 15
GPU_NOT_FOUND: Final = 28
SHUT: Final = frozenset({1, 9})
"""UNINITIALIZED and DRIVER_NOT_LOADED: the driver went away under the library."""

REASONS: Final = {
    2: Reason.NOT_SUPPORTED,
    3: Reason.NOT_SUPPORTED,
    4: Reason.NOT_PERMITTED,
    9: Reason.NOT_THERE,
    10: Reason.TIMED_OUT,
    12: Reason.NOT_THERE,
    13: Reason.NOT_SUPPORTED,
    LOST: Reason.LOST,
    17: Reason.NOT_PERMITTED,
    25: Reason.NOT_SUPPORTED,
    26: Reason.NOT_SUPPORTED,
}
"""Return codes to reasons; any other is FAILED."""

UNREADABLE: Final = -1
"""Not a code of NVML: the answer could not be read (a name that is no text, say)."""

PERMANENT: Final = frozenset({UNREADABLE, 2, 3, 4, 13, 17, 25, 26})
"""Answers that will not change for this device while it is open."""


class DeviceLost(Exception):  # noqa: N818 - a condition, not a programming error
    """A call said GPU_IS_LOST."""

    def __init__(self, function: str) -> None:
        super().__init__(function)
        self.function = function


class DeviceGone(Exception):  # noqa: N818
    """NVML no longer knows the device."""


class DriverShut(Exception):  # noqa: N818
    """The driver was unloaded, or NVML shut, under us."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Stopped(Exception):  # noqa: N818
    """The parent wants no further call."""


def absent(code: int) -> dict[str, Any]:
    """How the protocol writes a value that is not there."""
    return {"u": REASONS.get(code, Reason.FAILED).value, "c": code}


class Step:
    """One call as this device answers it.

    Attributes:
        number: The call's number in the shared memory.
        code: What it returned last.
        gives: The values it still gives.
        args: Arguments behind the handle. fields: A pair of id and scope for each field, if any.
        read: Makes the call and puts the values into a dict, or `Absent` for a field without one.
    """

    __slots__ = (
        "_function",
        "_last_sample",
        "_name",
        "_samples",
        "args",
        "code",
        "fields",
        "function",
        "gives",
        "number",
        "read",
    )

    def __init__(self, nvml: Any, number: int, call: Call) -> None:
        self.number = number
        self.code = SUCCESS
        self.gives: tuple[Value, ...] = call.gives
        self.function = call.function
        self.args = call.args
        self._name = call.gives[0].name
        # A pair each: pynvml tries to unpack a lone id, which costs an exception.
        self.fields = [(value.field, 0) for value in call.gives if value.field is not None]
        self._function: Any = getattr(nvml, call.function, None)
        self._samples = quick_samples(nvml)
        self._last_sample = 0
        self.read: Callable[[Any, dict[str, Any]], None] = self._reader(call)

    def _reader(self, call: Call) -> Callable[[Any, dict[str, Any]], None]:
        """The quickest way to take this call's answer apart."""
        if self.fields:
            return self._read_fields
        if call.function == "nvmlDeviceGetSamples":
            return self._read_samples
        if call.function.endswith("RunningProcesses"):
            return self._read_pids
        if len(call.gives) == 1 and not call.gives[0].part and call.gives[0].scale == 1:
            return self._read_one
        return self._read_parts

    @property
    def missing(self) -> bool:
        """True when this pynvml has no such function."""
        return self._function is None

    def _read_one(self, handle: Any, found: dict[str, Any]) -> None:
        found[self._name] = self._function(handle, *self.args)

    def _read_parts(self, handle: Any, found: dict[str, Any]) -> None:
        answer = self._function(handle, *self.args)
        for value in self.gives:
            found[value.name] = _taken(answer, value)

    def _read_fields(self, handle: Any, found: dict[str, Any]) -> None:
        some_dropped = False
        answers = self._function(handle, self.fields)
        for value, answer in zip(self.gives, answers, strict=True):
            code = answer.nvmlReturn
            if code == SUCCESS:
                found[value.name] = _number(answer.valueType, answer.value, value.scale)
                continue
            if code == LOST:
                raise DeviceLost(f"{self.function}({value.field})")
            found[value.name] = Absent(code)
            some_dropped = some_dropped or code in PERMANENT
        if some_dropped:
            self.gives = tuple(
                value for value in self.gives if not _is_never(found.get(value.name))
            )
            self.fields = [(value.field, 0) for value in self.gives if value.field is not None]

    def _read_samples(self, handle: Any, found: dict[str, Any]) -> None:
        """The driver's own samples since the last time, as it gives them."""
        samples = self._samples(handle, *self.args, self._last_sample)
        size, begin = SAMPLE.size, 0
        while begin < len(samples) and SAMPLE.unpack_from(samples, begin)[0] <= self._last_sample:
            begin += size
        if begin < len(samples):
            self._last_sample = SAMPLE.unpack_from(samples, len(samples) - size)[0]
        found[self._name] = samples[begin:]

    def _read_pids(self, handle: Any, found: dict[str, Any]) -> None:
        found[self._name] = [process.pid for process in self._function(handle)]


class Absent:
    """A return code that stands where a value would."""

    __slots__ = ("code",)

    def __init__(self, code: int) -> None:
        self.code = code


def _is_never(value: Any) -> bool:
    return isinstance(value, Absent) and value.code in PERMANENT


def _taken(answer: Any, value: Value) -> Any:
    part = value.part
    if part == "":
        found = answer
    elif part.isdigit():
        found = answer[int(part)]
    else:
        found = getattr(answer, part)
    return found if value.scale == 1 else round(found * value.scale, 3)


_MEMBERS: Final = ("dVal", "uiVal", "ulVal", "ullVal", "sllVal", "siVal", "usVal")
"""Which member of the union a value type names, by its number."""


def _number(value_type: int, union: Any, scale: float) -> float | int:
    member = _MEMBERS[value_type] if 0 <= value_type < len(_MEMBERS) else "ullVal"
    number: float | int = getattr(union, member)
    return number if scale == 1 else round(number * scale, 3)


class Plan:
    """The calls of one group that a device answers.

    Args:
        nvml: The pynvml module.
        group: Which calls.
        enter: Called with the call's number before each call; it may raise `Stopped`.

    Attributes:
        absent: Name to `{"u", "c"}` of what this device does not offer; grows.
        changed: `absent` grew or shrank in the last pass.
        failing: `(function, code)` of calls that began to fail in the last pass.
        had_absent: Some value of the last pass was `Absent`.
        all_failed: No call of the last pass succeeded.
    """

    def __init__(self, nvml: Any, group: Group, enter: Callable[[int], None]) -> None:
        self._error = nvml.NVMLError
        self._enter = enter
        self._settling = True
        self._steps = [
            Step(nvml, number, call) for number, call in enumerate(CALLS, 1) if call.group is group
        ]
        self.names = tuple(value.name for value in values(group))
        self.absent: dict[str, dict[str, Any]] = {}
        self.changed = False
        self.failing: list[tuple[str, int]] = []
        self.all_failed = False
        self.had_absent = False

    @property
    def answered(self) -> tuple[Step, ...] | None:
        """The calls that are left, where all of them answered in full; else None."""
        if self._settling or self.had_absent or any(step.code != SUCCESS for step in self._steps):
            return None
        return tuple(self._steps)

    def read(self, handle: Any) -> dict[str, Any]:
        """One pass: name to value, or to `Absent` for what failed this time.

        Raises:
            DeviceLost: A call or a field said GPU_IS_LOST. DeviceGone: NVML knows it no longer.
            DriverShut: The driver was unloaded. Stopped: By `enter`.
        """
        found: dict[str, Any] = {}
        self.failing = []
        failed = 0
        asked = 0
        for step in list(self._steps) if self._settling else self._steps:
            if self._settling and (step.missing or self._is_answered(step, found)):
                self._drop(step, 13 if step.missing else SUCCESS, found)
                continue
            asked += 1
            self._enter(step.number)
            code = SUCCESS
            try:
                step.read(handle, found)
            except self._error as error:
                code = error.value
                failed += 1
                self._note_failure(step, code, found)
            except (ValueError, TypeError, AttributeError, IndexError):
                failed += 1
                self._note_failure(step, code := UNREADABLE, found)
            if code != step.code:
                step.code = code
                if code not in PERMANENT and code not in (SUCCESS, NOT_FOUND):
                    self.failing.append((step.function, code))
        self.all_failed = asked > 0 and failed == asked
        self.changed = False
        self.had_absent = self._has_absent(found)
        if self._settling or self.had_absent:
            self._settle(found)
        return found

    @staticmethod
    def _has_absent(found: dict[str, Any]) -> bool:
        for value in found.values():  # noqa: SIM110 - a generator costs twice as much here
            if type(value) is Absent:
                return True
        return False

    def _is_answered(self, step: Step, found: dict[str, Any]) -> bool:
        return all(
            value.name in found and not isinstance(found[value.name], Absent)
            for value in step.gives
        )

    def _note_failure(self, step: Step, code: int, found: dict[str, Any]) -> None:
        if code == LOST:
            raise DeviceLost(step.function)
        if code == GPU_NOT_FOUND:
            raise DeviceGone(step.function)
        if code in SHUT:
            raise DriverShut(code)
        if code in PERMANENT:
            self._settling = True
            self._drop(step, code, found)
        else:
            for value in step.gives:
                if code != NOT_FOUND:  # what GetSamples says when there is nothing newer
                    found.setdefault(value.name, Absent(code))

    def _drop(self, step: Step, code: int, found: dict[str, Any]) -> None:
        """Never make this call again."""
        self._steps = [other for other in self._steps if other is not step]
        if code != SUCCESS:
            for value in step.gives:
                if isinstance(found.get(value.name, Absent(code)), Absent):
                    found[value.name] = Absent(code)

    def _settle(self, found: dict[str, Any]) -> None:
        """Move what will never answer out of the way, and see whether all is settled."""
        again = False
        before = set(self.absent)
        for name, value in list(found.items()):
            if not isinstance(value, Absent):
                self.absent.pop(name, None)
            elif value.code in PERMANENT:
                self.absent[name] = absent(value.code)
                del found[name]
            else:
                again = True
        self.changed = set(self.absent) != before
        self._steps = [step for step in self._steps if step.gives]
        self._settling = again
