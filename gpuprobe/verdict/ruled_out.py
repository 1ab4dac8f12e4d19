"""What the inputs rule out, with figures, and what they could not show, with the way to see it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gpuprobe.derive import window_before
from gpuprobe.diagnosis import Kind, NotChecked, RuledOut
from gpuprobe.events import (
    ConfigSpaceUnreadable,
    CudaFailed,
    Event,
    GpuLostReported,
    GpuMemoryExhausted,
    GpuSampled,
    LinkStateReported,
    OomKilled,
    PowerSampled,
    PresenceTested,
    ThermalReported,
    XidReported,
    is_evidence,
)
from gpuprobe.rules.base import LOST_XID, Finding, total
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.drivers import driver_of
from gpuprobe.verdict.sampled_out import sampled_out

APPLICATION_XIDS = frozenset({13, 31, 43, 69})


def ruled_out(timeline: Timeline, finding: Finding) -> Iterator[RuledOut]:
    """Causes that the inputs speak against. Each entry has a figure; without one there is none."""
    if finding.kind is not Kind.DEVICE_LEFT_BUS:
        yield from _not_a_loss(timeline, finding)
        if finding.kind is not Kind.NO_FAULT:
            yield from sampled_out(timeline, finding)
        return
    # What moved on the way to a loss has rows of its own, and a scorecard.
    told = [Kind.THERMAL, Kind.POWER, Kind.PCIE_LINK_ERRORS]
    for row in _of_loss(timeline, finding):
        told.append(Kind(row.kind))
        yield row
    yield from sampled_out(timeline, finding, *told)


def _of_loss(timeline: Timeline, finding: Finding) -> Iterator[RuledOut]:
    samples = [
        event
        for event in timeline.of(GpuSampled)
        if not event.lost and (event.device is None or event.device.slot == finding.device)
    ]
    yield from _over_power(timeline, finding, samples)
    yield from _core_heat(timeline, samples)
    if timeline.has_kernel_log():
        yield from _memory(timeline, finding)
        if driver_of(finding) is not None:
            return  # Xids are NVIDIA's: that there are none says nothing.
        xids = [
            event
            for event in timeline.of(XidReported)
            if event.code in APPLICATION_XIDS
            and event.device is not None
            and event.device.slot == finding.device
            and timeline.same_run(event, finding.root)
        ]
        if not xids:
            yield RuledOut(
                kind=Kind.APPLICATION_FAULT,
                why=(
                    "a program's own fault would have left an Xid 13, 31 or 43 of this GPU; "
                    "the kernel log holds none"
                ),
                figures={"xids_13_31_43": 0, "source": _kernel_inputs(timeline)},
            )


def _kernel_inputs(timeline: Timeline) -> str:
    """The inputs that hold kernel messages, for the source of a figure."""
    return ", ".join(timeline.kernel_inputs()[:3])


def _over_power(
    timeline: Timeline, finding: Finding, samples: list[GpuSampled]
) -> Iterator[RuledOut]:
    drawn = [sample.power_w for sample in samples if sample.power_w is not None]
    limits = [sample.limit_w for sample in samples if sample.limit_w is not None]
    fine = [
        watts
        for event in timeline.of(PowerSampled)
        if event.device is None or event.device.slot == finding.device
        for _, watts in event.samples
    ]
    if not drawn or not limits or max(drawn) >= min(limits) or max(fine, default=0) >= min(limits):
        return
    figures = {"power_w_max": max(drawn), "limit_w": min(limits), "samples": len(drawn)}
    apart = ""
    if interval_s := _interval_s(timeline, samples):
        figures["interval_ms"] = round(interval_s * 1000)
        apart = f", read every {interval_s * 1000:.0f} ms"
    if fine:
        figures["driver_power_w_max"] = max(fine)
        figures["driver_samples"] = len(fine)
        apart += f" (the driver's own samples, about 10 ms apart: at most {max(fine):g} W)"
    yield RuledOut(
        kind=Kind.POWER,
        why=(
            f"no sustained over-power: at most {max(drawn):g} W of {min(limits):g} W{apart}; "
            "spikes shorter than a sample are not seen by any software"
        ),
        figures={**figures, "source": samples[0].origin.input},
    )


def _interval_s(timeline: Timeline, samples: list[GpuSampled]) -> float | None:
    """Seconds between two samples at the end of the run, or None where their times are unknown."""
    times = [at.timestamp() for sample in samples if (at := timeline.at(sample)) is not None]
    window = window_before(times, times[-1], 120.0) if times else None
    return 1.0 / window.rate_hz if window else None


def _core_heat(timeline: Timeline, samples: list[GpuSampled]) -> Iterator[RuledOut]:
    temps = [sample.temp_c for sample in samples if sample.temp_c is not None]
    limits = [event.slowdown_c for event in timeline.of(ThermalReported) if event.slowdown_c]
    if temps and limits and max(temps) <= min(limits) - 15:
        yield RuledOut(
            kind=Kind.THERMAL,
            why=(
                f"core heat: at most {max(temps):g} °C, slowdown at {min(limits):g} °C "
                "(memory and regulators are not among the readings)"
            ),
            figures={
                "core_temp_c_max": max(temps),
                "slowdown_c": min(limits),
                "samples": len(temps),
                "source": samples[0].origin.input,
            },
        )


def _memory(timeline: Timeline, finding: Finding) -> Iterator[RuledOut]:
    kills = total(timeline.of(OomKilled))
    if not kills:
        yield RuledOut(
            kind=Kind.HOST_OUT_OF_MEMORY,
            why="the kernel log holds no OOM kill",
            figures={"oom_kills": 0, "source": _kernel_inputs(timeline)},
        )
    refused = total(timeline.of(GpuMemoryExhausted))
    if not refused and any(True for _ in timeline.of(CudaFailed)):
        yield RuledOut(
            kind=Kind.GPU_OUT_OF_MEMORY,
            why="the engine's log holds no refused allocation",
            figures={"refused_allocations": 0, "source": _engine_inputs(timeline)},
        )


def _engine_inputs(timeline: Timeline) -> str:
    return ", ".join(sorted({event.origin.input for event in timeline.of(CudaFailed)})[:3])


def _not_a_loss(timeline: Timeline, finding: Finding) -> Iterator[RuledOut]:
    """For any other answer: what the kernel log says of the bus, and whether the GPU is there."""
    if finding.kind is Kind.NO_FAULT:
        return
    why: list[str] = []
    figures: dict[str, Any] = {}
    log = timeline.has_kernel_log() and driver_of(finding) is None
    if log and finding.kind not in (Kind.CANNOT_TELL, Kind.PCIE_LINK_ERRORS):
        xids = list(timeline.of(XidReported))
        codes = sorted({event.code for event in xids})
        if LOST_XID in codes:
            return
        why.append(
            "the kernel log holds Xids and none of them is a loss"
            if xids
            else "the kernel log holds no Xid at all"
        )
        figures = {"xid_79": 0, "xids_seen": codes} if xids else {"xids": 0}
        figures["source"] = _kernel_inputs(timeline)
    there = _still_there(timeline, finding)
    if there is not None:
        words, more = there
        why.append(words)
        figures = {**more, **figures}
    if why:
        yield RuledOut(kind=Kind.DEVICE_LEFT_BUS, why="; ".join(why), figures=figures)


def _still_there(timeline: Timeline, finding: Finding) -> tuple[str, dict[str, Any]] | None:
    """Whether the GPU was looked for after the fault, and answered on the bus and to its driver."""
    tests = [
        (gap, test)
        for test in timeline.of(PresenceTested)
        if (finding.device is None or (test.device and test.device.slot == finding.device))
        and (gap := timeline.seconds_between(finding.root, test)) is not None
        and gap > 0
    ]
    if not tests or any(test.config != "answers" or not test.directory for _, test in tests):
        return None
    sampled = sum(
        1
        for sample in timeline.of(GpuSampled)
        if not sample.lost
        and (finding.device is None or (sample.device and sample.device.slot == finding.device))
        and (timeline.seconds_between(finding.root, sample) or 0.0) > 0
    )
    if finding.kind is Kind.CANNOT_TELL and not sampled:
        # The bus answers for a GPU that its driver has lost, too.
        return None
    gap, test = tests[-1]
    words = f"its config space answered {gap:.1f} s after the fault"
    figures = {"config_answered_after_s": round(gap, 1), "source": test.origin.input}
    if sampled:
        words += f", and its driver gave {sampled:,} samples after it"
        figures["samples_after"] = sampled
    return words, figures


def not_checked(timeline: Timeline, finding: Finding | None) -> Iterator[NotChecked]:
    """What was not among the inputs and would bear on the answer."""
    if not timeline.has_kernel_log():
        some = any(
            is_evidence(event) and "NVRM: " in event.origin.text for event in timeline.events
        )
        why = "none of the inputs holds kernel messages, where a loss or an Xid would stand"
        if some:
            why = "only some of the driver's lines are among the inputs, out of their surroundings"
        yield NotChecked(
            what="the rest of the kernel log" if some else "the kernel log",
            why=f"{why}; after a reboot, -b -1 is the boot before",
            how="journalctl -k -b --no-pager > kernel.log",
        )
    if finding is None or finding.kind in (Kind.NO_FAULT, Kind.HOST_OUT_OF_MEMORY):
        return
    if finding.kind is Kind.JIT_CACHE_CORRUPT:
        if not any(item.format == "jit-cache" for item in timeline.inputs):
            yield NotChecked(
                what="the cache on disk",
                why="a log shows which read failed, not what the file looks like now: empty or cut",
                how="gpuprobe jitcache scan",
            )
        return
    loss = finding.kind in (Kind.DEVICE_LEFT_BUS, Kind.CANNOT_TELL, Kind.PCIE_LINK_ERRORS)
    if not loss:
        return
    samples = list(timeline.of(GpuSampled))
    if not samples and driver_of(finding) is None:
        yield NotChecked(
            what="power, temperature and clocks before the failure",
            why=(
                "no samples are among the inputs; sample beside the next run, with nvidia-smi "
                "where gpuprobe is not installed"
            ),
            how=(
                "gpuprobe record\n"
                "nvidia-smi --query-gpu=timestamp,pci.bus_id,power.draw,power.limit,"
                "temperature.gpu,clocks_event_reasons.active --format=csv -lms 200 > samples.csv"
            ),
        )
    asked = "config-alive" in finding.tags or any(
        isinstance(event, ConfigSpaceUnreadable | PresenceTested)
        or (isinstance(event, GpuLostReported) and event.by == "amdgpu")
        for event in finding.events()
    )
    if finding.kind is Kind.DEVICE_LEFT_BUS and not asked:
        pci = str(finding.device) if finding.device else "BUS:DEVICE.FUNCTION"
        yield NotChecked(
            what="whether config space still answers",
            why=(
                "no reading of the device after the loss is among the inputs; before a reboot, "
                "ffff is no answer"
            ),
            how=f"setpci -s {pci} VENDOR_ID",
        )
    links = [event for event in timeline.of(LinkStateReported) if event.width is not None]
    if not links and not any(sample.link_width for sample in samples):
        pci = str(finding.device) if finding.device else "BUS:DEVICE.FUNCTION"
        yield NotChecked(
            what="link generation and width under load",
            why="no input shows them; look while the engine works",
            how=f"sudo lspci -vvv -s {pci} | grep -E 'LnkCap|LnkSta'",
        )
    if timeline.clocks is not None and _unjoined(timeline):
        yield NotChecked(
            what="the order of lines across the inputs",
            why=(
                "their clocks could not be joined: a stamp without zone or year, or one that "
                "counts from boot"
            ),
            how="gpuprobe diagnose --timezone ZONE …\ngpuprobe diagnose --boot-time TIME …",
        )


def _unjoined(timeline: Timeline) -> bool:
    """Whether two inputs with stamps cannot be placed on one clock."""
    stamped: dict[str, Event] = {}
    for event in timeline.events:
        if event.stamp is not None:
            stamped.setdefault(event.origin.input, event)
    first, *others = stamped.values() or (None,)
    return any(timeline.seconds_between(first, other) is None for other in others if first)
