"""What `run` and `record` do when the last run or boot ended uncleanly: look at the JIT caches.

That is when a cache gets files that are cut short. Light: an engine waits for it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from gpuprobe.live.cache_check import Looked

HOLD_S: Final = 2.0
"""How long an engine's start waits for the look at the caches."""

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

    Without a recording that has something left in its log, nothing is opened or imported.

    Args:
        env: Where the folders of recordings are looked up; the process's own by default.
    """
    env = os.environ if env is None else env
    if not _any_cut(env):
        return None
    from gpuprobe.checks.recordings import is_recent, read_recordings
    from gpuprobe.jitcache.locks import boot_time

    seen = read_recordings(env)
    last = next((one for one in reversed(seen) if not one.written), None)
    if last is None or last.ended is not None or not is_recent(last):
        return None
    booted = boot_time()
    return UncleanEnd(last.last_at, booted is not None and last.last_at < booted)


def _any_cut(env: Mapping[str, str]) -> bool:
    state = env.get("XDG_STATE_HOME") or (f"{env['HOME']}/.local/state" if env.get("HOME") else "")
    named = [env.get("GPUPROBE_DIR", ""), "/var/lib/gpuprobe", f"{state}/gpuprobe" if state else ""]
    for folder in filter(None, named):
        try:
            with os.scandir(folder) as entries:
                if any(
                    one.name.endswith(".gpuprobe-wal") and one.stat().st_size for one in entries
                ):
                    return True
        except OSError:
            continue
    return False


def look_first(end: UncleanEnd, say: Callable[[str], None], *, repair: bool) -> bool:
    """Look at the caches before an engine starts, for `HOLD_S` at most, and say what was found.

    Returns:
        Whether everything was looked at; where not, `look_beside` goes on.
    """
    from gpuprobe.live.cache_check import look

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
    from gpuprobe.live.cache_check import look

    def work() -> None:
        found = look(deadline_s=BESIDE_S, unclean_at=end.at_s)
        _tell(end, found, say, repair=repair)

    threading.Thread(target=work, name="caches", daemon=True).start()


def _tell(end: UncleanEnd, found: Looked, say: Callable[[str], None], *, repair: bool) -> None:
    """One line, and one for each entry that was moved."""
    from gpuprobe.live.cache_check import move_aside

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
        say(f"{what}. To move it aside: gpuprobe jitcache repair, or --repair-caches")
        return
    lines, problem = move_aside(found.deadly)
    say(what)
    for line in lines:
        say(line)
    if problem:
        say(f"could not be moved aside: {problem}")
