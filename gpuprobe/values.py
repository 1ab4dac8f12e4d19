"""Frozen values that are cheap to define.

A frozen dataclass writes seven functions as text and compiles them. For the classes that every
command needs, that takes longer than reading a short log; here they share one of each.
"""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, dataclass, field, fields
from typing import TYPE_CHECKING, Any, ClassVar, dataclass_transform


class Frozen:
    """What classes with the fields of a dataclass share: equal by value, and never changed."""

    if not TYPE_CHECKING:

        def __setattr__(self, name: str, value: object) -> None:
            raise FrozenInstanceError(f"cannot assign to field {name!r}")

        def __delattr__(self, name: str) -> None:
            raise FrozenInstanceError(f"cannot delete field {name!r}")

    def _values(self) -> tuple[Any, ...]:
        own: Any = self
        return tuple(getattr(self, item.name) for item in fields(own))

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        assert isinstance(other, Frozen)
        return self._values() == other._values()

    def __hash__(self) -> int:
        return hash(self._values())

    def __repr__(self) -> str:
        own: Any = self
        shown = ", ".join(f"{item.name}={getattr(self, item.name)!r}" for item in fields(own))
        return f"{type(self).__qualname__}({shown})"


@dataclass_transform(frozen_default=True, field_specifiers=(field,))
class Value(Frozen):
    """A base class in place of `@dataclass(frozen=True)`; `replace` and `fields` work as there.

    Fields with a default of their own are all it knows: no `default_factory`, no `__post_init__`.
    What is made for each line of a log is a dataclass, whose `__init__` is faster.
    """

    _names: ClassVar[tuple[str, ...]]
    _defaults: ClassVar[dict[str, Any]]
    _needed: ClassVar[frozenset[str]]

    def __init_subclass__(cls) -> None:
        made: Any = dataclass(init=False, repr=False, eq=False)(cls)
        cls._names = tuple(item.name for item in fields(made))
        cls._defaults = {
            item.name: item.default for item in fields(made) if item.default is not MISSING
        }
        cls._needed = frozenset(cls._names) - cls._defaults.keys()

    if not TYPE_CHECKING:

        def __init__(self, *values: Any, **named: Any) -> None:
            names = self._names
            placed = dict(zip(names, values, strict=False))
            given = placed | named
            if (
                len(given) < len(values) + len(named)  # one too many, or one given twice
                or not self._needed <= given.keys()
                or not given.keys() <= set(names)
            ):
                raise TypeError(
                    f"{type(self).__name__} takes {', '.join(names)}; "
                    f"it was given {len(values)} in order and {', '.join(named) or 'none by name'}"
                )
            self.__dict__.update(self._defaults)
            self.__dict__.update(given)
