"""`gpuprobe watch`: the live view."""

from __future__ import annotations

import errno
import io
import os
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from gpuprobe.cli import options
from gpuprobe.cli.output import wants_colour, write
from gpuprobe.cli.report_end import checked
from gpuprobe.cli.values import FiniteRange
from gpuprobe.identity import PciAddress

if TYPE_CHECKING:
    from gpuprobe.live.board import Board
    from gpuprobe.live.session import Session, Update

FIRST_LOOK_S = 10.0
"""How long a first sign of a GPU is waited for before "there is none"."""

REFRESH_S = 0.25
LINES_EVERY_S = 2.0
"""Lines for a pipe come so often, and samples for them: each wake-up costs more than a sample."""


@click.command("watch")
@options.rate()
@options.devices()
@click.option("--once", is_flag=True, help="Read everything once, show it, and end.")
@options.no_nvml()
@options.format_("text", "json", help_="What --once writes.")
@options.exit_codes(" (with --once)")
@options.color("Colour of the screen.")
@click.option(
    "--record",
    metavar="FILE",
    help="Store all of it in a recording, for diagnose and report; FILE must not exist yet.",
)
@click.option(
    "--report",
    metavar="FILE",
    callback=checked,
    help="At the end write the report of --record: .md, .html, .json or .zip.",
)
@click.option("--replay", metavar="FILE", help="Watch a recording instead of this machine.")
@click.option(
    "--speed",
    type=FiniteRange(0.1, 1000),
    metavar="X",
    default=1.0,
    show_default=True,
    help="How many times as fast --replay goes.",
)
def command(
    rate: float,
    devices: tuple[PciAddress, ...],
    once: bool,
    no_nvml: bool,
    format_: str,
    exit_codes: str | None,
    color: str,
    record: str | None,
    report: Path | None,
    replay: str | None,
    speed: float,
) -> int:
    """Watch this machine's GPUs and their bus, live.

    On a terminal a screen: a row a GPU, events below, the verdict on top the moment a device is
    lost; q quits, p pauses the picture (watching goes on). Elsewhere a line for each GPU every two
    seconds, and a line for each event. SIGUSR1 lets go of NVML, so that the driver can be unloaded,
    and SIGUSR2 takes it again.

    Exit codes: 0 nothing failed while watching, 1 something did, 3 no GPU could be looked at,
    79 a GPU left the bus.
    """
    from gpuprobe.cli.recording import recording_to, replaying, until_over
    from gpuprobe.live.board import Board
    from gpuprobe.live.session import Session
    from gpuprobe.live.sources import live_sources
    from gpuprobe.recording.due import BATCH_S

    if replay and (record or once or devices):
        raise click.UsageError("--replay goes without --record, --once and --device")
    if report and not record:
        raise click.UsageError("--report goes with --record")
    if record and once:
        raise click.UsageError("--record goes without --once")
    if format_ != "text" and not once:
        raise click.UsageError("--format json goes with --once")
    if exit_codes and not once:
        raise click.UsageError("--exit-codes goes with --once")
    wake = threading.Event()
    if replay:
        session = replaying(replay, speed)
    else:
        sources = live_sources(
            rate_hz=rate,
            devices=devices or None,
            nvml=not no_nvml,
            batch_s=REFRESH_S if sys.stdout.isatty() else BATCH_S if record else LINES_EVERY_S,
            wake=wake,
        )
        session = Session(sources, devices=devices or None, wake=wake)
    board = Board(rate_hz=rate, has_history=sys.stdout.isatty())
    with noted_signals(session) as over:
        session.start()
        try:
            if once:
                return _once(session, board, format_, exit_codes)
            with recording_to(record, session, report) as updates:
                if replay:
                    updates = until_over(updates, session)
                # A recording is shown as it is: of a machine without a GPU it holds the engine.
                if not replay and not _wait_for_a_gpu(session, board, over, updates):
                    return _nothing_there(board, devices)
                terminal = sys.stdout.isatty()
                if terminal and os.environ.get("TERM", "dumb") not in ("dumb", "unknown"):
                    colour = wants_colour(color, terminal=True)
                    session.poll_s = REFRESH_S
                    _screen(session, board, over, updates, colour=colour)
                else:
                    _lines(session, board, over, updates)
            return session.diagnosis.exit_code if session.diagnosis is not None else 0
        finally:
            for left in session.stop():
                click.echo(f"note: {left}", err=True)


@contextmanager
def noted_signals(session: Session) -> Iterator[Callable[[], bool]]:
    """Signals as flags that are looked at between two updates; gives "is it over?"."""
    got: set[int] = set()

    def note(number: int, _frame: FrameType | None) -> None:
        got.add(number)
        # In a thread: the lock that waking takes may be held where the signal came.
        threading.Thread(target=session.nudge, daemon=True).start()

    ends = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before: dict[int, Any] = {
        number: signal.signal(number, note)
        for number in (*ends, signal.SIGUSR1, signal.SIGUSR2)
        # nohup stays in force
        if number != signal.SIGHUP or signal.getsignal(number) is not signal.SIG_IGN
    }

    def over() -> bool:
        probe = session.nvml
        if signal.SIGUSR1 in got:
            got.discard(signal.SIGUSR1)
            if probe is not None:
                probe.release()
        if signal.SIGUSR2 in got:
            got.discard(signal.SIGUSR2)
            if probe is not None:
                probe.take()
        return any(number in got for number in ends)

    try:
        yield over
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _once(session: Session, board: Board, format_: str, exit_codes: str | None) -> int:
    from gpuprobe.checks.report import translate
    from gpuprobe.live.once import read_once
    from gpuprobe.reporters.once import OnceJsonReporter, OnceTextReporter

    report = read_once(session, board)
    out = io.StringIO()
    (OnceJsonReporter() if format_ == "json" else OnceTextReporter()).render(report, out)
    write(out.getvalue())
    return translate(report.exit_code, report.answer, exit_codes)


