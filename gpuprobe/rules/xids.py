"""Xids as the catalogue judges them, gathered for the rules."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from gpuprobe import catalog
from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import Event, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.rules.base import Finding, certainty_of, gpu_name, moment, times, total
from gpuprobe.timeline import SAME_MOMENT_S, Timeline

DeviceKey = tuple[PciAddress | None, str | None]


def kind_of(event: XidReported) -> Kind | None:
    """The verdict kind that this Xid supports as a root; None for context and clean-up."""
    known = catalog.xid(event.code)
    if event.caused_by is not None:
        return None
    return known.kind if known else Kind.CANNOT_TELL


def by_device(
    timeline: Timeline, wanted: Callable[[XidReported], bool]
) -> dict[DeviceKey, list[XidReported]]:
    """The wanted Xids, grouped by GPU; a UUID is resolved to an address where a line joins them."""
    groups: dict[DeviceKey, list[XidReported]] = defaultdict(list)
    for event in timeline.of(XidReported):
        if not wanted(event) or _said_twice(timeline, event):
            continue
        device, uuid = event.device, event.uuid
        if device is None and uuid is not None:
            known = timeline.identify(None, uuid=uuid)
            device = known.pci if known else None
        groups[(device.slot if device else None, None if device else uuid)].append(event)
    return groups


def _said_twice(timeline: Timeline, event: XidReported) -> bool:
    """Whether NVML repeats an Xid that the kernel log has with more words."""
    if event.via != "nvml":
        return False
    return any(
        other.via != "nvml"
        and other.code == event.code
        and (None in (other.device, event.device) or other.device == event.device)
        and abs(timeline.seconds_between(event, other) or 0.0) <= SAME_MOMENT_S
        for other in timeline.of(XidReported)
    )


def certainty_for(events: Iterable[XidReported]) -> Certainty:
    """The best certainty that these Xids carry, by the catalogue and by their surroundings."""
    events = list(events)
    best = Certainty.POSSIBLE
    for event in events:
        known = catalog.xid(event.code)
        limit = (known.max_certainty if known else None) or Certainty.CONFIRMED
        best = max(best, limit, key=lambda certainty: certainty.rank)
    if any(event.device or event.uuid for event in events):
        return certainty_of(events, best)
    return min(best, Certainty.LIKELY, key=lambda certainty: certainty.rank)


def describe(events: Iterable[XidReported]) -> str:
    """`Xid 48 (uncorrectable memory error) twice and Xid 64 (...)`."""
    by_code: dict[int, list[XidReported]] = defaultdict(list)
    for event in events:
        by_code[event.code].append(event)
    parts = []
    for code, group in by_code.items():
        known = catalog.xid(code)
        name = f" ({known.name})" if known else ""
        count = total(group)
        parts.append(f"Xid {code}{name}" + (f" {times(count)}" if count > 1 else ""))
    return ", ".join(parts[:4]) + (f" and {len(parts) - 4} more codes" if len(parts) > 4 else "")


def findings(timeline: Timeline, kind: Kind, sentence: str) -> list[Finding]:
    """One finding a GPU for the Xids of `kind`.

    Args:
        timeline: What the inputs say.
        kind: The verdict kind.
        sentence: Predicate behind the GPU's name, such as "reported a memory error".
    """
    found = []
    for (device, uuid), events in by_device(timeline, lambda e: kind_of(e) is kind).items():
        root = first(timeline, events)
        name = gpu_name(device, uuid)
        finding = Finding(
            kind=kind,
            certainty=certainty_for(events),
            summary=f"{name} {sentence} {moment(root)}".rstrip() + f": {describe(events)}",
            root=root,
            device=device,
            uuid=uuid,
        )
        for event in events:
            known = catalog.xid(event.code)
            finding.cite(Role.PROOF, [event], known.name if known else "")
        found.append(finding)
    return found or _blamed(timeline, kind, sentence)


def blaming(timeline: Timeline, code: Callable[[int], bool]) -> list[XidReported]:
    """Xids 45 that name as their cause an Xid of which no line is among the inputs.

    Args:
        timeline: What the inputs say.
        code: Whether the Xid that is blamed is wanted.
    """
    seen = {event.code for event in timeline.of(XidReported)}
    return [
        event
        for event in timeline.of(XidReported)
        if event.caused_by is not None and event.caused_by not in seen and code(event.caused_by)
    ]


def _blamed(timeline: Timeline, kind: Kind, sentence: str) -> list[Finding]:
    """Findings from clean-up lines alone: the log was cut before the Xid they blame."""

    def wanted(code: int) -> bool:
        known = catalog.xid(code)
        return known is not None and known.kind is kind

    found: dict[PciAddress | None, Finding] = {}
    for event in blaming(timeline, wanted):
        device = event.device.slot if event.device else None
        if device not in found:
            found[device] = Finding(
                kind=kind,
                certainty=Certainty.LIKELY,
                summary=f"{gpu_name(device)} {sentence} before "
                f"{moment(event) or 'this log begins'}: its clean-up names Xid {event.caused_by}",
                root=event,
                device=device,
            )
        found[device].cite(Role.SUPPORT, [event], f"clean-up that names Xid {event.caused_by}")
    return list(found.values())


def action_owed(timeline: Timeline, root: Event, device: PciAddress | None) -> int:
    """The recovery action that the driver's last Xid 154 of that GPU and boot asks for; 0 if none.

    Args:
        timeline: What the inputs say.
        root: An event of the boot that is meant.
        device: The GPU; any GPU's counts where it is not known.
    """
    asked = [
        event.recovery_action or 0
        for event in timeline.of(XidReported)
        if event.code == 154
        and timeline.same_run(root, event)
        and (device is None or event.device is None or event.device.slot == device)
    ]
    return asked[-1] if asked else 0


def first(timeline: Timeline, events: list[XidReported]) -> XidReported:
    """The earliest of the events, as far as they can be placed in time."""
    earliest = events[0]
    for event in events[1:]:
        if timeline.precedes(event, earliest):
            earliest = event
    return earliest
