"""TileLang: a folder a kernel; new versions keep a manifest of sizes and check it themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial
from typing import Any

from gpuprobe.jitcache import binaries, content
from gpuprobe.jitcache.base import FolderKind, Harm, Place, Problem, Where, chosen, guarded
from gpuprobe.jitcache.tree import Folder

_MARKS = frozenset({"kernel_lib.so", "device_kernel.cu", "host_kernel.cu", "params.json"})


class TileLang(FolderKind):
    """TileLang's compiled kernels."""

    cache = "tilelang"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        return chosen(where, self.cache, "TILELANG_CACHE_DIR", ".tilelang/cache")

    def owns(self, folder: Folder) -> bool:
        """See `Kind.owns`."""
        return len(_MARKS & folder.items.keys()) >= 2

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        sizes: dict[str, int] = {}
        heals = "manifest.json" in folder.items
        if heals:
            broken = guarded("manifest.json", partial(_manifest, folder, sizes))
            if broken is not None:
                yield broken
        damage = Harm.REBUILT if heals else Harm.FATAL
        for child in folder.items:
            problem = guarded(child, partial(_child, folder, child, damage))
            expected = sizes.get(child)
            if problem is None and expected is not None:
                size = folder.size(child)
                if size is not None and size != expected:
                    why = f"has {size} of the {expected} bytes in the manifest"
                    problem = Problem(child, why, damage, expected=expected)
            if problem is not None:
                yield problem


def _manifest(folder: Folder, sizes: dict[str, int]) -> Problem | None:
    """Fill in the sizes that the manifest lists, or say what is wrong with it."""
    with folder.open("manifest.json") as file:
        found, why = content.json_object(file)
    if found is None:
        return Problem("manifest.json", why, Harm.REBUILT)
    sizes.update(_sizes(found))
    return None


def _sizes(manifest: dict[str, Any]) -> dict[str, int]:
    """File name to size, in whichever of its two forms the manifest lists them."""
    files = manifest.get("files", manifest.get("artifacts"))
    rows: list[tuple[Any, Any]] = []
    if isinstance(files, dict):
        rows = list(files.items())
    elif isinstance(files, list):
        rows = [(row.get("name"), row) for row in files if isinstance(row, dict)]
    found = {}
    for name, row in rows:
        size = row.get("size") if isinstance(row, dict) else None
        if isinstance(name, str) and isinstance(size, int):
            found[name] = size
    return found


def _child(folder: Folder, name: str, damage: Harm) -> Problem | None:
    if name.endswith(".so"):
        return binaries.library(folder, name, refused=damage)
    if name.endswith(".cubin"):
        return binaries.cubin(folder, name)
    if name == "params.json" or name.endswith((".cu", ".cpp")):
        with folder.open(name) as file:
            why = content.text(file)
        return None if why is None else Problem(name, why, damage)
    return None
