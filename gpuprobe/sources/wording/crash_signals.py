"""The signals that end processes, by number and by the words for them, and the event they give."""

from __future__ import annotations

from gpuprobe.events import ProcessCrashed
from gpuprobe.sources.record import Window

NUMBERS = {4: "SIGILL", 6: "SIGABRT", 7: "SIGBUS", 8: "SIGFPE", 9: "SIGKILL", 11: "SIGSEGV"}
"""Signals that a process does not survive, by their numbers on x86 and Arm."""

WORDS = {
    "segmentation fault": "SIGSEGV", "segmentation violation": "SIGSEGV", "segv": "SIGSEGV",
    "abort": "SIGABRT", "aborted": "SIGABRT",
    "illegal hardware instruction": "SIGILL", "illegal instruction": "SIGILL",
    "bus error": "SIGBUS", "floating point exception": "SIGFPE", "killed": "SIGKILL",
    "general protection": "SIGSEGV", "invalid opcode": "SIGILL", "divide error": "SIGFPE",
}  # fmt: skip
"""What strsignal(3), Go and the kernel call them, in lower case."""


def crashed(window: Window, signal: str, **more: object) -> ProcessCrashed:
    """The event of a process that a signal ended.

    Args:
        window: The line that says so.
        signal: Its name.
        more: `process`, `pid` and `library`, as far as the line names them. A line whose prefix
            names a program is about that program.
    """
    record = window.record
    process = str(more.get("process") or "")
    pid = more.get("pid")
    if not process and record.source and not record.kernel and record.source != "systemd":
        process = record.source
    return ProcessCrashed(
        **window.base(),
        signal=signal,
        process=process,
        pid=int(str(pid)) if pid else None,
        in_library=str(more.get("library") or ""),
    )
