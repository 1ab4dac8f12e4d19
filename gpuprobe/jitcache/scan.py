"""Walk through caches with several threads, in bounded memory, and settle what was found."""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from gpuprobe.errors import InputUnreadableError
from gpuprobe.jitcache.base import Place
from gpuprobe.jitcache.look import Seen, look
from gpuprobe.jitcache.report import ScanReport, Unreadable
from gpuprobe.jitcache.settle import SETTLE_S, settle
from gpuprobe.jitcache.tree import MAX_DEPTH, Folder, Root

THREADS = 4
"""They wait for the disk side by side; a cache in memory gains nothing from more."""

BATCH = 64
"""Folders of one parent that a thread takes at a time."""

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How to scan.

    Attributes:
        inside: Root of a foreign file system that all places lie in.
        deadline_s: Seconds after which the rest is left out; None waits.
        settle_s: Seconds that a damaged file must be untouched to be called bad.
        unclean_at: When the machine last ended uncleanly, seconds since the epoch, or None.
        progress: Called now and then with the number of entries looked at.
        present: Compute capabilities of the GPUs here, as 90; empty where they are not known.
        threads: How many look at once.
    """

    inside: Path | None = None
    deadline_s: float | None = None
    settle_s: float = SETTLE_S
    unclean_at: float | None = None
    progress: Callable[[int], None] | None = None
    present: frozenset[int] = frozenset()
    threads: int = THREADS


@dataclass(slots=True)
class _Tasks:
    """What is still to be looked at: a folder, and names of folders in it, or None for itself."""

    waiting: list[tuple[Root, Parts, Sequence[str] | None]] = field(default_factory=list)

    def add(self, root: Root, parts: Parts, names: Sequence[str]) -> None:
        for start in range(0, len(names), BATCH):
            self.waiting.append((root, parts, names[start : start + BATCH]))


def scan_places(places: Sequence[Place], options: ScanOptions | None = None) -> ScanReport:
    """Look at every entry of every cache.

    Args:
        places: Where caches may lie; those that do not exist are listed as absent.
        options: How to scan.
    """
    options = options or ScanOptions()
    began = time.monotonic()
    until = None if options.deadline_s is None else began + options.deadline_s
    total = Seen()
    roots, absent = _open(places, options, total)
    tasks = _Tasks([(root, start, None) for root, start, _ in roots])
    try:
        complete = _walk(tasks, total, options, until)
        by_path = {root.path: root for root, _, _ in roots}
        settled = settle(total.findings, by_path, settle_s=options.settle_s, until=until)
    finally:
        for root, _, _ in roots:
            root.close()
    architectures = tuple(sorted({a for root, _, _ in roots for a in root.architectures}))
    return ScanReport(
        places=tuple(place for _, _, place in roots),
        absent=tuple(absent),
        checked=total.checked,
        bad=tuple(sorted(settled.bad, key=lambda item: str(item.path))),
        suspicious=tuple(
            sorted([*total.suspicious, *settled.suspicious], key=lambda item: str(item.path))
        ),
        unreadable=tuple(total.unreadable),
        notes=tuple(_notes(total, settled.busy, complete, architectures, options)),
        architectures=architectures,
        complete=complete,
        took_s=time.monotonic() - began,
    )


def _open(
    places: Sequence[Place], options: ScanOptions, total: Seen
) -> tuple[list[tuple[Root, Parts, Place]], list[Place]]:
    roots: list[tuple[Root, Parts, Place]] = []
    absent: list[Place] = []
    for place in places:
        try:
            if not place.path.is_dir():
                absent.append(place)
                continue
            root = Root(place.path, cache=place.cache, inside=options.inside)
            if place.path.name and _is_entry(root):
                root.close()
                above = Root(place.path.parent, cache=place.cache, inside=options.inside)
                roots.append((above, (place.path.name,), place))
            else:
                roots.append((root, (), place))
        except (OSError, InputUnreadableError) as error:
            total.unreadable.append(Unreadable(place.path, _why(error)))
    return roots, absent


def _is_entry(root: Root) -> bool:
    """Whether the folder given is a single entry: what is moved then lies in the one above."""
    from gpuprobe.jitcache.kinds import KINDS

    folder = Folder(root, (), root.fd)
    return any(kind.owns(folder) for kind in KINDS)


def _why(error: OSError | InputUnreadableError) -> str:
    if isinstance(error, OSError):
        return error.strerror or str(error)
    cause = error.__cause__
    if isinstance(cause, OSError):
        if cause.errno in (errno.ELOOP, errno.ENOTDIR):
            return "there is a link on the way, which is not followed"
        return cause.strerror or str(cause)
    return str(error)


def _walk(tasks: _Tasks, total: Seen, options: ScanOptions, until: float | None) -> bool:
    """Work off the tasks; False where the time ran out."""
    pending: set[Future[list[tuple[Root, Parts, Seen]]]] = set()
    told = 0.0
    with ThreadPoolExecutor(options.threads, thread_name_prefix="jitcache") as pool:
        while tasks.waiting or pending:
            if until is not None and time.monotonic() > until:
                for future in pending:
                    future.cancel()
                return False
            while tasks.waiting and len(pending) < 3 * options.threads:
                pending.add(pool.submit(_batch, *tasks.waiting.pop(), options.unclean_at))
            done, pending = wait(pending, timeout=1.0, return_when=FIRST_COMPLETED)
            for future in done:
                for root, parts, seen in future.result():
                    _add(total, seen)
                    tasks.add(root, parts, seen.folders)
            if options.progress is not None and time.monotonic() - told > 0.1:
                told = time.monotonic()
                options.progress(total.checked)
    return True


def _batch(
    root: Root, parts: Parts, names: Sequence[str] | None, unclean_at: float | None
) -> list[tuple[Root, Parts, Seen]]:
    """Look at the folder itself, or at the named ones in it."""
    found: list[tuple[Root, Parts, Seen]] = []
    if len(parts) >= MAX_DEPTH:
        seen = Seen(unreadable=[_unseen(root, parts, "lies too deep for a cache")])
        return [(root, parts, seen)]
    try:
        with root.folder(parts) as folder:
            if names is None:
                return [(root, parts, look(folder, unclean_at=unclean_at))]
            for name in names:
                found.append((root, (*parts, name), _one(folder, name, unclean_at)))
    except FileNotFoundError:
        pass
    except OSError as error:
        seen = Seen(unreadable=[_unseen(root, parts, error.strerror or str(error))])
        found.append((root, parts, seen))
    return found


def _one(parent: Folder, name: str, unclean_at: float | None) -> Seen:
    try:
        with parent.below(name) as folder:
            return look(folder, unclean_at=unclean_at)
    except FileNotFoundError:
        return Seen()
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENOTDIR):
            return Seen(links=1)  # a link took its place in between
        why = error.strerror or str(error)
        return Seen(unreadable=[_unseen(parent.root, (*parent.parts, name), why)])


def _unseen(root: Root, parts: Parts, why: str) -> Unreadable:
    return Unreadable(Path(os.path.join(root.path, *parts)), why)  # noqa: PTH118


def _add(total: Seen, seen: Seen) -> None:
    total.checked += seen.checked
    total.links += seen.links
    total.findings.extend(seen.findings)
    total.suspicious.extend(seen.suspicious)
    total.unreadable.extend(seen.unreadable)


def _notes(
    total: Seen,
    busy: int,
    complete: bool,
    architectures: Sequence[int],
    options: ScanOptions,
) -> Iterator[str]:
    if not complete:
        yield f"the time of {options.deadline_s:g} s ran out; the rest was not looked at"
    if busy:
        yield f"{busy} files were being written and are left out"
    if total.links:
        yield f"{total.links} links were not followed"
    strange = [a for a in architectures if options.present and a not in options.present]
    if strange:
        built = ", ".join(f"sm_{number}" for number in strange)
        here = ", ".join(f"sm_{number}" for number in sorted(options.present))
        yield f"holds kernels for {built} too; the GPUs here are {here}"
