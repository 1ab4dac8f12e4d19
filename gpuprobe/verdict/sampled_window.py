"""The samples before a loss, put in words: what they were, where nothing in them moved."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import Any, Final

from gpuprobe.derive import Extent, Window, extent, window_before
from gpuprobe.diagnosis import RuledOut
from gpuprobe.events import CountersSampled, GpuSampled, HostSampled
from gpuprobe.identity import PciAddress
from gpuprobe.pace import CALM_S, HOST_S
from gpuprobe.rules.base import Finding
from gpuprobe.timeline import Timeline
from gpuprobe.values import Value

BUSY_PERCENT: Final = 5.0
"""Utilisation above which a link's generation is judged: an idle card lowers it by itself."""

LONGEST_S: Final = 120.0
"""How far back a window reaches."""

SHORTEST_S: Final = 2.0
"""A window shorter than this carries no claim."""

STALE_S: Final = 5.0
"""Samples that ended longer than this before the fault was noticed say nothing about it."""

NORMAL_REASONS: Final = {
    0x2: "held by its clock settings",
    0x4: "at its power limit",
    0x10: "held by sync boost",
    0x100: "held by its display clocks",
}
"""Clock-event reasons that limit a healthy card at work. 0x1, idle, limits nothing."""


class View(Value):
    """The samples of one window."""

    samples: Sequence[GpuSampled]
    times: Sequence[float]
    window: Window

    def points(self, value: Callable[[GpuSampled], float | None]) -> list[tuple[float, float]]:
        """Time and value of each sample that has one."""
        return [
            (at, found)
            for at, sample in zip(self.times, self.samples, strict=True)
            if (found := value(sample)) is not None
        ]

    def busy(self) -> list[GpuSampled]:
        """The samples that show the GPU at work.

        Our own samples repeat the load that was read last. Those right before the first idle one
        may have been idle already, and an idle link is slow for no fault: they are left out.
        """
        found: list[GpuSampled] = []
        idle_at = float("inf")
        pairs = zip(reversed(self.times), reversed(self.samples), strict=True)
        for at, sample in pairs:
            if (sample.util_percent or 0.0) <= BUSY_PERCENT:
                idle_at = at
            elif idle_at - at > CALM_S:
                found.append(sample)
        return found[::-1]


def view_before(timeline: Timeline, finding: Finding, device: PciAddress) -> View | None:
    """The samples of a device right before a finding, or None where they carry no claim."""
    moment = timeline.at(finding.root)
    if moment is None:
        return None
    placed = [
        (at.timestamp(), sample)
        for sample in timeline.of(GpuSampled)
        if sample.device is not None
        and sample.device.slot == device
        and not sample.lost
        and (at := timeline.at(sample)) is not None
    ]
    placed.sort(key=lambda pair: pair[0])
    times = [at for at, _ in placed]
    window = window_before(times, moment.timestamp(), LONGEST_S)
    if window is None or window.span_s < SHORTEST_S or window.ended_s > STALE_S:
        return None
    part = slice(window.start, window.stop)
    return View([sample for _, sample in placed[part]], times[part], window)


def none_seen(timeline: Timeline, finding: Finding, view: View) -> RuledOut:
    """The finding that nothing moved, with the length, the rate and the figures of the samples."""
    figures: dict[str, Any] = {
        "window_s": round(view.window.span_s, 1),
        "rate_hz": round(view.window.rate_hz, 1),
        "samples": len(view.samples),
    }
    words = [
        *_power_words(view, figures),
        *_heat_words(view, figures),
        *_link_words(view, figures),
        *_reason_words(view, figures),
        *_traffic_words(view, figures),
        *_counter_words(timeline, finding, figures),
        *_host_words(timeline, finding, view, figures),
    ]
    figures["source"] = view.samples[0].origin.input
    return RuledOut(
        kind="precursor",
        why=(
            f"no precursor in the {length(view)} sampled at {view.window.rate_hz:.3g} Hz before "
            f"the loss: {'; '.join(words) or 'nothing moved'}; what is shorter than "
            f"{1000 / view.window.rate_hz:.0f} ms was not seen{_coarser(timeline, view)}"
        ),
        figures=figures,
    )


