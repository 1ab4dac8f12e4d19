"""Which port a device hangs on, told from the order of the kernel's lines.

Where no line names both: the kernel's account of a recovery, and a slot that gets a card.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from gpuprobe.events import (
    AerRecoveryEnded,
    AerReported,
    DeviceChanged,
    DpcTriggered,
    Event,
    SlotChanged,
    is_evidence,
)
from gpuprobe.identity import PciAddress

_BRIDGE = 0x0604
"""Class of PCI bridges, without the programming interface."""

_FOUND_WITHIN_S = 10.0
"""Time that the kernel takes from a slot's link to the last device behind it, with docks."""


def ties(events: Iterable[Event], same_moment_s: float) -> Iterator[tuple[PciAddress, PciAddress]]:
    """Slots of devices, each with the port above it.

    Args:
        events: In order.
        same_moment_s: Seconds within which two lines belong together, where they have no number.
    """
    named = [event for event in events if event.device is not None and is_evidence(event)]
    yield from _broadcasts(named, same_moment_s)
    yield from _plugged(named, same_moment_s)


def _broadcasts(
    events: Sequence[Event], same_moment_s: float
) -> Iterator[tuple[PciAddress, PciAddress]]:
    """Devices and the port above them, from the kernel's account of one recovery.

    It tells every device below the port, names those without a callback, and names the port last.
    A log that ends before that has the port's own error just above.
    """
    told: list[AerRecoveryEnded] = []
    port: AerReported | DpcTriggered | None = None
    for event in events:
        if event.device is None:
            continue
        if told and not _close(told[-1], event, same_moment_s):
            told = []
        if port and not _close(port, event, same_moment_s):
            port = None
        if isinstance(event, AerReported | DpcTriggered):
            port = event if getattr(event, "driver", "pcieport") == "pcieport" else None
        elif isinstance(event, AerRecoveryEnded):
            if event.outcome == "no-callback":
                told.append(event)
                if port is not None and port.device and port.device != event.device:
                    yield event.device.slot, port.device
            elif event.driver == "pcieport":
                yield from (
                    (other.device.slot, event.device)
                    for other in told
                    if other.device and other.device != event.device
                )
                told = []


def _plugged(
    events: Sequence[Event], same_moment_s: float
) -> Iterator[tuple[PciAddress, PciAddress]]:
    """Devices that the kernel finds right after a slot got a link, and that slot's port.

    Of two slots that got one at a time it is not said whose device it is, nor without times.
    """
    up: SlotChanged | None = None
    several = False
    for event in events:
        if up is not None and not _close(up, event, same_moment_s):
            up, several = None, False
        if isinstance(event, SlotChanged):
            if event.what in ("link-up", "card-present"):
                several = several or (up is not None and up.device != event.device)
                up = event
            elif up is not None and up.device == event.device:
                up, several = None, False
        elif (
            isinstance(event, DeviceChanged)
            and event.what == "added"
            and event.class_code is not None
            and event.class_code >> 8 != _BRIDGE
            and up is not None
            and up.device is not None
            and event.device is not None
            and not several
            and (gap := _seconds(up, event)) is not None
            and 0 <= gap <= _FOUND_WITHIN_S
        ):
            yield event.device.slot, up.device


def _seconds(first: Event, second: Event) -> float | None:
    """Seconds between two lines of one input by the clock that both have, or None."""
    at, later = first.stamp, second.stamp
    if at is None or later is None:
        return None
    if at.monotonic_s is not None and later.monotonic_s is not None:
        return later.monotonic_s - at.monotonic_s
    if (
        at.wall is None
        or later.wall is None
        or (at.wall.tzinfo is None) != (later.wall.tzinfo is None)
    ):
        return None
    return (later.wall - at.wall).total_seconds()


def _close(first: Event, second: Event, same_moment_s: float) -> bool:
    """Whether two lines of one input can belong to one report."""
    if first.origin.input != second.origin.input:
        return False
    if first.origin.line is None or second.origin.line is None:
        # Lines that were read as they came have no number, but the kernel's own clock.
        at, later = first.stamp, second.stamp
        if at is None or later is None or at.monotonic_s is None or later.monotonic_s is None:
            return True
        return 0 <= later.monotonic_s - at.monotonic_s <= same_moment_s
    return 0 <= second.origin.line - first.origin.line <= 24
