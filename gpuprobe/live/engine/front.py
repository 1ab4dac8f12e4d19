"""The process that `gpuprobe run` becomes: what users and supervisors see. Standard library alone.

It starts the relay, which starts the engine, and the probe. It passes signals on, waits, and ends
with the engine's code or the one that the probe says. It is not the probe itself, for a supervisor
takes the end of this process for the engine's: a probe that dies, hangs or is stopped changes
nothing here. Nor does the end of this process change anything for the engine.

Signals: HUP, INT, QUIT, TERM, WINCH, TSTP and CONT go to the engine's process group, USR1 and USR2
to its first process; what was ignored at the start stays ignored. A Ctrl-Z stops this process too.
A command started in the background gets no keys until it is stopped and put into the foreground.

An engine is started again only where the probe says so, and each start is a new relay and a new
probe. A signal that asks to end in the pause between ends it at once.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import sys
import termios
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NoReturn

from gpuprobe.live.engine import relay_frames, relay_start
from gpuprobe.live.engine.front_again import Kept, end_leftovers
from gpuprobe.live.engine.front_kernel import kernel_log
from gpuprobe.live.engine.front_talk import Talk, say
from gpuprobe.live.engine.relay import Relay
from gpuprobe.live.engine.relay_frames import packet_pipe, receive, send
from gpuprobe.live.engine.relay_pumps import replace_with_null

PROBE_S: Final = 3.0
"""How long the probe is waited for after the engine's end, unless it asks for more."""

STARTING_S: Final = 10.0
"""How long after its own start one is waited for that said nothing yet: on a machine at its limits
Python takes seconds to load, and an engine can die at once."""

CANNOT_START: Final = 125
"""Exit code when it was not the command's fault."""

PASSED_ON: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
                    signal.SIGUSR2, signal.SIGWINCH, signal.SIGTSTP, signal.SIGCONT)  # fmt: skip


def become(engine: Sequence[str], probe: Sequence[str], *, again: bool = False) -> NoReturn:
    """Become the front of `engine`: this process is replaced, and ends as the engine does.

    Args:
        engine: Command and arguments.
        probe: Command line of the probe. Behind it are put the text for
            `process.Link.from_argument` and the engine's command, a word an argument, since
            one alone may not be longer than 128 KiB. It has this process's environment and working
            folder, an empty stdin and stdout, and a session of its own. What it writes to stderr is
            passed on from a pipe, so that a probe that hangs keeps nobody's reader waiting.
        again: The probe may have the engine started again.

    Raises:
        OSError: This Python cannot be executed again.
    """
    for stream in (sys.stdout, sys.stderr):
        if stream is not None:
            stream.flush()
    folder = Path(__file__).parents[3]
    options = ["-I", "-S", *(["-B"] if sys.dont_write_bytecode else [])]
    script = str(Path(__file__).with_name("front_main.py"))
    # Python would end with a traceback of its own at a Ctrl-C before the front listens.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    held = signal.SIGINT not in before
    told = json.dumps({"probe": list(probe), "again": again, "held": held})
    arguments = [sys.executable, *options, script, str(folder), told, *engine]
    os.execve(sys.executable, arguments, relay_start.environment())  # noqa: S606 - this Python


def main(arguments: Sequence[str]) -> NoReturn:
    """Start everything, wait, and end; the arguments are the probe's as JSON, and the engine's."""
    given = relay_start.inherited()
    code = CANNOT_START
    try:
        told = json.loads(arguments[0])
        front = Front(given, again=told["again"])
        front.listen()
        if told["held"]:
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})
        code = front.run(arguments[1:], told["probe"])
    except OSError as error:
        say(f"cannot start: {error.strerror or error}")
    os._exit(code)


