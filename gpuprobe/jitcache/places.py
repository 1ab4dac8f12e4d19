"""Whose caches, and where: this user's, another home's, a container's, a process's."""

from __future__ import annotations

import getpass
import os
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from gpuprobe.errors import InputUnreadableError
from gpuprobe.jitcache.base import Place, Where
from gpuprobe.jitcache.kinds import KINDS


def of(where: Where) -> list[Place]:
    """Every place where the kinds of cache say that theirs may lie."""
    return [place for kind in KINDS for place in kind.places(where)]


def of_this_user(env: Mapping[str, str] | None = None) -> list[Place]:
    """By this process's environment and home folder."""
    env = os.environ if env is None else env
    try:
        user = env.get("USER") or getpass.getuser()
    except (KeyError, OSError):
        user = ""
    home = env.get("HOME") or os.path.expanduser("~")  # noqa: PTH111 - does not raise
    return of(Where(env, Path(home), user))


def of_home(home: Path) -> list[Place]:
    """The defaults below another home folder; its owner's environment is not known."""
    return of(Where({}, home, home.name))


def of_root(root: Path) -> list[Place]:
    """The defaults of every home in a file system, such as a container's, mounted at `root`."""
    homes = [root / "root", *sorted(_folders(root / "home"))]
    found = [place for home in homes for place in of(Where({}, home, home.name, root / "tmp"))]
    found += of(Where({}, root / "root", "", root / "tmp"))
    return list(dict.fromkeys(found))


def of_process(pid: int, proc: Path = Path("/proc")) -> tuple[list[Place], Path | None]:
    """By the environment of a running process, and the root of its file system if it is another.

    Raises:
        InputUnreadableError: It is not there, or is another user's.
    """
    try:
        raw = (proc / str(pid) / "environ").read_bytes()
        root = proc / str(pid) / "root"
        same = os.path.samestat(root.stat(), Path("/").stat())
    except OSError as error:
        raise InputUnreadableError(
            f"process {pid}: {error.strerror or error}",
            hint="Run it as that process's user, or name the cache's folder.",
        ) from error
    pairs = (item.partition("=") for item in raw.decode("utf-8", "surrogateescape").split("\0"))
    env = {name: value for name, found, value in pairs if found}
    home = Path(env.get("HOME") or "/root")
    user = env.get("USER") or home.name
    places = of(Where(env, home, user))
    if same:
        return places, None
    inside = [Place(p.cache, root / str(p.path).lstrip("/"), p.by) for p in places]
    return inside, root


def _folders(path: Path) -> Iterator[Path]:
    try:
        yield from (found for found in path.iterdir() if found.is_dir() and not found.is_symlink())
    except OSError:
        return


def distinct(places: Iterable[Place]) -> list[Place]:
    """Leave out what is named twice, and what lies within another one."""
    found: list[tuple[str, Place]] = []
    for place in places:
        real = os.path.realpath(place.path)
        if real not in [known for known, _ in found]:
            found.append((real, place))
    reals = [real for real, _ in found]
    return [
        place
        for real, place in found
        if not any(other != real and real.startswith(other.rstrip("/") + "/") for other in reals)
        or not os.path.isdir(real)  # noqa: PTH112 - a name that may not be readable
    ]
