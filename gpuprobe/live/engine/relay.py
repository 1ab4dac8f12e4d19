"""The process between the engine and the world: starts it, carries its output, reports its end.

Standard library alone; no NVML, no database, no parsing. It leads a session of its own, so that
keys and hang-ups of the user's terminal reach the engine once, through the front. It outlives the
front and the probe: without them it goes on carrying output until the engine's last writer ends.
Nothing in it runs while nothing happens.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import signal
import time
from collections.abc import Sequence
from typing import Any, Final

from gpuprobe.live.engine import relay_frames, relay_start
from gpuprobe.live.engine.relay_frames import HOLD_S, receive, send
from gpuprobe.live.engine.relay_pumps import Mirror, Pump, replace_with_null
from gpuprobe.live.engine.relay_start import Channel, Inherited, StartError

TELL_S: Final = 0.1
"""How long the word of the engine's end waits for the last of its output."""

LINGER_S: Final = 2.0
"""How long a probe that reads slowly is waited for when all is over."""

UNIT_S: Final = 0.05
"""systemd sends a unit's signal to each of its processes: how far apart these may come."""

_OWN: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGTERM, signal.SIGUSR1,
               signal.SIGUSR2, signal.SIGALRM, signal.SIGCHLD)  # fmt: skip
_FOR_ONE: Final = (signal.SIGUSR1, signal.SIGUSR2)
"""Signals for the engine's first process alone: its workers would die of them."""

_BY_TERMINAL: Final = (signal.SIGTSTP, signal.SIGTTIN, signal.SIGTTOU)


