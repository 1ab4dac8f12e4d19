"""What all events have, and where one was read."""

from __future__ import annotations

from dataclasses import MISSING, dataclass, fields
from enum import StrEnum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Self,
    TypeVar,
    dataclass_transform,
)

from gpuprobe.clock import Stamp
from gpuprobe.identity import PciAddress
from gpuprobe.values import Frozen


class Setting(StrEnum):
    """In what surroundings the words stood, which decides how much they can prove."""

    LOG = "log"
    """A line with a log's prefix, a structured record, or a line of plainly pasted output."""
    BARE = "bare"
    """Machine words alone on a line, with no prefix: a program may have written them."""
    PROSE = "prose"
    """Inside somebody's sentence: context, never evidence."""
    CODE = "code"
    """Inside a string literal, a diff, a table of codes or program text: context."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event was read, so that a verdict can quote its proof.

    Attributes:
        input: The `inputs[].path` it came from; `-` is stdin, `a.tar!b` an archive's member.
        line: Line number from 1 in the decompressed input; None for what has no lines.
        text: The line as it stands or the message in it, at most 500 characters, no controls.
        ref: Table and row, or cursor, where there is no line.
        order: Place among all that was read; ties between equal times are broken by it.
    """

    input: str
    line: int | None
    text: str
    ref: str | None = None
    order: tuple[int, int] = (0, 0)


_T = TypeVar("_T", bound="Event")


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False)
def observed(cls: type[_T]) -> type[_T]:
    """A frozen dataclass with what `Event` has for all.

    Like `Value`, and for its reason, but without fields in order: subclasses add required ones.
    """
    made = dataclass(init=False, repr=False, eq=False, match_args=False)(cls)
    defaults = {item.name: item.default for item in fields(made)}
    made._names = frozenset(defaults)
    made._defaults = {name: value for name, value in defaults.items() if value is not MISSING}
    made._needed = made._names - made._defaults.keys()
    return made


@observed
class Event(Frozen):
    """What all events have.

    Attributes:
        origin: Where it was read.
        stamp: The stamp that says when, or None.
        host: Host field of a kernel or syslog line, else None.
        machine_id: The journal's machine id, else None.
        boot: Which boot of its input it belongs to: a journal boot id, or a number as text.
        setting: In what surroundings the words stood.
        device: The function the line names, or None. Never guessed.
        source: Which program or subsystem wrote it (`kernel`, `vllm[2201]`), or None.
        count: How many times a line of this shape came, this one included.
        last: The last of them, when `count` is above 1.
    """

    origin: Origin
    stamp: Stamp | None = None
    host: str | None = None
    machine_id: str | None = None
    boot: str | None = None
    setting: Setting = Setting.LOG
    device: PciAddress | None = None
    source: str | None = None
    count: int = 1
    last: Origin | None = None

    _defaults: ClassVar[dict[str, Any]]
    _names: ClassVar[frozenset[str]]
    _needed: ClassVar[frozenset[str]]

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """One of fields that are known to be right, for what is made at a sampling rate."""
        made = cls.__new__(cls)
        made.__dict__.update(cls._defaults)
        made.__dict__.update(values)
        return made

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            if not (values.keys() <= self._names and values.keys() >= self._needed):
                wrong = (values.keys() - self._names) | (self._needed - values.keys())
                raise TypeError(f"{type(self).__name__}: {sorted(wrong)}")
            self.__dict__.update(self._defaults)
            self.__dict__.update(values)


def is_evidence(event: Event) -> bool:
    """Whether the words are a log's or a program's own, not somebody's talk of them."""
    return event.setting in (Setting.LOG, Setting.BARE)
