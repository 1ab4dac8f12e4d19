"""What a long recording says of its sources, once each: gone, back, or nothing to follow yet."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TYPE_CHECKING, Final

from gpuprobe.reading import Unavailable

if TYPE_CHECKING:
    from gpuprobe.live.sources import SourceState

LINES: Final = 200
"""So many lines at most: a source that comes and goes for days must not fill a disk."""


class SourceNotes:
    """Compares how the sources are doing with what was said of them.

    Args:
        say: Takes a line.
        followed: Names of the programs that somebody asked to be followed. Of those a gap is told,
            too: a name that nothing answers to would else be found out days later.
    """

    def __init__(self, say: Callable[[str], None], followed: Iterable[str] = ()) -> None:
        self._say = say
        self._followed = frozenset(followed)
        self._gone: set[str] = set()
        self._told: set[tuple[str, str]] = set()
        self._left = LINES

    def look(self, states: Iterable[SourceState]) -> None:
        """Say what changed since the last look."""
        for state in states:
            access = state.access
            if isinstance(access, Unavailable):
                why = access.detail or access.reason.value
                self._gone.add(state.name)
                hint = f" ({access.hint})" if access.hint else ""
                self._once(state.name, f"not available: {state.name}: {why}{hint}")
                continue
            if state.name in self._gone:
                self._gone.discard(state.name)
                self._forget(state.name)
                self._line(f"available again: {state.name}")
            if state.name not in self._followed:
                continue
            if state.what == "gap":
                self._once(state.name, f"{state.name}: {state.text}")
            elif state.what == "started" and self._forget(state.name):
                self._line(f"{state.name}: {state.text}")

    def _forget(self, name: str) -> bool:
        """A source is back, and its next end is news again; gives whether anything was told."""
        told = len(self._told)
        self._told = {one for one in self._told if one[0] != name}
        return len(self._told) < told

    def _once(self, name: str, text: str) -> None:
        if (name, text) not in self._told:
            self._told.add((name, text))
            self._line(text)

    def _line(self, text: str) -> None:
        if self._left > 0:
            self._left -= 1
            self._say(text)
