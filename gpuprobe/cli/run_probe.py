"""The probe beside an engine: a process of its own, started by the front of `gpuprobe run`.

It may die, hang or be stopped; the engine, its output and its exit code do not depend on it.
"""

from __future__ import annotations

import os
import shlex
import signal
import sys
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Final

from gpuprobe.cli.recording import describe, open_recorder
from gpuprobe.cli.run_caches import JOIN_S, CacheCare
from gpuprobe.cli.run_restart import Restarts
from gpuprobe.cli.run_settings import Settings
from gpuprobe.cli.run_words import IN_FULL, Words
from gpuprobe.diagnosis import Verdict
from gpuprobe.identity import PciAddress
from gpuprobe.live.doorbell import ANSWER_S, Doorbell
from gpuprobe.live.engine.container_client import Container, ContainerSearch, container_client
from gpuprobe.live.engine.deaths import EngineDeaths
from gpuprobe.live.engine.gpus import EngineGpus
from gpuprobe.live.engine.loss_command import LossCommand
from gpuprobe.live.engine.notes import EngineNotes
from gpuprobe.live.engine.policy import Decision
from gpuprobe.live.engine.process import EngineSource, Link, descendants
from gpuprobe.live.engine.watch import EngineWatch, Told
from gpuprobe.live.held import Held, held_in_kernel
from gpuprobe.live.session import Session, Update
from gpuprobe.live.sources import live_sources
from gpuprobe.recording.due import BATCH_S
from gpuprobe.recording.recorded import describe_sources, recorded

if TYPE_CHECKING:
    from gpuprobe.recording.writer import Recorder

STOP_GRACE_S: Final = 30.0
"""From SIGTERM to SIGKILL for an engine that replaces its workers in vain."""

LOST: Final = 79
"""The exit code when a GPU of the engine left the bus for certain."""

CLOSE_S: Final = 10.0
"""How long the front is asked to stay while the recording is closed on a slow disk."""

HELD: Final = 1
"""The exit code when an engine was to be ended and hangs in the kernel, with its GPU there."""

KILLED_S: Final = 2.0
"""An engine that is still there so long after SIGKILL hangs in the kernel."""


