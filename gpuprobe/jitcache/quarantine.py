"""Move a damaged entry aside, beside its cache, and back again. Nothing is deleted.

An entry is renamed within one file system, so it is either there or aside, never half; a program
that has its files open keeps them. Right before it the entry is looked at once more, through the
same open folders that it is then moved out of, so nothing put in its place in between can lead
the move elsewhere.
"""

from __future__ import annotations

import contextlib
import errno
import json
import os
import re
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from gpuprobe.errors import GpuprobeError, InputUnreadableError, UsageError
from gpuprobe.jitcache.look import QUARANTINE
from gpuprobe.jitcache.rename import move
from gpuprobe.jitcache.report import CacheFinding
from gpuprobe.jitcache.settle import still_bad
from gpuprobe.jitcache.tree import FOLDER_FLAGS, Root, open_below

REASON = "gpuprobe-reason.json"
SCHEMA_ID = "gpuprobe.quarantine/1"


@dataclass(frozen=True, slots=True)
class Moved:
    """One entry that was moved, or could not be.

    Attributes:
        entry: Where it was.
        to: The folder in the quarantine that holds it and the reason; None where it was not moved.
        why: What is wrong with it.
        problem: Why it could not be moved, or "".
        skipped: It is no longer as it was: healed, rebuilt or gone, so nothing had to be done.
    """

    entry: Path
    to: Path | None
    why: str
    problem: str = ""
    skipped: bool = False


def repair(
    findings: Iterable[CacheFinding], *, dry_run: bool = False, inside: Path | None = None
) -> list[Moved]:
    """Move the entry of each bad file aside.

    Args:
        findings: What a scan called bad.
        dry_run: Only say what would be moved.
        inside: Root of the foreign file system that the caches lie in.
    """
    groups: dict[tuple[Path, tuple[str, ...]], list[CacheFinding]] = {}
    for found in findings:
        groups.setdefault((found.root, found.below), []).append(found)
    moved = []
    for (path, below), group in groups.items():
        why = "; ".join(f"{item.name or item.key} {item.why}" for item in group)
        entry = path.joinpath(*below)
        try:
            root = Root(path, inside=inside)
        except InputUnreadableError as error:
            moved.append(Moved(entry, None, why, problem=str(error)))
            continue
        try:
            moved.append(_aside(root, below, group, why, dry_run))
        except OSError as error:
            said = error.strerror or str(error)
            moved.append(Moved(entry, None, why, problem=said))
        finally:
            root.close()
    return moved


def _aside(
    root: Root, below: tuple[str, ...], group: Sequence[CacheFinding], why: str, dry_run: bool
) -> Moved:
    entry = root.path.joinpath(*below)
    if not below:
        return Moved(entry, None, why, problem="it is the cache's own folder")
    parent = open_below(root.fd, below[:-1])
    try:
        before = os.stat(below[-1], dir_fd=parent, follow_symlinks=False)
        if not any(still_bad(item, root) for item in group):
            return Moved(entry, None, why, skipped=True)
        if dry_run:
            return Moved(entry, _quarantine_of(root.path), why)
        return _rename(root, parent, below, before, group, why)
    except FileNotFoundError:
        return Moved(entry, None, why, skipped=True)
    finally:
        os.close(parent)


def _rename(
    root: Root,
    parent: int,
    below: tuple[str, ...],
    before: os.stat_result,
    group: Sequence[CacheFinding],
    why: str,
) -> Moved:
    entry, name = root.path.joinpath(*below), below[-1]
    for shelf, top in _shelves(root):
        box_name = _box_name(name)
        try:
            os.mkdir(box_name, 0o700, dir_fd=shelf)
            box = os.open(box_name, FOLDER_FLAGS, dir_fd=shelf)
        except OSError:
            os.close(shelf)
            raise
        try:
            _write_reason(box, root, below, group)
            move(parent, name, box, name)
            if not os.path.samestat(before, os.stat(name, dir_fd=box, follow_symlinks=False)):
                # Somebody built it anew between the last look and the move.
                with contextlib.suppress(OSError):
                    move(box, name, parent, name)
                    _drop(shelf, box_name, box)
                return Moved(entry, None, why, skipped=True)
            os.fsync(box)
            os.fsync(parent)
            return Moved(entry, top / box_name, why)
        except OSError as error:
            _drop(shelf, box_name, box)
            if error.errno != errno.EXDEV:
                raise
        finally:
            os.close(box)
            os.close(shelf)
    raise OSError(errno.EXDEV, "no folder of the same file system could be made for it")


