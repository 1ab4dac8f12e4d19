"""Walk through caches with several threads, in bounded memory, and settle what was found."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass, field
from pathlib import Path

from gpuprobe.errors import InputUnreadableError
from gpuprobe.jitcache.base import Place
from gpuprobe.jitcache.batch import Batch, Looked, Parts
from gpuprobe.jitcache.look import Seen
from gpuprobe.jitcache.report import ScanReport, Unreadable
from gpuprobe.jitcache.settle import SETTLE_S, settle
from gpuprobe.jitcache.tree import Folder, Root
from gpuprobe.jitcache.workers import Workers
from gpuprobe.sources.scanning.ahead import usable_cores

THREADS = 4
"""They wait for the disk side by side, and some of them for a process on another core."""

BATCH = 64
"""Folders of one parent that a thread takes at a time."""

QUEUED = 3
"""Batches for each thread, so that none waits for this one to hand out the next."""

PROGRESS_S = 0.1
"""Progress is told so often at most."""

MANY = 32
"""Batches from which on a process is worth its start of a tenth of a second."""


@dataclass(frozen=True, slots=True)
class ScanOptions:
    """How to scan.

    Attributes:
        inside: Root of a foreign file system that all places lie in.
        deadline_s: Seconds after which the rest is left out; None waits.
        settle_s: Seconds that a damaged file must be untouched to be called bad.
        unclean_at: When the machine last ended uncleanly, seconds since the epoch, or None.
        progress: Called now and then with the numbers of folders looked at and known so far.
        present: Compute capabilities of the GPUs here, as 90; empty where they are not known.
        threads: How many look at once.
        cores: How many of them may compute at once: each beyond one is a process.
    """

    inside: Path | None = None
    deadline_s: float | None = None
    settle_s: float = SETTLE_S
    unclean_at: float | None = None
    progress: Callable[[int, int], None] | None = None
    present: frozenset[int] = frozenset()
    threads: int = THREADS
    cores: int = field(default_factory=usable_cores)


@dataclass(slots=True)
class _Tasks:
    """What is still to be looked at, and how many folders are known and were looked at."""

    waiting: list[Batch]
    known: int = 0
    done: int = 0

    def add(self, root: Root, parts: Parts, names: Sequence[str]) -> None:
        self.known += len(names)
        for start in range(0, len(names), BATCH):
            self.waiting.append(Batch(root, parts, names[start : start + BATCH]))


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
    tasks = _Tasks([Batch(root, start, None) for root, start, _ in roots])
    try:
        with Workers([root for root, _, _ in roots]) as workers:
            complete = _walk(tasks, total, options, until, workers)
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


def _walk(
    tasks: _Tasks, total: Seen, options: ScanOptions, until: float | None, workers: Workers
) -> bool:
    """Work off the tasks; False where the time ran out."""
    pending: dict[Future[Looked], Batch] = {}
    told = 0.0
    with ThreadPoolExecutor(options.threads, thread_name_prefix="jitcache") as pool:
        while tasks.waiting or pending:
            if until is not None and time.monotonic() > until:
                for future in pending:
                    future.cancel()
                workers.end_now()
                return False
            if len(tasks.waiting) >= MANY:
                workers.start(min(options.cores, options.threads) - 1)
            while tasks.waiting and len(pending) < QUEUED * options.threads:
                batch = tasks.waiting.pop()
                pending[pool.submit(workers.look_at, batch, options.unclean_at)] = batch
            for future in wait(pending, timeout=1.0, return_when=FIRST_COMPLETED).done:
                batch = pending.pop(future)
                looked = future.result()
                total.add(looked.seen)
                tasks.done += len(batch.names or ())
                for parts, names in looked.folders:
                    tasks.add(batch.root, parts, names)
            if options.progress is not None and time.monotonic() - told > PROGRESS_S:
                told = time.monotonic()
                options.progress(tasks.done, tasks.known)
    return True


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
