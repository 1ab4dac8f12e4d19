"""Folders that ninja builds: PyTorch's C++ extensions and FlashInfer.

Ninja goes by times: an empty library that is newer than its sources counts as built and is loaded.
PyTorch's `lock` is a file that is made and removed; one that stays makes every later import wait.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from gpuprobe.jitcache import binaries, content
from gpuprobe.jitcache.base import FolderKind, Harm, Place, Problem, Where, chosen, guarded
from gpuprobe.jitcache.tree import Folder


class TorchExtensions(FolderKind):
    """PyTorch's C++ extensions."""

    cache = "torch-extensions"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        return chosen(where, self.cache, "TORCH_EXTENSIONS_DIR", ".cache/torch_extensions")

    def owns(self, folder: Folder) -> bool:
        """See `Kind.owns`."""
        if _flashinfer(folder):
            return False
        return "build.ninja" in folder.items or (
            "lock" in folder.items and folder.path_has("torch_extensions")
        )

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        yield from _built(folder)
        if "lock" in folder.items:
            why = "is a lock that nobody holds: every import waits for it"
            yield Problem("lock", why, Harm.HANGS, alone=True, lock=True)


class FlashInfer(FolderKind):
    """FlashInfer's operators, and the kernels that it downloads."""

    cache = "flashinfer"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        base = where.named("FLASHINFER_WORKSPACE_BASE")
        if base is not None:
            yield Place(self.cache, base / ".cache/flashinfer", "FLASHINFER_WORKSPACE_BASE")
        else:
            yield Place(self.cache, where.home / ".cache/flashinfer")
        cubins = where.named("FLASHINFER_CUBIN_DIR")
        if cubins is not None:
            yield Place(self.cache, cubins, "FLASHINFER_CUBIN_DIR")

    def owns(self, folder: Folder) -> bool:
        """See `Kind.owns`."""
        return _flashinfer(folder) and "build.ninja" in folder.items

    def files(self, folder: Folder) -> Iterable[str]:
        """Downloaded kernels are entries by themselves."""
        if not _flashinfer(folder):
            return ()
        return [name for name in folder.items if name.endswith(".cubin")]

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        if not name:
            yield from _built(folder)
            return
        found = binaries.cubin(folder, name)
        if found is not None:
            yield found


def _flashinfer(folder: Folder) -> bool:
    return any("flashinfer" in part for part in (*folder.root.path.parts, *folder.parts))


def _built(folder: Folder) -> Iterator[Problem]:
    for name in folder.items:
        found = guarded(name, partial(_child, folder, name))
        if found is not None:
            yield found


def _child(folder: Folder, name: str) -> Problem | None:
    if name.endswith((".so", ".o")):
        return binaries.library(folder, name)
    if name == "build.ninja":
        with folder.open(name) as file:
            why = content.text(file)
        # It is written anew at each build.
        return None if why is None else Problem(name, why, Harm.REBUILT)
    return None
