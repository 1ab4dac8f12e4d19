"""vLLM: a folder a compiled model, with the caches of Inductor and Triton in it.

Its own files are an index (a Python dictionary as text), graphs and ahead-of-time models. vLLM
itself advises to remove the model's whole folder, so that is what is moved for them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from gpuprobe.jitcache import content, pickles, zips
from gpuprobe.jitcache.base import FileKind, Harm, Place, Problem, Where
from gpuprobe.jitcache.tree import Folder, OpenFile

_TREES = ("torch_compile_cache", "torch_aot_compile")
_INDEX = "vllm_compile_cache.py"
_TEXTS = ("computation_graph.py", "transformed_code.py")


class Vllm(FileKind):
    """vLLM's compiled models."""

    cache = "vllm"

    def places(self, where: Where) -> Iterable[Place]:
        """See `Kind.places`."""
        root, by = where.named("VLLM_CACHE_ROOT"), "VLLM_CACHE_ROOT"
        if root is None:
            root, by = where.home / ".cache/vllm", "default"
        return [Place(self.cache, root / tree, by) for tree in _TREES]

    def files(self, folder: Folder) -> Iterable[str]:
        """See `Kind.files`."""
        if not any(folder.path_has(tree) for tree in _TREES):
            return ()
        return [name for name in folder.items if name == _INDEX or _reader(folder, name)]

    def check(self, folder: Folder, name: str = "") -> Iterator[Problem]:
        """See `Kind.check`."""
        with folder.open(name) as file:
            why = _why(file, name)
        if why is not None:
            aot = name == "model"
            needless = name in _TEXTS
            harm = Harm.REBUILT if aot else Harm.NONE if needless else Harm.FATAL
            yield Problem(name, why, harm, bad=not needless)

    def entry(self, parts: tuple[str, ...]) -> tuple[str, ...]:
        """The model's folder: the hash below `torch_compile_cache` or `torch_aot_compile`."""
        rest = parts[1:] if parts and parts[0] in _TREES else parts
        if rest and rest[0] in _TREES:
            rest = rest[1:]
        top = len(parts) - len(rest) + 1
        return parts[: min(top, len(parts))]


def _reader(folder: Folder, name: str) -> bool:
    if name in _TEXTS or name == "cache_key_factors.json":
        return True
    if name == "model":
        return folder.path_has("torch_aot_compile")
    return name.startswith("artifact_")


def _why(file: OpenFile, name: str) -> str | None:
    if name == _INDEX:
        broken = content.text(file)
        if broken is None and content.literal_cut(file):
            return f"is cut short after {file.size} bytes"
        return broken
    if name.endswith(".json"):
        found, why = content.json_object(file)
        return None if found is not None else why
    if name in _TEXTS:
        return content.text(file)
    head = file.at(0, 4)
    if head[:1] == b"\x80":
        return pickles.check(file)
    if head == b"PK\3\4":
        return zips.check(file)
    return content.blank(file)
