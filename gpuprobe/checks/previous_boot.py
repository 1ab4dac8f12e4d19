"""How the boot before ended, and what had failed in it."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpuprobe.checks.base import CheckFinding, Status, not_checked
from gpuprobe.checks.scene import BootLog, Scene
from gpuprobe.checks.xids import HARDWARE, SILENT
from gpuprobe.events import ShutdownStarted, UncleanEndFound
from gpuprobe.reading import Known, Unavailable
from gpuprobe.timeline import Timeline

name = "previous boot"

KEEP = "sudo mkdir -p /var/log/journal && sudo systemd-tmpfiles --create --prefix /var/log/journal"
MORE = "gpuprobe diagnose --boot -1"
NO_BOOT = re.compile(r"No such boot ID|boot \(-1\) is not available")


def run(scene: Scene) -> Iterator[CheckFinding]:
    """One finding for its end, one for each hardware fault in it."""
    if isinstance(scene.previous_boot, Unavailable):
        host = scene.host.value if isinstance(scene.host, Known) else None
        inside = host is not None and host.container is not None
        how = "Run it on the host" if inside else KEEP
        missing = scene.previous_boot
        if NO_BOOT.search(missing.detail):
            missing = replace(missing, detail="the journal keeps no boot before this one")
        yield not_checked(name, "end of last boot", missing, how=how)
        return
    before = scene.previous_boot.value
    this = scene.this_boot.value.timeline if isinstance(scene.this_boot, Known) else None
    yield _end(before, this)
    for verdict in before.diagnosis.verdicts:
        if verdict.kind in SILENT or verdict.kind not in HARDWARE:
            continue
        pci = verdict.device.pci if verdict.device else None
        if scene.device is not None and pci is not None and pci.slot != scene.device.slot:
            continue
        yield CheckFinding(
            check=name,
            what=verdict.kind.value,
            status=Status.WARN,
            text=f"in the boot before: {verdict.summary.rstrip('.')}",
            subject=pci,
            figures={"xids": list(verdict.xids)} if verdict.xids else {},
            how=MORE,
            at=verdict.at.isoformat() if verdict.at else "",
        )


def signs_of_unclean_end(after: Timeline | None) -> list[str]:
    """What the start of a boot tells about an end without shutdown of the boot before.

    Args:
        after: The later boot: it finds the journal and the file systems as they were left.
    """
    signs = after.of(UncleanEndFound) if after is not None else ()
    return list(dict.fromkeys(spell_sign(event) for event in signs))


def spell_sign(event: UncleanEndFound) -> str:
    """What was found, with its name where the words of the log do not hold it."""
    if not event.detail or event.what in event.detail:
        return event.detail or event.what
    return f"{event.what.replace('-', ' ')}: {event.detail}"


def ended_in_order(before: Timeline) -> bool:
    """Whether a boot's log holds a shutdown."""
    return any(True for _ in before.of(ShutdownStarted))


def _end(before: BootLog, this: Timeline | None) -> CheckFinding:
    signs = signs_of_unclean_end(this)
    if ended_in_order(before.timeline):
        status, text, how = Status.OK, "shut down in order", ""
    elif signs:
        status, how = Status.WARN, MORE
        text = f"ended without a shutdown: {', '.join(signs)}"
    else:
        status, how = Status.WARN, MORE
        text = "its log ends without a shutdown: a reset, a power cut, or lines that were not kept"
    return CheckFinding(
        check=name,
        what="end of last boot",
        status=status,
        text=text,
        figures={"signs": len(signs)},
        how=how,
    )
