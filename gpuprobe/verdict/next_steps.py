"""What to do next on this one machine: the conditions its inputs show, and the steps for them."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace

from gpuprobe.catalog.advice import folklore, steps_for
from gpuprobe.diagnosis import Kind, NextStep
from gpuprobe.events import (
    AdapterInitFailed,
    AerReported,
    ConfigSpaceUnreadable,
    CudaFailed,
    DeviceIdentified,
    FirmwareFaulted,
    GpuSampled,
    HostFaulted,
    JitCacheFailed,
    LinkStateReported,
    OomKilled,
    PresenceTested,
    ProcessCrashed,
    ProfilerSeen,
    SystemDescribed,
    XidReported,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.rules.base import Finding
from gpuprobe.timeline import Timeline
from gpuprobe.verdict.drivers import driver_of

_DATA_CENTRE = regex(
    r"\b(?:A|H|B|L|V|P|T)(?:\d{2,3})\b|\bGB?\d{3}\b|\bTesla\b|\bHGX\b|\bDGX\b|\bGH200\b"
)
_RTX_50 = regex(r"RTX\s*50[5-9]0|RTX PRO \d{4} Blackwell", re.IGNORECASE)
_LAPTOP = regex(r"\bLaptop GPU\b|\bMax-Q\b|\bMobile\b|\bMX\d{3}\b", re.IGNORECASE)
_WORKSTATION = regex(r"Precision|ThinkStation|HP Z\d|Z[468] G\d|Celsius", re.IGNORECASE)
_NVIDIA = regex(r"nvidia|cuda|compute-sanitizer", re.IGNORECASE)
_HYPERVISOR = ("vm", "wsl", "container", "laptop", "egpu", "riser")


def tags_for(timeline: Timeline, finding: Finding) -> frozenset[str]:
    """Conditions that the inputs show, by the names the advice data uses."""
    return frozenset({*finding.tags, *_tags(timeline, finding)})


def _tags(timeline: Timeline, finding: Finding) -> Iterator[str]:
    if timeline.has_kernel_log():
        yield "kernel-log-seen"
        yield "log-saved"
    for key in _HYPERVISOR:
        if timeline.described(key) is not None:
            yield "vm-guest" if key in ("vm", "wsl") else key
    yield from _card_tags(timeline, finding)
    if finding.kind is Kind.DEVICE_LEFT_BUS:
        yield "loss"
    if timeline.described("gpus-on-bus") is not None:
        yield "no-gpu"
    if len(timeline.gpus()) > 1:
        yield "several-gpus"
    cmdline = timeline.described("cmdline")
    if cmdline is not None and any("noaer" in found.setting for found in folklore(cmdline.value)):
        yield "no-aer"
    if any(
        event.severity == "correctable" and _ours(timeline, finding, event)
        for event in timeline.of(AerReported)
    ):
        yield "corrected-errors"
    if any(_narrow(finding, link) for link in timeline.of(LinkStateReported)):
        yield "narrow-link"
    for fault in timeline.of(FirmwareFaulted, XidReported):
        firmware = isinstance(fault, FirmwareFaulted) or fault.code in (62, 119, 120)
        if firmware and timeline.precedes(fault, finding.root):
            yield "gsp-first"
            break
    for host in timeline.of(HostFaulted):
        if host.what == "iommu":
            yield "amd-iommu"
    if any(event.cgroup for event in timeline.of(OomKilled)):
        yield "cgroup"
    if any(event.code in (48, 63, 64, 94, 95) for event in timeline.of(XidReported)):
        yield "ecc"
    for entry in timeline.of(JitCacheFailed):
        yield entry.cache if entry.cache == "vllm" else f"cache-{entry.cache}"
    if any(True for _ in timeline.of(ProfilerSeen)):
        yield "profiler"
    if any(event.from_state == "D3cold" for event in timeline.of(ConfigSpaceUnreadable)):
        yield "d3cold"
    if any(True for _ in timeline.of(CudaFailed)):
        yield "cuda-error"
    if any(event.framework == "torch" for event in timeline.of(CudaFailed)):
        yield "torch"
    if not timeline.in_last_boot(finding.root):
        yield "past-boot"
    if any(True for _ in timeline.of(GpuSampled)):
        yield "temps-seen"
        yield "recorded"
    yield from _load_tags(timeline)
    if _answered_since(timeline, finding):
        yield "answered-since"
    if any(event.status == 0x56 for event in timeline.of(AdapterInitFailed)):
        yield "wrong-flavour"


def _answered_since(timeline: Timeline, finding: Finding) -> bool:
    """Whether a test of presence after the failure reached every GPU there is."""
    answered = {
        test.device.slot
        for test in timeline.of(PresenceTested)
        if test.device is not None
        and test.config == "answers"
        and (timeline.seconds_between(finding.root, test) or -1.0) >= 0.0
    }
    return bool(answered) and timeline.gpus() <= answered


def _load_tags(timeline: Timeline) -> Iterator[str]:
    """Under load when samples, or a CUDA program that died with it, say so."""
    loads = [s.util_percent for s in timeline.of(GpuSampled) if s.util_percent is not None]
    if loads[-3:] and max(loads[-3:]) <= 5:
        yield "idle"
    elif loads or any(True for _ in timeline.of(CudaFailed)):
        yield "under-load"


def _ours(timeline: Timeline, finding: Finding, event: AerReported) -> bool:
    named = event.device is not None and finding.device is not None
    return named and timeline.concerns(event, finding.device)


def _narrow(finding: Finding, link: LinkStateReported) -> bool:
    """Whether the finding's GPU runs on fewer lanes than it could use."""
    ours = link.device is not None and link.device.slot == finding.device
    return ours and bool(link.width and link.max_width and link.width < link.max_width)


