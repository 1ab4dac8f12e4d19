"""A rename that never takes the place of something else."""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os

_NOREPLACE = 1
"""RENAME_NOREPLACE of linux/fs.h."""


def move(from_fd: int, name: str, to_fd: int, new_name: str) -> None:
    """Rename, and never onto something that is there.

    Raises:
        FileExistsError: There is something of that name.
        OSError: Another file system, no permission, and so on.
    """
    try:
        call = ctypes.CDLL(None, use_errno=True).renameat2
    except (OSError, AttributeError):
        call = None
    if call is not None:
        old, new = os.fsencode(name), os.fsencode(new_name)
        if call(from_fd, old, to_fd, new, _NOREPLACE) == 0:
            return
        code = ctypes.get_errno()
        if code not in (errno.ENOSYS, errno.EINVAL):
            raise OSError(code, os.strerror(code), name)
    with contextlib.suppress(FileNotFoundError):
        os.stat(new_name, dir_fd=to_fd, follow_symlinks=False)
        raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), new_name)
    os.rename(name, new_name, src_dir_fd=from_fd, dst_dir_fd=to_fd)
