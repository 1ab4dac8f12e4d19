"""Damage in JIT caches, looked for when a boot or a run ended uncleanly: that is when it comes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from gpuprobe.checks.base import CheckFinding, Status, not_checked
from gpuprobe.checks.previous_boot import ended_in_order
from gpuprobe.checks.recordings import is_recent, last_ended
from gpuprobe.checks.scene import Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.reading import Known, Reason, Unavailable

if TYPE_CHECKING:
    from gpuprobe.jitcache.report import CacheFinding

name = "jit caches"

WHAT = "JIT caches"
REPAIR = "gpuprobe jitcache repair"
SCAN = "gpuprobe jitcache scan"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """One finding, and none where nothing ended uncleanly or no cache is there."""
    if isinstance(scene.jit_caches, Unavailable):
        if scene.jit_caches.reason is not Reason.NOT_ASKED:
            yield not_checked(name, WHAT, scene.jit_caches, how=SCAN)
        return
    report = scene.jit_caches.value
    if report.bad:
        yield _bad(report.bad)
    if not report.complete:
        late = Unavailable(Reason.TIMED_OUT, f"{report.checked:,} entries were looked at")
        yield not_checked(name, WHAT, late, how=SCAN)
    elif report.checked and not report.bad:
        yield CheckFinding(
            check=name,
            what=WHAT,
            status=Status.OK,
            text=f"no damage after an unclean end, in {report.checked:,} "
            + ("entry" if report.checked == 1 else "entries"),
            figures={"checked": report.checked, "bad": 0},
        )


def _bad(bad: tuple[CacheFinding, ...]) -> CheckFinding:
    from gpuprobe.jitcache.base import Harm

    deadly = [finding for finding in bad if finding.harm in (Harm.FATAL, Harm.HANGS)]
    first = (deadly or bad)[0]
    more = f" and {len(bad) - 1} more" if len(bad) > 1 else ""
    ends = "; it ends every program that loads it" if deadly else ""
    return CheckFinding(
        check=name,
        what=WHAT,
        status=Status.BAD if deadly else Status.WARN,
        text=f"damaged: {first.path}, {first.why}{more}{ends}",
        figures={"bad": len(bad), "deadly": len(deadly)},
        how=REPAIR,
        kind=Kind.JIT_CACHE_CORRUPT if deadly else None,
    )


def unclean_at(scene: Scene) -> float | None:
    """When something last ended uncleanly, seconds since 1970; 0.0 where that is not known.

    None where the boot before and the last recording ended in order, or cannot be read.
    """
    at: list[float] = []
    if isinstance(scene.previous_boot, Known):
        timeline = scene.previous_boot.value.timeline
        if not ended_in_order(timeline):
            times = [time for event in timeline.events if (time := timeline.at(event)) is not None]
            at.append(max(times).timestamp() if times else 0.0)
    last = last_ended(scene)
    if last is not None and last.ended is None and is_recent(last):
        at.append(last.last_at)
    return max(at, default=None)
