"""SGLang: one folder that holds the caches of the libraries it uses, each in its own form."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuprobe.jitcache.base import FileKind, Place, Problem, Where, chosen
from gpuprobe.jitcache.tree import Folder


class Sglang(FileKind):
    """A place; the entries in it are those of the other kinds."""

    cache = "sglang"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        return chosen(where, self.cache, "SGLANG_CACHE_DIR", ".cache/sglang")

    def files(self, folder: Folder) -> Iterable[str]:
        """See `Kind.files`."""
        return ()

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        yield from ()
