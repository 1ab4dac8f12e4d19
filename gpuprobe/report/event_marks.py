"""Moments to mark on the plots: numbered once, so that the plots and the list agree."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime

from gpuprobe.report.telemetry_types import DeviceTelemetry, Mark, Telemetry
from gpuprobe.reporters.plain import cut, printable

LABEL_COLUMNS = 22
"""Columns of a label beside its line in the least room; the list below the plots has it whole."""

_ROOM = 0.2
"""Share of the axis that a label in words takes up; less than this apart, numbers stand alone."""

_MOST_ROOM = 0.4
"""Share that it takes up at most, where there is room: then it has more columns."""

_TURN = 0.78
"""Share of the axis beyond which a label stands to the left of its line."""

_NEAR = 0.03
"""Share of the axis below which two numbers would lie over each other."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A mark with its number.

    Attributes:
        number: From 1, in order of time. mark: As given. label: Safe to show, whole.
    """

    number: int
    mark: Mark
    label: str


def numbered(telemetry: Telemetry, device: DeviceTelemetry) -> list[Numbered]:
    """The marks that a device's plots show, in order of time."""
    own = [mark for mark in telemetry.marks if mark.device in (None, device.device)]
    own.sort(key=lambda mark: mark.at)
    return [
        Numbered(number, mark, printable(mark.label).strip() or mark.role)
        for number, mark in enumerate(own, start=1)
    ]


def rows(
    marks: Sequence[Numbered], begin: datetime, end: datetime
) -> dict[str, list[int | str | None]]:
    """Columns of the table that the plots draw the marks from.

    Args:
        marks: In order of time.
        begin: Left end of the axis at first.
        end: Its right end.

    Returns:
        `at` (milliseconds since 1970), `number`, `role`, `label` (whole), `text` (beside the
        line: number, words where there is room, `2-4` for those that lie together, or empty),
        `short` (as `text`, numbers alone) and `side` (which end of the text is at the line).
    """
    span = max((end - begin).total_seconds(), 1e-3)
    places = [(one.mark.at - begin).total_seconds() / span for one in marks]
    texts = [""] * len(marks)
    shorts = [""] * len(marks)
    taken = -1.0
    for group in _groups(places):
        first, place = group[0], places[group[0]]
        after = places[group[-1] + 1] if group[-1] + 1 < len(marks) else 1.0 + _ROOM
        # A label at the right end runs to the left of its line.
        room = place - taken if place > _TURN else min(after, 1.0) - place
        texts[first] = _text([marks[one] for one in group], room)
        shorts[first] = _text([marks[one] for one in group], 0.0)
        taken = place if place > _TURN or room < _ROOM else place + min(room, _MOST_ROOM)
    return {
        "at": [int(one.mark.at.timestamp() * 1000) for one in marks],
        "number": [one.number for one in marks],
        "role": [one.mark.role for one in marks],
        "label": [f"{one.number}  {one.label}" for one in marks],
        "text": list(texts),
        "short": list(shorts),
        "side": ["right" if place > _TURN else "left" for place in places],
    }


def _groups(places: Sequence[float]) -> list[list[int]]:
    """Marks that lie together, by their place on the axis."""
    groups: list[list[int]] = []
    for index, place in enumerate(places):
        if groups and place - places[groups[-1][0]] < _NEAR:
            groups[-1].append(index)
        else:
            groups.append([index])
    return groups


def _text(group: Sequence[Numbered], room: float) -> str:
    numbers = str(group[0].number)
    if len(group) > 1:
        numbers += f"–{group[-1].number}"
    if room < _ROOM:
        return numbers
    # The words are those of the one that proves most.
    best = next((one for one in group if one.mark.role == "proof"), group[0])
    return f"{numbers} {cut(best.label, int(LABEL_COLUMNS * min(room, _MOST_ROOM) / _ROOM))}"