class Front:
    """Waits for the relay and the probe.

    Args:
        given: What this process was started with.
        again: The probe may have the engine started again.
    """

    def __init__(self, given: relay_start.Inherited, *, again: bool = False) -> None:
        self._given = given
        self._kept = Kept() if again else None
        self._memory = ""
        self._arrived: list[int] = []
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._begin()

    def _begin(self) -> None:
        """Nothing is known of an engine yet."""
        self._news = self._orders = self._words = self._terminal = -1
        self._talk = Talk()
        self._relay = self._probe = 0
        self._pid = 0
        self._modes: list[Any] | None = None
        self._code: int | None = None
        self._said: int | None = None
        self._drained = self._leave = self._keyboard = False
        self._until: float | None = None
        self._loaded_by = 0.0
        self._again: float | None = None
        self._ended_by: int | None = None

    def run(self, engine: Sequence[str], probe: Sequence[str]) -> int:
        """Start everything, wait, and give the exit code; `listen` comes before."""
        relay_start.set_name("gpuprobe")
        relay_start.become_reaper()
        code = self._one(engine, probe)
        while self._kept is not None and self._again is not None and self._ended_by is None:
            asked = self._pause(self._again)
            if asked is not None:
                return 128 + asked
            self._given = self._given._replace(foreground=self._is_foreground())
            self._let_go()
            self._begin()
            self._kept.put_back()
            code = self._one(engine, probe)
        return code

    def _one(self, engine: Sequence[str], probe: Sequence[str]) -> int:
        """From a start to an end; gives the exit code."""
        if os.isatty(0):
            self._terminal = os.dup(0)
            self._modes = termios.tcgetattr(0)
        kernel = kernel_log()
        frames = self._start_relay(engine, kernel)
        first = self._first_word()
        if "started" not in first:
            say(str(first.get("failed", "the relay did not start")))
            return int(first.get("code", CANNOT_START))
        self._pid = int(first["started"])
        self._keyboard = bool(first["keyboard"])
        self._start_probe(probe, engine, frames, kernel)
        os.close(frames)
        if kernel >= 0:
            os.close(kernel)
        if self._kept is None:
            relay_start.close_others(self._given.others)
        replace_with_null(0)
        replace_with_null(1)
        os.chdir("/")
        while not self._is_over():
            self._turn()
        self._talk.finish()
        return self._said if self._said is not None else self._engine_code()

    def _engine_code(self) -> int:
        return CANNOT_START if self._code is None else self._code

    # --- starting -------------------------------------------------------------------------

    def listen(self) -> None:
        """Note signals from here on; those that come before the engine's start reach it then."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in (*PASSED_ON, signal.SIGCHLD):
            if number not in self._given.ignored or number == signal.SIGCHLD:
                signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        self._arrived.append(number)

    def _start_relay(self, engine: Sequence[str], kernel: int) -> int:
        """Start the relay; gives the descriptor of the probe's frames."""
        frames, to_probe = os.pipe2(os.O_CLOEXEC)
        os.set_blocking(to_probe, False)
        orders, self._orders = packet_pipe()
        self._news, news = packet_pipe()
        self._relay = os.fork()
        if self._relay == 0:
            code = CANNOT_START
            with contextlib.suppress(BaseException):
                ends = (frames, self._orders, self._news, self._wake_read, self._wake_write)
                kept = self._kept.numbers if self._kept is not None else ()
                for mine in (*ends, *kept, *((kernel,) if kernel >= 0 else ())):
                    os.close(mine)
                Relay(orders, news, to_probe, self._given).run(engine)
                code = 0
            os._exit(code)
        for other in (to_probe, orders, news):
            os.close(other)
        return frames

    def _first_word(self) -> dict[str, Any]:
        """What the relay says first: that the engine was started, or why it was not."""
        poller = select.poll()
        poller.register(self._news, select.POLLIN)
        poller.poll()
        return receive(self._news) or {}

    def _start_probe(
        self, probe: Sequence[str], engine: Sequence[str], frames: int, kernel: int
    ) -> None:
        self._words, words = packet_pipe()
        told = {"frames": frames, "control": words, "front": os.getpid()}
        more = {"terminal": os.isatty(2), "kernel": kernel, "memory": self._memory}
        link = json.dumps({**told, **more})
        command = [os.fsencode(argument) for argument in (*probe, link, *engine)]
        self._loaded_by = time.monotonic() + STARTING_S
        self._probe = os.fork()
        if self._probe == 0:
            with contextlib.suppress(BaseException):
                os.setsid()
                replace_with_null(0)
                replace_with_null(1)
                os.dup2(self._talk.end, 2)
                for number in self._given.others:
                    os.close(number)
                for number in (0, 1, frames, words, *((kernel,) if kernel >= 0 else ())):
                    os.set_inheritable(number, True)
                os.execve(command[0], command, self._given.environment)  # noqa: S606 - ours
            os._exit(CANNOT_START)
        os.close(words)
        self._talk.started()

    # --- the loop -------------------------------------------------------------------------

    def _turn(self) -> None:
        poller = select.poll()
        poller.register(self._wake_read, select.POLLIN)
        for descriptor in (self._news, self._words):
            if descriptor >= 0:
                poller.register(descriptor, select.POLLIN)
        self._talk.register(poller)
        left = None if self._until is None else max(0.0, self._until - time.monotonic())
        ready = dict(poller.poll(None if left is None else left * 1000.0 + 1.0))
        if self._wake_read in ready:
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
        self._pass_on()
        if self._news in ready:
            self._hear_relay(receive(self._news))
        self._talk.go_on(ready, raw=self._keyboard and self._code is None)
        if self._words in ready:
            self._hear_probe(receive(self._words))
        self._reap()

    def _pass_on(self) -> None:
        while self._arrived:
            number = self._arrived.pop(0)
            if number == signal.SIGCONT:
                self._go_on()
            elif number != signal.SIGCHLD:
                if self._code is not None and number in relay_frames.STOPPING:
                    self._ended_by = number  # too late for the engine, and not for the next one
                send(self._orders, signal=number)

    def _hear_relay(self, news: dict[str, Any] | None) -> None:
        if news is None:
            self._on_relay_gone()
        elif "ended" in news:
            self._on_end(news["ended"], news["by"])
        elif "drained" in news:
            self._drained = True
            late_s = self._loaded_by - time.monotonic()
            self._wait_for_probe(0.0 if self._probe_is_stopped() else max(PROBE_S, late_s))
        elif "stopped" in news:
            self._stop()

    def _on_end(self, code: int | None, by: int | None) -> None:
        self._code = code if code is not None else 128 + int(by or 0)

    def _on_relay_gone(self) -> None:
        """It ends after all output has gone; before, somebody killed it, and the engine is ours."""
        os.close(self._news)
        self._news = -1
        self._drained = True
        self._wait_for_probe(PROBE_S)
        if self._code is None:
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, self._relay, os.WEXITED)  # before that the engine is its child
        if self._code is None and self._modes is not None:
            with contextlib.suppress(termios.error):
                termios.tcsetattr(self._terminal, termios.TCSADRAIN, self._modes)

    def _hear_probe(self, word: dict[str, Any] | None) -> None:
        if word is None:
            os.close(self._words)
            self._words = -1
        elif "loaded" in word:
            self._loaded_by = 0.0
            if self._until is not None:
                self._until = time.monotonic() + PROBE_S
        elif "stop" in word:
            send(self._orders, stop=word["stop"])
        elif "busy" in word:
            self._wait_for_probe(float(word["busy"]))
        elif "done" in word:
            self._said = word["code"]
            self._leave = self._leave or bool(word["leave"])
            self._again, self._memory = word.get("again"), str(word.get("memory", ""))
            os.close(self._words)
            self._words = -1

    def _probe_is_stopped(self) -> bool:
        with contextlib.suppress(OSError):
            stat = Path(f"/proc/{self._probe}/stat").read_bytes()
            return stat.rpartition(b") ")[2][:1] in b"Tt"
        return False

    def _wait_for_probe(self, seconds: float) -> None:
        self._until = max(self._until or 0.0, time.monotonic() + seconds)

    def _is_over(self) -> bool:
        if self._leave:
            return True
        if self._code is None or not self._drained:
            return self._news < 0 and not self._has_children()
        return self._words < 0 or self._until is None or time.monotonic() >= self._until

    # --- between two engines ---------------------------------------------------------------

    def _pause(self, seconds: float) -> int | None:
        """Wait before the next start; gives the signal that ended the waiting, or None."""
        end_leftovers(self._relay, signal.SIGTERM)
        until = time.monotonic() + seconds
        while (left := until - time.monotonic()) > 0:
            poller = select.poll()
            poller.register(self._wake_read, select.POLLIN)
            self._talk.register(poller)
            ready = dict(poller.poll(left * 1000.0 + 1.0))
            with contextlib.suppress(BlockingIOError):
                os.read(self._wake_read, 4096)
            self._talk.go_on(ready)
            self._reap()
            while self._arrived:
                number = self._arrived.pop(0)
                if number in relay_frames.STOPPING:
                    return number
                if number == signal.SIGTSTP:
                    self._stop()
        end_leftovers(self._relay, signal.SIGKILL)
        return None

    def _let_go(self) -> None:
        """Close what led to the last engine's relay and probe."""
        self._talk.finish()
        for number in (self._news, self._orders, self._words, self._talk.source, self._terminal):
            if number >= 0:
                os.close(number)

    # --- children and job control ----------------------------------------------------------

    def _reap(self) -> None:
        """Wait for what ended: our own, and what a relay that was killed left to us."""
        with contextlib.suppress(ChildProcessError):
            while found := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
                if found.si_pid == self._pid and self._code is None:
                    exited = found.si_code == os.CLD_EXITED
                    self._on_end(*((found.si_status, None) if exited else (None, found.si_status)))

    def _has_children(self) -> bool:
        """Whether the engine may still be ours to wait for."""
        try:
            os.waitid(os.P_PID, self._pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        except ChildProcessError:
            return False
        return True

    def _stop(self) -> None:
        """The engine was stopped by the terminal: stop too, so that the shell takes over.

        Where no shell watches, the kernel does not stop this process, and the engine goes on.
        """
        if signal.SIGTSTP in self._given.ignored:
            self._go_on()
            return
        signal.signal(signal.SIGTSTP, signal.SIG_DFL)
        if self._is_foreground():
            os.killpg(os.getpgrp(), signal.SIGTSTP)
        else:
            os.kill(os.getpid(), signal.SIGTSTP)
        signal.signal(signal.SIGTSTP, self._note)
        self._go_on()

    def _go_on(self) -> None:
        send(self._orders, cont=True, foreground=self._is_foreground())

    def _is_foreground(self) -> bool:
        """Whether the keyboard is this job's."""
        with contextlib.suppress(OSError):
            return os.tcgetpgrp(self._terminal) == os.getpgrp()
        return False
