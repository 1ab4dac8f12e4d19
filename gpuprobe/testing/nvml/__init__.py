"""A `libnvidia-ml.so.1` of our own, whose GPUs do what a test says, also while a child uses it."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from gpuprobe.errors import GpuprobeError
from gpuprobe.identity import PciAddress

_SOURCES = ("script.c", "fake_nvml.c", "readings.c", "fields_and_events.c")
_CALLS_ABOUT_NONE = "-"
_EVENTS_KEPT = 100

XID = 0x8
"""NVML's event type for a critical Xid; its data is the number."""
UNAVAILABLE = 0x4000
"""NVML's event type for a GPU that became unavailable."""
RECOVERY_ACTION = 0x8000
"""NVML's event type for a changed recovery action; its data is the new value."""


class NoCompilerError(GpuprobeError):
    """There is no C compiler to build the fake library with."""


def compiler() -> str | None:
    """The C compiler that would be used (`$CC`, `cc`, `gcc`, `clang`), or None."""
    names = (os.environ.get("CC", ""), "cc", "gcc", "clang")
    return next((found for name in names if name and (found := shutil.which(name))), None)


def why_unavailable() -> str | None:
    """Why `FakeNvml` cannot be used here, to skip a test with; None where it can."""
    return None if compiler() else "no C compiler (cc, gcc or clang) to build the fake NVML with"


@functools.cache
def _folder() -> tempfile.TemporaryDirectory[str]:
    """One folder of built libraries a process, removed when it ends."""
    return tempfile.TemporaryDirectory(prefix="gpuprobe-fake-nvml-")


