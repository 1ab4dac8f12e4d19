"""A GPU slowed down or shut down because of its temperature.

What proves it:
    A line that says so for a device (slowdown, shutdown), or a reading at or above the limit that
    the same tool prints. A sensor of the board that is called a GPU's, at a critical limit:
    likely. Xids 49 to 55 of old chips are worth a possible.

What is no proof:
    The host's own CPU throttling. A temperature without its limit. Memory temperature is not
    readable on GeForce, so a cool core never rules out heat as a whole.
"""

from __future__ import annotations

from collections.abc import Sequence

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import ThermalReported
from gpuprobe.rules import xids
from gpuprobe.rules.base import Finding, Rule, certainty_of, gpu_name, moment
from gpuprobe.timeline import Timeline

ACTED = {
    "shutdown": "shut down for its temperature",
    "critical": "passed a critical limit of its temperature",
}


def find(timeline: Timeline) -> Sequence[Finding]:
    """Heat that was acted on, one finding in all."""
    hot = [event for event in timeline.of(ThermalReported) if _too_hot(event)]
    found = xids.findings(timeline, Kind.THERMAL, "reported a temperature event")
    if hot:
        root = hot[0]
        device = next((event.device.slot for event in hot if event.device), None)
        reading = f" at {root.temp_c:g} °C" if root.temp_c is not None else ""
        name = gpu_name(device)
        finding = Finding(
            kind=Kind.THERMAL,
            certainty=certainty_of(hot, Certainty.CONFIRMED if device else Certainty.LIKELY),
            summary=(
                f"{name[0].upper()}{name[1:]} "
                f"{ACTED.get(root.what, 'slowed down for its temperature')}"
                f"{reading} {moment(root)}"
            ).rstrip(),
            root=root,
            device=device,
        )
        finding.cite(Role.PROOF, hot, "temperature")
        found.insert(0, finding)
    return found


def _too_hot(event: ThermalReported) -> bool:
    if event.what in ("slowdown", "shutdown", "critical"):
        return True
    return (
        event.temp_c is not None
        and event.slowdown_c is not None
        and event.temp_c >= event.slowdown_c
    )


RULE = Rule(Kind.THERMAL, find)