class Relay:
    """Carries one engine.

    Args:
        orders: Descriptor that the front's messages are read from: `signal`, `stop`, `cont`.
        news: Descriptor for messages to the front: `started`, `failed`, `stopped`, `ended`,
            `drained`.
        frames: Descriptor for the probe.
        given: What gpuprobe was started with.
    """

    def __init__(self, orders: int, news: int, frames: int, given: Inherited) -> None:
        self._orders = orders
        self._news = news
        self._given = given
        self._wake_read, self._wake_write = os.pipe2(os.O_CLOEXEC | os.O_NONBLOCK)
        self._mirror = Mirror(frames, self._wake)
        self._channels: list[Channel] = []
        self._pumps: list[Pump] = []
        self._pid = 0
        self._own: dict[int, float] = {}
        self._due: list[tuple[float, int]] = []
        self._status: dict[str, Any] | None = None
        self._ended_s = 0.0
        self._told = self._drained = self._reaped = False

    def run(self, command: Sequence[str]) -> None:
        """Start the engine and stay until its output has ended."""
        os.setsid()
        relay_start.set_name("gpuprobe-relay")
        relay_start.become_reaper()
        try:
            self._channels = relay_start.channels(self._given.closed)
            self._listen()
            self._pid = relay_start.start(command, self._channels, self._given)
        except StartError as error:
            send(self._news, failed=str(error)[:1000], code=error.code)
            return
        except OSError as error:
            send(self._news, failed=f"{command[0]}: {error.strerror}", code=125)
            return
        try:
            self._let_go()
            self._begin()
            while not self._is_over():
                self._turn()
        finally:
            self._give_back()

    def _listen(self) -> None:
        """Have signals wake the loop; they are caught and not ignored, for that is inherited."""
        signal.set_wakeup_fd(self._wake_write, warn_on_full_buffer=False)
        for number in _OWN:
            if number not in self._given.ignored or number == signal.SIGCHLD:
                signal.signal(number, self._note)

    def _note(self, number: int, _frame: object) -> None:
        self._own[number] = time.monotonic()

    def _let_go(self) -> None:
        """Keep nothing open that is the engine's."""
        for channel in self._channels:
            if channel.terminal is not None:
                channel.terminal.started()
            else:
                os.close(channel.end)
        relay_start.close_others(self._given.others)
        replace_with_null(0)
        written = {number for channel in self._channels for number in channel.numbers}
        for number in {1, 2} - written:
            replace_with_null(number)
        os.chdir("/")

    def _begin(self) -> None:
        told = {
            "pid": self._pid,
            "pgid": self._pid,
            "relay": os.getpid(),
            "front": os.getppid(),
            "at_ns": time.monotonic_ns(),
            "terminal": any(channel.terminal for channel in self._channels),
            "streams": [relay_frames.STREAMS[channel.stream] for channel in self._channels],
        }
        self._mirror.put(relay_frames.STARTED, data=json.dumps(told).encode())
        send(self._news, started=self._pid, keyboard=self._has_keyboard())
        if self._given.foreground:
            self._take_keys()
        for channel in self._channels:
            pump = Pump(channel.source, channel.numbers, channel.stream, self._mirror, self._wake)
            self._pumps.append(pump)
            pump.start()
        self._look_after_children()

    def _wake(self) -> None:
        with contextlib.suppress(BlockingIOError):
            os.write(self._wake_write, b"\0")

    # --- the loop -------------------------------------------------------------------------

    def _turn(self) -> None:
        """Sleep until something happens, and do what it asks for."""
        poller = select.poll()
        poller.register(self._wake_read, select.POLLIN)
        if self._orders >= 0:
            poller.register(self._orders, select.POLLIN)
        if self._mirror.waits:
            poller.register(self._mirror.descriptor, select.POLLOUT)
        for channel in self._channels:
            if channel.terminal is None or self._status is not None:
                continue  # what is typed after the engine's end is for whoever comes next
            if wanted := channel.terminal.waits_for():
                poller.register(*wanted)
        ready = dict(poller.poll(self._timeout_ms()))
        if self._wake_read in ready:
            os.read(self._wake_read, 4096)
            self._look_after_children()
        if self._mirror.waits or self._mirror.is_due:
            self._mirror.flush()
        for channel in self._channels:
            if channel.terminal is not None:
                wanted = channel.terminal.waits_for()
                if wanted and wanted[0] in ready:
                    channel.terminal.pass_keys()
        if self._orders in ready:
            self._obey(receive(self._orders))
        self._keep_time()

    def _timeout_ms(self) -> float | None:
        moments = [moment for moment, _ in self._due]
        if self._mirror.due_s is not None:
            moments.append(self._mirror.due_s)
        if self._status is not None:
            if not self._told:
                moments.append(self._ended_s + TELL_S)
            if not self._reaped:
                moments.append(self._ended_s + HOLD_S)
            elif self._all_copied():
                moments.append(self._ended_s + LINGER_S)
        if not moments:
            return None
        return max(0.0, min(moments) - time.monotonic()) * 1000.0 + 1.0

    def _keep_time(self) -> None:
        here = time.monotonic()
        for moment, number in list(self._due):
            if moment <= here:
                self._due.remove((moment, number))
                self._send(number)
        if self._status is None:
            return
        drained = all(pump.drained for pump in self._pumps)
        if not self._told and (drained or here >= self._ended_s + TELL_S):
            self._told = True
            self._mirror.put(relay_frames.ENDED, data=json.dumps(self._status).encode())
            send(self._news, ended=self._status["code"], by=self._status["signal"])
        if drained and not self._drained:
            self._drained = True
            self._give_back()  # earlier, the last output would have its line ends translated twice
            send(self._news, drained=True)
        if not self._reaped and here >= self._ended_s + HOLD_S:
            self._give_back()  # nobody reads the terminal, or much was left
            self._reap()

    def _all_copied(self) -> bool:
        return all(pump.over for pump in self._pumps)

    def _is_over(self) -> bool:
        if not self._reaped or not self._all_copied():
            return False
        return not self._mirror.waits or time.monotonic() >= self._ended_s + LINGER_S

    # --- the front's orders ---------------------------------------------------------------

    def _obey(self, order: dict[str, Any] | None) -> None:
        if order is None:
            os.close(self._orders)
            self._orders = -1
            self._give_back()
            return
        here = time.monotonic()
        if "signal" in order:
            late = UNIT_S if self._given.unit else 0.0
            self._due.append((here + late, int(order["signal"])))
        elif "stop" in order:
            self._due.append((here, signal.SIGTERM))
            self._due.append((here + float(order["stop"]), signal.SIGKILL))
        elif "cont" in order:
            if order.get("foreground"):
                self._take_keys()
            self._send(signal.SIGCONT)

    def _send(self, number: int) -> None:
        """Pass a signal on to the engine's group; after its end there is nobody to get it."""
        if self._status is not None:
            return
        if number in relay_frames.STOPPING:
            self._mirror.put(relay_frames.ASKED, data=json.dumps({"signal": number}).encode())
        if number == signal.SIGWINCH:
            for channel in self._channels:
                if channel.terminal is not None:
                    channel.terminal.resize()
            if self._has_keyboard():
                return  # the terminal tells those that it concerns
        if self._given.unit and time.monotonic() - self._own.get(number, -1.0) < 20 * UNIT_S:
            return  # systemd told all of the unit's processes, so the engine knows
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if number in _FOR_ONE or os.getpgid(self._pid) != self._pid:
                os.kill(self._pid, number)
            else:
                os.killpg(self._pid, number)

    # --- children -------------------------------------------------------------------------

    def _look_after_children(self) -> None:
        """Note the engine's end, and wait for what its processes left behind."""
        options = os.WEXITED | os.WSTOPPED | os.WNOHANG
        while True:
            try:
                found = os.waitid(os.P_ALL, 0, options | os.WNOWAIT)
            except ChildProcessError:
                return
            if found is None:
                return
            if found.si_pid == self._pid and found.si_code != os.CLD_STOPPED:
                if found.si_code != os.CLD_TRAPPED:
                    self._end(found.si_code, found.si_status)
                    return
            elif found.si_pid == self._pid:
                self._stopped(found.si_status)
            with contextlib.suppress(ChildProcessError):
                os.waitid(os.P_PID, found.si_pid, options)

    def _stopped(self, number: int) -> None:
        """Ctrl-Z inside: the front stops as well, so that the user's shell sees it."""
        if number in _BY_TERMINAL:
            self._give_back()
            send(self._news, stopped=number)

    def _end(self, how: int, status: int) -> None:
        if self._status is not None:
            return
        self._ended_s = time.monotonic()
        exited = how == os.CLD_EXITED
        self._status = {
            "pid": self._pid,
            "code": status if exited else None,
            "signal": None if exited else status,
            "core": how == os.CLD_DUMPED,
            "at_ns": time.monotonic_ns(),
        }
        for pump in self._pumps:
            pump.drain()

    def _reap(self) -> None:
        self._reaped = True
        _, _, used = os.wait4(self._pid, 0)
        told = {
            "user_s": round(used.ru_utime, 3),
            "system_s": round(used.ru_stime, 3),
            "max_rss_kib": used.ru_maxrss,
        }
        self._mirror.put(relay_frames.REAPED, data=json.dumps(told).encode())
        self._look_after_children()

    def _has_keyboard(self) -> bool:
        return any(channel.terminal and channel.terminal.keyboard for channel in self._channels)

    def _take_keys(self) -> None:
        for channel in self._channels:
            if channel.terminal is not None and channel.terminal.keyboard:
                channel.terminal.take_keys()

    def _give_back(self) -> None:
        for channel in self._channels:
            if channel.terminal is not None:
                channel.terminal.give_back()
