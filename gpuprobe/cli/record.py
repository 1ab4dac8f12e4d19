"""`gpuprobe record`: the headless recorder."""

from __future__ import annotations

import io
import os
import sys
import threading
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

import click

from gpuprobe.cli import options
from gpuprobe.cli.outlet import Outlet
from gpuprobe.cli.recording import describe, open_recorder
from gpuprobe.cli.report_end import checked, last_words
from gpuprobe.cli.source_notes import SourceNotes
from gpuprobe.cli.systemd import Notifier
from gpuprobe.cli.values import gpu_not_there
from gpuprobe.cli.watch import noted_signals
from gpuprobe.identity import PciAddress

if TYPE_CHECKING:
    from gpuprobe.live.metrics import Endpoint, Metrics
    from gpuprobe.live.session import Session, Update
    from gpuprobe.recording.writer import Recorder
    from gpuprobe.sources.following.base import Follower

FIRST_ORDER = 10
"""Number of the first followed program, behind the sources of the machine."""


@click.command("record")
@click.argument("file", required=False)
@options.rate("Samples a second; a week at 10 is half a GB a GPU.")
@options.devices()
@options.no_nvml("Leave NVML to others, such as DCGM.")
@click.option("--follow-unit", "units", metavar="UNIT", multiple=True, help="A systemd unit.")
@click.option(
    "--follow-user-unit",
    "user_units",
    metavar="UNIT",
    multiple=True,
    help="One of `systemctl --user`; as root, of any user.",
)
@click.option(
    "--follow-container", "containers", metavar="NAME", multiple=True, help="Docker or Podman."
)
@click.option("--follow-file", "files", metavar="PATH", multiple=True, help="A log file.")
@click.option(
    "--follow-pid",
    "pids",
    metavar="PID",
    multiple=True,
    type=click.IntRange(1),
    help="A process; its output cannot be seen.",
)
@click.option("--from-start", is_flag=True, help="Take what followed files hold already, too.")
@click.option(
    "--metrics",
    metavar="[HOST:]PORT",
    help="Serve Prometheus; on 127.0.0.1 unless a host is named.",
)
@options.format_(
    "text", "json", help_="On stdout: the sentence of a verdict, or a JSON line an event."
)
@click.option(
    "--report",
    metavar="FILE",
    callback=checked,
    help="At the end write the report to attach: .md, .html, .json or .zip.",
)
@click.option("--quiet", is_flag=True, help="Say nothing on stderr but errors.")
def command(
    file: str | None,
    rate: float,
    devices: tuple[PciAddress, ...],
    no_nvml: bool,
    units: tuple[str, ...],
    user_units: tuple[str, ...],
    containers: tuple[str, ...],
    files: tuple[str, ...],
    pids: tuple[int, ...],
    from_start: bool,
    metrics: str | None,
    format_: str,
    report: Path | None,
    quiet: bool,
) -> int:
    """Record this machine's GPUs, their bus and a server's output, headless, for days.

    Without FILE the recording lies in /var/lib/gpuprobe, ~/.local/state/gpuprobe or
    $GPUPROBE_DIR, where old ones make room. What is followed is only read. SIGTERM, SIGINT and
    SIGHUP end it; SIGUSR1 lets go of NVML, so that the driver can be unloaded, and SIGUSR2 takes
    it again.

    Exit codes: 0 when it was ended, 2 usage or no recording can be made.
    """
    from gpuprobe.live.session import Session
    from gpuprobe.live.sources import live_sources
    from gpuprobe.recording.due import BATCH_S
    from gpuprobe.recording.places import is_temporary

    wake = threading.Event()
    followers = _followers(units, user_units, containers, files, pids, from_start, wake)
    served, endpoint = _serve(metrics)
    sources = live_sources(
        rate_hz=rate, devices=devices or None, nvml=not no_nvml, batch_s=BATCH_S, wake=wake
    )
    session = Session([*sources, *followers], devices=devices or None, wake=wake)
    path = Path(file) if file is not None else None
    recorder = open_recorder(path, {"command": "record", "rate_hz": f"{rate:g}"})
    talk = _Talk(format_, quiet=quiet)
    talk.note(f"recording to {recorder.path}")
    if file is None and is_temporary(recorder.path):
        talk.note("that folder may be gone after a reboot; set GPUPROBE_DIR to one that stays")
    if endpoint is not None:
        talk.note(f"metrics on port {endpoint.port} ({endpoint.url})")
    if (absent := gpu_not_there(devices)) is not None:
        talk.note(absent)
    if file is None:
        threading.Thread(target=_make_room, name="room", daemon=True).start()
    threading.Thread(target=_look_at_caches, args=(talk,), name="caches", daemon=True).start()
    with noted_signals(session) as over:
        session.start()
        try:
            _describe(recorder, session)
            notes = SourceNotes(talk.note, [one.name for one in followers])
            talk.manager.say("READY=1")
            loop = _Loop(session, recorder, served, talk, notes)
            loop.run(over)
        finally:
            talk.manager.say("STOPPING=1")
            if endpoint is not None:
                endpoint.stop()
            left = session.stop()
            recorder.end("stopped", diagnosis=session.diagnosis)
            talk.problem(recorder.problem)
            for one in left:
                talk.note(str(one))
            talk.note(last_words(recorder.path, report))
            talk.close()
    return 0


