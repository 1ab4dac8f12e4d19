"""The window before a loss: what moved in it, or the finding that nothing did.

"No precursor" is said only of what was sampled, with the length and the rate of the sampling:
without samples up to the loss there is no such finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

from gpuprobe.derive import Extent, Window, extent, window_before
from gpuprobe.diagnosis import Kind, RuledOut
from gpuprobe.events import (
    AerReported,
    CountersSampled,
    Event,
    GpuSampled,
    PowerReported,
    ThermalReported,
)
from gpuprobe.rules.base import Finding
from gpuprobe.rules.pcie_link_errors import link_rises
from gpuprobe.timeline import SAME_MOMENT_S, Timeline

LONGEST_S: Final = 120.0
"""How far back a window reaches."""

SHORTEST_S: Final = 2.0
"""A window shorter than this carries no claim."""

STALE_S: Final = 5.0
"""Samples that ended longer than this before the loss was noticed say nothing about it."""

RAMP_C: Final = 10.0
"""A core that got hotter by this much within the window was on its way."""

AT_LIMIT: Final = 0.98
"""Part of the power limit from which a draw counts as being at it."""

BUSY_PERCENT: Final = 5.0
"""Utilisation above which a link's generation is judged: an idle card lowers it by itself."""

REASONS: Final = {
    0x8: "a hardware slowdown was active",
    0x20: "the driver slowed it down for its temperature",
    0x40: "the hardware slowed it down for its temperature",
    0x80: "an external power brake was active",
}
"""Clock-event reasons that speak of trouble; 0x4, the power limit at work, is normal."""


@dataclass(frozen=True, slots=True)
class BeforeLoss:
    """What the samples before a loss show.

    Attributes:
        signs: Readings that moved, each with what that means.
        none_seen: The finding that nothing did, or None.
    """

    signs: tuple[tuple[Event, str], ...] = ()
    none_seen: RuledOut | None = None


@dataclass(frozen=True, slots=True)
class _View:
    """The samples of one window."""

    samples: Sequence[GpuSampled]
    times: Sequence[float]
    window: Window

    def points(self, value: Callable[[GpuSampled], float | None]) -> list[tuple[float, float]]:
        return [
            (at, found)
            for at, sample in zip(self.times, self.samples, strict=True)
            if (found := value(sample)) is not None
        ]


def before_loss(timeline: Timeline, finding: Finding) -> BeforeLoss:
    """Look at the samples right before a loss; empty for any other finding, or without samples."""
    if finding.kind is not Kind.DEVICE_LEFT_BUS or finding.device is None:
        return BeforeLoss()
    view = _view(timeline, finding)
    if view is None:
        return BeforeLoss()
    signs = [*_signs(view), *_counter_signs(timeline, finding, view)]
    other = _reported(timeline, finding, view)
    if signs or other:
        return BeforeLoss(signs=tuple(signs))
    return BeforeLoss(none_seen=_none_seen(timeline, finding, view))


def _view(timeline: Timeline, finding: Finding) -> _View | None:
    moment = timeline.at(finding.root)
    if moment is None:
        return None
    placed = [
        (at.timestamp(), sample)
        for sample in timeline.of(GpuSampled)
        if sample.device is not None
        and sample.device.slot == finding.device
        and not sample.lost
        and (at := timeline.at(sample)) is not None
    ]
    placed.sort(key=lambda pair: pair[0])
    times = [at for at, _ in placed]
    window = window_before(times, moment.timestamp(), LONGEST_S)
    if window is None or window.span_s < SHORTEST_S or window.ended_s > STALE_S:
        return None
    part = slice(window.start, window.stop)
    return _View([sample for _, sample in placed[part]], times[part], window)


def _signs(view: _View) -> Iterator[tuple[Event, str]]:
    last = view.samples[-1]
    for bit, words in REASONS.items():
        first = next((s for s in view.samples if (s.clocks_event_reasons or 0) & bit), None)
        if first is not None:
            yield first, words
    heat = extent(view.points(lambda sample: sample.temp_c))
    if heat is not None and heat.last - heat.first >= RAMP_C:
        yield last, f"the core went from {heat.first:g} to {heat.last:g} °C in {_length(view)}"
    power = extent(view.points(lambda sample: sample.power_w))
    limits = [sample.limit_w for sample in view.samples if sample.limit_w]
    if power is not None and limits and power.high >= AT_LIMIT * min(limits):
        highest = max(view.samples, key=lambda sample: sample.power_w or 0.0)
        yield highest, f"it drew {power.high:g} W of {min(limits):g} W, at its limit"
    yield from _link_signs(view)


