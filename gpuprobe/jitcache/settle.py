"""Whether what looks damaged is only being written, and whether a lock has a living owner."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from gpuprobe.jitcache import look, tree
from gpuprobe.jitcache.base import Kind
from gpuprobe.jitcache.kinds import KINDS
from gpuprobe.jitcache.locks import Holders, boot_time, holders
from gpuprobe.jitcache.report import CacheFinding

SETTLE_S = 5.0
"""A damaged file must be untouched for so long before it is called bad."""

LOCK_AGE_S = 3600.0
"""A lock of this boot that nobody is seen to hold: longer than a build takes."""


@dataclass(slots=True)
class Settled:
    """What remains of the candidates."""

    bad: list[CacheFinding] = field(default_factory=list)
    suspicious: list[CacheFinding] = field(default_factory=list)
    busy: int = 0
    """Those that changed, healed or went away while they were looked at."""


def settle(
    candidates: Sequence[CacheFinding],
    roots: Mapping[Path, tree.Root],
    *,
    settle_s: float = SETTLE_S,
    until: float | None = None,
    sleep: Callable[[float], None] = time.sleep,
) -> Settled:
    """Look again at all candidates, those that are young after a pause.

    Args:
        candidates: What looked damaged.
        roots: The open caches by path.
        settle_s: Seconds that a file must be untouched.
        until: When to be done, by `time.monotonic`; young ones are then only suspicious.
        sleep: How the pause is made.
    """
    found = Settled()
    wait_s = max((_missing_s(item, settle_s) for item in candidates), default=0.0)
    hasty = until is not None and time.monotonic() + wait_s > until
    if wait_s and not hasty:
        sleep(wait_s)
    who = holders({item.name for item in candidates}) if candidates else Holders()
    for item in candidates:
        if item.lock:
            _lock(item, who, found)
        elif hasty and _missing_s(item, settle_s):
            why = f"{item.why}; written just now, so look again"
            found.suspicious.append(replace(item, why=why))
        elif not still_bad(item, roots[item.root]):
            found.busy += 1
        elif item.identity is not None and (pid := who.writing.get(item.identity[:2])):
            why = f"{item.why}; process {pid} has it open for writing"
            found.suspicious.append(replace(item, why=why))
        else:
            found.bad.append(item)
    return found


def _missing_s(item: CacheFinding, settle_s: float) -> float:
    """Seconds till the file is old enough; a time in the future says nothing."""
    if item.identity is None or item.lock:
        return 0.0
    age_s = time.time() - item.identity[3] / 1e9
    if age_s < 0:
        return settle_s
    return max(0.0, settle_s - age_s)


def still_bad(item: CacheFinding, root: tree.Root) -> bool:
    """Whether the same file, untouched, is still damaged in the same way."""
    kind = kind_of(item.cache)
    try:
        with root.folder(item.folder) as folder:
            problems = kind.check(folder) if item.whole else look.check_file(
                kind, folder, item.name
            )  # fmt: skip
            for problem in problems:
                if problem.name != item.name or problem.why != item.why:
                    continue
                now = look.finding_of(folder, kind, problem, whole=item.whole)
                return now.identity == item.identity
    except OSError:
        return False
    return False


def kind_of(cache: str) -> Kind:
    """The kind of this name.

    Raises:
        StopIteration: There is none; findings only ever hold known ones.
    """
    return next(kind for kind in KINDS if kind.cache == cache)


def _lock(item: CacheFinding, who: Holders, found: Settled) -> None:
    if item.identity is None:
        return
    if item.identity[:2] in who.holding:
        return  # somebody builds
    written_s = item.identity[3] / 1e9
    booted_s = boot_time()
    if booted_s is not None and written_s < booted_s:
        found.bad.append(replace(item, why=f"{item.why}; it is older than this boot"))
    elif who.all_seen and time.time() - written_s > LOCK_AGE_S:
        found.bad.append(item)
    else:
        unseen = "it is young" if who.all_seen else "other users' processes cannot be asked"
        why = f"is a lock without an owner in sight; {unseen}"
        found.suspicious.append(replace(item, why=why))
