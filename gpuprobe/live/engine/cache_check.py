"""JIT caches beside a watched engine: looked at after a death that fits, and entries moved aside.

The caches are those that this process's environment names, which is the engine's too.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from gpuprobe.clock import now
from gpuprobe.errors import GpuprobeError
from gpuprobe.events import JitCacheFailed
from gpuprobe.jitcache.api import Moved, ScanReport, repair, scan
from gpuprobe.jitcache.base import Harm
from gpuprobe.jitcache.found import to_event
from gpuprobe.jitcache.report import CacheFinding
from gpuprobe.live.engine.policy import mark

DEADLINE_S: Final = 5.0
"""For a look after a death."""

LOADED: Final = (".cubin", ".hsaco", ".so")
"""Files that end a process without a word when they are cut."""

MARKS: Final = 4
"""Entries of one death that are remembered."""

FIRST_ORDER: Final = 1000
"""Number of the first file among the session's inputs, behind every source."""


@dataclass(frozen=True, slots=True)
class Looked:
    """What a look at the caches found.

    Attributes:
        checked: Entries looked at. complete: False where the time ran out.
        deadly: Damaged files that end or hang the program that meets them.
        problem: Why nothing could be looked at, or "".
    """

    checked: int = 0
    complete: bool = True
    deadly: tuple[CacheFinding, ...] = ()
    problem: str = ""

    def events(self) -> list[JitCacheFailed]:
        """What was found, for the rules."""
        stamp = now()
        return [to_event(found, FIRST_ORDER + n, stamp) for n, found in enumerate(self.deadly)]

    def met(self, named: Iterable[tuple[str, str]], *, silent: bool) -> list[CacheFinding]:
        """The files that an engine died of.

        Args:
            named: Cache, and key or path, that its log named; "" where it gave none.
            silent: It ended without a word, as by a cut file that was loaded.
        """
        told = set(named)
        return [
            one
            for one in self.deadly
            if (one.cache, one.key) in told
            or (one.cache, "") in told
            or any(cache == one.cache and key and key in str(one.path) for cache, key in told)
            or (silent and not told and one.path.name.endswith(LOADED))
        ]


def look(*, deadline_s: float = DEADLINE_S, unclean_at: float | None = None) -> Looked:
    """Scan the caches; whatever goes wrong is in `problem`."""
    try:
        found: ScanReport = scan(deadline_s=deadline_s, unclean_at=unclean_at)
    except (GpuprobeError, OSError) as error:
        return Looked(complete=False, problem=str(error))
    deadly = tuple(one for one in found.bad if one.harm in (Harm.FATAL, Harm.HANGS))
    return Looked(found.checked, found.complete, deadly)


def marks(found: Iterable[CacheFinding], named: Iterable[tuple[str, str]]) -> tuple[str, ...]:
    """Short marks of entries, by which a second death of the same one is known."""
    pairs = {(one.cache, one.key) for one in found} | {pair for pair in named if pair[1]}
    return tuple(sorted(mark(f"{cache} {key}") for cache, key in pairs)[:MARKS])


def move_aside(found: Sequence[CacheFinding]) -> tuple[list[str], str]:
    """Move entries to the quarantine beside their cache.

    Returns:
        A line for people for each that was moved, and why one could not be, or "".
    """
    if not found:
        return [], ""
    lines, problem = [], ""
    for moved in repair(found):
        if moved.problem:
            problem = problem or f"{moved.entry}: {moved.problem}"
        elif moved.to is not None:
            lines.append(_line(moved))
    return lines, problem


def _line(moved: Moved) -> str:
    import shlex

    undo = f"gpuprobe jitcache restore {shlex.quote(str(moved.to))}"
    return f"moved aside: {moved.entry} ({moved.why}); undo: {undo}"