def _coarser(timeline: Timeline, view: View) -> str:
    """Our own samples repeat some of their values; a table of another tool is taken at its word."""
    ours = {one.path for one in timeline.inputs if one.format in ("live", "recording")}
    if view.samples[0].origin.input not in ours or 1 / view.window.rate_hz >= CALM_S:
        return ""
    return f" ({CALM_S:g} s for link width, load and memory in use)"


def length(view: View) -> str:
    """How long the window is."""
    span = view.window.span_s
    return f"{span:.0f} s" if span >= 10 else f"{span:.1f} s"


def _range(found: Extent) -> str:
    return f"{found.low:g}" if found.low == found.high else f"{found.low:g} to {found.high:g}"


def _power_words(view: View, figures: dict[str, Any]) -> Iterator[str]:
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


def _heat_words(view: View, figures: dict[str, Any]) -> Iterator[str]:
    heat = extent(view.points(lambda sample: sample.temp_c))
    if heat is None:
        return
    figures.update(core_temp_c_min=heat.low, core_temp_c_max=heat.high)
    slope = ""
    if heat.slope_per_s is not None:
        figures["core_temp_c_per_minute"] = round(heat.slope_per_s * 60, 2)
        slope = f", {heat.slope_per_s * 60:+.1f} °C a minute"
    yield f"core {_range(heat)} °C{slope}"


def _link_words(view: View, figures: dict[str, Any]) -> Iterator[str]:
    links = [(s.link_gen, s.link_width) for s in view.samples if s.link_gen and s.link_width]
    if not links:
        return
    names = sorted({f"Gen{speed} x{width}" for speed, width in links})
    changes = sum(1 for before, after in pairwise(links) if before != after)
    figures.update(links=names, link_changes=changes)
    how = (
        "throughout"
        if len(names) == 1
        else f"in {changes} {'change' if changes == 1 else 'changes'}"
    )
    yield f"link {' and '.join(names)} {how}"


def _reason_words(view: View, figures: dict[str, Any]) -> Iterator[str]:
    """How long the driver held the clocks down, and for which reason."""
    told = [s.clocks_event_reasons for s in view.samples if s.clocks_event_reasons is not None]
    if not told:
        return
    yield "no slowdown reason"
    for bit, words in NORMAL_REASONS.items():
        share = 100 * sum(1 for reasons in told if reasons & bit) / len(told)
        if share:
            figures[f"{words.replace(' ', '_')}_percent_of_time"] = round(share, 1)
            yield f"{words} {share:.0f} % of the time"


def _traffic_words(view: View, figures: dict[str, Any]) -> Iterator[str]:
    """The most that went over the link, where it was measured."""
    to_gpu = extent(view.points(lambda sample: sample.rx_bytes_per_s))
    from_gpu = extent(view.points(lambda sample: sample.tx_bytes_per_s))
    if to_gpu is None or from_gpu is None:
        return
    figures["pcie_to_gpu_gb_per_s_max"] = round(to_gpu.high / 1e9, 2)
    figures["pcie_from_gpu_gb_per_s_max"] = round(from_gpu.high / 1e9, 2)
    yield f"PCIe at most {to_gpu.high / 1e9:.3g} GB/s to it and {from_gpu.high / 1e9:.3g} from it"


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


def _host_words(
    timeline: Timeline, finding: Finding, view: View, figures: dict[str, Any]
) -> Iterator[str]:
    """The least memory that the host had left, and the most that its programs waited for it."""
    # The last sample before the window still holds where it begins.
    longest = view.window.span_s + view.window.ended_s + HOST_S
    seen = [
        event
        for event in timeline.of(HostSampled)
        if 0 <= (timeline.seconds_between(event, finding.root) or -1.0) <= longest
    ]
    free = [(e.memory_available_bytes or 0) / 2**30 for e in seen if e.memory_available_bytes]
    if not free:
        return
    figures["host_available_gib_min"] = round(min(free), 1)
    yield f"host memory at least {min(free):.3g} GiB available"
    waits = [e.memory_pressure_percent for e in seen if e.memory_pressure_percent is not None]
    if waits:
        figures["host_memory_pressure_percent_max"] = max(waits)
        yield f"memory pressure at most {max(waits):g} %"
