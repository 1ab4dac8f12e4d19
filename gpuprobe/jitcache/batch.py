"""A look at some folders of a cache that lie side by side."""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from gpuprobe.jitcache.look import Seen, look
from gpuprobe.jitcache.report import Unreadable
from gpuprobe.jitcache.tree import MAX_DEPTH, Folder, Root

Parts = tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Batch:
    """What one look takes on.

    Attributes:
        root: The cache.
        parts: A folder below it.
        names: Folders in that one; None for itself.
    """

    root: Root
    parts: Parts
    names: Sequence[str] | None


@dataclass(slots=True)
class Looked:
    """What it gave: sums, and the folders that were met, by the folder they lie in."""

    seen: Seen = field(default_factory=Seen)
    folders: list[tuple[Parts, Sequence[str]]] = field(default_factory=list)

    def add(self, parts: Parts, seen: Seen) -> None:
        """Add what one folder gave."""
        self.seen.add(seen)
        if seen.folders:
            self.folders.append((parts, seen.folders))


def look_at(batch: Batch, unclean_at: float | None) -> Looked:
    """Look at the folder itself, or at the named ones in it."""
    looked = Looked()
    root, parts = batch.root, batch.parts
    if len(parts) >= MAX_DEPTH:
        looked.seen.unreadable.append(_unseen(root, parts, "lies too deep for a cache"))
        return looked
    try:
        with root.folder(parts) as folder:
            if batch.names is None:
                looked.add(parts, look(folder, unclean_at=unclean_at))
                return looked
            for name in batch.names:
                looked.add((*parts, name), look_below(folder, name, unclean_at))
    except FileNotFoundError:
        pass
    except OSError as error:
        looked.seen.unreadable.append(_unseen(root, parts, error.strerror or str(error)))
    return looked


def look_below(parent: Folder, name: str, unclean_at: float | None) -> Seen:
    """Look at one folder in an open one."""
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
