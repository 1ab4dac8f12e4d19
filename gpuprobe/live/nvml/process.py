"""The NVML child as its parent sees it: started, listened to, let go of. Never waited for."""

from __future__ import annotations

import contextlib
import importlib.util
import mmap
import os
import site
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any, Final

import gpuprobe
from gpuprobe.identity import PciAddress
from gpuprobe.live.nvml import wire

MODULE: Final = "gpuprobe.live.nvml_child"
_BOOT: Final = (
    "import runpy, sys\n"
    "installed = [place.endswith('-packages') for place in sys.path]\n"
    "first = installed.index(True) if any(installed) else len(installed)\n"
    "sys.path[first:first] = sys.argv.pop(1).split('\\n')\n"
    f"runpy.run_module({MODULE!r}, run_name='__main__', alter_sys=True)\n"
)
"""For a package that an isolated Python does not find: the folders to look in come first.

They go behind the standard library and before what is installed, which may be another version.
"""


@dataclass(frozen=True, slots=True)
class ThreadState:
    """A thread as /proc shows it.

    Attributes:
        state: `R`, `S`, `D` (uninterruptible), `T`, `Z`, or "" where it cannot be read.
        wchan: The kernel function it waits in, or "".
    """

    state: str = ""
    wchan: str = ""


@dataclass(frozen=True, slots=True)
class LeftBehind:
    """A child that was still inside a driver call when it was let go of.

    It ends by itself when the call returns.

    Attributes:
        pid: Its process id; tid: the thread in the call.
        call: The NVML function.
        thread: What /proc says of it.
        waited_s: Seconds since the call began.
        device: Which device the call is about, where known.
    """

    pid: int
    tid: int
    call: str
    thread: ThreadState
    waited_s: float
    device: PciAddress | None = None

    def __str__(self) -> str:
        state = f", state {self.thread.state}" if self.thread.state else ""
        where = f", waiting in {self.thread.wchan}" if self.thread.wchan else ""
        whose = f" about {self.device}" if self.device is not None else ""
        return (
            f"process {self.pid} is still inside {self.call}{whose} after {self.waited_s:.1f} s"
            f"{state}{where}; it is left alone and ends when the call returns"
        )


def missing_library() -> str | None:
    """What keeps the child from being started here, or None."""
    if not hasattr(os, "memfd_create"):
        return "sampling needs Linux"
    if importlib.util.find_spec("pynvml") is None:
        return "the Python package nvidia-ml-py is not installed"
    return None


def command(argument: str) -> list[str]:
    """The child's command line.

    `python -I -m` where an isolated Python finds the package; it does not look at PYTHONPATH, the
    working folder or a user's own site-packages, so for those `-I -c` with the folders that this
    process has the packages from.
    """
    folders = [Path(gpuprobe.__file__).parents[1]]
    spec = importlib.util.find_spec("pynvml")
    if spec is not None and spec.origin:
        folders.append(Path(spec.origin).parent)
    hidden = [str(folder) for folder in folders if not _found_isolated(folder)]
    if not hidden:
        return [sys.executable, "-I", "-m", MODULE, argument]
    return [sys.executable, "-I", "-c", _BOOT, "\n".join(hidden), argument]


def _found_isolated(folder: Path) -> bool:
    """Whether `python -I` has a folder on its path: site-packages, or named by a .pth there."""
    for place in map(Path, site.getsitepackages()):
        if place == folder:
            return True
        for pth in place.glob("*.pth"):
            with contextlib.suppress(OSError, UnicodeDecodeError):
                if str(folder) in pth.read_text("utf-8").splitlines():
                    return True
    return False


def thread_state(pid: int, tid: int) -> ThreadState:
    """What /proc says of a thread; empty where it says nothing."""
    folder = Path(f"/proc/{pid}/task/{tid or pid}")
    state = wchan = ""
    with contextlib.suppress(OSError, IndexError):
        state = (folder / "stat").read_text().rpartition(")")[2].split()[0]
    with contextlib.suppress(OSError):
        wchan = (folder / "wchan").read_text().strip()
    return ThreadState(state, "" if wchan == "0" else wchan)