def _shelves(root: Root) -> Iterable[tuple[int, Path]]:
    """Quarantine folders to try: beside the cache, and in it where beside is another disk."""
    last: OSError | None = None
    found = False
    for fd, path in ((os.open("..", FOLDER_FLAGS, dir_fd=root.fd), None), (os.dup(root.fd), "")):
        top = _quarantine_of(root.path) if path is None else root.path / QUARANTINE
        try:
            yield _shelf(fd, top.name), top
            found = True
        except OSError as error:
            last = error
        finally:
            os.close(fd)
    if not found and last is not None:
        raise last


def _shelf(fd: int, name: str) -> int:
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=fd)
    shelf = os.open(name, FOLDER_FLAGS, dir_fd=fd)
    now = os.fstat(shelf)
    if now.st_uid not in (os.geteuid(), os.fstat(fd).st_uid):
        os.close(shelf)
        raise PermissionError(errno.EPERM, f"{name} belongs to somebody else")
    return shelf


def _quarantine_of(cache: Path) -> Path:
    """Beside the folder itself, not beside a link to it."""
    real = Path(os.path.realpath(cache))
    return real.parent / f"{real.name or 'cache'}{QUARANTINE}"


def _box_name(name: str) -> str:
    safe = re.sub(r"[^\w.-]", "_", name, flags=re.ASCII)[:60]
    at = time.strftime("%Y%m%dT%H%M%SZ", time.gmtime())
    return f"{at}-{os.getpid()}-{time.monotonic_ns() % 10**9}-{safe}"


def _write_reason(
    box: int, root: Root, below: tuple[str, ...], group: Sequence[CacheFinding]
) -> None:
    reason = {
        "schema": SCHEMA_ID,
        "cache": str(root.path.absolute()),
        "entry": list(below),
        "moved_at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "bad": [
            {"file": item.name, "cache": item.cache, "why": item.why, "harm": item.harm.value}
            for item in group
        ],
    }
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
    fd = os.open(REASON, flags, 0o600, dir_fd=box)
    try:
        os.write(fd, json.dumps(reason, indent=2).encode("ascii") + b"\n")
        os.fsync(fd)
    finally:
        os.close(fd)


def _drop(shelf: int, box_name: str, box: int) -> None:
    """Remove a folder of our own that nothing was moved into."""
    with contextlib.suppress(OSError):
        os.unlink(REASON, dir_fd=box)
        os.rmdir(box_name, dir_fd=shelf)


def restore(box_path: Path) -> Path:
    """Put back what `repair` moved aside.

    Args:
        box_path: The folder in the quarantine.

    Returns:
        Where the entry is now.

    Raises:
        UsageError: The folder is none that `repair` made.
        GpuprobeError: The entry was built anew in the meantime, or it may not be moved.
    """
    try:
        box = os.open(box_path, FOLDER_FLAGS)
    except OSError as error:
        raise UsageError(f"{box_path}: {error.strerror or error}", hint=_HINT) from error
    try:
        cache, below = _read_reason(box, box_path)
        entry = cache.joinpath(*below)
        root = Root(cache)
        try:
            parent = open_below(root.fd, below[:-1])
            try:
                move(box, below[-1], parent, below[-1])
                os.fsync(parent)
            finally:
                os.close(parent)
        finally:
            root.close()
        with contextlib.suppress(OSError):
            os.unlink(REASON, dir_fd=box)
            box_path.rmdir()
            box_path.parent.rmdir()  # only when it was the last one
        return entry
    except FileExistsError as error:
        raise GpuprobeError(
            f"{entry} is there again", hint="It was built anew, and what was aside stays there."
        ) from error
    except OSError as error:
        raise GpuprobeError(f"{entry}: {error.strerror or error}") from error
    finally:
        os.close(box)


_HINT = "Give a folder of a quarantine, as `gpuprobe jitcache repair` printed it."


def _read_reason(box: int, box_path: Path) -> tuple[Path, tuple[str, ...]]:
    try:
        fd = os.open(REASON, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK, dir_fd=box)
        try:
            found: Any = json.loads(os.read(fd, 1 << 20))
        finally:
            os.close(fd)
        if found["schema"] != SCHEMA_ID:
            raise ValueError("unknown schema")
        cache, below = found["cache"], found["entry"]
        if not (isinstance(cache, str) and isinstance(below, list) and below):
            raise ValueError("no entry")
        parts = tuple(str(part) for part in below)
        if any(part in ("", ".", "..") or "/" in part or "\0" in part for part in parts):
            raise ValueError("no name")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{box_path} holds nothing to restore", hint=_HINT) from error
    return Path(cache), parts
