"""What a family of messages is made of: patterns as data, shared by live and saved logs."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from gpuprobe.events import Event
from gpuprobe.sources.record import Window
from gpuprobe.values import Value

_NO_NUMBER = 1 << 64
"""No driver and no kernel writes a number of this size: what has one is no message of theirs."""

Reading = Event | Iterable[Event] | None
"""What a pattern's `read` may give: nothing, one event or several."""


class Pattern(Value):
    """One line shape and what it says.

    Attributes:
        id: Stable name, as in `nvrm-xid`.
        needles: Literal texts, one of which is in every text that `regex` matches (same case).
            The first pass over an input looks for these alone, so a pattern whose needle is
            missing is never tried. The shorter and the rarer, the better; ASCII only.
        regex: Tried with `search`. Never anchored to the start of the line by `^`: text can be
            glued to another message.
        read: Builds the events from the match; None for a match that says nothing after all.
        examples: Made-up lines (or blocks with newlines) that must match.
        near: Made-up lines that must not give an event of this pattern.
        source: Where the shape is documented, in few words.
    """

    id: str
    needles: tuple[str, ...]
    regex: re.Pattern[str]
    read: Callable[[re.Match[str], Window], Reading]
    examples: tuple[str, ...]
    near: tuple[str, ...] = ()
    source: str = ""


@dataclass(frozen=True, slots=True)
class Family:
    """The patterns of one component, in the order they are tried: the first that reads wins.

    Attributes:
        name: As the module: `nvrm`, `aer`, `cuda`.
        patterns: In order.
        machine: False for prose: its events never count as evidence.
    """

    name: str
    patterns: Sequence[Pattern]
    machine: bool = True
    needles: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        found = dict.fromkeys(needle for pattern in self.patterns for needle in pattern.needles)
        object.__setattr__(self, "needles", tuple(found))

    def read(self, window: Window) -> Iterator[tuple[Pattern, re.Match[str], Event]]:
        """The events of the first pattern that reads the window's text."""
        text = window.text
        has = text.__contains__
        if not any(map(has, self.needles)):
            return
        for pattern in self.patterns:
            if not any(map(has, pattern.needles)):
                continue
            found = False
            for match in pattern.regex.finditer(text):
                for event in _events(pattern, match, window):
                    found = True
                    yield pattern, match, event
            if found:
                return


def _events(pattern: Pattern, match: re.Match[str], window: Window) -> Sequence[Event]:
    """What a match says; nothing where its figures are none that can be."""
    try:
        reading = pattern.read(match, window)
        if reading is None:
            return ()
        found = (reading,) if isinstance(reading, Event) else tuple(reading)
    except (ValueError, OverflowError):
        # Thousands of digits, or a figure beyond all floats: somebody made the line up.
        return ()
    return [event for event in found if all(map(_can_be, vars(event).values()))]


def _can_be(value: object) -> bool:
    if type(value) is int:
        return -_NO_NUMBER < value < _NO_NUMBER
    return not (type(value) is float and math.isinf(value))
