"""A value that was read, or the reason why there is none. Absent is never zero."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Generic, TypeVar

T = TypeVar("T")


class Reason(StrEnum):
    """Why a value is not there. The values are stable."""

    NOT_SUPPORTED = "not-supported"
    """This device or kernel has no such thing: GeForce has no ECC."""
    NOT_PERMITTED = "not-permitted"
    """Root, a group or a container's setting is missing."""
    TIMED_OUT = "timed-out"
    """No answer before the deadline."""
    LOST = "lost"
    """The device no longer answers."""
    ASLEEP = "asleep"
    """The device is runtime-suspended, and asking would wake it."""
    NOT_THERE = "not-there"
    """The source itself does not exist here: no driver, no /dev/kmsg, no udev."""
    NOT_ASKED = "not-asked"
    """Nobody asked for it."""
    FAILED = "failed"
    """Asked, and the answer was an error that says nothing else."""


@dataclass(frozen=True, slots=True)
class Known(Generic[T]):
    """A value that was read."""

    value: T


@dataclass(frozen=True, slots=True)
class Unavailable:
    """No value, for a named reason.

    Attributes:
        reason: Why.
        detail: The error or the path, in few words.
        hint: What would make it available, or an empty string.
    """

    reason: Reason
    detail: str = ""
    hint: str = ""


Reading = Known[T] | Unavailable
"""What reading something gives. Match on it; there is no third case."""


def value_or_none(reading: Known[T] | Unavailable) -> T | None:
    """The value, or None where there is none, for callers to whom the reason does not matter."""
    return reading.value if isinstance(reading, Known) else None


def to_json(reading: Known[Any] | Unavailable) -> dict[str, Any]:
    """`{"value": 3}`, or `{"unavailable": "lost", "detail": ..., "hint": ...}`."""
    if isinstance(reading, Known):
        return {"value": reading.value}
    found: dict[str, Any] = {"unavailable": reading.reason.value}
    if reading.detail:
        found["detail"] = reading.detail
    if reading.hint:
        found["hint"] = reading.hint
    return found
