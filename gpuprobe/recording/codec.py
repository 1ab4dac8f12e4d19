"""Events as JSON and back: exact, and checked, since a recording may come from anybody.

A field that has its default is left out. What a newer gpuprobe wrote and this one does not know
gives no event, and the reader says so.
"""

from __future__ import annotations

import json
import math
import types
from collections.abc import Mapping, Sequence
from dataclasses import fields
from datetime import datetime
from typing import Any, Final, Literal, Union, get_args, get_origin, get_type_hints

from gpuprobe import events
from gpuprobe.clock import Stamp
from gpuprobe.events import Event, Origin, SamplesTaken, Setting
from gpuprobe.identity import PciAddress

KINDS: Final[Mapping[str, type[Event]]] = {
    name: found
    for name, found in vars(events).items()
    if isinstance(found, type) and issubclass(found, Event) and found not in (Event, SamplesTaken)
}
"""Name to class of every kind of event that is stored; samples are, each by itself."""

_SKIPPED: Final = frozenset({"origin", "stamp", "last"})


class CodecError(ValueError):
    """What stands there is no event that this version knows."""


class NewerError(CodecError):
    """It has what this version does not know: a newer one may have written it."""


def encode(event: Event) -> dict[str, Any]:
    """Everything of an event but its kind, as what JSON can hold."""
    found: dict[str, Any] = {"origin": _origin(event.origin)}
    if event.stamp is not None:
        found["stamp"] = encode_stamp(event.stamp)
    if event.last is not None:
        found["last"] = _origin(event.last)
    for name, value in vars(event).items():
        if name in _SKIPPED or value == event._defaults.get(name, _MISSING):
            continue
        found[name] = _plain(value)
    return found


def dumps(found: Mapping[str, Any]) -> str:
    """As compact JSON, ASCII, so that any text survives."""
    return json.dumps(found, ensure_ascii=True, separators=(",", ":"))


def decode(kind: str, found: Mapping[str, Any]) -> Event:
    """The event back.

    Raises:
        CodecError: The kind, a field or a value is none that this version knows.
    """
    made = KINDS.get(kind)
    if made is None:
        raise NewerError(f"unknown kind of event {kind!r}")
    hints = _hints(made)
    values: dict[str, Any] = {}
    for name, value in found.items():
        if name in ("origin", "last"):
            values[name] = _origin_of(value)
        elif name == "stamp":
            values[name] = decode_stamp(value)
        elif name in hints:
            values[name] = _typed(value, hints[name], name)
        else:
            raise NewerError(f"{kind} has no field {name!r}")
    try:
        return made(**values)
    except TypeError as error:
        raise CodecError(str(error)) from error


_MISSING: Final = object()
_HINTS: Final[dict[str, dict[str, Any]]] = {}


def _plain(value: Any) -> Any:
    if isinstance(value, PciAddress):
        return _address(value)
    if isinstance(value, Sequence) and not isinstance(value, str):
        return [_plain(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return {"float": repr(value)}
    return value


def _address(value: PciAddress) -> str:
    text = str(value)
    # An address without a domain is parsed as one whose domain was assumed: see `PciAddress`.
    return text.partition(":")[2] if value.domain_assumed else text


def _origin(origin: Origin) -> list[Any]:
    return [origin.input, origin.line, origin.text, origin.ref, list(origin.order)]


def _origin_of(value: Any) -> Origin:
    match value:
        case [str(path), line, str(text), ref, [int(first), int(second)]] if isinstance(
            line, int | None
        ) and isinstance(ref, str | None):
            return Origin(path, line, text, ref, (first, second))
    raise CodecError("an origin is not one")


def encode_stamp(stamp: Stamp) -> list[Any]:
    """A stamp as what JSON can hold."""
    wall = None if stamp.wall is None else stamp.wall.isoformat()
    return [stamp.raw, stamp.monotonic_s, wall, stamp.year_known, stamp.resolution_s]


def decode_stamp(value: Any) -> Stamp:
    """The stamp back.

    Raises:
        CodecError: It is none.
    """
    match value:
        case [str(raw), monotonic, wall, bool(year), int() | float() as resolution] if isinstance(
            monotonic, int | float | None
        ) and isinstance(wall, str | None):
            try:
                at = None if wall is None else datetime.fromisoformat(wall)
            except ValueError as error:
                raise CodecError(f"{wall!r} is not a time") from error
            return Stamp(raw, monotonic, at, year, resolution)
    raise CodecError("a stamp is not one")


def _hints(made: type[Event]) -> dict[str, Any]:
    found = _HINTS.get(made.__name__)
    if found is not None:
        return found
    names = {item.name for item in fields(made)} - _SKIPPED
    found = {name: hint for name, hint in get_type_hints(made).items() if name in names}
    _HINTS[made.__name__] = found
    return found


def _typed(value: Any, hint: Any, name: str) -> Any:
    """A value as the type that its field has; whatever does not fit is refused."""
    if isinstance(value, dict) and hint is not None:
        value = _float_of(value)
    kind = get_origin(hint)
    if kind in (Union, types.UnionType):
        for option in get_args(hint):
            try:
                return _typed(value, option, name)
            except CodecError:
                continue
    elif kind is Literal:
        if value in get_args(hint):
            return value
    elif kind is tuple and isinstance(value, list):
        inner = get_args(hint)
        if inner[-1] is Ellipsis:
            return tuple(_typed(item, inner[0], name) for item in value)
        if len(inner) == len(value):
            return tuple(_typed(item, one, name) for item, one in zip(value, inner, strict=True))
    elif hint is PciAddress:
        address = PciAddress.try_parse(value) if isinstance(value, str) else None
        if address is not None:
            return address
    elif hint is Setting and isinstance(value, str) and value in set(Setting):
        return Setting(value)
    elif _is(value, hint):
        return value
    raise CodecError(f"{name} cannot be {str(value)[:40]!r}")


def _is(value: Any, hint: Any) -> bool:
    if hint is float:
        return isinstance(value, int | float) and not isinstance(value, bool)
    if hint is int:
        return isinstance(value, int) and not isinstance(value, bool)
    return isinstance(hint, type) and isinstance(value, hint)


def _float_of(value: dict[str, Any]) -> Any:
    """Infinities and NaN, which JSON has no words for."""
    text = value.get("float")
    return float(text) if text in ("inf", "-inf", "nan") else value
