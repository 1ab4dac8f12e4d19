"""When this machine last ended without a shutdown, as far as its journal tells cheaply."""

from __future__ import annotations

import re
import subprocess

from gpuprobe.reading import Unavailable
from gpuprobe.sources.files import machine

_IN_ORDER = re.compile(
    r"Journal stopped|systemd-shutdown|Reached target .*(?:Reboot|Power[- ]?Off|Halt|Shutdown"
    r"|reboot|poweroff|halt|shutdown|kexec)|Shutting down\.",
)


def last_unclean_end() -> float | None:
    """The end of the boot before, seconds since the epoch, where it holds no shutdown.

    None where it ended in order, and where the journal cannot tell. Takes one or two calls of
    `journalctl`, each over the end of one boot only.
    """
    boots = machine.list_boots()
    if isinstance(boots, Unavailable) or len(boots.value) < 2:
        return None
    before = boots.value[-2]
    command = ["journalctl", "-b", before.boot_id, "-n", "80", "-o", "cat", "-q", "--no-pager"]
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, no shell, arguments of our own
            command,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=3.0,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    text = done.stdout.decode("utf-8", "replace")
    if done.returncode or not text or _IN_ORDER.search(text) or before.last is None:
        return None
    return before.last.timestamp()
