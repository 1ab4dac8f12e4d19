"""TorchInductor: pickled graphs, generated Python and C++, tuning results, a Triton cache inside.

A pickle that cannot be read is warned of and built anew. Generated Python that is there is
imported as it is: an empty file lacks what is called in it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator

from gpuprobe.jitcache import binaries, content, pickles, zips
from gpuprobe.jitcache.base import FileKind, Harm, Place, Problem, Where
from gpuprobe.jitcache.tree import Folder

_NAME = re.compile(r"c[a-z2-7]{51}(?:\.\w+)*|[A-Za-z0-9_]{30,}(?:\.\w+)+")
_MARKS = ("fxgraph", "aotautograd")


class Inductor(FileKind):
    """TorchInductor's cache."""

    cache = "inductor"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        named = where.named("TORCHINDUCTOR_CACHE_DIR")
        if named is not None:
            return [Place(self.cache, named, "TORCHINDUCTOR_CACHE_DIR")]
        temp = where.named("TMPDIR") or where.temp
        if where.user:
            return [Place(self.cache, temp / f"torchinductor_{where.user}")]
        return [Place(self.cache, path) for path in sorted(temp.glob("torchinductor_*"))]

    def files(self, folder: Folder) -> Iterable[str]:
        """See `Kind.files`."""
        if _below(folder, _MARKS):
            return [name for name in folder.items if not name.startswith(".")]
        if not _inside(folder) or _below(folder, ("locks",)):
            return ()
        return [n for n in folder.items if _NAME.fullmatch(n) and n.endswith(_ENDINGS)]

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        if _below(folder, _MARKS):
            yield from _graph(folder, name)
            return
        if name.endswith(".so"):
            found = binaries.library(folder, name)
        elif name.endswith((".cubin", ".hsaco")):
            found = binaries.cubin(folder, name)
        else:
            found = _text(folder, name)
        if found is not None:
            yield found


_ENDINGS = (".py", ".so", ".cubin", ".hsaco", ".best_config", ".cpp", ".h", ".json", ".pt2")


def _below(folder: Folder, names: tuple[str, ...]) -> bool:
    return any(folder.path_has(name) for name in names)


def _inside(folder: Folder) -> bool:
    """Whether this is a folder of an Inductor cache: known to be, or by a name on the way."""
    if folder.root.cache == "inductor":
        return True
    way = (*folder.root.path.parts, *folder.parts)
    return any(p.startswith("torchinductor_") or p in ("inductor_cache", "inductor") for p in way)


def _graph(folder: Folder, name: str) -> Iterator[Problem]:
    with folder.open(name) as file:
        if name.endswith((".json", ".py")):
            why = content.text(file)
        elif file.at(0, 1) == b"\x80":
            why = pickles.check(file)
        else:
            why = content.blank(file)
    if why is not None:
        yield Problem(name, why, Harm.REBUILT)


def _text(folder: Folder, name: str) -> Problem | None:
    ending = os.path.splitext(name)[1]  # noqa: PTH122 - a name, not a path
    with folder.open(name) as file:
        if ending in (".best_config", ".json"):
            found, why = content.json_object(file)
            return None if found is not None else Problem(name, why, Harm.FATAL)
        if ending == ".pt2":
            broken = zips.check(file)
            return None if broken is None else Problem(name, broken, Harm.FATAL)
        broken = content.text(file)
        if broken is not None:
            return Problem(name, broken, Harm.FATAL)
        if ending == ".py" and content.python_cut(file):
            why = f"seems cut short after {file.size} bytes: a bracket or string is open"
            return Problem(name, why, Harm.UNKNOWN, bad=False)
    return None
