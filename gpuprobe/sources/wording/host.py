"""Trouble of the machine around the GPU: CPU, memory, disks, heat, supply, BMC, hypervisor.

None of it is a GPU fault by itself; the few lines that speak of a GPU's heat or power say so in
their events. PCIe errors, out-of-memory kills and boots have families of their own.

Source: drivers of Linux (mce, edac, ghes, nvme, thermal, watchdog), ipmitool's SEL list, QEMU.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import (
    AerReported,
    Event,
    HostFaulted,
    LossHinted,
    PowerReported,
    ThermalReported,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_Read = Callable[[re.Match[str], Window], Reading]


def _host(what: str) -> _Read:
    def read(match: re.Match[str], window: Window) -> Reading:
        return HostFaulted(what=what, **window.base())

    return read


_MODULE = regex(
    r"\b(?:RIP: \S.{0,120}|Workqueue: .{0,80}|pc : \S.{0,120})"
    r"\[(?P<module>nvidia\w*|amdgpu|nouveau|xe|i915)\b"
)
"""Where a kernel's trace stands in the code of a GPU's driver."""

_TRACE_LINES = 12
"""Lines of a trace in which that is told."""

_FRAME = regex(r"\+0x[0-9a-f]+/0x[0-9a-f]+ \[(?P<module>nvidia\w*|amdgpu|nouveau|xe|i915)\b")
_TASK_ENDS = regex(r"</TASK>|blocked for more than|\bstuck for \d+s!|end trace")
_TASK_LINES = 40
"""Lines of the trace of a task that waits: it may stand deep below a call into a driver."""


def _traced(what: str) -> _Read:
    """A reader of what the kernel prints a trace behind."""

    def read(match: re.Match[str], window: Window) -> Reading:
        text = "\n".join((window.text, *(record.message for record in window.after(_TRACE_LINES))))
        found = _MODULE.search(text)
        return HostFaulted(what=what, module=found["module"] if found else "", **window.base())

    return read


def _read_hung_task(match: re.Match[str], window: Window) -> Reading:
    module = ""
    for record in window.after(_TASK_LINES):
        if _TASK_ENDS.search(record.message):
            break
        if found := _FRAME.search(record.message):
            module = found["module"]
            break
    return HostFaulted(what="hung-task", module=module, **window.base())


def _power(what: str, *, gpu: bool) -> _Read:
    def read(match: re.Match[str], window: Window) -> Reading:
        device = match.groupdict().get("address")
        return PowerReported(what=what, gpu=gpu, **window.base(device))

    return read


def _hint(what: str) -> _Read:
    def read(match: re.Match[str], window: Window) -> Reading:
        return LossHinted(what=what, **window.base(match.groupdict().get("address")))

    return read


def _read_gpu_heat(match: re.Match[str], window: Window) -> Reading:
    found = match.groupdict()
    words = match.group().lower()
    what = "shutdown" if re.search(r"shut ?down|critical|ctf", words) else "slowdown"
    temp = found.get("temp")
    return ThermalReported(
        what=what,
        temp_c=float(temp) if temp else None,
        **window.base(found.get("address")),
    )


def _read_sel(match: re.Match[str], window: Window) -> Event | None:
    """A BMC's event about a temperature or a fan; what a GPU's own sensor says is in `bmc`."""
    sensor, words = match["sensor"].lower(), match["words"].lower()
    if "deassert" in words or not re.search(
        r"going (?:high|low)|non-?recoverable|critical|fail|over", words
    ):
        return None
    if re.search(r"\bgpu|accelerator", sensor):
        return None
    return HostFaulted(what="fan" if "fan" in sensor else "heat", **window.base())


def _pattern(
    name: str,
    needles: tuple[str, ...],
    text: str,
    read: _Read,
    examples: tuple[str, ...],
    near: str,
) -> Pattern:
    return Pattern(
        id=f"host-{name}",
        needles=needles,
        regex=regex(text),
        read=read,
        examples=examples,
        near=(near,),
        source="drivers of Linux; see the module",
    )


_CPU_AND_MEMORY = (
    _pattern(
        "mce", ("[Hardware Error]: CPU", "Machine check events logged"),
        r"mce: \[Hardware Error\]: (?:CPU \d+: Machine Check|Machine check events logged)|\[Hardware Error\]: CPU:? ?\d+\b.{0,160}(?:Machine Check|MC\d+_STATUS)",
        _host("mce"),
        (
            "mce: [Hardware Error]: CPU 12: Machine Check: 0 Bank 27: baa000000002010b",
            "mce: [Hardware Error]: Machine check events logged",
            "[Hardware Error]: CPU:3 (19:21:0) MC27_STATUS[-|CE|MiscV|-|-]: 0x982000000002080b",
        ),
        "mce: CPU supports 20 MCE banks",
    ),
    _pattern(
        "edac", ("EDAC MC", "EDAC sbridge", "EDAC skx"),
        r"EDAC (?:MC\d+: \d+ (?:CE|UE)\b|(?:sbridge|skx)\w* MC\d+: HANDLING MCE MEMORY ERROR)",
        _host("edac"),
        ("EDAC MC1: 3 CE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#1 (channel:0 slot:1)",),
        "EDAC MC: Ver: 3.0.0",
    ),
    _pattern(
        "ghes", ("[Hardware Error]:",),
        r"\{\d+\}\[Hardware Error\]:\s+section_type: (?!PCIe error)\S.{0,160}|\{\d+\}\[Hardware Error\]:\s+section type: unknown",
        _host("ghes"),
        ("{2}[Hardware Error]:   section_type: memory error",),
        "{2}[Hardware Error]:   section_type: PCIe error",
    ),
    _pattern(
        "lockup", ("soft lockup", "hard LOCKUP", "detected stalls on CPUs", "self-detected stall"),
        r"BUG: soft lockup - CPU#\d+ stuck for \d+s|detected hard LOCKUP on cpu ?\d+|rcu\w*:? .{0,160}(?:detected stalls on CPUs|self-detected stall)",
        _traced("soft-lockup"),
        (
            "watchdog: BUG: soft lockup - CPU#7 stuck for 48s! [nvidia-smi:9001]",
            "watchdog: Watchdog detected hard LOCKUP on cpu 21",
            "rcu: INFO: rcu_preempt self-detected stall on CPU",
        ),
        "kernel.softlockup_panic = 1, soft lockup detection is on",
    ),
    _pattern(
        "oops", ("BUG: kernel NULL pointer", "BUG: unable to handle", "general protection fault, probably", "general protection fault: 0000"),
        r"BUG: (?:kernel NULL pointer dereference|unable to handle (?:page fault|kernel))|general protection fault(?:, probably|: 0000)",
        _traced("oops"),
        (
            "BUG: kernel NULL pointer dereference, address: 0000000000000020",
            "BUG: unable to handle page fault for address: ffffb3c1c0a01000",
        ),
        "general protection faults are counted",
    ),
    _pattern(
        "hung-task", ("blocked for more than",),
        r"(?:INFO: )?task \S.{0,40}:\d+ (?:<[^>]*> )?blocked for more than \d+ seconds",
        _read_hung_task,
        ("INFO: task kworker/12:1:3321 blocked for more than 122 seconds.",),
        "requests blocked for more than 2 seconds",
    ),
    _pattern(
        "cpu-heat", ("cpu clock throttled", "CPU temperature above threshold"),
        r"(?:Core|Package) temperature (?:is )?above threshold, cpu clock throttled|CPU temperature above threshold",
        _host("cpu-heat"),
        ("mce: CPU5: Package temperature above threshold, cpu clock throttled (total events = 31)",),
        "CPU5: Core temperature/speed normal",
    ),
    _pattern(
        "critical-heat", ("ritical temperature reached",),
        r"[Cc]ritical temperature reached",
        _host("heat"),
        (
            "thermal thermal_zone0: acpitz: critical temperature reached, shutting down",
            "ACPI: thermal: Critical temperature reached (108 C), shutting down.",
        ),
        "Critical temperature is 108 C",
    ),
    _pattern(
        "clocksource", ("Marking clocksource", "Marking TSC unstable"),
        r"Marking clocksource '?\w+'? (?:on CPU\d+ )?as unstable.*|Marking TSC unstable.*",
        _host("clocksource"),
        ("clocksource: timekeeping watchdog on CPU3: Marking clocksource 'tsc' as unstable because the skew is too large:",),
        "clocksource: Switched to clocksource tsc",
    ),
)  # fmt: skip

_DISKS = (
    _pattern(
        "nvme-down", ("controller is down", "Device not ready; aborting", "Disabling device after reset failure", "Removing after probe failure"),
        r"nvme\S* nvme\d+: (?:controller is down; will reset|Device not ready; aborting reset|Disabling device after reset failure|Removing after probe failure)",
        _host("nvme"),
        (
            "nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff",
            "nvme nvme0: Device not ready; aborting reset, CSTS=0x1",
        ),
        "mpt3sas: controller is down for service",
    ),
    _pattern(
        "disk-full", ("No space left on device",),
        r"No space left on device",
        _host("disk-full"),
        ("OSError: [Errno 28] No space left on device: '/scratch/x'",),
        "Space left on device: 12 GB",
    ),
)  # fmt: skip

_POWER = (
    _pattern(
        "under-voltage", ("nder-voltage detected", "ndervoltage detected"),
        r"[Uu]nder-?voltage detected",
        _power("under-voltage", gpu=False),
        ("Under-voltage detected! (0x00050001)", "hwmon hwmon1: Undervoltage detected!"),
        "Under-voltage protection is on",
    ),
    _pattern(
        "voltage-normal", ("oltage normalised",),
        r"[Vv]oltage normalised",
        _power("voltage-normal", gpu=False),
        ("Voltage normalised (0x00000000)", "hwmon hwmon1: Voltage normalised"),
        "Voltages normalized by 3.3",
    ),
    _pattern(
        "gpu-power-missing", ("necessary power cable", "xternal power", "xternal Power", "power connector"),
        rf"(?:GPU (?P<address>{_ADDRESS}):? )?(?:GPU )?does not have the necessary power cables? connected"
        r"|(?:[Ii]nsufficient|[Mm]issing) [Ee]xternal power|not (?:properly )?connected .{0,30}(?:auxiliary )?power connector",
        _power("external-missing", gpu=True),
        (
            "NVRM: GPU 0000:82:00.0: GPU does not have the necessary power cables connected.",
            "Insufficient external power",
        ),
        "hub: has external power",
    ),
)  # fmt: skip

_HEAT = (
    _pattern(
        "nouveau-heat", ("therm: temperature",),
        rf"nouveau (?P<address>{_ADDRESS}): therm: temperature \((?P<temp>\d+) C\) hit the '(?:downclock|critical|shutdown)' threshold",
        _read_gpu_heat,
        ("nouveau 0000:01:00.0: therm: temperature (97 C) hit the 'downclock' threshold",),
        "nouveau 0000:01:00.0: therm: temperature (61 C) went below the 'fanboost' threshold",
    ),
    _pattern(
        "amdgpu-heat", ("over temperature range", "Critical Temperature Fault", "GPU SW CTF"),
        rf"(?:amdgpu|drmn)\S{{0,8}}(?: (?P<address>{_ADDRESS}))?:.{{0,160}}(?:GPU (?P<range>over temperature range)|Critical Temperature Fault|shutdown due to GPU SW CTF)",
        _read_gpu_heat,
        ("amdgpu 0000:2d:00.0: amdgpu: ERROR: GPU over temperature range(SW CTF) detected!",),
        "CPU over temperature range",
    ),
    _pattern(
        "gpu-heat", ("hermal slowdown", "hermal shutdown", "slowdown temperature", "shutdown temperature", "hermal violation"),
        r"GPU\b[^.]{0,80}?(?:has |was |is )?(?:entered|reached|exceeded|in|above)\b[^.]{0,40}?(?:[Tt]hermal (?:slowdown|shutdown|violation)|(?:slowdown|shutdown) temperature)",
        _read_gpu_heat,
        (
            "(WW) NVIDIA(GPU-0): GPU at PCI:65:0:0 has entered thermal slowdown",
            "gpuwatch: GPU 2 exceeded its shutdown temperature",
        ),
        "GPU Slowdown Temp : 97 C, shutdown temperature N/A",
    ),
    _pattern(
        "program-stopped-for-heat", ("Temperature limit on GPU",),
        r"Temperature limit on GPU (?:#?\d+) reached, aborting",
        lambda match, window: ThermalReported(what="critical", **window.base()),
        ("Temperature limit on GPU #3 reached, aborting...",),
        "Add option to set a temperature limit on GPU.",
    ),
    _pattern(
        "sel", ("| Temperature", "| Fan", "| FAN", " Temp |", "_Temp |"),
        r"\| (?P<sensor>(?:Temperature|Fan|FAN)[^|]*|[^|]*[ _]Temp )\|\s*(?P<words>[^|]*(?:\|\s*(?:Asserted|Deasserted))?)",
        _read_sel,
        (
            " 2a | 05/11/2026 | 07:14:20 | Temperature #0x31 | Upper Critical going high | Asserted",
            " 2b | 05/11/2026 | 07:14:21 | Fan #0x44 | Lower Critical going low  | Asserted",
        ),
        " 2c | 05/11/2026 | 07:20:00 | Temperature #0x31 | Upper Critical going high | Deasserted",
    ),
)  # fmt: skip

_GUESTS = (
    _pattern(
        "stuck-in-d3", ("stuck in D3",),
        rf"(?:vfio:? |vfio-pci )(?:(?P<address>{_ADDRESS})[:,]? )?.{{0,160}}[Uu]nable to power on device, stuck in D3",
        _hint("stuck-in-d3"),
        (
            "qemu-system-x86_64: vfio: Unable to power on device, stuck in D3",
            "vfio-pci 0000:0b:00.0: Unable to power on device, stuck in D3",
        ),
        "the laptop is stuck in D3 state says the vendor",
    ),
    _pattern(
        "vfio-error", ("vfio_err_notifier_handler",),
        rf"vfio_err_notifier_handler\((?P<address>{_ADDRESS})\) Unrecoverable error detected",
        lambda match, window: AerReported(
            **window.base(match["address"]), severity="fatal", driver="vfio-pci"
        ),
        ("kvm: vfio_err_notifier_handler(0000:c1:00.0) Unrecoverable error detected. Please collect any data possible",),
        "static void vfio_err_notifier_handler(void *opaque)",
    ),
    _pattern(
        "read-back-all-ones", ("0xffffffff", "0xFFFFFFFF"),
        r"\b[Rr]ead[- ]?back:? (?:is |= ?)?0x(?:ffffffff|FFFFFFFF)\b",
        _hint("all-ones"),
        ("[warn] LINK_CTRL_1 bit3=0 read-back 0xffffffff (was 0xffffffff, wanted 0x00000008)",),
        "mask 0xffffffff, read back 0x00000001",
    ),
)  # fmt: skip

FAMILY = Family("host", (*_CPU_AND_MEMORY, *_DISKS, *_POWER, *_HEAT, *_GUESTS))
