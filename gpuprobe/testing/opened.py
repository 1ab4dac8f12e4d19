"""Which files of a folder were opened meanwhile: proof that a sleeping GPU was left alone."""

from __future__ import annotations

import ctypes
import os
import struct
from pathlib import Path
from types import TracebackType

_OPENED = 0x20
_NOT_BLOCKING = os.O_NONBLOCK | os.O_CLOEXEC
_HEAD = struct.Struct("iIII")


class FilesOpened:
    """Watches a folder with inotify: `with FilesOpened(folder) as opened: ...; opened.names()`.

    Files in folders below it are not seen; give each folder a watcher of its own.

    Args:
        folder: The folder itself or a link to it.

    Raises:
        OSError: The kernel gives no watch (too many, or no Linux).
    """

    def __init__(self, folder: Path) -> None:
        self._folder = Path(folder)
        self._names: set[str] = set()
        self._descriptor = -1

    def __enter__(self) -> FilesOpened:
        libc = ctypes.CDLL(None, use_errno=True)
        self._descriptor = libc.inotify_init1(_NOT_BLOCKING)
        path = os.fsencode(self._folder)
        if self._descriptor < 0 or libc.inotify_add_watch(self._descriptor, path, _OPENED) < 0:
            code = ctypes.get_errno()
            raise OSError(code, os.strerror(code), str(self._folder))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.names()
        os.close(self._descriptor)
        self._descriptor = -1

    def names(self) -> set[str]:
        """Names of the files opened so far, also after the `with`; listing is no opening."""
        while self._descriptor >= 0:
            try:
                data = os.read(self._descriptor, 65_536)
            except BlockingIOError:
                break
            while data:
                _, _, _, size = _HEAD.unpack_from(data)
                name = data[_HEAD.size : _HEAD.size + size].rstrip(b"\0")
                if name:
                    self._names.add(os.fsdecode(name))
                data = data[_HEAD.size + size :]
        return set(self._names)
