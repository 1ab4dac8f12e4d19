"""Looking into a cache that may change, or mean harm, while it is looked at.

Everything below the cache's folder is opened relative to an open folder and never through a link,
so nothing outside can be reached, whatever is put in its place in between. Only plain files are
opened; a FIFO, a socket or a device is not.
"""

from __future__ import annotations

import os
import stat
from functools import cached_property
from pathlib import Path
from typing import Self

from gpuprobe.errors import InputUnreadableError

FOLDER_FLAGS = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
FILE_FLAGS = os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOCTTY

MAX_DEPTH = 32
"""Folders in folders; no cache is deeper than about ten."""


class NotPlainError(OSError):
    """What should be a plain file is something else."""


class Root:
    """A cache's folder, held open while it is looked at.

    `architectures` gathers the compute capabilities of the kernels met in it.

    Args:
        path: The folder. Links in the path itself are the user's own and are followed, unless it
            lies in a foreign file system.
        cache: Kind of cache that is expected here, by name, or "".
        inside: Root of that file system (a container's): no link at all is followed below it.

    Raises:
        InputUnreadableError: There is no such folder, or it may not be opened.
    """

    def __init__(self, path: Path, *, cache: str = "", inside: Path | None = None) -> None:
        self.path = path
        self.cache = cache
        self.architectures: set[int] = set()
        try:
            if inside is None:
                self.fd = os.open(path, FOLDER_FLAGS & ~os.O_NOFOLLOW)
            else:
                top = os.open(inside, FOLDER_FLAGS & ~os.O_NOFOLLOW)
                try:
                    self.fd = open_below(top, path.relative_to(inside).parts)
                finally:
                    os.close(top)
        except OSError as error:
            raise InputUnreadableError(f"{path}: {error.strerror or error}") from error

    @classmethod
    def of_fd(cls, fd: int, path: Path, cache: str) -> Self:
        """A cache whose folder is open already."""
        root = cls.__new__(cls)
        root.path, root.cache, root.architectures, root.fd = path, cache, set(), fd
        return root

    def close(self) -> None:
        """Let go of the folder."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def folder(self, parts: tuple[str, ...]) -> Folder:
        """Open the folder at `parts` below the cache, to be left with `with`.

        Raises:
            OSError: It is not there, is no folder, or may not be read.
        """
        return Folder(self, parts, open_below(self.fd, parts))


def open_below(fd: int, parts: tuple[str, ...]) -> int:
    """Open a folder below an open one, step by step and through no link.

    Raises:
        OSError: One of the steps is not there, is a link, or may not be read.
    """
    here = fd
    for part in parts:
        try:
            if part in ("", ".", "..") or "/" in part:
                raise NotPlainError(f"{part!r} is no name")
            below = os.open(part, FOLDER_FLAGS, dir_fd=here)
        finally:
            if here != fd:
                os.close(here)
        here = below
    return here if parts else os.dup(fd)


class Folder:
    """One open folder of a cache, with the names in it as they were when first asked for.

    Leaving it as a context manager closes it.
    """

    def __init__(self, root: Root, parts: tuple[str, ...], fd: int) -> None:
        self.root = root
        self.parts = parts
        self.fd = fd

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    @cached_property
    def items(self) -> dict[str, os.DirEntry[str]]:
        """Names in it, listed once and only when asked for: a cache may hold 100,000 folders."""
        with os.scandir(self.fd) as entries:
            return {entry.name: entry for entry in entries}

    @property
    def name(self) -> str:
        """The folder's own name."""
        return self.parts[-1] if self.parts else self.root.path.name

    def path_has(self, word: str) -> bool:
        """Whether a folder of this name lies on the way here, above the cache too."""
        return word in self.parts or word in self.root.path.parts

    def stat(self, name: str) -> os.stat_result | None:
        """The file as it is now, links not followed; None where it is gone."""
        try:
            return os.stat(name, dir_fd=self.fd, follow_symlinks=False)
        except OSError:
            return None

    def size(self, name: str) -> int | None:
        """Bytes of a plain file; None for what is gone or is no plain file."""
        found = self.stat(name)
        return found.st_size if found is not None and stat.S_ISREG(found.st_mode) else None

    def below(self, name: str) -> Folder:
        """Open a folder in this one, to be left with `with`.

        Raises:
            OSError: It is gone, is no folder, or may not be read.
        """
        return Folder(self.root, (*self.parts, name), open_below(self.fd, (name,)))

    def open(self, name: str) -> OpenFile:
        """Open a plain file, to be left with `with`.

        Raises:
            NotPlainError: It is a link, a FIFO, a device or the like.
            OSError: It may not be read or is gone.
        """
        # Its kind came with the listing; what took its place since is met by the flags, and below.
        item = self.items.get(name)
        if item is None or not item.is_file(follow_symlinks=False):
            before = os.stat(name, dir_fd=self.fd, follow_symlinks=False)
            if not stat.S_ISREG(before.st_mode):
                raise NotPlainError(f"{name}: not a plain file")
        fd = os.open(name, FILE_FLAGS, dir_fd=self.fd)
        try:
            now = os.fstat(fd)
            if not stat.S_ISREG(now.st_mode):
                raise NotPlainError(f"{name}: not a plain file")
        except OSError:
            os.close(fd)
            raise
        return OpenFile(fd, now.st_size)


class OpenFile:
    """A plain file that is read by place, in pieces of bounded length.

    Leaving it as a context manager closes it.
    """

    def __init__(self, fd: int, size: int) -> None:
        self.fd = fd
        self.size = size

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        os.close(self.fd)

    def at(self, offset: int, length: int) -> bytes:
        """At most `length` bytes from `offset`; fewer where the file ends.

        Raises:
            OSError: The disk cannot read them.
        """
        length = min(length, self.size - offset)
        if offset < 0 or length <= 0:
            return b""
        found = os.pread(self.fd, length, offset)
        while len(found) < length:
            more = os.pread(self.fd, length - len(found), offset + len(found))
            if not more:
                break
            found += more
        return found
