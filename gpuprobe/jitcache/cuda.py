"""The CUDA driver's own cache. Its format is not public: only nothing and zeros can be told."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuprobe.jitcache import content
from gpuprobe.jitcache.base import FileKind, Harm, Place, Problem, Where, chosen
from gpuprobe.jitcache.tree import Folder


class ComputeCache(FileKind):
    """`~/.nv/ComputeCache`: an index and hashed folders."""

    cache = "cuda"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        return chosen(where, self.cache, "CUDA_CACHE_PATH", ".nv/ComputeCache")

    def files(self, folder: Folder) -> Iterable[str]:
        """See `Kind.files`."""
        sglang = folder.parts[:1] == ("nv",) and folder.root.path.name == "sglang"
        if not (sglang or folder.path_has("ComputeCache") or folder.root.cache == self.cache):
            return ()
        return [name for name in folder.items if not name.endswith((".lock", ".tmp"))]

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        with folder.open(name) as file:
            why = content.blank(file)
        if why is not None:
            yield Problem(name, why, Harm.UNKNOWN, bad=name != "index")
