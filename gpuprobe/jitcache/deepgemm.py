"""DeepGEMM: a folder a kernel, `kernel.<name>.<digest>`, with its source and its cubin."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from gpuprobe.jitcache import binaries
from gpuprobe.jitcache.base import FolderKind, Harm, Place, Problem, Where, chosen, guarded
from gpuprobe.jitcache.tree import Folder

_ENTRY = re.compile(r"kernel\.(?P<kernel>.+)\.[0-9a-f]{16,64}")


class DeepGemm(FolderKind):
    """DeepGEMM's compiled kernels."""

    cache = "deepgemm"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        return chosen(where, self.cache, "DG_JIT_CACHE_DIR", ".deep_gemm")

    def owns(self, folder: Folder) -> bool:
        """See `Kind.owns`."""
        return _ENTRY.fullmatch(folder.name) is not None

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        match = _ENTRY.fullmatch(folder.name)
        kernel = match["kernel"] if match else ""
        cubins = [child for child in folder.items if child.endswith(".cubin")]
        for child in cubins:
            found = guarded(child, partial(binaries.cubin, folder, child, kernel=kernel))
            if found is not None:
                yield found
        if not cubins and folder.stat("kernel.cubin") is None:
            yield Problem("kernel.cubin", "is missing", Harm.REBUILT, bad=False, kernel=kernel)