def _wait_for_a_gpu(
    session: Session, board: Board, over: Callable[[], bool], updates: Iterator[Update]
) -> bool:
    """Whether a GPU came into sight before it is clear that there is none."""
    from gpuprobe.reading import Unavailable

    begin = time.monotonic()
    for update in updates:
        board.take(update, session.states)
        if board.rows or over():
            return True
        spent = time.monotonic() - begin
        states = {state.name: state for state in session.states}
        nvml = states.get("nvml")
        answered = nvml is None or isinstance(nvml.access, Unavailable)
        if spent > FIRST_LOOK_S or (answered and spent > 0.5):
            return False
    return True


def _nothing_there(board: Board, devices: tuple[PciAddress, ...]) -> int:
    """The account of a machine on which nothing can be watched."""
    from gpuprobe.live.sources import WHAT
    from gpuprobe.reporters.plain import printable

    named = ", ".join(map(str, devices))
    lines = [f"[cannot-tell] {named} is not there." if named else "[cannot-tell] No GPU in sight."]
    states = {state.name: state for state in board.states}
    if "nvml" in states and states["nvml"].what == "":
        lines.append(f"  NVML did not answer in {FIRST_LOOK_S:.0f} s.")
    for state, access in board.unseen:
        what = WHAT.get(state.name, state.name)
        lines.append(f"  not available: {what}: {printable(access.detail or access.reason.value)}")
        if access.hint:
            lines.append(f"      -> {printable(access.hint)}")
    write("\n".join(lines) + "\n")
    return 3


def _lines(
    session: Session, board: Board, over: Callable[[], bool], updates: Iterator[Update]
) -> None:
    """A line for each GPU now and then, and each event as it comes."""
    from gpuprobe.reporters.live_lines import LineReporter

    reporter = LineReporter(board)
    due = time.monotonic()
    for line in _account(board):
        _say(line)
    for event in board.events:
        _say(reporter.event(event))
    for update in updates:
        for event in board.take(update, session.states):
            _say(reporter.event(event))
        if update.diagnosis is not None:
            for line in reporter.verdict():
                _say(line)
        if time.monotonic() >= due:
            due = time.monotonic() + LINES_EVERY_S * 0.9  # the next samples may be a little early
            for line in reporter.rows():
                _say(line)
        if over():
            return


def _account(board: Board) -> Iterator[str]:
    from gpuprobe.live.board import unseen_lines
    from gpuprobe.reporters.plain import printable

    for line in unseen_lines(board):
        yield f"not available: {printable(line)}"


def _say(line: str) -> None:
    click.echo(line)
    sys.stdout.flush()


def _screen(
    session: Session,
    board: Board,
    over: Callable[[], bool],
    updates: Iterator[Update],
    *,
    colour: bool,
) -> None:
    """The screen, until somebody has seen enough."""
    from rich.console import Console
    from rich.live import Live

    from gpuprobe.cli.keys import reading_keys
    from gpuprobe.reporters.live import LiveScreen

    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # a letter too many must not end the watch
    console = Console(no_color=not colour, highlight=False)
    screen = LiveScreen(board, ascii_only="utf" not in (console.encoding or "").lower())
    paused = False
    due = 0.0

    def draw() -> Any:
        return screen.render(console.width, console.height, paused=paused)

    try:
        with (
            reading_keys() as keys,
            Live(draw(), console=console, screen=True, auto_refresh=False) as live,
        ):
            for update in updates:
                board.take(update, session.states)
                pressed = keys.pressed().lower()
                if "q" in pressed or over():
                    break
                toggled = pressed.count("p") % 2 == 1
                paused = paused != toggled
                # A verdict is shown even where the picture stands still.
                fresh = toggled or update.diagnosis is not None
                if fresh or (not paused and time.monotonic() >= due):
                    due = time.monotonic() + REFRESH_S
                    live.update(draw(), refresh=True)
        _leave(session, colour=colour)
    except OSError as error:
        if error.errno != errno.EIO:  # the terminal was closed: nobody is left to show it to
            raise


def _leave(session: Session, *, colour: bool) -> None:
    """What stays on the terminal when the screen is gone: the verdict in full, if there is one."""
    from gpuprobe.diagnosis import Kind
    from gpuprobe.reporters.terminal import TerminalReporter

    found = session.judge()
    if found.answer is Kind.NO_FAULT:
        click.echo("Nothing failed while watching.", err=True)
        return
    out = io.StringIO()
    TerminalReporter(colour=colour, fit_terminal=True).render(found, out)
    write(out.getvalue())
