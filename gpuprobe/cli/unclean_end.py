"""What `run` and `record` do when the last run or boot ended uncleanly: look at the JIT caches.

That is when a cache gets files that are cut short. Light: an engine waits for it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpuprobe.live.engine.cache_check import Looked

HOLD_S: Final = 2.0
"""How long an engine's start waits for the look at the caches."""

RECENT_S: Final = 7 * 86_400.0
"""An older end has left nothing that was not met since."""

MARGIN_S: Final = 0.3

BESIDE_S: Final = 300.0
"""How long the look may take when it goes on beside the engine."""


@dataclass(frozen=True, slots=True)
class UncleanEnd:
    """An end without an end mark.

    Attributes:
        at_s: The last sign of life, seconds since 1970.
        boot: The machine went down with it.
    """

    at_s: float
    boot: bool

    def __str__(self) -> str:
        at = f"{datetime.fromtimestamp(self.at_s, UTC):%Y-%m-%d %H:%M:%S} UTC"
        return f"the last {'boot' if self.boot else 'run'} ended uncleanly ({at})"


def last_unclean_end(env: Mapping[str, str] | None = None) -> UncleanEnd | None:
    """How the newest recording that nobody writes ended: None where in order, or none is there.

    An end in order leaves nothing in the log beside a recording; where all are empty, nothing is
    opened or imported.

    Args:
        env: Where the folders of recordings are looked up; the process's own by default.
    """
    folders = _folders(os.environ if env is None else env)
    if not any(_cut(entry.path) for folder in folders for entry in _logs(folder)):
        return None
    from gpuprobe.jitcache.locks import boot_time
    from gpuprobe.recording.opening import is_written
    from gpuprobe.recording.places import find

    dated = {path: _last_at(path) for folder in folders for path in find(Path(folder))}
    for path, at_s in sorted(dated.items(), key=lambda item: item[1], reverse=True):
        if is_written(path):
            continue
        if not _cut(f"{path}-wal") or time.time() - at_s > RECENT_S:
            return None
        booted_s = boot_time()
        return UncleanEnd(at_s, booted_s is not None and at_s < booted_s)
    return None


def _folders(env: Mapping[str, str]) -> list[str]:
    state = env.get("XDG_STATE_HOME") or (f"{env['HOME']}/.local/state" if env.get("HOME") else "")
    named = [env.get("GPUPROBE_DIR", ""), "/var/lib/gpuprobe", f"{state}/gpuprobe" if state else ""]
    return [folder for folder in named if folder and os.path.isdir(folder)]  # noqa: PTH112 - light


def _logs(folder: str) -> list[os.DirEntry[str]]:
    try:
        with os.scandir(folder) as entries:
            return [entry for entry in entries if entry.name.endswith(".gpuprobe-wal")]
    except OSError:
        return []


def _cut(log: str) -> bool:
    try:
        return os.stat(log).st_size > 0  # noqa: PTH116 - light
    except OSError:
        return False


def _last_at(path: Path) -> float:
    """When it was written last: until a checkpoint that is its log's time."""
    times = [0.0]
    for side in ("", "-wal"):
        with contextlib.suppress(OSError):
            times.append(path.with_name(f"{path.name}{side}").stat().st_mtime)
    return max(times)


def look_first(end: UncleanEnd, say: Callable[[str], None], *, repair: bool) -> bool:
    """Look at the caches before an engine starts, for `HOLD_S` at most, and say what was found.

    Returns:
        Whether everything was looked at; where not, `look_beside` goes on.
    """
    from gpuprobe.live.engine.cache_check import look

    found: list[Looked] = []

    def work() -> None:
        found.append(look(deadline_s=HOLD_S - MARGIN_S, unclean_at=end.at_s))

    thread = threading.Thread(target=work, name="caches", daemon=True)
    began = time.monotonic()
    thread.start()
    thread.join(HOLD_S)
    if not found or not found[0].complete:
        took = time.monotonic() - began
        say(f"{end}; JIT caches: not done in {took:.1f} s, looked at further beside the engine")
        return False
    _tell(end, found[0], say, repair=repair)
    return True


def look_beside(end: UncleanEnd, say: Callable[[str], None], *, repair: bool) -> None:
    """Look at the caches in a thread, for as long as it takes, and say what was found."""
    from gpuprobe.live.engine.cache_check import look

    def work() -> None:
        found = look(deadline_s=BESIDE_S, unclean_at=end.at_s)
        _tell(end, found, say, repair=repair)

    threading.Thread(target=work, name="caches", daemon=True).start()


def _tell(end: UncleanEnd, found: Looked, say: Callable[[str], None], *, repair: bool) -> None:
    """One line, and one for each entry that was moved."""
    from gpuprobe.live.engine.cache_check import move_aside

    many = f"{found.checked:,} {'entry' if found.checked == 1 else 'entries'}"
    if found.problem:
        say(f"{end}; JIT caches could not be looked at: {found.problem}")
        return
    if not found.deadly:
        rest = "" if found.complete else ", and the time ran out"
        say(f"{end}; JIT caches: no damage in {many}{rest}")
        return
    first = found.deadly[0]
    more = f" and {len(found.deadly) - 1} more" if len(found.deadly) > 1 else ""
    what = f"{end}; JIT caches: {first.path} {first.why}{more}; a program that loads it dies"
    if not repair:
        say(f"{what}. To move it aside: gpuprobe jitcache repair")
        return
    lines, problem = move_aside(found.deadly)
    say(what)
    for line in lines:
        say(line)
    if problem:
        say(f"could not be moved aside: {problem}")
