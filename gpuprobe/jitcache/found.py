"""What a scan found, as events that rules weigh beside a log."""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.clock import Stamp
from gpuprobe.diagnosis import Input
from gpuprobe.events import SCANNED, JitCacheFailed, Origin
from gpuprobe.jitcache.api import scan
from gpuprobe.jitcache.base import Harm
from gpuprobe.jitcache.report import CacheFinding, ScanReport
from gpuprobe.sources.ingest import Reading

FORMAT = "jit-cache"
"""How such an input is listed."""


def read_caches(paths: Sequence[str], first: int = 0) -> list[Reading]:
    """Scan these caches and give what was found as inputs.

    Raises:
        UsageError: A path is no folder.
    """
    return to_readings(scan(paths), first)


def to_event(found: CacheFinding, order: int, stamp: Stamp | None = None) -> JitCacheFailed:
    """The bad file as an event of its own input; `stamp` says when it was found."""
    why = f"{found.name or found.key} {found.why}"
    said = f" ({found.kernel})" if found.kernel else ""
    return JitCacheFailed(
        origin=Origin(str(found.path), None, f"{why}{said}"[:500], ref="scan", order=(order, 0)),
        stamp=stamp,
        source=SCANNED,
        cache=found.cache,
        why=why,
        path=str(found.entry_path),
        key=found.key,
        fatal=found.harm in (Harm.FATAL, Harm.HANGS),
    )


def to_readings(report: ScanReport, first: int = 0) -> list[Reading]:
    """One input a bad file; one for each cache without any, so that it counts as looked at."""
    readings = []
    for order, found in enumerate(report.bad, start=first):
        note = f"found by a scan of {found.root}"
        given = Input(str(found.path), FORMAT, None, 1, (note,))
        readings.append(Reading(input=given, events=[to_event(found, order)]))
    clean = [
        place
        for place in report.places
        if not any(item.path.is_relative_to(place.path) for item in report.bad)
    ]
    many = f"{report.checked} entries were looked at in all caches"
    for place in clean:
        note = f"a scan found nothing bad in it; {many}"
        readings.append(Reading(Input(str(place.path), FORMAT, None, 1, (note,)), []))
    return readings
