"""Ask NVML once whether it still reaches some GPUs: a script of its own, run by its path.

`python -I -S ask.py ADDRESS…`, started by `gpuprobe.inside.driver` when a CUDA error was
raised in an engine. It needs neither pynvml nor this package, so it also runs where gpuprobe was
installed alone or lies in a folder of PYTHONPATH, and it is up in a few hundredths of a second.

It behaves as `gpuprobe.live.nvml_child` does: a call may never return and the process must not be
killed inside one, so it ignores SIGINT, SIGHUP and SIGTERM, and leaves between two calls when its
standard input has ended. A thread a GPU, so that one that hangs keeps no other from answering.

Its output: `> CALL ADDRESS TID` before a call, `< CALL ADDRESS CODE` after it; `-` for no address.
The calls: nvmlInit_v2, nvmlDeviceGetHandleByPciBusId_v2, nvmlDeviceGetPerformanceState. Nothing
is shut down: the process ends, and that makes no call to a GPU that may be dead.
"""

from __future__ import annotations

import ctypes
import os
import select
import signal
import sys
import threading

LIBRARY = "libnvidia-ml.so.1"


def leave() -> None:
    """End without a clean-up that could wait for a thread in a call."""
    os._exit(0)


def say(mark: str, call: str, address: str, value: int) -> None:
    """Write one line; a parent that is gone means that we leave."""
    try:
        os.write(1, f"{mark} {call} {address} {value}\n".encode())
    except OSError:
        leave()


def call(library: ctypes.CDLL, name: str, address: str, *arguments: object) -> int:
    """Make one call, unless the parent has let go of us."""
    if select.select([0], [], [], 0)[0]:
        leave()
    say(">", name, address, threading.get_native_id())
    code: int = getattr(library, name)(*arguments)
    say("<", name, address, code)
    return code


def ask(library: ctypes.CDLL, address: str) -> None:
    """Open one GPU and ask for its performance state, which a lost one cannot answer."""
    handle, state = ctypes.c_void_p(), ctypes.c_int()
    opened = call(
        library,
        "nvmlDeviceGetHandleByPciBusId_v2",
        address,
        ctypes.c_char_p(address.encode()),
        ctypes.byref(handle),
    )
    if opened == 0:
        call(library, "nvmlDeviceGetPerformanceState", address, handle, ctypes.byref(state))


def main() -> None:
    """Ask for each address of the command line."""
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    try:
        library = ctypes.CDLL(LIBRARY)
    except OSError:
        say("<", "library", "-", 12)
        leave()
    if call(library, "nvmlInit_v2", "-") == 0:
        threads = [threading.Thread(target=ask, args=(library, one)) for one in sys.argv[1:]]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    leave()


if __name__ == "__main__":
    main()
