"""What a kind of cache is, and what can be wrong with one of its files."""

from __future__ import annotations

import errno
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Protocol

from gpuprobe.jitcache.tree import Folder, NotPlainError


class Harm(StrEnum):
    """What the damage does to the program that meets it. The values are stable."""

    FATAL = "fatal"
    """It ends: an exception, SIGSEGV or SIGBUS, each time anew."""
    HANGS = "hangs"
    """It waits for ever."""
    REBUILT = "rebuilt"
    """It says so or not, builds the entry anew and goes on."""
    NONE = "none"
    """Nothing reads the file any more, or nothing needs it."""
    UNKNOWN = "unknown"
    """Nobody tried, or the format is not public."""


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong.

    Attributes:
        name: The file in the folder that was looked at, or "" for the folder itself.
        why: What is wrong, in a few words.
        harm: What it does.
        bad: False for what is only worth a look: it is never moved.
        alone: Moving this one file is enough; else the whole entry goes.
        lock: It is a lock file: bad only if nobody alive holds it.
        kernel: The kernel or shape that the file belongs to, where it says so, or "".
        expected: Bytes that the file should have, or None where it does not say.
        unreadable: It could not be looked at; `why` says the reason.
    """

    name: str
    why: str
    harm: Harm
    bad: bool = True
    alone: bool = False
    lock: bool = False
    kernel: str = ""
    expected: int | None = None
    unreadable: bool = False


def guarded(name: str, look: Callable[[], Problem | None]) -> Problem | None:
    """What a look at one file finds; a file that cannot be looked at hides no other one."""
    try:
        return look()
    except FileNotFoundError:
        return None  # gone in between: whoever took it knows why
    except NotPlainError:
        return Problem(name, "is no plain file and was not opened", Harm.UNKNOWN, bad=False)
    except OSError as error:
        if error.errno == errno.ELOOP:
            return Problem(name, "is a link and was not followed", Harm.UNKNOWN, bad=False)
        why = error.strerror or str(error)
        return Problem(name, why, Harm.UNKNOWN, bad=False, unreadable=True)


@dataclass(frozen=True, slots=True)
class Where:
    """Whose caches are looked for.

    Attributes:
        env: Environment variables that move caches; empty where they are not known.
        home: Home folder, as seen in that file system.
        user: User's name, for `/tmp/torchinductor_<user>`; "" where it is not known.
        temp: Folder for temporary files, as seen in that file system.
    """

    env: Mapping[str, str]
    home: Path
    user: str = ""
    temp: Path = Path("/tmp")  # noqa: S108 - looked into, never written

    def named(self, variable: str) -> Path | None:
        """The folder that an environment variable names, `~` resolved; None where it is unset."""
        value = self.env.get(variable, "")
        if value == "~" or value.startswith("~/"):
            return self.home / value[2:]
        return Path(value) if value.startswith("/") else None


@dataclass(frozen=True, slots=True)
class Place:
    """Where a cache may lie.

    Attributes:
        cache: Kind of cache by name.
        path: Its folder.
        by: What says so: an environment variable's name, `default`, or `argument`.
    """

    cache: str
    path: Path
    by: str = "default"


class Kind(Protocol):
    """One kind of cache.

    Attributes:
        cache: Its name: `triton`, `inductor` and so on.
    """

    cache: str

    def places(self, where: Where) -> Iterable[Place]:
        """Where it lies by default and where environment variables put it."""

    def owns(self, folder: Folder) -> bool:
        """Whether the whole folder is one entry."""

    def files(self, folder: Folder) -> Iterable[str]:
        """Names of the files in this folder that are entries, or parts of one, by themselves."""

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """What is wrong with the entry: the folder, or the file `name` in it."""

    def entry(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """What is moved, as path below the cache, for an entry or a file found at `parts`."""


class FolderKind:
    """A cache whose entries are folders."""

    def files(self, folder: Folder) -> Iterable[str]:
        """See `Kind.files`."""
        return ()

    def entry(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """See `Kind.entry`."""
        return parts


class FileKind:
    """A cache whose entries are files."""

    def owns(self, folder: Folder) -> bool:
        """See `Kind.owns`."""
        return False

    def entry(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """See `Kind.entry`."""
        return parts


def chosen(where: Where, cache: str, variable: str, default: str) -> list[Place]:
    """The folder that a variable names, else the default below the home folder."""
    named = where.named(variable)
    if named is not None:
        return [Place(cache, named, variable)]
    return [Place(cache, where.home / default)]