def _card_tags(timeline: Timeline, finding: Finding) -> Iterator[str]:
    named = " ".join(
        filter(
            None,
            (
                event.name
                for event in timeline.of(DeviceIdentified)
                if event.device is None
                or finding.device is None
                or event.device.slot == finding.device
            ),
        )
    )
    words = f"{named} " + " ".join(event.value for event in timeline.of(SystemDescribed))
    if _LAPTOP.search(words):
        yield "laptop"
    if _RTX_50.search(words):
        yield "rtx-50"
        yield "blackwell"
    elif "GeForce" not in words and "RTX" not in words and _DATA_CENTRE.search(named):
        yield "data-centre"
    chassis = timeline.described("chassis")
    if chassis is not None and _WORKSTATION.search(chassis.value):
        yield "workstation"
    modules = timeline.described("open-module")
    if modules is not None:
        yield "open-modules" if modules.value in ("open", "yes", "true") else "proprietary"


def next_steps(timeline: Timeline, finding: Finding) -> tuple[NextStep, ...]:
    """The steps for the answer, ranked; only those that read change nothing.

    Settings on the kernel's command line that do harm are named behind them.
    """
    tags = tags_for(timeline, finding)
    steps = steps_for(finding.kind, tags, pci=finding.device, values=_values(timeline, finding))
    steps = tuple(_fitting(steps, finding))
    cmdline = timeline.described("cmdline")
    if cmdline is None or finding.kind not in (Kind.DEVICE_LEFT_BUS, Kind.PCIE_LINK_ERRORS):
        return steps
    harmful = tuple(
        NextStep(
            type="boot",
            text=f"Take {found.setting} off the kernel's command line: {found.why}",
            cost="a reboot",
            when="it is set now",
            source=f"{cmdline.origin.input}:{cmdline.origin.line}",
        )
        for found in folklore(cmdline.value)
    )
    return (*steps, *harmful)


def _fitting(steps: tuple[NextStep, ...], finding: Finding) -> Iterator[NextStep]:
    """Those steps that this GPU's driver and its system know."""
    driver = driver_of(finding)
    for step in steps:
        linux = driver == "nvlddmkm" and step.command is not None
        words = f"{step.text} {step.command} {step.undo}"
        others = driver not in (None, "nvlddmkm") and _NVIDIA.search(words) is not None
        if not linux and not others:
            yield step
        elif step.type != "read" and _NVIDIA.search(step.text) is None:
            # What to do stays true without the command for it.
            yield replace(step, command=None, undo=None)


def _values(timeline: Timeline, finding: Finding) -> dict[str, str]:
    """What the inputs name that a command can be filled with."""
    values: dict[str, str] = {}
    parent = timeline.parents().get(finding.device.slot) if finding.device else None
    if parent is not None:
        values["port"] = str(parent)
    entry = next((event for event in timeline.of(JitCacheFailed) if event.fatal), None)
    if entry is not None and entry.path:
        values["entry"] = entry.path
    failed = next(timeline.of(CudaFailed), None)
    if failed is not None and failed.origin.input != "-":
        values["engine_log"] = failed.origin.input
    crash = next(timeline.of(ProcessCrashed), None)
    if crash is not None and crash.process:
        values["process"] = crash.process
    return values