def _link_signs(view: _View) -> Iterator[tuple[Event, str]]:
    busy = [s for s in view.samples if (s.util_percent or 0.0) > BUSY_PERCENT]
    widths = [(s, s.link_width) for s in view.samples if s.link_width]
    if widths and widths[-1][1] < max(width for _, width in widths):
        best = max(width for _, width in widths)
        yield widths[-1][0], f"the link went from x{best} to x{widths[-1][1]}"
    speeds = [(s, s.link_gen) for s in busy if s.link_gen]
    if speeds and speeds[-1][1] < max(speed for _, speed in speeds):
        best = max(speed for _, speed in speeds)
        yield speeds[-1][0], f"the link went from Gen{best} to Gen{speeds[-1][1]} under load"


def _counter_signs(
    timeline: Timeline, finding: Finding, view: _View
) -> Iterator[tuple[Event, str]]:
    assert finding.device is not None
    for rise in link_rises(timeline).get(finding.device, []):
        gap = timeline.seconds_between(rise.event, finding.root)
        if gap is not None and SAME_MOMENT_S < gap <= view.window.span_s + view.window.ended_s:
            yield rise.event, f"{rise.name} rose from {rise.before} to {rise.after}"


def _reported(timeline: Timeline, finding: Finding, view: _View) -> bool:
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


def _none_seen(timeline: Timeline, finding: Finding, view: _View) -> RuledOut:
    figures: dict[str, Any] = {
        "window_s": round(view.window.span_s, 1),
        "rate_hz": round(view.window.rate_hz, 1),
        "samples": len(view.samples),
    }
    words = [
        *_power_words(view, figures),
        *_heat_words(view, figures),
        *_link_words(view, figures),
        *_counter_words(timeline, finding, figures),
    ]
    figures["source"] = view.samples[0].origin.input
    return RuledOut(
        kind="precursor",
        why=(
            f"no precursor in the {_length(view)} sampled at {view.window.rate_hz:.3g} Hz before "
            f"the loss: {'; '.join(words) or 'nothing moved'}; what is shorter than "
            f"{1000 / view.window.rate_hz:.0f} ms was not seen"
        ),
        figures=figures,
    )


def _length(view: _View) -> str:
    span = view.window.span_s
    return f"{span:.0f} s" if span >= 10 else f"{span:.1f} s"


def _range(found: Extent) -> str:
    return f"{found.low:g}" if found.low == found.high else f"{found.low:g} to {found.high:g}"


def _power_words(view: _View, figures: dict[str, Any]) -> Iterator[str]:
    power = extent(view.points(lambda sample: sample.power_w))
    limits = [sample.limit_w for sample in view.samples if sample.limit_w]
    if power is None:
        return
    figures.update(power_w_min=power.low, power_w_max=power.high)
    of = ""
    if limits:
        figures["limit_w"] = min(limits)
        of = f" of {min(limits):g} W ({100 * power.high / min(limits):.0f} % at most)"
    yield f"{_range(power)} W{of}"


def _heat_words(view: _View, figures: dict[str, Any]) -> Iterator[str]:
    heat = extent(view.points(lambda sample: sample.temp_c))
    if heat is None:
        return
    figures.update(core_temp_c_min=heat.low, core_temp_c_max=heat.high)
    slope = ""
    if heat.slope_per_s is not None:
        figures["core_temp_c_per_minute"] = round(heat.slope_per_s * 60, 2)
        slope = f", {heat.slope_per_s * 60:+.1f} °C a minute"
    yield f"core {_range(heat)} °C{slope}"


def _link_words(view: _View, figures: dict[str, Any]) -> Iterator[str]:
    links = {(s.link_gen, s.link_width) for s in view.samples if s.link_gen and s.link_width}
    if links:
        names = sorted(f"Gen{speed} x{width}" for speed, width in links)
        figures["links"] = names
        yield f"link {' and '.join(names)}" + (" throughout" if len(names) == 1 else "")
    if any(sample.clocks_event_reasons is not None for sample in view.samples):
        yield "no slowdown reason"


def _counter_words(timeline: Timeline, finding: Finding, figures: dict[str, Any]) -> Iterator[str]:
    """Counters that were read at least twice and did not move."""
    names: dict[str, int] = {}
    for event in timeline.of(CountersSampled):
        below = timeline.gpus_below(event.device)
        if event.device is not None and (
            event.device.slot == finding.device or finding.device in below
        ):
            for name, _ in event.counters:
                kind = "AER" if name.startswith("aer_") else name
                names[kind] = names.get(kind, 0) + 1
    flat = [word for name, word in (("pcie_replay", "replays"), ("AER", "AER")) if names.get(name)]
    if flat:
        figures["counters_risen"] = 0
        yield f"{' and '.join(flat)} flat"