class NvmlProcess:
    """One child: its pipes, its shared memory, and a thread that reads its messages.

    Args:
        settings: For the child; `state_fd` is filled in.
        on_message: Called in the reading thread for each message.
        env: Its environment; None for this process's.
        on_read: Called in the reading thread when all messages of a read were handed on, and when
            the child has gone.

    Attributes:
        pid: Its process id.
        said: `time.monotonic()` of its last message, or of its start.
        closed: Its pipe was closed: it was asked to leave.
        ended: It has exited, and everything it wrote was read.
    """

    def __init__(
        self,
        settings: wire.Settings,
        on_message: Callable[[NvmlProcess, dict[str, Any]], None],
        env: Mapping[str, str] | None = None,
        on_read: Callable[[], None] = lambda: None,
    ) -> None:
        self._on_message = on_message
        self._on_read = on_read
        self._errors: IO[bytes] = os.fdopen(os.memfd_create("gpuprobe-nvml-stderr"), "r+b", 0)
        state_fd = os.memfd_create("gpuprobe-nvml")
        try:
            os.ftruncate(state_fd, wire.STATE_BYTES)
            self._memory = mmap.mmap(state_fd, wire.STATE_BYTES, prot=mmap.PROT_READ)
            argument = wire.Settings(
                state_fd,
                settings.rate_hz,
                settings.devices,
                settings.once,
                settings.retry_s,
                settings.batch_s,
            ).to_argument()
            self._process = subprocess.Popen(  # noqa: S603 - this Python, our own module
                command(argument),
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env=None if env is None else dict(env),
                pass_fds=(state_fd,),
                cwd="/",
                start_new_session=True,  # a Ctrl-C or a closed terminal is not for it
                bufsize=0,
            )
        finally:
            os.close(state_fd)
        self.pid = self._process.pid
        self.said = time.monotonic()
        self.closed = False
        self.ended = False
        assert self._process.stdin is not None
        os.set_blocking(self._process.stdin.fileno(), False)
        self._reader = threading.Thread(target=self._read, name="nvml reader", daemon=True)
        self._reader.start()

    def _read(self) -> None:
        """Hand on what the child says until it has gone, then collect it."""
        assert self._process.stdout is not None
        fd = self._process.stdout.fileno()
        pending = b""
        with contextlib.suppress(OSError):
            while data := os.read(fd, 65536):
                *lines, pending = (pending + data).split(b"\n")
                self.said = time.monotonic()
                for line in lines:
                    message = wire.decode(line)
                    if message is not None:
                        self._on_message(self, message)
                self._on_read()
        self._process.wait()
        self._process.stdout.close()
        self.ended = True
        self._on_read()

    @property
    def exit_code(self) -> int | None:
        """What it ended with, negative for a signal; None while it runs."""
        return self._process.returncode if self.ended else None

    def errors(self) -> str:
        """The end of what it wrote to stderr."""
        size = os.fstat(self._errors.fileno()).st_size
        found = os.pread(self._errors.fileno(), 2000, max(0, size - 2000))
        return found.decode("utf-8", "replace").strip()

    def tell(self, **command: Any) -> None:
        """Send a command; one that cannot be written now is dropped, for the child is stuck."""
        assert self._process.stdin is not None
        if not self.closed:
            with contextlib.suppress(OSError):
                os.write(self._process.stdin.fileno(), wire.encode(command))

    def close(self) -> None:
        """End its pipe: it leaves at once, or when its running calls have returned."""
        assert self._process.stdin is not None
        if not self.closed:
            self.closed = True
            with contextlib.suppress(OSError):
                self._process.stdin.close()

    def wait(self, seconds: float) -> bool:
        """Whether it has exited, after at most that long."""
        self._reader.join(max(0.0, seconds))
        return self.ended

    def state(self, slot: int) -> wire.CallState:
        """Which call a slot's thread is in."""
        return wire.get_state(memoryview(self._memory), slot)

    def answered_ns(self, slot: int) -> int:
        """When a slot's device last answered, by `time.monotonic_ns()`; 0 inside of a call."""
        call, _, since_ns = wire.unpack_state(self._memory, slot * wire.STATE_SIZE)
        return 0 if call else since_ns

    def is_in_call(self, slot: int) -> bool:
        """Whether a slot's thread is inside a call: what most are not, at the least cost."""
        at = slot * wire.STATE_SIZE
        return self._memory[at : at + 4] != b"\0\0\0\0"

    def in_call(self, slots: range | None = None) -> list[tuple[int, wire.CallState]]:
        """Slots whose threads are inside a call."""
        states = ((slot, self.state(slot)) for slot in slots or range(wire.SLOTS))
        return [(slot, state) for slot, state in states if state.call]

    def kill_outside_calls(self) -> None:
        """End a child that does not leave although none of its threads is in a call (stopped)."""
        if not self.in_call() and not self.ended:
            with contextlib.suppress(OSError):
                self._process.kill()
