"""Processes that look at a large cache beside this one: Python threads share one core."""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import replace
from queue import Empty, SimpleQueue
from typing import Any, Self

from gpuprobe.jitcache.batch import Batch, Looked, look_at
from gpuprobe.jitcache.tree import MAX_DEPTH, Root

MODULE = "gpuprobe.jitcache.worker"

_LEAVES_S = 5.0
"""A worker whose input ended leaves at once; one that a disk holds is not waited for longer."""


class Workers:
    """Looks at batches, in another process where one is free, else in this thread.

    Args:
        roots: The caches, open for as long as the workers are.
    """

    def __init__(self, roots: Sequence[Root]) -> None:
        self._numbers = {id(root): number for number, root in enumerate(roots)}
        self._roots = roots
        self._free: SimpleQueue[subprocess.Popen[bytes]] = SimpleQueue()
        self._all: list[subprocess.Popen[bytes]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._all:
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(OSError):
                    if pipe is not None:
                        pipe.close()
        for process in self._all:
            try:
                process.wait(_LEAVES_S)
            except subprocess.TimeoutExpired:
                process.kill()

    def start(self, number: int) -> None:
        """Start so many workers, once; where that fails, this process does all by itself."""
        if self._all or not sys.executable:
            return
        caches = [(root.fd, str(root.path), root.cache) for root in self._roots]
        argv = [sys.executable, "-I", "-m", MODULE, json.dumps(caches)]
        for _ in range(number):
            try:
                process = subprocess.Popen(  # noqa: S603 - this Python, our own module
                    argv,
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[root.fd for root in self._roots],
                    cwd="/",
                )
            except (OSError, ValueError):
                return
            self._all.append(process)
            self._free.put(process)

    def end_now(self) -> None:
        """Wait for no answer any more: what was asked is looked at here."""
        for process in self._all:
            process.kill()  # it only reads files

    def look_at(self, batch: Batch, unclean_at: float | None) -> Looked:
        """What the folders of a batch hold."""
        if batch.names is None or len(batch.parts) >= MAX_DEPTH:
            return look_at(batch, unclean_at)
        try:
            process = self._free.get_nowait()
        except Empty:
            return look_at(batch, unclean_at)
        looked = self._asked(process, batch, unclean_at)
        if looked is None:  # it has gone, and no other is started in its place
            return look_at(batch, unclean_at)
        self._free.put(process)
        return looked

    def _asked(
        self, process: subprocess.Popen[bytes], batch: Batch, unclean_at: float | None
    ) -> Looked | None:
        assert process.stdin is not None
        assert process.stdout is not None
        question = [self._numbers[id(batch.root)], batch.parts, batch.names, unclean_at]
        try:
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            answer = json.loads(process.stdout.readline())
        except (OSError, ValueError):
            return None
        return _taken(answer, batch, unclean_at)


def _taken(answer: list[Any], batch: Batch, unclean_at: float | None) -> Looked:
    checked, links, again, folders, architectures = answer
    looked = look_at(replace(batch, names=again), unclean_at) if again else Looked()
    looked.seen.checked += checked
    looked.seen.links += links
    looked.folders += [((*batch.parts, name), found) for name, found in folders]
    batch.root.architectures.update(architectures)
    return looked
