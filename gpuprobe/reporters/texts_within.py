"""Every text inside a value that holds others, as a diagnosis does."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from datetime import datetime
from enum import Enum
from pathlib import PurePath
from typing import Any, TypeVar, cast

from gpuprobe.identity import PciAddress

Value = TypeVar("Value")

_STRUCTURE = frozenset({"format", "score", "type", "rule", "cause", "kind", "weight"})
"""Fields whose text is the program's own, from a closed list."""


def every_text(value: Value, change: Callable[[str], str]) -> Value:
    """Return `value` with `change` applied to every text in it that is not structure."""
    result: Any = value
    if isinstance(value, str):
        result = value if isinstance(value, Enum) else change(value)
    elif isinstance(value, tuple | list | set | frozenset):
        result = type(value)(every_text(item, change) for item in value)
    elif isinstance(value, dict):
        result = {every_text(key, change): every_text(item, change) for key, item in value.items()}
    elif dataclasses.is_dataclass(value) and not isinstance(value, type | PciAddress):
        result = dataclasses.replace(
            value,
            **{
                field.name: every_text(getattr(value, field.name), change)
                for field in dataclasses.fields(value)
                if field.init and field.name not in _STRUCTURE
            },
        )
    elif isinstance(value, PurePath | bytes | BaseException):
        # A reporter would write it as a text.
        result = change(str(value))
    elif not isinstance(value, int | float | datetime | PciAddress | None):
        result = change(str(value))
    return cast(Value, result)
