"""The whole machine died without a shutdown.

What proves it:
    A boot that ends without shutdown lines, followed by another that finds an unclean journal or
    file system; the firmware's "Previous system reset reason", or a fatal hardware error that it
    kept of the boot before (BERT); NVMe unsafe shutdowns that rose; the kernel's own panic;
    Slurm's "unexpectedly rebooted", which leaves out the reboots that it was asked for.

What is no proof:
    One unclean sign alone, without the boot before it: possible. A hang with the reset button
    pressed looks the same. After a GPU loss somebody usually cuts the power: then it is a
    consequence.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import BootStarted, ShutdownStarted, UncleanEndFound
from gpuprobe.rules.base import Finding, Rule, certainty_of, moment
from gpuprobe.timeline import Timeline

TELLING = frozenset({"reset-reason", "last-crash", "bmc", "panic", "bert", "scheduler"})


HEADING_LINES = 3
"""Lines that journalctl may write above the mark of the first boot it shows."""


def _follows(boots: Sequence[BootStarted]) -> bool:
    """Whether lines of an earlier boot, which need say nothing, stand above a journal's mark."""
    return any(
        "-- Reboot --" in boot.origin.text
        or ("-- Boot " in boot.origin.text and (boot.origin.line or 0) > HEADING_LINES)
        for boot in boots
    )


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for the end of the boot before."""
    signs = list(timeline.of(UncleanEndFound))
    if not signs:
        return []
    boots = list(timeline.of(BootStarted))
    orderly = list(timeline.of(ShutdownStarted))
    two_boots = len({timeline.boot_of(event) for event in (*boots, *signs)}) > 1 or _follows(boots)
    telling = [sign for sign in signs if sign.what in TELLING]
    cut = two_boots and not orderly
    kinds = {sign.what for sign in signs}
    if not (telling or cut or len(kinds) > 1):
        return []
    root = (telling or signs)[0]
    best = Certainty.LIKELY if (telling or (cut and len(kinds) > 1)) else Certainty.POSSIBLE
    finding = Finding(
        kind=Kind.HOST_RESET,
        certainty=certainty_of(signs, best),
        summary=_went_down(root) + (f" ({root.detail})" if root.detail else ""),
        root=root,
        background=True,
    )
    for sign in signs:
        panic = sign.what == "panic"
        says = "the kernel's last words" if panic else "unclean end of the boot before"
        finding.cite(Role.PROOF, [sign], says)
    return [finding]


def _went_down(root: UncleanEndFound) -> str:
    """What happened and when: a panic is told as it comes, everything else by the next boot."""
    if root.what == "panic":
        return f"The machine went down by a kernel panic {moment(root)}".rstrip()
    when = f" before {moment(root)[3:]}" if root.stamp else ""
    return f"The machine went down without a shutdown{when}"


RULE = Rule(Kind.HOST_RESET, find)
