"""One device inside the NVML child: the thread that samples it."""

from __future__ import annotations

import contextlib
import threading
import time
import traceback
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml import wire
from gpuprobe.live.nvml.block import GROUPS, Block, NotQuick
from gpuprobe.live.nvml.calls import Group, number_of
from gpuprobe.live.nvml.plan import (
    LOST,
    NOT_FOUND,
    SHUT,
    Absent,
    DeviceGone,
    DeviceLost,
    DriverShut,
    Plan,
    Stopped,
    absent,
)
from gpuprobe.live.nvml.wait import EventWait
from gpuprobe.pace import CALM_S, RARE_S, SELDOM_S, SLOW_S, USERS_S

if TYPE_CHECKING:
    from gpuprobe.live.nvml_child import Child

CALM_NS = round(CALM_S * 1e9)
SLOW_NS = round(SLOW_S * 1e9)
USERS_NS = round(USERS_S * 1e9)
EVERY_NS = {Group.RARE: round(RARE_S * 1e9), Group.SELDOM: round(SELDOM_S * 1e9)}
USERS_AFTER = 3
"""So often the users are read after memory in use changed: what it is freed for ends later."""
NAP_S = 0.2
"""A sleeping thread looks this often whether all is over, seconds."""


class Device:
    """Samples one device in its own thread until it is lost, given up, or all is over.

    Args:
        child: What the threads share.
        slot: Its number in messages and shared memory.
        index: Open it by NVML's index, or
        pci: by its address.
    """

    def __init__(
        self, child: Child, slot: int, *, index: int | None = None, pci: str | None = None
    ) -> None:
        self.slot = slot
        self.pci = pci
        self._child = child
        self._index = index
        self._over = False
        self._last_pass = False
        self._slow_due = False
        self._handle: Any = None
        self._thread = threading.Thread(target=self._guarded, name=f"device {slot}")
        self._events = EventWait(child, self)
        self._told_slow: dict[str, Any] = {}
        self._block: Block | None = None
        self._block_at = 0
        self._packed: deque[bytes] = deque()
        self._calm: list[Any] = []
        self._calm_at = 0
        self._pids: list[int] | None = None
        self._pids_at = 0
        self._used: Any = None
        self._users_at = self._users_left = 0
        self._next_at = dict.fromkeys(EVERY_NS, 0)
        self._plans: dict[Group, Plan] = {}

    def start(self) -> None:
        """Begin to sample."""
        self._thread.start()

    @property
    def idle(self) -> bool:
        """Whether both its threads have ended, so that its slot can be used again."""
        return not (self._thread.is_alive() or self._events.running)

    @property
    def alive(self) -> bool:
        """Whether it is still sampled."""
        return not self._over

    def give_up(self, why: str) -> None:
        """Make no further call to it, and say why (`closed` is said for all at once)."""
        if not self._over:
            self._over = True
            if why != "closed":
                self._child.send("gone", slot=self.slot, pci=self.pci, why=why)

    def join(self) -> None:
        """Wait until its threads are outside of any call, however long that takes."""
        self._thread.join()
        self._events.join()

    def _entering(self) -> Callable[[int], None]:
        """What notes a call in the shared memory, for this thread; it runs before every call."""
        child, pack, clock = self._child, wire.pack_state, time.monotonic_ns
        memory, offset, tid = child.state, self.slot * wire.STATE_SIZE, threading.get_native_id()

        def enter(number: int) -> None:
            if self._over or child.over:
                raise Stopped
            pack(memory, offset, number, tid, clock())

        return enter

    def call(
        self,
        function: str,
        *args: Any,
        slot: int | None = None,
        made_by: Callable[..., Any] | None = None,
    ) -> Any:
        """One call about this device outside of a plan, noted under `slot` or the device's own.

        Args:
            function: Its name in the list of calls.
            *args: What it is called with.
            slot: Where it is noted.
            made_by: What makes it; None for the binding's function of that name.

        Raises:
            Stopped: No call may be made to it any more.
        """
        slot = self.slot if slot is None else slot
        if self._over:
            raise Stopped
        self._child.enter(slot, number_of(function))
        try:
            return (made_by or getattr(self._child.nvml, function))(*args)
        finally:
            self._child.leave(slot)

    def ask_once_more(self) -> None:
        """Make one more pass, and no call after it: the driver called the device unavailable.

        Lost or hung: the pass shows which.
        """
        self._last_pass = True

    def read_slow_now(self) -> None:
        """Do not wait for the next second with the slow group."""
        self._slow_due = True

    # --- sampling ------------------------------------------------------------------------

    def _guarded(self) -> None:
        """Run, and turn every way it can end into a message."""
        child = self._child
        enter = self._entering()
        for group in (Group.ONCE, Group.FAST, Group.CALM, Group.SLOW, Group.USERS, *EVERY_NS):
            self._plans[group] = Plan(child.nvml, group, enter)
        self._enter = enter
        try:
            if self._open():
                self._run()
        except Stopped:
            child.out.flush()
        except DeviceLost as lost:
            self.say_lost(lost.function)
        except DeviceGone:
            self.give_up("not-found")
        except DriverShut as shut:
            self._over = True
            child.shut_under_us(shut.code)
        except Exception:
            self._over = True
            child.send("error", text=traceback.format_exc(limit=4))
        finally:
            child.leave(self.slot)

    def _open(self) -> bool:
        """Get the handle and say who it is; False when another thread has it already."""
        try:
            if self.pci is not None:
                self._handle = self.call("nvmlDeviceGetHandleByPciBusId", self.pci)
            else:
                self._handle = self.call("nvmlDeviceGetHandleByIndex", self._index)
            info = self.call("nvmlDeviceGetPciInfo", self._handle)
        except self._child.nvml.NVMLError as error:
            self._give_up_opening(error.value)
            return False
        pci = str(PciAddress(info.domain, info.bus, info.device))
        if pci in self._child.skipped or self._child.is_open(pci, besides=self):
            self._over = True
            return False
        self.pci = pci
        known = self._plans[Group.ONCE].read(self._handle)
        values = {name: self._shown(value) for name, value in known.items()}
        if isinstance(values.get("gsp_firmware"), bytes):  # the one text that pynvml leaves so
            values["gsp_firmware"] = values["gsp_firmware"].decode("utf-8", "replace")
        if values.get("mig_mode") == 1:
            values["mig_devices"] = self._mig_devices()
        self._child.send(
            "came",
            slot=self.slot,
            pci=pci,
            uuid=values.get("uuid"),
            name=values.get("name"),
            index=values.get("index"),
            mig=values.get("mig_mode") == 1,
        )
        self._child.send("sample", slot=self.slot, group="once", values=values)
        self._say_absent(Group.ONCE)
        return True

    def say_lost(self, function: str) -> None:
        """Make no further call, and say that the device is lost."""
        self._over = True
        self._child.tainted = True
        self._child.send(
            "lost",
            slot=self.slot,
            pci=self.pci,
            index=self._index,
            call=function,
            code=LOST,
        )

    def _give_up_opening(self, code: int) -> None:
        child = self._child
        if code == LOST:
            raise DeviceLost("nvmlDeviceGetHandleByIndex")
        if code in SHUT:
            raise DriverShut(code)
        self._over = True
        child.send(
            "nvml",
            slot=self.slot,
            pci=self.pci,
            index=self._index,
            call="nvmlDeviceGetHandleByIndex"
            if self.pci is None
            else "nvmlDeviceGetHandleByPciBusId",
            code=code,
            name=child.name_of(code),
        )

    def _mig_devices(self) -> list[str]:
        """UUIDs of the MIG devices of this GPU."""
        nvml = self._child.nvml
        found = []
        try:
            for index in range(self.call("nvmlDeviceGetMaxMigDeviceCount", self._handle)):
                try:
                    mig = self.call("nvmlDeviceGetMigDeviceHandleByIndex", self._handle, index)
                    found.append(self.call("nvmlDeviceGetUUID", mig))
                except nvml.NVMLError as error:
                    if error.value != NOT_FOUND:
                        raise
        except nvml.NVMLError as error:
            if error.value == LOST:
                raise DeviceLost("nvmlDeviceGetMigDeviceHandleByIndex") from None
        return found

    def _run(self) -> None:
        """Sample on a fixed clock; a pass that comes late is skipped, never made up for."""
        settings = self._child.settings
        if settings.once:
            self._pass_fast(0)
            self._child.out.flush()  # each group by itself, should a later call hang
            self._pass_slow()
            for group in EVERY_NS:
                self._child.out.flush()
                self._put_values(group, self._read_seldom(group))
            self._over = True
            self._child.out.flush()
            return
        self._events.start(self._handle)
        period = round(1e9 / settings.rate_hz)
        first = next_at = slow_at = time.monotonic_ns()
        while not self._over:
            last = self._last_pass
            now = self._pass_fast(period)
            if now >= slow_at or self._slow_due:
                self._slow_due = False
                self._pass_slow()
                self._pass_rare(now)
                if slow_at == first:  # every call has been made once
                    self._child.give_back_memory()
                slow_at += SLOW_NS * max(1, (now - slow_at) // SLOW_NS + 1)
            if last:
                self.give_up("unavailable")
                return
            failed = self._plans[Group.FAST].all_failed
            self._child.leave(self.slot, 0 if failed else now)
            wait = max(SLOW_NS, period) if failed else period
            next_at += wait * max(1, (time.monotonic_ns() - next_at) // wait + 1)
            self._nap_until(next_at)
        self._child.out.flush()

    def _nap_until(self, at_ns: int) -> None:
        while not self._over and not self._child.over and not self._last_pass:
            left = (at_ns - time.monotonic_ns()) / 1e9
            if left <= 0:
                return
            time.sleep(min(left, NAP_S))

    def _pass_fast(self, period_ns: int) -> int:
        """Read the fast group, and the calm one where it is due, into a row.

        Returns:
            When it began, monotonic nanoseconds.
        """
        began = time.monotonic_ns()
        until = began + period_ns // 2
        is_calm_due = until >= self._calm_at
        block = self._block
        if block is not None:
            if block.read(Group.FAST) and (not is_calm_due or block.read(Group.CALM)):
                if is_calm_due:
                    self._calm_at = began + CALM_NS
                self._packed.append(block.row(began))
                if until >= self._child.out.flush_at_ns:
                    self._child.out.flush()
                return began
            self._block, is_calm_due = None, True  # what failed is found out below
        row = [began, *self._row_of(Group.FAST)]
        if not self._calm:
            # A later call may never return, and there is no row before.
            told = zip(self._plans[Group.FAST].names, row[1:], strict=True)
            self._put_values(Group.FAST, {name: one for name, one in told if one is not None})
            self._child.out.flush()
        if is_calm_due or self._plans[Group.FAST].all_failed or not self._calm:
            self._calm_at = began + CALM_NS
            self._calm = self._row_of(Group.CALM)
        row += self._calm
        self._child.out.add_row(self.slot, row, period_ns)
        if began >= self._block_at:
            self._make_block(began)
        return began

    def _make_block(self, now_ns: int) -> None:
        """Read at the least cost from now on, where every call answers.

        Once a second at most: where a field fails each time and another call gives its value, a
        block lasts one pass, and costs more than it saves.
        """
        steps = {group: self._plans[group].answered for group in GROUPS}
        answered = {group: found for group, found in steps.items() if found is not None}
        if len(answered) == len(steps) and not self._child.settings.once:
            self._block_at = now_ns + CALM_NS
            with contextlib.suppress(NotQuick):
                block = Block(self._child.nvml, self._handle, answered, self._enter)
                self._block = block
                self._packed = self._child.out.of_device(self.slot, block.layout)
                self._calm_at = 0  # the block has no answer of that group yet

    def _row_of(self, group: Group) -> list[Any]:
        plan = self._plans[group]
        found = plan.read(self._handle)
        row = list(map(found.get, plan.names))
        if plan.had_absent:
            row = [self._shown(value) for value in row]
        if plan.changed:
            self._say_absent(group)
        if plan.failing:
            self._say_failing(plan)
        return row

    def _pass_slow(self) -> None:
        found = self._read_seldom(Group.SLOW)
        samples = found.pop("power_samples", None)
        if found != self._told_slow:
            self._told_slow = found
            self._put_values(Group.SLOW, found)
        if isinstance(samples, bytes) and samples:
            self._child.out.put("power", slot=self.slot, samples=samples)
        if self._may_have_other_users():
            found = self._read_seldom(Group.USERS)
            self._put_pids([found.get(name, ()) for name in ("compute_pids", "graphics_pids")])

    def _pass_rare(self, now_ns: int) -> None:
        for group, every_ns in EVERY_NS.items():
            if now_ns >= self._next_at[group]:
                self._next_at[group] = now_ns + every_ns - SLOW_NS // 2
                self._put_values(group, self._read_seldom(group))

    def _may_have_other_users(self) -> bool:
        """Whether memory in use changed of late, is not known, or time has passed."""
        used, now = self._memory_used(), time.monotonic_ns()
        if used != self._used or type(used) is not int:
            self._used, self._users_left = used, USERS_AFTER
        if not self._users_left and now - self._users_at < USERS_NS - SLOW_NS // 2:
            return False
        self._users_left = max(0, self._users_left - 1)
        self._users_at = now
        return True

    def _memory_used(self) -> Any:
        name = "memory_used_bytes"
        if self._block is not None and self._calm_at:
            return self._block.value(name)
        return self._calm[self._plans[Group.CALM].names.index(name)]

    def _read_seldom(self, group: Group) -> dict[str, Any]:
        plan = self._plans[group]
        found = plan.read(self._handle)
        if plan.changed:
            self._say_absent(group)
        if plan.failing:
            self._say_failing(plan)
        return found

    def _put_values(self, group: Group, found: dict[str, Any]) -> None:
        values = {name: self._shown(value) for name, value in found.items()}
        self._child.out.put("sample", slot=self.slot, group=group.value, values=values)

    def _put_pids(self, lists: list[Any]) -> None:
        """Say who uses the device where that changed, or was not said for long."""
        plan = self._plans[Group.USERS]
        if (
            any(type(pids) is Absent for pids in lists)
            or {
                "compute_pids",
                "graphics_pids",
            }
            <= plan.absent.keys()
        ):
            return  # not known now; the last good list stands
        now = time.monotonic_ns()
        pids = sorted({pid for pids in lists for pid in pids})
        if pids != self._pids or now - self._pids_at >= USERS_NS - SLOW_NS:
            self._pids, self._pids_at = pids, now
            self._child.out.put("processes", slot=self.slot, pids=pids)

    @staticmethod
    def _shown(value: Any) -> Any:
        return absent(value.code) if type(value) is Absent else value

    def _say_absent(self, group: Group) -> None:
        plan = self._plans[group]
        self._child.send("absent", slot=self.slot, values=plan.absent)

    def _say_failing(self, plan: Plan) -> None:
        for function, code in plan.failing:
            self._child.send(
                "nvml",
                slot=self.slot,
                call=function,
                code=code,
                name=self._child.name_of(code),
            )