class Probe:
    """Everything that happens beside one engine."""

    def __init__(self, settings: Settings, link: Link) -> None:
        self.settings = settings
        self.link = link
        self.words = Words(quiet=settings.quiet, verbose=settings.verbose, terminal=link.terminal)
        self.root = Path(settings.root)
        self.wake = threading.Event()
        self.recorder = self._open_recorder()
        self.notes = EngineNotes(5, self.wake)
        who = Path(settings.argv[0]).name
        self.engine = EngineSource(link, 6, who=who, wake=self.wake)
        live = live_sources(
            rate_hz=settings.rate_hz,
            nvml=settings.nvml,
            batch_s=BATCH_S,
            root=self.root,
            wake=self.wake,
            kmsg=link.kernel,
        )
        self.session = Session([*live, self.notes, self.engine], root=self.root, wake=self.wake)
        self.client = container_client(settings.argv)
        self.search = ContainerSearch(self.client, self._found) if self.client else None
        named = tuple(PciAddress.parse(device) for device in settings.devices)
        environment = {} if self.client else os.environ
        self.gpus = EngineGpus(named, environment, self.root)
        self.watch = EngineWatch(
            self.session, self.engine, self.gpus, self.notes, root=self.root, wake=self.wake
        )
        self.deaths = EngineDeaths(time.monotonic())
        self.caches = CacheCare(
            self.deaths,
            self.notes,
            self.words,
            self.wake,
            repair=settings.restart,
            every=settings.repair_caches,
            here=self.client is None,
        )
        self.restarts = Restarts(
            settings, self.session, self.engine, self.watch, self.deaths, self.caches,
            memory=link.memory, wake=self.wake,
        )  # fmt: skip
        self.doorbell = Doorbell(link.front, self._answer)
        self.told = False
        self.loss: Verdict | None = None
        self.on_loss: LossCommand | None = None
        self.killed_at: float | None = None
        self.held = Held()

    # --- the run --------------------------------------------------------------------------

    def run(self) -> None:
        """Watch until the engine has ended and everything is told."""
        self.session.start()
        self.doorbell.start()
        threading.Thread(target=self._describe, name="about", daemon=True).start()
        self.restarts.start(self.recorder, os.environ)
        self._look_beside()
        if self.search is not None:
            self.search.start()
        try:
            for update in recorded(self.session.updates(), self.recorder):
                told = self.watch.take(update)
                if self.recorder is not None:
                    self.words.recording_stopped(self.recorder.problem)
                if told is not None:
                    self._tell(told)
                self._mind_workers(update)
                orphaned = self.engine.relay_gone and self.engine.exit is None
                if self.watch.over or orphaned or self._is_held():
                    break
        finally:
            self._end()

    def _tell(self, told: Told) -> None:
        path = None
        if self.recorder is not None:
            # On the disk before anybody reads it on a screen.
            self.recorder.judged(told.diagnosis)
            # Somebody may have taken it away: a path that leads nowhere helps nobody.
            path = self.recorder.path if self.recorder.path.exists() else None
        ended = str(self.engine.exit or "still running")
        self.words.verdict(told, ended=ended, recording=path)
        self.told = self.told or told.failed
        if told.loss is None or self.loss is not None:
            return
        self.loss = told.loss
        if self.settings.on_loss:
            self.on_loss = LossCommand(self.settings.on_loss, told.loss, path)
            self.on_loss.start()
        grace = self.settings.stop_on_loss_s
        if grace is not None and not told.ended:
            self._stop_engine(grace)

    def _stop_engine(self, grace_s: float) -> None:
        self.words.stopping(grace_s)
        self.link.stop_engine(grace_s)
        self.killed_at = time.monotonic() + grace_s

    def _mind_workers(self, update: Update) -> None:
        """An engine that replaces its workers is left to, until that is in vain."""
        why = self.restarts.take(update, self.recorder)
        if why:
            self.words.note(f"its workers die again and again: {why}")
            self._stop_engine(STOP_GRACE_S)
        if self.engine.exit is None and self.caches.take():
            self._tell_more()
            self.caches.mend()

    def _poll(self) -> Update:
        """What came since the last look, recorded."""
        update = self.session.poll()
        if self.recorder is not None:
            self.recorder.add(update.samples)
            self.recorder.commit(update.events)
        return update

    def _take_the_rest(self) -> None:
        """The end of a clean run is seen at once, and its last words may come a moment later."""
        self.restarts.take(self._poll(), self.recorder)
        if self.restarts.failed and not self.told:
            self._tell(Told(self.session.judge(), self.watch.whose, ended=True))

    def _tell_more(self) -> None:
        """Damage was found in a cache: judge again, and tell where that changes the verdict."""
        before = self.session.diagnosis
        self._poll()
        found = self.session.judge()
        if self.recorder is not None:
            self.recorder.judged(found)
        first, was = found.verdicts[0], before.verdicts[0] if before is not None else None
        if was is None or (first.kind, first.certainty) != (was.kind, was.certainty):
            self.words.more(first)

    def _is_held(self) -> bool:
        """Whether the kernel does not let the engine end; the process is named then.

        It outlived SIGKILL, or hangs in state D after a loss and could not end if it were told to.
        """
        here = time.monotonic()
        if self.engine.exit is not None:
            return False
        if self.killed_at is not None:
            if here < self.killed_at + KILLED_S:
                return False
            found = held_in_kernel(self.engine.process_tree())
        elif self.loss is not None and not self.settings.keep_exit_code:
            found = self.held.look(self.engine.process_tree(), here)
        else:
            return False
        if found is not None:
            self.words.held(*found)
        return found is not None

    def _end(self) -> None:
        """Close the recording, let the front go, let go of the driver; nothing waits for long."""
        self.link.busy(CLOSE_S)
        self.doorbell.stop()
        ended = self.engine.exit
        if ended is not None:
            self._take_the_rest()
        decision = self._decide() if ended is not None else None
        how = "engine-exited" if ended else "device-lost" if self.loss else "relay-gone"
        if self.recorder is not None:
            describe_sources(self.recorder, self.session.states)
            if ended is not None:
                self.recorder.describe("engine-exit", str(ended))
            self.recorder.end(how, diagnosis=self.session.diagnosis)
            self.words.recording_stopped(self.recorder.problem)
        if self.on_loss is not None:
            self.link.busy(self.on_loss.left_s + CLOSE_S)
            self.on_loss.wait()
            if self.on_loss.problem is not None:
                self.words.note(f"--on-loss {self.on_loss.problem}")
        failed = self.restarts.failed or self.loss is not None
        if failed and not (decision and decision.again):
            self._report(decision)
        lost = self.loss is not None and not self.settings.keep_exit_code
        held = ended is None and (lost or bool(self.restarts.stopping))
        again_s = decision.pause_s if decision is not None and decision.again else None
        code = LOST if lost else HELD if held else None
        memory = self.restarts.memory() if again_s is not None else ""
        self.link.finish(code, leave=held, again_s=again_s, memory=memory)
        for left in self.session.stop():
            self.words.note(str(left))
        if self.search is not None:
            self.search.stop()

    # --- after its end --------------------------------------------------------------------

    def _decide(self) -> Decision | None:
        """Look at the caches where its end fits damage there, and decide on a start anew."""
        found = self.session.diagnosis
        if self.restarts.failed and found is not None:
            if self.restarts.fits_a_cache(found):
                self.caches.look()
            self.link.busy(JOIN_S + CLOSE_S)
            self.caches.wait()
            if self.caches.take():
                self._tell_more()
                self.caches.mend()
        decision = self.restarts.decide(self.recorder, lost=self.loss is not None)
        if decision is not None and decision.again:
            self.words.again(decision.why, decision.pause_s)
        return decision

    def _report(self, decision: Decision | None) -> None:
        """Write the report that was asked for, and say why there is no start anew."""
        from gpuprobe.cli import report_end

        see, recorder, found = "", self.recorder, self.session.diagnosis
        if recorder is not None:
            see = f"to attach it: {IN_FULL.format(path=shlex.quote(str(recorder.path)))}"
        if self.settings.report and found is not None:
            path = Path(self.settings.report)
            self.link.busy(report_end.LIMIT_S + CLOSE_S)
            if recorder is not None and recorder.problem is None:
                problem = report_end.write_report(recorder.path, path)
            else:
                problem = report_end.write_verdict(found, path)
            if problem is not None:
                self.words.note(problem)
            else:
                see = f"report: {path}"
        if decision is not None:
            self.words.no_more(decision.why, see)
        elif see.startswith("report: "):
            self.words.note(see)

    def _look_beside(self) -> None:
        """Go on with the look at the caches that the start did not wait for."""
        from gpuprobe.cli.unclean_end import UncleanEnd, look_beside

        chosen = self.settings
        if chosen.unclean_at is not None and self.restarts.number == 1:
            end = UncleanEnd(chosen.unclean_at, chosen.unclean_boot)
            look_beside(end, self.words.note, repair=chosen.repair_caches)

    def _answer(self, word: str) -> str:
        """What `gpuprobe release` is told."""
        probe = self.session.nvml
        if probe is None:
            return "NVML is not in use"
        if word == "take":
            probe.take()
            return "NVML is taken again"
        probe.release()
        until = time.monotonic() + ANSWER_S - 1.0
        while time.monotonic() < until:
            states = {state.name: state.what for state in self.session.states}
            if states.get("nvml") == "released":
                return "NVML is closed; this probe does not keep the driver from being unloaded"
            time.sleep(0.05)
        return "a call into the driver has not returned yet; NVML closes when it does"

    # --- what is recorded about it --------------------------------------------------------

    def _open_recorder(self) -> Recorder | None:
        from gpuprobe.errors import GpuprobeError

        if self.settings.record is None:
            return None
        try:
            given = self.settings.record
            path = _free(Path(given), self.link) if given else None
            recorder = open_recorder(path, {"command": "run"})
        except (GpuprobeError, OSError) as error:
            self.words.no_recording(error)
            return None
        self.words.recording_to(recorder.path)
        return recorder

    def _describe(self) -> None:
        """What takes longer to find out than an engine should wait for."""
        from gpuprobe.recording import about, places

        if self.recorder is None:
            return
        engine = about.of_engine(self.settings.argv, os.environ, self.engine.pid)
        describe(self.recorder, about.of_machine(self.root), engine)
        if self.client is not None:
            self.recorder.describe("container-client", Path(self.client.program).name)
        if not self.settings.record:
            places.make_room()

    def _found(self, container: Container) -> None:
        """The runtime said which container the command asked for."""
        from gpuprobe.recording import about

        self.watch.join(lambda: {container.pid, *descendants(container.pid)})
        if self.recorder is None:
            return
        engine = about.of_engine(container.argv, container.environment, here=False)
        named = {key: str(getattr(container, key)) for key in ("name", "image", "digest", "pid")}
        found = {**engine, **named}
        describe(self.recorder, {f"container-{key}": value for key, value in found.items()})


def _free(path: Path, link: Link) -> Path:
    """The file that was named, for a later start with its number."""
    number, stem = 1, path.stem
    while link.memory and path.exists():
        number += 1
        path = path.with_name(f"{stem}.{number}{path.suffix}")
    return path


def main() -> int:
    """Run as the probe: the arguments are settings, the link to the front, and the engine's."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT, signal.SIGPIPE):
        # They are for the engine; its end is this process's end.
        signal.signal(number, signal.SIG_IGN)
    link = Link.from_argument(sys.argv[2])
    link.loaded()
    settings = Settings.from_argument(sys.argv[1], sys.argv[3:])
    words = Words(quiet=False, verbose=settings.verbose, terminal=link.terminal)
    try:
        Probe(settings, link).run()
    except Exception as error:
        # Whatever it is, an engine's terminal is no place for a traceback.
        words.note(f"the probe stopped, the engine goes on: {type(error).__name__}: {error}")
        if settings.verbose:
            raise
        return 1
    return 0
