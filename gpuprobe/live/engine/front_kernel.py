"""The kernel log as the front opens it for the probe. Standard library alone."""

from __future__ import annotations

import os


def kernel_log() -> int:
    """The kernel's buffer, placed at its end before the engine starts, or -1.

    The probe needs a moment to start, and a program can fault at once: what the kernel says until
    then waits behind this place.
    """
    try:
        found = os.open("/dev/kmsg", os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError:
        return -1
    try:
        os.lseek(found, 0, os.SEEK_END)
    except OSError:
        os.close(found)
        return -1
    return found
