"""The kernel's ring buffer, `/dev/kmsg`: what saved and live reading share.

Source: the kernel's Documentation/ABI/testing/dev-kmsg. One read gives one record. Reading needs
root or CAP_SYSLOG where `kernel.dmesg_restrict` is 1; most containers have no such file.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Callable, Iterator
from pathlib import Path

from gpuprobe.reading import Known, Reason, Unavailable

KMSG = Path("/dev/kmsg")

HINT = "Run it with sudo; in a container, give it /dev/kmsg or the host's log files."

_RECORD_BYTES = 16_384
"""More than a record can have; a read into less fails."""

_DEVICE = (1, 11)
"""What /dev/kmsg is on every Linux (Documentation/admin-guide/devices.txt)."""

_REFUSALS = 3
"""Errors in a row after which reading ends for now."""


def kmsg_access(path: Path = KMSG) -> Known[str] | Unavailable:
    """Whether the buffer may be read; looking changes nothing."""
    try:
        os.close(open_kmsg(path))
    except FileNotFoundError:
        return Unavailable(Reason.NOT_THERE, f"no {path} here", HINT)
    except OSError as error:
        denied = error.errno in (errno.EPERM, errno.EACCES)
        reason = Reason.NOT_PERMITTED if denied else Reason.FAILED
        return Unavailable(reason, f"{path}: {error.strerror}", HINT)
    return Known(str(path))


def open_kmsg(path: Path = KMSG) -> int:
    """A descriptor that never blocks, placed at the oldest record.

    Raises:
        OSError: It is not there, may not be read, or is another device: containers link it to
            /dev/null or /dev/console.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    found = os.fstat(descriptor)
    if (
        stat.S_ISCHR(found.st_mode)
        and (os.major(found.st_rdev), os.minor(found.st_rdev)) != _DEVICE
    ):
        os.close(descriptor)
        raise OSError(errno.ENODEV, "is another device here, not the kernel's buffer")
    return descriptor


def read_kmsg(
    descriptor: int, read: Callable[[int, int], bytes] = os.read
) -> Iterator[bytes | None]:
    """Records until there are no more for now; None where the kernel overwrote some unread."""
    refused = 0
    while refused < _REFUSALS:
        try:
            record = read(descriptor, _RECORD_BYTES)
        except BrokenPipeError:
            yield None  # the next read goes on with the oldest that is still there
            continue
        except BlockingIOError:
            return
        except OSError:
            refused += 1
            continue
        if not record:
            return
        refused = 0
        yield record
