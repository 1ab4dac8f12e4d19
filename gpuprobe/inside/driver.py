"""Ask the driver whether it still reaches GPUs: in a child, behind a deadline, never waited for."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from gpuprobe.catalog import nvml_codes
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml.process import thread_state
from gpuprobe.reading import Known, Reading, Reason, Unavailable

SCRIPT: Final = Path(__file__).parents[1] / "live" / "nvml" / "ask.py"
LOST: Final = 15
"""GPU_IS_LOST."""
RESET_REQUIRED: Final = 16

_LAST_CALL: Final = "nvmlDeviceGetPerformanceState"
_left_behind: list[tuple[int, subprocess.Popen[bytes], frozenset[PciAddress]]] = []
"""Children still inside a call: the process that started them, they, the GPUs they asked about."""
_latest: tuple[float, dict[PciAddress, Reading[int]]] = (0.0, {})
"""When the last question was put, and its answers."""
_one_at_a_time = threading.Lock()
"""So that threads that fail together start no second child while the first may be stuck. Only
ever waited for until the deadline: after a fork it can be held by a thread that is not there."""


def ask(gpus: Iterable[PciAddress], until: float) -> dict[PciAddress, Reading[int]]:
    """What NVML answers about each GPU: 0 where it reaches it, else its code.

    One child of about 30 ms. One that does not answer is left alone, since killing a process
    inside a driver call can take the machine with it; it ends when its call returns. While it has
    not, no second one is started for its GPUs.

    Args:
        gpus: The GPUs.
        until: `time.monotonic()` at which this returns at the latest.

    Missing: timed-out with the child's process id and its call, not-there without the driver's
    library, not-supported where no child can be started.
    """
    global _latest
    wanted, began = list(gpus), time.monotonic()
    if not _one_at_a_time.acquire(timeout=max(0.0, until - time.monotonic())):
        why = Unavailable(Reason.TIMED_OUT, "another thread is still asking NVML")
        return dict.fromkeys(wanted, why)
    try:
        # Threads often fail together: what was asked since this one came answers it, too.
        if _latest[0] < began or set(_latest[1]) != set(wanted):
            _latest = time.monotonic(), _ask(wanted, until)
        return _latest[1]
    finally:
        _one_at_a_time.release()


def _ask(wanted: list[PciAddress], until: float) -> dict[PciAddress, Reading[int]]:
    if (why := _no_child() or _stuck(wanted)) is not None:
        return dict.fromkeys(wanted, why)
    try:
        process = subprocess.Popen(  # noqa: S603 - this Python, our own script
            [sys.executable, "-I", "-S", str(SCRIPT), *map(str, wanted)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            cwd="/",
            start_new_session=True,  # a Ctrl-C or a closed terminal is not for it
            bufsize=0,
        )
    except OSError as error:
        why = Unavailable(Reason.FAILED, f"no process could be started to ask NVML: {error}")
        return dict.fromkeys(wanted, why)
    assert process.stdin is not None
    assert process.stdout is not None
    with process.stdin, process.stdout:
        text = _read(process.stdout.fileno(), until)
    if _ended(process, until):
        return _answers(wanted, text, None)
    _left_behind.append((os.getpid(), process, frozenset(wanted)))
    return _answers(wanted, text, process.pid)


def _no_child() -> Unavailable | None:
    """Why no child may be started: its interpreter would not be one."""
    name = Path(sys.executable or "").name.lower()
    if getattr(sys, "frozen", False) or not ("python" in name or "pypy" in name):
        # A frozen engine is its own interpreter: to start it would be to start it a second time.
        return Unavailable(Reason.NOT_SUPPORTED, "this program has no Python to ask NVML with")
    if os.name != "posix" or not SCRIPT.is_file():
        return Unavailable(Reason.NOT_SUPPORTED, "NVML is asked on Linux, from files on disk")
    return None


def _stuck(wanted: list[PciAddress]) -> Unavailable | None:
    """A child that still hangs with one of these GPUs; those that have ended are forgotten."""
    for entry in list(_left_behind):
        starter, process, gpus = entry
        if starter == os.getpid():
            running = process.poll() is None
        else:  # started before a fork; not ours to wait for
            running = Path(f"/proc/{process.pid}").exists()
        if not running:
            with contextlib.suppress(ValueError):  # another thread was first
                _left_behind.remove(entry)
        elif gpus & set(wanted):
            return Unavailable(
                Reason.TIMED_OUT, f"process {process.pid} is still inside an earlier call to NVML"
            )
    return None


def _read(descriptor: int, until: float) -> str:
    """What the child says until it ends or the time is over."""
    found = b""
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    while (left_s := until - time.monotonic()) > 0:
        if not poll.poll(left_s * 1000):
            break
        data = os.read(descriptor, 65_536)
        if not data:
            break
        found += data
    return found.decode("ascii", "replace")


def _ended(process: subprocess.Popen[bytes], until: float) -> bool:
    try:
        process.wait(max(0.0, until - time.monotonic()))
    except subprocess.TimeoutExpired:
        return False
    return True


def _answers(
    wanted: list[PciAddress], text: str, pid: int | None
) -> dict[PciAddress, Reading[int]]:
    """Each GPU's answer from the child's lines.

    Args:
        wanted: The GPUs asked about.
        text: The lines.
        pid: The child, if it is left behind.
    """
    codes: dict[str, int] = {}
    begun: dict[str, tuple[str, int]] = {}
    for line in text.splitlines():
        match line.split():
            case [">", call, address, tid] if tid.isdecimal():
                begun[address] = (call, int(tid))
            case ["<", call, address, code] if code.isdecimal():
                begun.pop(address, None)
                if call == "library":
                    missing = Unavailable(Reason.NOT_THERE, "there is no NVML library here")
                    return dict.fromkeys(wanted, missing)
                if int(code) or call == _LAST_CALL:
                    codes[address] = int(code)
    return {one: _answer(one, codes, begun, pid) for one in wanted}


def _answer(
    address: PciAddress, codes: dict[str, int], begun: dict[str, tuple[str, int]], pid: int | None
) -> Reading[int]:
    code = codes.get(str(address), codes.get("-"))
    if code is not None:
        return Known(code)
    if pid is None:
        return Unavailable(Reason.FAILED, "the process that asks NVML ended without an answer")
    call, tid = begun.get(str(address)) or begun.get("-") or ("its start", 0)
    thread = thread_state(pid, tid)
    state = f", state {thread.state}" if thread.state else ""
    where = f", waiting in {thread.wchan}" if thread.wchan else ""
    return Unavailable(
        Reason.TIMED_OUT,
        f"NVML did not answer in time: process {pid} is inside {call}{state}{where};"
        " it is left alone and ends when the call returns",
    )


def name_of(code: int) -> str:
    """`GPU_IS_LOST` for 15; the number for a code that the catalogue does not know."""
    return next((one.name for one in nvml_codes() if one.code == code), str(code))
