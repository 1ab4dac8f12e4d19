"""What the samples right before a fault rule out: one row a cause, each with its figures.

A row speaks of what was sampled and of nothing else: a cause whose reading is not among the samples
has no row, and neither has one whose reading comes near its limit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from typing import Any, Final

from gpuprobe.diagnosis import Kind, RuledOut
from gpuprobe.events import (
    AerReported,
    CountersSampled,
    GpuMemoryExhausted,
    GpuSampled,
    HostSampled,
    LinkStateReported,
    OomKilled,
    ThermalReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.pace import HOST_S
from gpuprobe.rules.base import Finding
from gpuprobe.rules.pcie_link_errors import link_rises
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.sampled_window import View, length, view_before

COOL_C: Final = 15.0
"""A core that stays this far below its slowdown was not hot."""

FULL: Final = 0.9
"""Part of the GPU's memory from which an allocation may well be refused."""

SCARCE: Final = 0.05
"""Part of the host's memory below which it may run out between two readings."""

_THERMAL: Final = 0x20 | 0x40
_BRAKE: Final = 0x80
_HARDWARE: Final = 0x8
"""Clock-event reasons: heat, the external power brake, and a hardware slowdown of either kind."""

_ECC: Final = (
    "ecc_uncorrected_volatile",
    "ecc_uncorrected_aggregate",
    "remapped_uncorrected",
    "remap_pending",
    "remap_failed",
)
_ROWS: Final = (
    (Kind.THERMAL, "_heat"),
    (Kind.POWER, "_power"),
    (Kind.PCIE_LINK_ERRORS, "_link"),
    (Kind.GPU_MEMORY_ERROR, "_ecc"),
    (Kind.GPU_OUT_OF_MEMORY, "_gpu_memory"),
    (Kind.HOST_OUT_OF_MEMORY, "_host_memory"),
)


def sampled_out(timeline: Timeline, finding: Finding, *told: Kind) -> Iterator[RuledOut]:
    """Rows from the samples right before a finding, but for its own kind and those of `told`."""
    device = finding.device or _only_one(timeline)
    view = None if device is None else view_before(timeline, finding, device)
    if device is None or view is None:
        return
    rows = _Rows(timeline, finding, device, view)
    for kind, name in _ROWS:
        if kind is finding.kind or kind in told:
            continue
        row: tuple[str, dict[str, Any]] | None = getattr(rows, name)()
        if row is not None:
            why, figures = row
            figures |= {
                "samples": len(view.samples),
                "window_s": round(view.window.span_s, 1),
                "rate_hz": round(view.window.rate_hz, 1),
                "source": view.samples[0].origin.input,
            }
            yield RuledOut(kind=kind, why=why, figures=figures)


def _only_one(timeline: Timeline) -> PciAddress | None:
    """The GPU that was sampled, where a finding names none and there is but one."""
    slots = {event.device.slot for event in timeline.of(GpuSampled) if event.device is not None}
    return slots.pop() if len(slots) == 1 else None