class _Talk:
    """What is said, where, without ever waiting for a reader."""

    def __init__(self, format_: str, *, quiet: bool) -> None:
        self.json = format_ == "json"
        self.manager = Notifier()
        self._quiet = quiet
        self._told: str | None = None
        self._said: frozenset[str] = frozenset()
        self._err = Outlet(_descriptor(sys.stderr), lambda why: None)
        self.out = Outlet(
            _descriptor(sys.stdout), lambda why: self.note(f"stdout: {why}; the recording goes on")
        )

    def note(self, text: str) -> None:
        from gpuprobe.reporters.plain import printable

        if not self._quiet:
            self._err.put(f"note: {printable(text)}")

    def problem(self, text: str | None) -> None:
        """Say once why the recording stopped."""
        from gpuprobe.reporters.plain import printable

        if text is not None and text != self._told:
            self._told = text
            self._err.put(f"error: {printable(text)}")
            self.manager.say(f"STATUS={printable(text)}")

    def update(self, update: Update) -> None:
        """Events and the verdict, for stdout."""
        from gpuprobe.reporters import outline
        from gpuprobe.reporters.event_lines import diagnosis_line, event_line
        from gpuprobe.reporters.plain import printable

        if self.json:
            for event in update.events:
                self.out.put(event_line(event))
            if update.diagnosis is not None:
                self.out.put(diagnosis_line(update.diagnosis, datetime.now(UTC)))
        elif update.diagnosis is not None:
            said = [f"[{outline.tag(one)}] {one.summary}" for one in update.diagnosis.verdicts]
            for sentence in said:
                if sentence not in self._said:
                    self.out.put(printable(sentence))
            self._said = frozenset(said)
        if update.diagnosis is not None:
            first = update.diagnosis.verdicts[0]
            self.manager.say(f"STATUS={printable(first.summary)}")

    def close(self) -> None:
        if self.out.missed:
            self.note(f"{self.out.missed} lines were not written: stdout's reader was too slow")
        self.out.close()
        self._err.close()


def _descriptor(stream: TextIO | None) -> int:
    """A stream's descriptor, or one that leads nowhere where the stream was closed (`>&-`)."""
    try:
        return stream.fileno() if stream is not None else os.open(os.devnull, os.O_WRONLY)
    except io.UnsupportedOperation:
        return os.open(os.devnull, os.O_WRONLY)


class _Loop:
    """Updates go to the disk, then to the metrics, then to stdout."""

    def __init__(
        self,
        session: Session,
        recorder: Recorder,
        metrics: Metrics | None,
        talk: _Talk,
        notes: SourceNotes,
    ) -> None:
        self._session = session
        self._recorder = recorder
        self._metrics = metrics
        self._talk = talk
        self._notes = notes

    def run(self, over: Callable[[], bool]) -> None:
        from gpuprobe.recording.recorded import recorded

        for update in recorded(self._session.updates(), self._recorder):
            self._talk.problem(self._recorder.problem)
            if self._metrics is not None:
                records = self._recorder.problem is None
                self._metrics.take(update, self._session.states, records=records)
            self._talk.update(update)
            self._notes.look(self._session.states)
            self._talk.manager.turn()
            if over():
                return


def _followers(
    units: Sequence[str],
    user_units: Sequence[str],
    containers: Sequence[str],
    files: Sequence[str],
    pids: Sequence[int],
    from_start: bool,
    wake: threading.Event,
) -> list[Follower]:
    from gpuprobe.errors import UsageError
    from gpuprobe.reading import Unavailable
    from gpuprobe.sources.following.container import ContainerFollower
    from gpuprobe.sources.following.file import FileFollower
    from gpuprobe.sources.following.pid import PidFollower
    from gpuprobe.sources.following.unit import UnitFollower

    found: list[Follower] = [
        *(UnitFollower(unit, wake=wake) for unit in units),
        *(UnitFollower(unit, user=True, wake=wake) for unit in user_units),
        *(ContainerFollower(name, wake=wake) for name in containers),
        *(FileFollower(Path(path), from_start=from_start, wake=wake) for path in files),
        *(PidFollower(pid, wake=wake) for pid in pids),
    ]
    for number, one in enumerate(found, FIRST_ORDER):
        one.place(number)
        access = one.available()
        if isinstance(access, Unavailable):
            # Somebody asked for it by name: to find out days later would be too late.
            raise UsageError(f"cannot follow {one.name}: {access.detail}", hint=access.hint)
    return found


def _serve(where: str | None) -> tuple[Metrics | None, Endpoint | None]:
    from gpuprobe.live.metrics import Endpoint, Metrics, parse_endpoint

    if where is None:
        return None, None
    metrics = Metrics()
    return metrics, Endpoint(metrics, *parse_endpoint(where))


def _describe(recorder: Recorder, session: Session) -> None:
    from gpuprobe.recording.about import of_machine
    from gpuprobe.recording.recorded import describe_sources

    describe(recorder, of_machine())
    describe_sources(recorder, session.states)


def _make_room() -> None:
    from gpuprobe.recording import places

    places.make_room()


def _look_at_caches(talk: _Talk) -> None:
    """Look for damage in JIT caches where the last run or boot ended uncleanly, and say so."""
    from gpuprobe.cli.unclean_end import last_unclean_end, look_beside

    end = last_unclean_end()
    if end is not None:
        look_beside(end, talk.note, repair=False)
