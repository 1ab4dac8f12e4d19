"""Whether `gpuprobe run` starts an engine again: its deaths, in this start and before it."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from gpuprobe import verdict
from gpuprobe.cli.run_caches import CacheCare
from gpuprobe.cli.run_settings import Settings
from gpuprobe.diagnosis import Diagnosis, Kind
from gpuprobe.events import Event, is_evidence
from gpuprobe.live.engine.deaths import EngineDeaths
from gpuprobe.live.engine.policy import (
    REMEMBERED,
    Cure,
    Death,
    Decision,
    Limits,
    cure_of,
    decide,
    deciding,
    signature_of,
    tripped,
)
from gpuprobe.live.engine.process import EngineSource
from gpuprobe.live.engine.watch import WORKER_SETTLE_S, EngineWatch
from gpuprobe.live.session import Session, Update
from gpuprobe.timeline import Timeline

if TYPE_CHECKING:
    from gpuprobe.recording.writer import Recorder

CLEAN_AFTER_S: Final = 60.0
"""An end with code 0 is clean when no worker died in the seconds before."""

READ_S: Final = 5.0
"""How long the deaths in older recordings are waited for, after the verdict."""


class Restarts:
    """The deaths of one engine.

    Args:
        settings: What the command line asks for.
        session: Judges.
        engine: The engine.
        watch: Knows its GPUs.
        deaths: Those in this start.
        caches: Looked at where a death fits.
        memory: What the probe of the start before left.
        wake: Set when there is something to do.

    Attributes:
        number: Which start this is, from 1.
        stopping: Why the engine is ended from here, or "".
    """

    def __init__(
        self,
        settings: Settings,
        session: Session,
        engine: EngineSource,
        watch: EngineWatch,
        deaths: EngineDeaths,
        caches: CacheCare,
        *,
        memory: str,
        wake: threading.Event,
    ) -> None:
        self._settings = settings
        self._session = session
        self._engine = engine
        self._watch = watch
        self._here = deaths
        self._caches = caches
        self._wake = wake
        self._limits = Limits(settings.max_deaths, settings.within_s, settings.healthy_after_s)
        self._before: list[Death] = []
        self._mine: list[Death] = []
        self._known = threading.Event()
        self._judge_at: float | None = None
        self.stopping = ""
        told: dict[str, Any] = json.loads(memory) if memory else {}
        self.number = int(told.get("number", 1))
        if "deaths" in told:
            self._before = [Death.from_list(one) for one in told["deaths"]]
            self._known.set()

    @property
    def deaths(self) -> list[Death]:
        """All that count, in order."""
        return [*self._before, *self._mine][-REMEMBERED:]

    def start(self, recorder: Recorder | None, env: Mapping[str, str]) -> None:
        """Read how this engine died before, beside its start, and have the recording know it."""
        if self._settings.restart:
            arguments = (recorder, env)
            threading.Thread(
                target=self._remember, args=arguments, name="deaths", daemon=True
            ).start()

    def _remember(self, recorder: Recorder | None, env: Mapping[str, str]) -> None:
        from gpuprobe.recording import past_deaths

        chosen = self._settings
        mark = past_deaths.mark_of(chosen.argv, env, cwd=str(Path.cwd()), devices=chosen.devices)
        if not self._known.is_set():
            named = (Path(chosen.record).parent,) if chosen.record else ()
            self._before = past_deaths.read(mark, (None, *named))
            self._known.set()
        if recorder is not None:
            recorder.describe(past_deaths.ENGINE, mark)
        self._store(recorder)

    # --- while it runs --------------------------------------------------------------------

    def take(self, update: Update, recorder: Recorder | None) -> str:
        """Note what came; gives why the engine is to be ended, once, or ""."""
        here = time.monotonic()
        new = self._here.take(update.events, here)
        if self._engine.exit is not None:
            return ""
        if new:
            self._judge_at = here + WORKER_SETTLE_S
            timer = threading.Timer(WORKER_SETTLE_S, self._wake.set)
            timer.daemon = True
            timer.start()
        if self._judge_at is None or here < self._judge_at:
            return ""
        self._judge_at = None
        if self._engine.asked_to_end:
            return ""
        found = self._judge()
        if self.fits_a_cache(found):
            self._caches.look()
        self._mine.append(self._death(found, worker=True))
        self._here.settled()
        self._store(recorder)
        if not self._settings.restart or self.stopping:
            return ""
        self._known.wait(READ_S)
        self.stopping = tripped(self.deaths, self._limits) or ""
        return self.stopping

    def fits_a_cache(self, found: Diagnosis) -> bool:
        """Whether damage in a JIT cache may be why the engine died."""
        mine = deciding(found, self._watch.whose.devices)
        if mine is None:
            return False
        silent = self._here.silent and mine.kind is Kind.PROCESS_CRASH
        return silent or mine.kind is Kind.JIT_CACHE_CORRUPT

    # --- after its end --------------------------------------------------------------------

    @property
    def failed(self) -> bool:
        """Whether its end is a death: nobody asked for it, and it is no clean one."""
        if self.stopping:
            return True
        if self._engine.code is None or self._engine.asked_to_end:
            return False
        if self._engine.code != 0:
            return True
        # Some servers end with 0 after their workers died.
        ended, times = self._engine.ended_s or 0.0, self._here.times
        return bool(times) and ended - times[-1] < CLEAN_AFTER_S

    def decide(self, recorder: Recorder | None, *, lost: bool) -> Decision | None:
        """Whether it is started again; None where nobody asked for that, or it did not fail.

        Args:
            recorder: Takes the deaths.
            lost: A GPU of the engine left the bus for certain.
        """
        if not self._settings.restart:
            return None
        self._known.wait(READ_S)
        if not self.failed:
            self._forget_if_well(recorder)
            return None
        if self.stopping:
            return Decision(False, self.stopping)
        own = self._here.end(time.monotonic())
        death = self._death(self._judge())
        if own or not self._mine:
            self._mine.append(death)
        else:
            # It ends of the worker's death, and tells more of it.
            last = self._mine[-1]
            entries = tuple(sorted({*last.entries, *death.entries}))
            self._mine[-1] = replace(death, at_s=last.at_s, served_s=last.served_s, entries=entries)
        self._store(recorder)
        decision = decide(self.deaths, self._limits, problem=self._caches.problem)
        return Decision(False, "its GPU left the bus") if lost and decision.again else decision

    def memory(self) -> str:
        """For the probe of the next start."""
        told = {"number": self.number + 1, "deaths": [one.to_list() for one in self.deaths]}
        return json.dumps(told, separators=(",", ":"))

    def _forget_if_well(self, recorder: Recorder | None) -> None:
        """It served well to the end: what was before counts no more."""
        since = self._here.times[-1] if self._here.times else self._here.started_s
        if time.monotonic() - since >= self._limits.healthy_after_s:
            self._before, self._mine = [], []
            self._store(recorder)

    def _store(self, recorder: Recorder | None) -> None:
        from gpuprobe.recording import past_deaths

        if recorder is not None and self._known.is_set():
            recorder.describe(past_deaths.DEATHS, past_deaths.to_text(self.deaths))

    # --- inside ---------------------------------------------------------------------------

    def _judge(self) -> Diagnosis:
        """What failed since the death before in this start, so that each has its own words."""
        if len(self._mine) == 0 or len(self._here.times) < 2:
            return self._session.judge()
        since = self._here.times[-2]
        known = self._session.timeline()
        events = [one for one in known.events if not is_evidence(one) or _at(one) > since]
        return verdict.diagnose(Timeline(events=events, inputs=known.inputs, clocks=known.clocks))

    def _death(self, found: Diagnosis, *, worker: bool = False) -> Death:
        from gpuprobe.live.engine.cache_check import marks

        mine = deciding(found, self._watch.whose.devices)
        cure = cure_of(mine) if mine is not None else Cure.BACK_OFF
        healed = cure is Cure.REPAIR
        return Death(
            at_s=time.time(),
            served_s=self._here.served_s(),
            kind=mine.kind if mine is not None else Kind.CANNOT_TELL,
            cure=cure,
            signature=signature_of(mine) if mine is not None else "elsewhere",
            entries=marks(self._caches.met, self._here.entries) if healed else (),
            worker=worker,
        )


def _at(event: Event) -> float:
    """When, on the monotonic clock; what has no time is kept."""
    found = event.stamp.monotonic_s if event.stamp else None
    return float("inf") if found is None else found
