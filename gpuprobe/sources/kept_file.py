"""A small file of procfs or sysfs that is read again and again, kept open.

Opening costs several times as much as reading, and a file that is read every second or two is most
of what watching costs.
"""

from __future__ import annotations

import os


class KeptFile:
    """One file, opened when it is first read and again when what was open is no longer it.

    Args:
        path: Where it is; it need not be there.
    """

    __slots__ = ("_descriptor", "_path")

    def __init__(self, path: str) -> None:
        self._path = path
        self._descriptor = -1

    def read(self, size: int) -> bytes:
        """The first bytes of it as it stands now; nothing where it cannot be read."""
        try:
            if self._descriptor >= 0 and os.fstat(self._descriptor).st_nlink:
                return os.pread(self._descriptor, size, 0)
        except OSError:  # what it belonged to is gone; something new may have its name
            pass
        self.close()
        try:
            self._descriptor = os.open(self._path, os.O_RDONLY | os.O_CLOEXEC)
            return os.pread(self._descriptor, size, 0)
        except OSError:
            return b""

    def close(self) -> None:
        """Give the descriptor back; the next reading opens it again."""
        descriptor, self._descriptor = self._descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)

    def __del__(self) -> None:
        self.close()
