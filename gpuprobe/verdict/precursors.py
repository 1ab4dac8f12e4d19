"""The window before a loss: what moved in it, or the finding that nothing did.

"No precursor" is said only of what was sampled, with the length and the rate of the sampling:
without samples up to the loss there is no such finding.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from gpuprobe.derive import extent
from gpuprobe.diagnosis import Kind, RuledOut
from gpuprobe.events import (
    AerReported,
    Event,
    PowerReported,
    ThermalReported,
)
from gpuprobe.rules.base import Finding
from gpuprobe.rules.pcie_link_errors import link_rises
from gpuprobe.timeline import SAME_MOMENT_S, Timeline
from gpuprobe.values import Value
from gpuprobe.verdict.sampled_window import View, length, none_seen, view_before

RAMP_C: Final = 10.0
"""A core that got hotter by this much within the window was on its way."""

AT_LIMIT: Final = 0.98
"""Part of the power limit from which a draw counts as being at it."""

REASONS: Final = {
    0x8: "a hardware slowdown was active",
    0x20: "the driver slowed it down for its temperature",
    0x40: "the hardware slowed it down for its temperature",
    0x80: "an external power brake was active",
}
"""Clock-event reasons that speak of trouble; 0x4, the power limit at work, is normal."""


class BeforeLoss(Value):
    """What the samples before a loss show.

    Attributes:
        signs: Readings that moved, each with what that means.
        none_seen: The finding that nothing did, or None.
    """

    signs: tuple[tuple[Event, str], ...] = ()
    none_seen: RuledOut | None = None


def before_loss(timeline: Timeline, finding: Finding) -> BeforeLoss:
    """Look at the samples right before a loss; empty for any other finding, or without samples."""
    if finding.kind is not Kind.DEVICE_LEFT_BUS or finding.device is None:
        return BeforeLoss()
    view = view_before(timeline, finding, finding.device)
    if view is None:
        return BeforeLoss()
    signs = [*_signs(view), *_counter_signs(timeline, finding, view)]
    other = _reported(timeline, finding, view)
    if signs or other:
        return BeforeLoss(signs=tuple(signs))
    return BeforeLoss(none_seen=none_seen(timeline, finding, view))


def _signs(view: View) -> Iterator[tuple[Event, str]]:
    last = view.samples[-1]
    for bit, words in REASONS.items():
        first = next((s for s in view.samples if (s.clocks_event_reasons or 0) & bit), None)
        if first is not None:
            yield first, words
    heat = extent(view.points(lambda sample: sample.temp_c))
    if heat is not None and heat.last - heat.first >= RAMP_C:
        yield last, f"the core went from {heat.first:g} to {heat.last:g} °C in {length(view)}"
    power = extent(view.points(lambda sample: sample.power_w))
    limits = [sample.limit_w for sample in view.samples if sample.limit_w]
    if power is not None and limits and power.high >= AT_LIMIT * min(limits):
        highest = max(view.samples, key=lambda sample: sample.power_w or 0.0)
        yield highest, f"it drew {power.high:g} W of {min(limits):g} W, at its limit"
    yield from _link_signs(view)


def _link_signs(view: View) -> Iterator[tuple[Event, str]]:
    widths = [(s, s.link_width) for s in view.samples if s.link_width]
    if widths and widths[-1][1] < max(width for _, width in widths):
        best = max(width for _, width in widths)
        yield widths[-1][0], f"the link went from x{best} to x{widths[-1][1]}"
    speeds = [(s, s.link_gen) for s in view.busy() if s.link_gen]
    if speeds and speeds[-1][1] < max(speed for _, speed in speeds):
        best = max(speed for _, speed in speeds)
        yield speeds[-1][0], f"the link went from Gen{best} to Gen{speeds[-1][1]} under load"


def _counter_signs(timeline: Timeline, finding: Finding, view: View) -> Iterator[tuple[Event, str]]:
    assert finding.device is not None
    for rise in link_rises(timeline).get(finding.device, []):
        gap = timeline.seconds_between(rise.event, finding.root)
        if gap is not None and SAME_MOMENT_S < gap <= view.window.span_s + view.window.ended_s:
            yield rise.event, f"{rise.name} rose from {rise.before} to {rise.after}"


def _reported(timeline: Timeline, finding: Finding, view: View) -> bool:
    """Whether a line within the window speaks of power, heat or the link; it is cited elsewhere."""
    for event in timeline.of(AerReported, PowerReported, ThermalReported):
        gap = timeline.seconds_between(event, finding.root)
        ours = event.device is None or (
            event.device.slot == finding.device
            or finding.device in timeline.gpus_below(event.device)
        )
        reading = isinstance(event, ThermalReported | PowerReported) and "reading" in event.what
        if ours and not reading and gap is not None and 0 <= gap <= view.window.span_s:
            return True
    return False
