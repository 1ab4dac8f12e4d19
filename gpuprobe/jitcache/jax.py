"""JAX: a compressed file a program, written in place and never written again."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator

from gpuprobe.jitcache import content, streams
from gpuprobe.jitcache.base import FileKind, Harm, Place, Problem, Where
from gpuprobe.jitcache.tree import Folder

_ENTRY = re.compile(r"(?P<kernel>.+)-[0-9a-f]{32,64}-cache")


class Jax(FileKind):
    """JAX's persistent compilation cache, which is off unless it is given a folder."""

    cache = "jax"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        named = where.named("JAX_COMPILATION_CACHE_DIR")
        return [Place(self.cache, named, "JAX_COMPILATION_CACHE_DIR")] if named else []

    def files(self, folder: Folder) -> Iterable[str]:
        """See `Kind.files`."""
        return [name for name in folder.items if _ENTRY.fullmatch(name)]

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        with folder.open(name) as file:
            why = streams.check(file)
            plain = why == "is neither zstd nor zlib"
            if plain:
                why = content.blank(file)
        if why is not None:
            match = _ENTRY.fullmatch(name)
            # Warned of and compiled anew at each start, since a bad file is never replaced.
            yield Problem(name, why, Harm.REBUILT, kernel=match["kernel"] if match else "")
