"""What `gpuprobe run` does about the engine's JIT caches when a death fits damage in one."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Final

from gpuprobe.cli.run_words import Words
from gpuprobe.live.engine.deaths import EngineDeaths
from gpuprobe.live.engine.notes import EngineNotes

if TYPE_CHECKING:
    from gpuprobe.jitcache.report import CacheFinding
    from gpuprobe.live.engine.cache_check import Looked

JOIN_S: Final = 6.0
"""How long a look is waited for after the engine's end; it gives itself less."""


class CacheCare:
    """Looks at the caches beside everything else, and moves entries aside where that is wanted.

    Args:
        deaths: What the engine's log and ends say.
        notes: Takes what is found, so that it is recorded and judged.
        words: Says what was done.
        wake: Set when a look is done.
        repair: Move aside what an engine died of. every: All other damage too.
        here: The engine's caches are in this file system.

    Attributes:
        met: The files that the engine died of, as far as they were found.
        problem: Why one could not be moved aside, or "".
    """

    def __init__(
        self,
        deaths: EngineDeaths,
        notes: EngineNotes,
        words: Words,
        wake: threading.Event,
        *,
        repair: bool,
        every: bool,
        here: bool = True,
    ) -> None:
        self._deaths = deaths
        self._notes = notes
        self._words = words
        self._wake = wake
        self._repair = repair or every
        self._every = every
        self._here = here
        self._thread: threading.Thread | None = None
        self._looked: Looked | None = None
        self._asked: tuple[list[tuple[str, str]], bool] = ([], False)
        self._wanted: list[CacheFinding] = []
        self.met: list[CacheFinding] = []
        self.problem = ""

    @property
    def busy(self) -> bool:
        """Whether a look is under way."""
        return self._thread is not None

    def look(self) -> None:
        """Begin to look, for what the last death said."""
        if self.busy or not self._here:
            return
        self._asked = (list(self._deaths.entries), self._deaths.silent)
        self._thread = threading.Thread(target=self._work, name="caches", daemon=True)
        self._thread.start()

    def _work(self) -> None:
        from gpuprobe.live.engine.cache_check import look

        self._looked = look()
        self._wake.set()

    def wait(self) -> None:
        """Until a look that is under way is done."""
        if self._thread is not None:
            self._thread.join(JOIN_S)

    def take(self) -> bool:
        """Take in what was found, once; gives whether there was damage. `mend` comes next."""
        looked = self._looked
        if looked is None:
            return False
        self._looked = self._thread = None
        if looked.problem or not looked.complete:
            why = looked.problem or "the time ran out before all was looked at"
            self._words.note(f"JIT caches: {why}")
        for event in looked.events():
            self._notes.add(event)
        named, silent = self._asked
        self.met = looked.met(named, silent=silent)
        self._wanted = list(looked.deadly if self._every else self.met)
        return bool(looked.deadly)

    def mend(self) -> None:
        """Move aside what was found, where that is wanted, and say so."""
        from gpuprobe.live.engine.cache_check import move_aside

        wanted, self._wanted = self._wanted, []
        if not self._repair or not wanted:
            return
        lines, self.problem = move_aside(wanted)
        for line in lines:
            self._words.note(line)
        if self.problem:
            self._words.note(f"could not be moved aside: {self.problem}")
