"""Sees from outside which call of the NVML child hangs, and whether one device or all of it."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.calls import DEADLINES_S, EVENT_WAIT_MS, Group, call_of
from gpuprobe.live.nvml.known import Device
from gpuprobe.live.nvml.messages import Translator
from gpuprobe.live.nvml.process import LeftBehind, NvmlProcess, ThreadState, thread_state

SILENT_S: Final = 5.0
"""A child that says nothing for this long, outside of any call, is stopped or starved."""


@dataclass(frozen=True, slots=True)
class Stall:
    """A call that has not returned.

    Attributes:
        slot: The thread's slot; -1 for a child that is silent outside of any call.
        device: Whose call it is, where known.
        call: The NVML function, or "" outside of any.
        pid: The child; tid: the thread.
        thread: What /proc says of the thread.
        waited_s: Seconds since the call began.
    """

    slot: int
    device: PciAddress | None
    call: str
    pid: int
    tid: int
    thread: ThreadState
    waited_s: float

    def __str__(self) -> str:
        whose = f" about {self.device}" if self.device is not None else ""
        what = f"{self.call}{whose} has not returned" if self.call else "the NVML process is silent"
        state = f", state {self.thread.state}" if self.thread.state else ""
        where = f", waiting in {self.thread.wchan}" if self.thread.wchan else ""
        return f"{what} for {self.waited_s:.1f} s (process {self.pid}{state}{where})"

    def left_behind(self) -> LeftBehind:
        """The same, of a child that is let go of."""
        return LeftBehind(self.pid, self.tid, self.call, self.thread, self.waited_s, self.device)


class Watchdog:
    """Compares the child's shared memory with the deadlines.

    Args:
        process: The child.
        translator: Knows which slot is which device.
        deadlines_s: Group name to seconds, where not as in `calls.DEADLINES_S`.
        period_s: Seconds between two messages, so that a slow child is not taken for a silent one.
    """

    def __init__(
        self,
        process: NvmlProcess,
        translator: Translator,
        deadlines_s: Mapping[str, float] | None = None,
        period_s: float = 0.1,
    ) -> None:
        self._process = process
        self._translator = translator
        defaults = {str(group): seconds for group, seconds in DEADLINES_S.items()}
        self._deadlines_s = {**defaults, **(deadlines_s or {})}
        self._silent_s = max(SILENT_S, 3 * period_s)
        self._reported: dict[tuple[int, int], Stall] = {}
        self._returned: list[str] = []
        self._silent = False

    def look(self, now: float) -> list[Stall]:
        """Calls that passed their deadline since the last look, or changed into state D."""
        found = []
        late = self._late(now)
        for stall, since in late:
            seen = self._reported.get((stall.slot, since))
            if seen is None or (seen.thread.state != "D" and stall.thread.state == "D"):
                self._reported[stall.slot, since] = stall
                found.append(stall)
        for key in self._reported.keys() - {(stall.slot, since) for stall, since in late}:
            stall = self._reported.pop(key)
            whose = f" about {stall.device}" if stall.device is not None else ""
            self._returned.append(f"{stall.call}{whose} returned after {now - key[1] / 1e9:.1f} s")
        silent = self._silence(now)
        if silent is not None and not late:
            found.append(silent)
        return found

    def returned(self) -> list[str]:
        """What was reported as stalled and has returned since this was asked last, in words."""
        found, self._returned = self._returned, []
        return found

    def inside(self) -> list[Stall]:
        """One entry for each thread that is inside a call now, however short."""
        now = time.monotonic()
        return [
            self._stall(slot, state, now)
            for slot, state in self._process.in_call()
            if not self._is_waiting_for_events(slot, state, now)
        ]

    def library_hangs(self, now: float) -> bool:
        """Whether every device's thread is stuck, and there are at least two devices."""
        slots = [device.slot for device in self._sampled()]
        stuck = {stall.slot for stall, _ in self._late(now, self._deadlines_s[Group.FAST])}
        return len(slots) > 1 and stuck.issuperset(slots)

    def first_stuck(self) -> Device | None:
        """The device whose call has hung for longest."""
        states = [(self._process.state(device.slot), device) for device in self._sampled()]
        stuck = [(state.since_ns, device.slot, device) for state, device in states if state.call]
        return min(stuck)[2] if stuck else None

    def _sampled(self) -> list[Device]:
        return [device for device in list(self._translator.devices.values()) if not device.over]

    def _slots(self) -> list[int]:
        """Slots that may be in use, so that the others need not be read."""
        highest = max([self._translator.count, *list(self._translator.devices)], default=0)
        devices = range(min(highest + 1, wire.MAX_DEVICES))
        return [*devices, *(slot + wire.EVENTS for slot in devices), wire.LIBRARY_SLOT]

    def _late(self, now: float, deadline_s: float | None = None) -> list[tuple[Stall, int]]:
        found = []
        for slot in self._slots():
            if not self._process.is_in_call(slot):
                continue
            state = self._process.state(slot)
            call = call_of(state.call)
            if call is None:
                continue
            limit = self._deadlines_s[call.group] if deadline_s is None else deadline_s
            if call.group is Group.EVENT:
                limit += EVENT_WAIT_MS / 1000
            if now - state.since_ns / 1e9 < limit:
                continue
            if self._process.state(slot) == state:  # not one that ended while it was read
                found.append((self._stall(slot, state, now), state.since_ns))
        return found

    def _stall(self, slot: int, state: wire.CallState, now: float) -> Stall:
        call = call_of(state.call)
        device = self._translator.devices.get(slot - wire.EVENTS if slot >= wire.EVENTS else slot)
        return Stall(
            slot,
            device.pci if device is not None else None,
            call.function if call is not None else "",
            self._process.pid,
            state.tid,
            thread_state(self._process.pid, state.tid),
            now - state.since_ns / 1e9,
        )

    @staticmethod
    def _is_waiting_for_events(slot: int, state: wire.CallState, now: float) -> bool:
        """A wait for events ends by itself and is no call into dead hardware."""
        call = call_of(state.call)
        waits = call is not None and call.function == "nvmlEventSetWait"
        return waits and now - state.since_ns / 1e9 < 2 * EVENT_WAIT_MS / 1000

    def _silence(self, now: float) -> Stall | None:
        """A child that samples and yet says nothing, outside of any call."""
        waited = now - self._process.said
        if waited < self._silent_s or not self._sampled():
            self._silent = False
            return None
        if self._silent:
            return None
        self._silent = True
        pid = self._process.pid
        return Stall(-1, None, "", pid, pid, thread_state(pid, pid), waited)
