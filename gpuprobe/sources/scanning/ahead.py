"""Work on what comes next, done by other cores while this one deals with what came before."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")

WORKERS = 2
"""Threads at most beside the caller's, which has to keep up with them alone."""

DEPTH = 4
"""Items ahead for each of them."""


def usable_cores() -> int:
    """Cores that this process may use, at least one."""
    if hasattr(os, "sched_getaffinity"):  # Linux
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def work_ahead(
    items: Iterable[Item], task: Callable[[Item], Callable[[], Result]]
) -> Iterator[tuple[Item, Callable[[], Result]]]:
    """Each item, in order, with a call that waits for what its work gave.

    Args:
        items: Taken a few ahead of what is given out. An error in them comes as soon as it is met.
        task: Called in this thread for each item; what comes back is called in another. Only work
            that leaves the interpreter to others gains by it: searches, arrays.
    """
    # Here, since it takes longer to import than a small input to read.
    from concurrent.futures import Future, ThreadPoolExecutor

    workers = max(1, min(WORKERS, usable_cores() - 1))
    pending: deque[tuple[Item, Future[Result]]] = deque()
    with ThreadPoolExecutor(workers, thread_name_prefix="gpuprobe-search") as pool:
        try:
            for item in items:
                pending.append((item, pool.submit(task(item))))
                if len(pending) > workers * DEPTH:
                    first, future = pending.popleft()
                    yield first, future.result
            while pending:
                first, future = pending.popleft()
                yield first, future.result
        finally:
            for _, future in pending:
                future.cancel()