@functools.cache
def _build(without: frozenset[str]) -> Path:
    """The folder that holds a library without these functions.

    Raises:
        NoCompilerError: There is no compiler.
        GpuprobeError: The compiler failed.
    """
    found = compiler()
    if found is None:
        raise NoCompilerError(why_unavailable() or "", hint="Install gcc or clang.")
    here = Path(__file__).parent
    folder = Path(tempfile.mkdtemp(dir=_folder().name))
    command = [found, "-std=gnu11", "-O1", "-shared", "-fPIC", "-fvisibility=hidden", "-pthread"]
    command += ["-Wl,-soname,libnvidia-ml.so.1", *(f"-D{name}=absent_{name}" for name in without)]
    command += [str(here / name) for name in _SOURCES]
    command += ["-o", str(folder / "libnvidia-ml.so.1")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 - a fixed list
    if done.returncode:
        raise GpuprobeError(f"{found} failed: {done.stderr.strip()[:500]}")
    return folder


@dataclass(frozen=True, slots=True)
class Call:
    """One call that a program made.

    Attributes:
        name: The exported function, such as `nvmlDeviceGetPowerUsage`.
        device: The GPU it was about; a MIG instance counts as its GPU; None for calls about none.
        pid: The process. tid: The thread.
        began_ns: `time.monotonic_ns()` when it began.
        ended_ns: When its code was decided; None while it hangs.
        code: The code decided; None while it hangs. A missing value can still turn 0 into 3.
    """

    name: str
    device: PciAddress | None
    pid: int
    tid: int
    began_ns: int
    ended_ns: int | None = None
    code: int | None = None


@dataclass
class FakeNvml:
    """A scripted NVML library in a folder of its own.

    Start the program that is to use it with `env`, then call the methods: what they change holds
    from the program's next call on, and a call that hangs comes back when it is let go.

    ```python
    fake = FakeNvml(tmp_path, ["0000:04:00.0", "0000:05:00.0"])
    child = subprocess.Popen(command, env={**os.environ, **fake.env})
    fake.lose("0000:05:00.0", after=100)
    assert fake.count("0000:04:00.0") > 100
    ```

    Args:
        folder: An existing folder, such as pytest's `tmp_path`.
        gpus: Addresses in NVML's order.
        without: Functions the library does not export, as an older driver.

    Raises:
        NoCompilerError: There is no C compiler; see `why_unavailable`.
    """

    folder: Path
    gpus: Iterable[str | PciAddress] = ("0000:04:00.0",)
    without: Iterable[str] = ()
    _lines: list[str] = field(default_factory=list, init=False, repr=False)
    _events: int = field(default=0, init=False, repr=False)
    _generation: int = field(default=0, init=False, repr=False)

    def __post_init__(self) -> None:
        self.library = _build(frozenset(self.without))
        self.script = Path(self.folder) / "nvml.script"
        for number, gpu in enumerate(self.gpus):
            address = PciAddress.parse(str(gpu))
            self._lines.append(f"gpu {address}")
            self._lines.append(f"set {address} uuid {self._uuid(address)}")
            self._lines.append(f"set {address} serial {1320021000001 + number}")
        self._write()

    @property
    def env(self) -> dict[str, str]:
        """What the program's environment needs from before its start."""
        paths = [str(self.library), *filter(None, [os.environ.get("LD_LIBRARY_PATH")])]
        return {
            "LD_LIBRARY_PATH": os.pathsep.join(paths),
            "GPUPROBE_FAKE_NVML": str(self.script),
        }

    # --- values ------------------------------------------------------------------------------

    def set(self, gpu: str | PciAddress | None = None, **values: float | str) -> None:
        """Change what calls give; without `gpu` for all GPUs and for the library.

        Args:
            gpu: Which one.
            values: A number: `power_mw`, `power_limit_mw`, `power_min_mw`, `power_max_mw`,
                `temp_c`, `memory_temp_c`, `margin_temp_c`, `sm_clock_mhz`, `memory_clock_mhz`,
                `event_reasons`, `pstate`, `util_percent`, `memory_total_bytes`,
                `memory_used_bytes`, `link_gen`, `link_width`, `link_gen_max`,
                `link_gen_max_gpu`, `link_width_max`, `replay`, `rx_kb_per_s`, `tx_kb_per_s`,
                `persistence`, `ecc_mode`, `ecc_corrected`, `ecc_uncorrected`, `remap_pending`,
                `remap_failure`, `recovery_action`, `mig`, `mig_instances`, `event_types`,
                `process` (a process id), `field_N` (the value of field N), and others in
                `script.c`. A text: `name`, `uuid`, `serial`, `vbios`, `driver`, `nvml`.
        """
        for name, value in values.items():
            shown = name.replace("field_", "field.")
            number = int(value) if isinstance(value, float) else value
            self._say(f"set {self._who(gpu)} {shown} {number}")

    def unsupported(self, name: str, gpu: str | PciAddress | None = None) -> None:
        """Answer a call, or the value of that name (also `field.N`), with NOT_SUPPORTED."""
        self._say(f"unsupported {self._who(gpu)} {name}")

    # --- failures ----------------------------------------------------------------------------

    def error(
        self, code: int, gpu: str | PciAddress | None = None, call: str = "*", *, after: int = 0
    ) -> None:
        """Answer with an NVML code; `after` that many calls about the GPU (all processes)."""
        self._say(f"error {self._who(gpu)} {call} {code}{self._after(after)}")

    def lose(self, gpu: str | PciAddress, *, after: int = 0) -> None:
        """Answer every call about a GPU with GPU_IS_LOST (15)."""
        self.error(15, gpu, after=after)

    def require_reset(self, gpu: str | PciAddress, *, after: int = 0) -> None:
        """Answer every call about a GPU with RESET_REQUIRED (16)."""
        self.error(16, gpu, after=after)

    def unknown(self, gpu: str | PciAddress | None = None, *, after: int = 0) -> None:
        """Answer every call with UNKNOWN (999), about one GPU or about any."""
        self.error(999, gpu, after=after)

    def hang(
        self,
        gpu: str | PciAddress | None = None,
        call: str = "*",
        *,
        after: int = 0,
        in_d: bool = False,
    ) -> None:
        """Let calls about a GPU not return; without `gpu` the whole library.

        Args:
            gpu: Which one.
            call: Only this function.
            after: That many calls about the GPU return first, over all processes.
            in_d: In state D, as in a driver that waits for dead hardware. A thread that waits so
                still ends on SIGKILL, which a real one does not.
        """
        self._say(f"{'dstate' if in_d else 'hang'} {self._who(gpu)} {call}{self._after(after)}")

    def slow(self, milliseconds: int, gpu: str | PciAddress | None = None, call: str = "*") -> None:
        """Let calls take that long."""
        self._say(f"slow {self._who(gpu)} {call} {milliseconds}")

    def heal(self, gpu: str | PciAddress | None = None) -> None:
        """End the failures of a GPU, or of all: what hangs returns, what was lost answers.

        What is unsupported stays so.
        """
        who = self._who(gpu)
        kinds = {"error", "hang", "dstate", "slow"}
        kept = []
        for line in self._lines:
            words = line.split()
            if words[0] not in kinds or (who not in ("*", words[1])):
                kept.append(line)
        self._lines = kept
        self._write()

    let_go = heal
    """What `heal` is called where calls hang."""

    # --- events and the driver ----------------------------------------------------------------

    def event(self, gpu: str | PciAddress, kind: int, data: int = 0) -> None:
        """Deliver an event, once to each event set that exists now and registered for it."""
        self._events += 1
        old = [line for line in self._lines if line.startswith("event ")][:-_EVENTS_KEPT]
        self._lines = [line for line in self._lines if line not in old]
        self._say(f"event {self._events} {self._who(gpu)} {kind:#x} {data}")

    def xid(self, gpu: str | PciAddress, code: int) -> None:
        """Deliver a critical Xid."""
        self.event(gpu, XID, code)

    def remove(self, gpu: str | PciAddress) -> None:
        """Take a GPU out of the list; later indexes shift, handles that are left say "lost"."""
        self._say(f"gone {self._who(gpu)}")

    def add(self, gpu: str | PciAddress) -> None:
        """List a GPU (again)."""
        address = PciAddress.parse(str(gpu))
        self._lines.append(f"set {address} uuid {self._uuid(address)}")
        self._say(f"gpu {address}")

    def unload_driver(self) -> None:
        """Answer with DRIVER_NOT_LOADED until `load_driver`."""
        self._say("not-loaded")

    def load_driver(self) -> None:
        """Load the driver (anew): calls fail with DRIVER_NOT_LOADED until nvmlInit."""
        self._generation += 1
        self._lines = [line for line in self._lines if line != "not-loaded"]
        self._say(f"generation {self._generation}")

    # --- what was called ----------------------------------------------------------------------

    def calls(self, gpu: str | PciAddress | None = None, name: str | None = None) -> list[Call]:
        """Every call so far, of all processes, in order; about one GPU or of one name."""
        wanted = None if gpu is None else PciAddress.parse(str(gpu))
        began: dict[tuple[int, int], int] = {}
        found: list[Call] = []
        try:
            text = Path(f"{self.script}.log").read_text()
        except FileNotFoundError:
            return []
        # A line that is being written now counts the next time.
        for line in text.rpartition("\n")[0].splitlines():
            what, at, pid, tid, address, call, code = line.split()
            thread = (int(pid), int(tid))
            if what == ">":
                began[thread] = len(found)
                device = None if address == _CALLS_ABOUT_NONE else PciAddress.parse(address)
                found.append(Call(call, device, *thread, int(at)))
            elif thread in began:
                place = began.pop(thread)
                call_begun = found[place]
                found[place] = Call(
                    call_begun.name,
                    call_begun.device,
                    *thread,
                    call_begun.began_ns,
                    int(at),
                    int(code),
                )
        return [
            call
            for call in found
            if (wanted is None or call.device == wanted) and name in (None, call.name)
        ]

    def count(self, gpu: str | PciAddress | None = None, name: str | None = None) -> int:
        """How many calls `calls` gives."""
        return len(self.calls(gpu, name))

    def wait_for(
        self,
        name: str,
        gpu: str | PciAddress | None = None,
        *,
        times: int = 1,
        timeout_s: float = 10.0,
    ) -> None:
        """Return once a call was made that often.

        Raises:
            TimeoutError: It was not.
        """
        until = time.monotonic() + timeout_s
        while (seen := self.count(gpu, name)) < times:
            if time.monotonic() > until:
                raise TimeoutError(f"{name} was called {seen} of {times} times in {timeout_s} s")
            time.sleep(0.01)

    # --- the script ---------------------------------------------------------------------------

    @staticmethod
    def _uuid(address: PciAddress) -> str:
        place = f"{address.domain:08x}{address.bus:02x}{address.device:02x}"
        return f"GPU-{place[:8]}-0000-4000-8000-{place[8:]:0>12}"

    @staticmethod
    def _who(gpu: str | PciAddress | None) -> str:
        return "*" if gpu is None else str(PciAddress.parse(str(gpu)))

    @staticmethod
    def _after(calls: int) -> str:
        return f" after {calls}" if calls else ""

    def _say(self, line: str) -> None:
        words = line.split()
        if words[0] == "set":  # the newest value alone, so that a long test stays a short script
            start = " ".join(words[:3]) + " "
            self._lines = [old for old in self._lines if not old.startswith(start)]
        self._lines.append(line)
        self._write()

    def _write(self) -> None:
        """Replace the script in one step, so that no call reads half of it."""
        fresh = self.script.with_suffix(".new")
        fresh.write_text("".join(f"{line}\n" for line in self._lines))
        fresh.replace(self.script)
