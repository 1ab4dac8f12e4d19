"""The door to the caches: each function returns a value and prints nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from pathlib import Path

from gpuprobe.errors import UsageError
from gpuprobe.jitcache import places as _places
from gpuprobe.jitcache.base import Place
from gpuprobe.jitcache.quarantine import Moved, repair, restore
from gpuprobe.jitcache.report import ScanReport
from gpuprobe.jitcache.scan import ScanOptions, scan_places
from gpuprobe.jitcache.settle import SETTLE_S

__all__ = ["Moved", "ScanReport", "repair", "restore", "scan"]


def scan(
    paths: Sequence[str | Path] | None = None,
    *,
    deadline_s: float | None = None,
    settle_s: float = SETTLE_S,
    unclean_at: float | None = None,
    home: str | Path | None = None,
    root: str | Path | None = None,
    pid: int | None = None,
    present: Iterable[int] = (),
    progress: Callable[[int, int], None] | None = None,
) -> ScanReport:
    """Look for damaged entries of JIT caches. Only reads; loads and runs nothing of them.

    Args:
        paths: Cache folders, or single entries. None: wherever caches lie by default and by this
            process's environment.
        deadline_s: Seconds after which the rest is left out, with a note.
        settle_s: Seconds that a damaged file must be untouched to be called bad; a younger one
            is waited for.
        unclean_at: When the machine last ended without a shutdown, seconds since the epoch:
            entries written shortly before are listed as suspicious.
        home: Another home folder whose caches are looked for.
        root: Root of a container's file system, all of whose homes are looked at.
        pid: A process by whose environment, and in whose file system, caches are looked for.
        present: Compute capabilities of the GPUs here, as 90, for a note on foreign kernels.
        progress: Called now and then with the numbers of folders looked at and known so far.

    Raises:
        UsageError: A path is no folder, or more than one of `paths`, `home`, `root`, `pid`.
        InputUnreadableError: The process's environment may not be read.
    """
    if sum(bool(given) for given in (paths, home, root, pid)) > 1:
        raise UsageError("paths, a home, a root and a process exclude each other")
    options = ScanOptions(
        deadline_s=deadline_s,
        settle_s=settle_s,
        unclean_at=unclean_at,
        progress=progress,
        present=frozenset(present),
    )
    if paths:
        found = [_given(Path(path)) for path in paths]
    elif home is not None:
        found = _places.of_home(_folder(Path(home)))
    elif root is not None:
        inside = _folder(Path(root))
        return scan_places(_places.of_root(inside), replace(options, inside=inside))
    elif pid is not None:
        found, foreign = _places.of_process(pid)
        if foreign is not None:
            return scan_places(found, replace(options, inside=foreign))
    else:
        found = _places.of_this_user()
    return scan_places(_places.distinct(found), options)


def _given(path: Path) -> Place:
    parts = path.absolute().parts
    cache = next((c for w, c in _WORDS if any(w in part for part in parts)), "")
    if not cache and any((path / name).is_dir() for name in ("fxgraph", "aotautograd")):
        cache = "inductor"
    # A file stands for the folder it lies in: that is the entry, or the cache.
    return Place(cache, _folder(path.parent if path.is_file() else path), "argument")


_WORDS = (
    ("ComputeCache", "cuda"),
    ("torch_extensions", "torch-extensions"),
    ("flashinfer", "flashinfer"),
)


def _folder(path: Path) -> Path:
    if not path.is_dir():
        said = "is no folder" if path.exists() else "there is no such folder"
        raise UsageError(f"{path}: {said}", hint="Give the folder of a cache, or none for all.")
    return path.absolute()
