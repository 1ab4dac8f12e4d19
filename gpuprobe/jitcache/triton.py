"""Triton: a folder a kernel, named by a hash; a group file lists its children.

Triton 3.6 dies of a damaged group file, 3.7 and later build anew. Every version dies of damaged
metadata, of a cut cubin (SIGSEGV) and of a cut launcher (SIGBUS); an empty launcher is built anew;
the intermediate texts are read and never used.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from functools import partial

from gpuprobe.jitcache import binaries, content
from gpuprobe.jitcache.base import FolderKind, Harm, Place, Problem, Where, chosen, guarded
from gpuprobe.jitcache.tree import Folder

_KEY = re.compile(r"[A-Z2-7]{52}|[0-9a-f]{64}|[A-Za-z0-9_-]{43}")
_OWN = re.compile(r"[A-Z2-7]{52}")
_BINARY = (".cubin", ".hsaco")
_TEXTS = (".ttir", ".ttgir", ".llir", ".ptx", ".amdgcn", ".source")


class Triton(FolderKind):
    """Triton's own cache, also where Inductor, vLLM or SGLang keep one."""

    cache = "triton"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        home = where.named("TRITON_HOME")
        if home is not None and where.named("TRITON_CACHE_DIR") is None:
            return [Place(self.cache, home / ".triton/cache", "TRITON_HOME")]
        return chosen(where, self.cache, "TRITON_CACHE_DIR", ".triton/cache")

    def owns(self, folder: Folder) -> bool:
        """See `Kind.owns`."""
        if _KEY.fullmatch(folder.name) is None:
            return False
        if _OWN.fullmatch(folder.name):
            return True
        return any(name.startswith("__grp__") or name.endswith(_BINARY) for name in folder.items)

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        groups = [n for n in folder.items if n.startswith("__grp__") and n.endswith(".json")]
        kernels = []
        for group in groups:
            kernel = group.removeprefix("__grp__").removesuffix(".json")
            kernels.append(kernel)
            children: list[str] = []
            broken = guarded(group, partial(_group, folder, group, kernel, children))
            if broken is not None:
                yield broken
            yield from _listed(folder, group, kernel, children)
        for child in folder.items:
            if child in groups:
                continue
            kernel = _kernel_of(child, kernels)
            if child.endswith(_TEXTS):
                if folder.size(child) == 0:
                    yield Problem(child, content.EMPTY, Harm.NONE, bad=False, kernel=kernel)
            elif found := guarded(child, partial(_child, folder, child, kernel)):
                yield found


def _kernel_of(child: str, kernels: list[str]) -> str:
    for kernel in kernels:
        if child.startswith(kernel):
            return kernel
    return ""


def _group(folder: Folder, group: str, kernel: str, children: list[str]) -> Problem | None:
    """Fill in the names of the group's children, or say what is wrong with the group file."""
    with folder.open(group) as file:
        found, why = content.json_object(file)
    if found is None:
        return Problem(group, why, Harm.FATAL, kernel=kernel)
    paths = found.get("child_paths")
    if not isinstance(paths, dict):
        return Problem(group, "lists no children (child_paths)", Harm.FATAL, kernel=kernel)
    children.extend(paths)
    return None


def _listed(folder: Folder, group: str, kernel: str, children: list[str]) -> Iterator[Problem]:
    """What is listed and not there."""
    for child in children:
        # The paths are absolute and wrong in a cache that was moved: the name decides.
        if "/" in child or child in ("", ".", ".."):
            why = f"lists what is no name: {child[:80]}"
            yield Problem(group, why, Harm.UNKNOWN, bad=False)
        elif child not in folder.items and folder.stat(child) is None:
            yield _missing(child, kernel)


def _missing(child: str, kernel: str) -> Problem:
    why = "is listed in the group file and missing"
    if child.endswith(_BINARY):
        return Problem(child, why, Harm.FATAL, kernel=kernel)
    harm = Harm.REBUILT if child.endswith(".json") else Harm.NONE
    return Problem(child, why, harm, bad=False, kernel=kernel)


def _child(folder: Folder, name: str, kernel: str) -> Problem | None:
    if name.endswith(_BINARY):
        return binaries.cubin(folder, name, kernel=kernel)
    if name.endswith(".so"):
        return binaries.library(folder, name, refused=Harm.REBUILT)
    if name.endswith(".json"):
        with folder.open(name) as file:
            value, why = content.json_object(file)
        return None if value is not None else Problem(name, why, Harm.FATAL, kernel=kernel)
    return None
