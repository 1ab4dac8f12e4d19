"""The host, or the cgroup the program ran in, ran out of memory, and a process was killed.

What proves it:
    The kernel's OOM killer, a cgroup's, systemd-oomd or Kubernetes' OOMKilled, with the process it
    chose. A program that the host refused memory (Windows' paging file, PyTorch's CPU allocator)
    makes it likely.

What follows from it:
    The killed process' GPU channels are cleaned up (Xid 45), and its peers see broken connections
    or CUDA errors.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import OomKilled
from gpuprobe.rules.base import Finding, Rule, certainty_of, moment
from gpuprobe.timeline import Timeline


def find(timeline: Timeline) -> Sequence[Finding]:
    """One finding for all kills."""
    kills = list(timeline.of(OomKilled))
    if not kills:
        return []
    root = next((kill for kill in kills if not kill.refused), kills[0])
    whose = "A cgroup's memory limit was reached" if root.cgroup else "The host ran out of memory"
    who = f"{root.process or 'a process'}" + (f" (pid {root.pid})" if root.pid else "")
    size = f", which held {root.rss_kib / 1048576:.1f} GiB" if root.rss_kib else ""
    end = f" and {who}{size}{',' if size else ''} was killed"
    if root.refused:
        end = " and refused a program what it asked for"
    finding = Finding(
        kind=Kind.HOST_OUT_OF_MEMORY,
        certainty=certainty_of(kills, Certainty.LIKELY if root.refused else Certainty.CONFIRMED),
        summary=f"{whose} {moment(root)}".rstrip() + end,
        root=root,
    )
    finding.cite(Role.PROOF, kills, "memory refused" if root.refused else "killed for memory")
    return [finding]


RULE = Rule(Kind.HOST_OUT_OF_MEMORY, find)
