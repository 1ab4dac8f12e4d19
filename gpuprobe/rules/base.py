"""What a rule is, and the small vocabulary that rules share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC

from gpuprobe.diagnosis import Certainty, Kind, Role
from gpuprobe.events import Event, ProbeStalled, Setting, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.timeline import Timeline
from gpuprobe.values import Value

LOST_XID = 79
"""The Xid of a GPU that does not answer on the bus any more."""

RM_STATUS_LOST = 0x0F
"""The driver's status "GPU is lost" (NV_ERR_GPU_IS_LOST)."""


class Cited(Value):
    """An event in its role for a finding, with what it means there."""

    role: Role
    event: Event
    says: str = ""


@dataclass(slots=True)
class Finding:
    """What a rule found, before findings are weighed against each other.

    Attributes:
        kind: The verdict kind it argues for.
        certainty: How sure; None for `cannot-tell` and `no-fault`.
        summary: One sentence.
        root: The event that decided; what came after it may be its consequence.
        device: The function it is about, or None where no line names it.
        uuid: The GPU's UUID where only that is known.
        cited: Evidence, in the order to be shown within its role.
        other_devices: Devices that only suffered from it.
        tags: Conditions for choosing next steps.
        background: It describes a standing condition or a symptom, so that any finding with a
            cause of its own goes before it.
        never_first: Worth a line, never an answer: a narrow link at boot, for example.
    """

    kind: Kind
    certainty: Certainty | None
    summary: str
    root: Event
    device: PciAddress | None = None
    uuid: str | None = None
    cited: list[Cited] = field(default_factory=list)
    other_devices: set[PciAddress] = field(default_factory=set)
    tags: set[str] = field(default_factory=set)
    background: bool = False
    never_first: bool = False

    def cite(self, role: Role, events: Iterable[Event], says: str = "") -> None:
        """Add events in a role, skipping those cited already."""
        known = {id(cited.event) for cited in self.cited}
        for event in events:
            if id(event) not in known:
                self.cited.append(Cited(role, event, says))
                known.add(id(event))

    def events(self, *roles: Role) -> list[Event]:
        """The cited events in these roles (all of them without an argument)."""
        return [c.event for c in self.cited if not roles or c.role in roles]

    @property
    def xids(self) -> tuple[int, ...]:
        """Unique Xids of all cited events, in order of appearance."""
        codes = [
            event.code
            for event in sorted(self.events(), key=lambda event: event.origin.order)
            if isinstance(event, XidReported) and event.setting in (Setting.LOG, Setting.BARE)
        ]
        return tuple(dict.fromkeys(codes))


class Rule(Value):
    """One verdict kind and the function that looks for it.

    The module's docstring is the rule's page; `gpuprobe explain KIND` prints it.
    """

    kind: Kind
    find: Callable[[Timeline], Sequence[Finding]]


def gpu_name(device: PciAddress | None, uuid: str | None = None) -> str:
    """How a sentence calls the GPU: by address, else by UUID, else "a GPU"."""
    if device is not None:
        return f"GPU {device.slot}"
    return f"GPU {uuid}" if uuid else "a GPU (the inputs do not say which)"


def moment(event: Event) -> str:
    """The event's time as its log writes it, with a leading "at ", or ""."""
    if event.stamp is None:
        return ""
    raw = event.stamp.raw.strip("[]() ")
    if event.stamp.wall is None and event.stamp.monotonic_s is not None:
        return f"at {event.stamp.monotonic_s:.3f} s after boot"
    if event.stamp.is_absolute and event.stamp.wall is not None and raw.replace(".", "").isdigit():
        # A journal's own count of microseconds: nobody reads those.
        return f"at {event.stamp.wall.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
    wall = event.stamp.wall
    unlogged = event.stamp.is_live or (
        event.origin.line is None and wall and raw == wall.isoformat()
    )
    if wall is not None and unlogged:
        wall = wall.astimezone(UTC)
        return f"at {wall:%Y-%m-%d %H:%M:%S}.{wall.microsecond // 1000:03d} UTC"
    return f"at {raw}"


def certainty_of(events: Iterable[Event], best: Certainty = Certainty.CONFIRMED) -> Certainty:
    """`best`, lowered to likely where none of the events has a log's framing around it."""
    if any(event.setting is Setting.LOG for event in events):
        return best
    return min(best, Certainty.LIKELY, key=lambda certainty: certainty.rank)


def times(count: int) -> str:
    """`once`, `twice`, `17 times`."""
    return {1: "once", 2: "twice"}.get(count, f"{count} times")


def total(events: Iterable[Event]) -> int:
    """How many lines the events stand for, counted repeats included."""
    return sum(event.count for event in events)


def stall_words(stall: ProbeStalled) -> str:
    """What a call that does not return is worth, in one clause."""
    held = ", and the kernel holds the process (state D)" if stall.state == "D" else ""
    return f"a call into the driver did not return in {stall.waited_s:.1f} s{held}"
