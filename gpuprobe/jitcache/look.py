"""One folder of a cache: which entries are in it, and what is wrong with them."""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial

from gpuprobe.jitcache.base import Harm, Kind, Problem, guarded
from gpuprobe.jitcache.kinds import KINDS
from gpuprobe.jitcache.report import CacheFinding, Identity, Unreadable
from gpuprobe.jitcache.tree import Folder

QUARANTINE = ".gpuprobe-quarantine"
"""How the names of folders end that hold what was moved aside: they are never looked into."""

LEFT_AFTER_S = 600.0
"""Age from which a temporary file of a writer that is gone counts as left behind."""

_TEMPORARY = re.compile(
    r"tmp\.pid_(?P<pid>\d+)_.*|\.(?P<inductor>\d+)\.\d+\.tmp|.+\.tmp\.\d+|\.staging|.+\.lock\.tmp"
)


@dataclass(slots=True)
class Seen:
    """What a look at one or several folders gave."""

    checked: int = 0
    findings: list[CacheFinding] = field(default_factory=list)
    suspicious: list[CacheFinding] = field(default_factory=list)
    unreadable: list[Unreadable] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)
    links: int = 0

    @property
    def is_clean(self) -> bool:
        """Whether nothing is wrong in it."""
        return not (self.findings or self.suspicious or self.unreadable)

    def add(self, seen: Seen) -> None:
        """Add what another look gave, but for its folders."""
        self.checked += seen.checked
        self.links += seen.links
        if not seen.is_clean:
            self.findings.extend(seen.findings)
            self.suspicious.extend(seen.suspicious)
            self.unreadable.extend(seen.unreadable)


def look(folder: Folder, *, unclean_at: float | None = None) -> Seen:
    """Check every entry of the folder, or the folder where it is one."""
    seen = Seen()
    kind = next((kind for kind in KINDS if kind.owns(folder)), None)
    _leftovers(folder, seen)
    if kind is not None:
        seen.checked += 1
        _take(seen, folder, kind, kind.check(folder), whole=True)
        if unclean_at is not None:
            _late(seen, folder, kind, folder.items, unclean_at, whole=True)
        return seen
    for name, item in folder.items.items():
        if item.is_dir(follow_symlinks=False):
            if not name.endswith(QUARANTINE) and not _TEMPORARY.fullmatch(name):
                seen.folders.append(name)
        elif item.is_symlink():
            seen.links += 1
    taken: set[str] = set()
    for kind in KINDS:
        for name in kind.files(folder):
            item = folder.items[name]
            if name in taken or item.is_dir(follow_symlinks=False):
                continue
            taken.add(name)
            seen.checked += 1
            _take(seen, folder, kind, check_file(kind, folder, name), whole=False)
            if unclean_at is not None:
                _late(seen, folder, kind, [name], unclean_at, whole=False)
    return seen


def check_file(kind: Kind, folder: Folder, name: str) -> Iterator[Problem]:
    """What is wrong with an entry that is one file, and why it could not be looked at."""
    found: list[Problem] = []
    failed = guarded(name, partial(_gather, kind, folder, name, found))
    yield from found
    if failed is not None:
        yield failed


def _gather(kind: Kind, folder: Folder, name: str, found: list[Problem]) -> None:
    found.extend(kind.check(folder, name))


def _take(
    seen: Seen, folder: Folder, kind: Kind, problems: Iterable[Problem], *, whole: bool
) -> None:
    for problem in problems:
        found = finding_of(folder, kind, problem, whole=whole)
        if problem.unreadable:
            seen.unreadable.append(Unreadable(found.path, problem.why))
        elif problem.bad:
            seen.findings.append(found)
        else:
            seen.suspicious.append(found)


def finding_of(folder: Folder, kind: Kind, problem: Problem, *, whole: bool) -> CacheFinding:
    """The problem with its file, its size and its time."""
    now = folder.stat(problem.name) if problem.name else None
    place = now or os.fstat(folder.fd)
    parts = folder.parts if whole else (*folder.parts, problem.name)
    below = (*folder.parts, problem.name) if problem.alone else kind.entry(parts)
    plain = now is not None and stat.S_ISREG(now.st_mode)
    return CacheFinding(
        path=folder.root.path.joinpath(*folder.parts, problem.name),
        cache=kind.cache,
        key=(folder.name if whole else below[-1]) if below else folder.name,
        why=problem.why,
        harm=problem.harm,
        size=now.st_size if now is not None and plain else None,
        expected=problem.expected,
        mtime=_time(place.st_mtime),
        kernel=problem.kernel,
        root=folder.root.path,
        below=below,
        folder=folder.parts,
        name=problem.name,
        whole=whole,
        lock=problem.lock,
        identity=identity(place),
    )


def identity(found: os.stat_result) -> Identity:
    """What tells a file from one that took its place."""
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns)


def _time(seconds: float) -> datetime | None:
    try:
        return datetime.fromtimestamp(seconds, UTC)
    except (OverflowError, ValueError, OSError):
        return None


def _leftovers(folder: Folder, seen: Seen) -> None:
    """Temporary files of writers that are gone: they do no harm and fill the disk."""
    for name in folder.items:
        if "tmp" not in name and name != ".staging":
            continue  # what the expression below asks for, at a tenth of its cost
        match = _TEMPORARY.fullmatch(name)
        now = folder.stat(name) if match else None
        if match is None or now is None or time.time() - now.st_mtime < LEFT_AFTER_S:
            continue
        pid = match["pid"] or match["inductor"]
        if pid is not None and _alive(int(pid)):
            continue
        why = "was left behind by a writer that is gone"
        problem = Problem(name, why, Harm.NONE, bad=False, alone=True)
        kind = next((k for k in KINDS if k.owns(folder)), _kind(folder.root.cache))
        seen.suspicious.append(finding_of(folder, kind, problem, whole=True))


def _kind(cache: str) -> Kind:
    return next((kind for kind in KINDS if kind.cache == cache), KINDS[0])


def _alive(pid: int) -> bool:
    try:
        os.stat(f"/proc/{pid}")  # noqa: PTH116
    except (OSError, OverflowError):
        return False
    return True


LATE_S = 60.0
"""Data may stay in memory for 30 s and a commit for 5 s before a disk has them."""


def _late(
    seen: Seen,
    folder: Folder,
    kind: Kind,
    names: Iterable[str],
    unclean_at: float,
    *,
    whole: bool,
) -> None:
    """An entry that was written shortly before an unclean end, and shows no damage."""
    known = {found.path.name for found in (*seen.findings, *seen.suspicious)}
    late = []
    for name in names:
        now = folder.stat(name)
        if now is not None and unclean_at - LATE_S <= now.st_mtime <= unclean_at + 5.0:
            late.append((now.st_mtime, name))
    if not late or known & set(names):
        return
    at, name = max(late)
    before_s = max(0.0, unclean_at - at)
    why = f"was written {before_s:.0f} s before an unclean end; no damage shows"
    problem = Problem(name, why, Harm.UNKNOWN, bad=False)
    seen.suspicious.append(finding_of(folder, kind, problem, whole=whole))
