"""Numba: an index (`.nbi`) and compiled functions (`.nbc`), both pickles."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuprobe.jitcache import pickles
from gpuprobe.jitcache.base import FileKind, Harm, Place, Problem, Where
from gpuprobe.jitcache.tree import Folder

_NAME = re.compile(r"(?P<kernel>.+?)-\d+\..+\.nb[ic]")


class Numba(FileKind):
    """Numba's cache where it has a folder of its own; those beside the sources are not sought."""

    cache = "numba"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        named = where.named("NUMBA_CACHE_DIR")
        return [Place(self.cache, named, "NUMBA_CACHE_DIR")] if named else []

    def files(self, folder: Folder) -> Iterable[str]:
        """See `Kind.files`."""
        return [name for name in folder.items if name.endswith((".nbi", ".nbc"))]

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        with folder.open(name) as file:
            why = pickles.check(file, several=name.endswith(".nbi"))
        if why is not None:
            match = _NAME.fullmatch(name)
            yield Problem(name, why, Harm.FATAL, kernel=match["kernel"] if match else "")