class _Rows:
    """One method a cause: why it is ruled out and the figures, or None."""

    def __init__(
        self, timeline: Timeline, finding: Finding, device: PciAddress, view: View
    ) -> None:
        self.timeline = timeline
        self.finding = finding
        self.device = device
        self.view = view
        self.span = (
            f"in the {length(view)} before it, read {view.window.rate_hz:.3g} times a second"
        )
        told = (sample.clocks_event_reasons for sample in view.samples)
        self.reasons = [mask for mask in told if mask is not None]

    def _heat(self) -> tuple[str, dict[str, Any]] | None:
        temps = [s.temp_c for s in self.view.samples if s.temp_c is not None]
        limits = [
            event.slowdown_c
            for event in self.timeline.of(ThermalReported)
            if event.slowdown_c and (event.device is None or event.device.slot == self.device)
        ]
        slowed = any(mask & (_THERMAL | _HARDWARE) for mask in self.reasons)
        if not temps or not limits or max(temps) > min(limits) - COOL_C or slowed:
            return None
        figures: dict[str, Any] = {"core_temp_c_max": max(temps), "slowdown_c": min(limits)}
        text = f"core at most {max(temps):g} °C of {min(limits):g} °C where it slows down"
        if memory := [s.memory_temp_c for s in self.view.samples if s.memory_temp_c is not None]:
            figures["memory_temp_c_max"] = max(memory)
            text += f", memory at most {max(memory):g} °C"
        if self.reasons:
            figures["thermal_reason_samples"] = 0
            text += ", no sample with a thermal reason for a lower clock"
        return f"{text}, {self.span}", figures

    def _power(self) -> tuple[str, dict[str, Any]] | None:
        """A draw below its limit as the mean of every second, and no brake."""
        limits = [s.limit_w for s in self.view.samples if s.limit_w]
        seconds: dict[int, list[float]] = defaultdict(list)
        for at, watts in self.view.points(lambda sample: sample.power_w):
            seconds[int(at - self.view.times[0])].append(watts)
        braked = any(mask & (_BRAKE | _HARDWARE) for mask in self.reasons)
        if not seconds or not limits or braked:
            return None
        from statistics import fmean  # slow to import, and few logs hold samples

        most = max(fmean(drawn) for drawn in seconds.values())
        highest = max(max(drawn) for drawn in seconds.values())
        if most >= min(limits):
            return None
        figures = {
            "power_w_second_max": round(most, 1),
            "power_w_max": highest,
            "limit_w": min(limits),
        }
        text = (
            f"no sustained over-power: at most {most:.0f} W of {min(limits):g} W as the mean of a "
            f"second (single readings up to {highest:.0f} W)"
        )
        if self.reasons:
            figures["power_brake_samples"] = 0
            text += ", no sample with the power brake"
        return (
            f"{text}, {self.span}; spikes shorter than a sample are not seen by any software",
            figures,
        )

    def _link(self) -> tuple[str, dict[str, Any]] | None:
        """One width, the best there is, one generation under load, and no counter that rose."""
        widths = {s.link_width for s in self.view.samples if s.link_width}
        busy = {s.link_gen for s in self.view.busy() if s.link_gen}
        best = max((width for width in self._best_widths()), default=0)
        if len(widths) != 1 or len(busy) != 1 or best > min(widths) or self._link_trouble():
            return None
        speed, width = busy.pop(), widths.pop()
        figures: dict[str, Any] = {"link_gen": speed, "link_width": width}
        text = f"link Gen{speed} x{width} whenever the GPU worked"
        if best:
            figures["link_width_best"] = best
            text += f" (x{best} is its best)"
        counted = self._readings("pcie_replay")
        if len(counted) > 1:
            figures |= {"replays_risen": 0, "counter_readings": len(counted)}
            text += f", replays flat at {counted[-1]:,} over {self._read(len(counted))}"
        return f"{text}, {self.span}", figures

    def _best_widths(self) -> Iterator[int]:
        for event in self.timeline.of(LinkStateReported):
            if event.max_width and event.device and event.device.slot == self.device:
                yield event.max_width

    def _link_trouble(self) -> bool:
        if link_rises(self.timeline).get(self.device):
            return True
        for event in self.timeline.of(AerReported):
            ours = event.device is None or event.device.slot == self.device
            if ours or self.device in self.timeline.gpus_below(event.device):
                return True
        return False

    def _ecc(self) -> tuple[str, dict[str, Any]] | None:
        read = {name: counted for name in _ECC if len(counted := self._readings(name)) > 1}
        if not read or any(counted[-1] != counted[0] for counted in read.values()):
            return None
        if any(read.get(name, [0])[-1] for name in ("remap_pending", "remap_failed")):
            return None
        figures: dict[str, Any] = {name: counted[-1] for name, counted in read.items()}
        count = min(len(counted) for counted in read.values())
        figures["counter_readings"] = count
        words = {
            "ecc_uncorrected_volatile": "since the driver was loaded",
            "ecc_uncorrected_aggregate": "in the card's life",
        }
        told = [f"{read[name][-1]:,} {said}" for name, said in words.items() if name in read]
        text = "uncorrected memory errors did not rise"
        if told:
            text += f" ({', '.join(told)})"
        if "remap_pending" in read:
            text += ", no row waits to be remapped"
        return f"{text}, over {self._read(count)}", figures

    def _read(self, count: int) -> str:
        """`3 readings, the last 8 s before it`; counters are read seldom."""
        gaps = [
            gap
            for event in self._counted()
            if (gap := self.timeline.seconds_between(event, self.finding.root)) is not None
        ]
        if not gaps or min(gaps) < 1:
            return f"{count} readings"
        return f"{count} readings, the last {min(gaps):.0f} s before it"

    def _counted(self) -> Iterator[CountersSampled]:
        for event in self.timeline.of(CountersSampled):
            of_nvml = any(name in _ECC or name == "pcie_replay" for name, _ in event.counters)
            if of_nvml and event.device is not None and event.device.slot == self.device:
                yield event

    def _readings(self, name: str) -> list[int]:
        """Values of a counter of this GPU, in their order."""
        counted = (pair for event in self._counted() for pair in event.counters)
        return [value for found, value in counted if found == name]

    def _gpu_memory(self) -> tuple[str, dict[str, Any]] | None:
        rows = [
            (s.memory_used_bytes, s.memory_total_bytes)
            for s in self.view.samples
            if s.memory_used_bytes is not None and s.memory_total_bytes
        ]
        if not rows or any(self.timeline.of(GpuMemoryExhausted)):
            return None
        used, whole = max(used for used, _ in rows), min(whole for _, whole in rows)
        if used > FULL * whole:
            return None
        figures = {"used_gib_max": round(used / 2**30, 1), "total_gib": round(whole / 2**30, 1)}
        return (
            f"GPU memory: at most {used / 2**30:.1f} of {whole / 2**30:.1f} GiB used, {self.span}",
            figures,
        )

    def _host_memory(self) -> tuple[str, dict[str, Any]] | None:
        longest = self.view.window.span_s + self.view.window.ended_s + HOST_S
        seen = [
            (event.memory_available_bytes, event.memory_total_bytes)
            for event in self.timeline.of(HostSampled)
            if event.memory_available_bytes is not None
            and event.memory_total_bytes
            and (gap := self.timeline.seconds_between(event, self.finding.root)) is not None
            and 0 <= gap <= longest
        ]
        if not seen or any(self.timeline.of(OomKilled)):
            return None
        least, whole = min(free for free, _ in seen), max(whole for _, whole in seen)
        if least < SCARCE * whole:
            return None
        figures: dict[str, Any] = {
            "host_available_gib_min": round(least / 2**30, 1),
            "host_gib": round(whole / 2**30, 1),
            "host_readings": len(seen),
        }
        text = (
            f"host memory: at least {least / 2**30:.0f} of {whole / 2**30:.0f} GiB available in "
            f"{len(seen)} reading{'' if len(seen) == 1 else 's'} before it"
        )
        if self.timeline.has_kernel_log():
            figures["oom_kills"] = 0
            text += ", and the kernel log holds no OOM kill"
        return f"{text} (a limit of its own cgroup is not among them)", figures
