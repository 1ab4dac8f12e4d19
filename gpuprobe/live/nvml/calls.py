"""The NVML calls that gpuprobe makes, all of them, as data. Nothing here imports NVML.

The child makes no call that is not in `CALLS`, and `docs/nvml-calls.md` is made from it. A call
belongs to one group: `fast` calls run at the sampling rate, `users` ones when memory in use
changed, `once` ones when a device is opened, and the others as far apart as `pace` says. Two calls
may give the same value: the first that this device answers is used and the other is never made
again.

Source of names, field ids, units and argument numbers: NVIDIA's nvml.h (NVIDIA/go-nvml 2f9e261,
2026-07-01) and nvidia-ml-py 13.615.71. Costs: median of 200 calls on an H200, driver 580.159.04.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from typing import Final


class Group(StrEnum):
    """How often a call is made, the seldomest first."""

    ONCE = "once"
    FAST = "fast"
    CALM = "calm"
    """What the driver averages itself, changes slowly or costs more; see `pace`."""
    SLOW = "slow"
    USERS = "users"
    """Who uses the device: at the pace of the slow group while its memory in use changes."""
    RARE = "rare"
    SELDOM = "seldom"
    """Lifetime counts that cost milliseconds; a rise is dated to the time between two readings."""
    LIBRARY = "library"
    """About no device, when NVML is opened, closed or its devices are listed."""
    EVENT = "event"
    """The wait for NVML's own events, in a thread of its own."""


@dataclass(frozen=True, slots=True)
class Value:
    """One value that a call gives.

    Attributes:
        name: Its name in samples; the unit is its last part where it has one.
        unit: `W`, `C`, `MHz`, `percent`, `bytes`, `lanes`, `ns`, `count`, `mask`, `text`, ...
        part: Which part of the answer: "" the whole, a number an index, else an attribute.
        field: Field id, for values of `nvmlDeviceGetFieldValues`.
        scale: What NVML's number is multiplied with to get `unit`.
    """

    name: str
    unit: str
    part: str = ""
    field: int | None = None
    scale: float = 1


@dataclass(frozen=True, slots=True)
class Call:
    """One NVML function with fixed arguments.

    Attributes:
        function: Its name in pynvml, with the `_vN` suffix left to pynvml.
        group: How often it is made.
        gives: The values read from its answer, in the order of their field ids.
        args: Arguments behind the device handle.
        cost_us: Microseconds a call, measured, or None where it was not.
        note: What a reader of the list should know.
    """

    function: str
    group: Group
    gives: tuple[Value, ...] = ()
    args: tuple[int, ...] = ()
    cost_us: float | None = None
    note: str = ""


def _fields(*gives: Value) -> tuple[Value, ...]:
    assert all(value.field is not None for value in gives)
    return gives


_MEMORY: Final = (
    Value("memory_used_bytes", "bytes", "used"),
    Value("memory_total_bytes", "bytes", "total"),
)

_FAST: Final = (
    Call(
        "nvmlDeviceGetFieldValues",
        Group.FAST,
        _fields(Value("power_w", "W", field=186, scale=0.001)),
        note="Power at this instant, where the driver has the field.",
    ),
    Call(
        "nvmlDeviceGetPowerUsage",
        Group.FAST,
        (Value("power_w", "W", scale=0.001),),
        cost_us=1.8,
        note="Only without field 186. From Ampere on (not GA100) the mean of one second.",
    ),
    Call(
        "nvmlDeviceGetTemperatureV",
        Group.FAST,
        (Value("temp_c", "C"),),
        args=(0,),
        cost_us=2.0,
        note="Sensor 0, the GPU's core.",
    ),
    Call(
        "nvmlDeviceGetTemperature",
        Group.FAST,
        (Value("temp_c", "C"),),
        args=(0,),
        note="Only where the newer call is missing.",
    ),
    Call(
        "nvmlDeviceGetClockInfo",
        Group.FAST,
        (Value("sm_clock_mhz", "MHz"),),
        args=(1,),
        cost_us=2.1,
        note="Clock 1, the multiprocessors'.",
    ),
    Call(
        "nvmlDeviceGetCurrentClocksEventReasons",
        Group.FAST,
        (Value("clocks_event_reasons", "mask"),),
        cost_us=1.8,
    ),
    Call(
        "nvmlDeviceGetCurrentClocksThrottleReasons",
        Group.FAST,
        (Value("clocks_event_reasons", "mask"),),
        note="Only where the newer call is missing.",
    ),
    Call(
        "nvmlDeviceGetCurrPcieLinkGeneration",
        Group.FAST,
        (Value("link_gen", "generation"),),
        cost_us=1.8,
    ),
)

_CALM: Final = (
    Call(
        "nvmlDeviceGetClockInfo",
        Group.CALM,
        (Value("mem_clock_mhz", "MHz"),),
        args=(2,),
        cost_us=2.1,
        note="Clock 2, the memory's.",
    ),
    Call("nvmlDeviceGetPerformanceState", Group.CALM, (Value("pstate", "state"),), cost_us=1.8),
    Call(
        "nvmlDeviceGetUtilizationRates",
        Group.CALM,
        (
            Value("util_percent", "percent", "gpu"),
            Value("mem_util_percent", "percent", "memory"),
        ),
        cost_us=1.7,
        note="The driver's mean over 1/6 s to 1 s.",
    ),
    Call("nvmlDeviceGetCurrPcieLinkWidth", Group.CALM, (Value("link_width", "lanes"),), cost_us=33),
    Call(
        "nvmlDeviceGetMemoryInfo",
        Group.CALM,
        _MEMORY,
        args=(0x02000028,),
        cost_us=8.0,
        note="Version 2, whose used part leaves out what the driver reserves, as nvidia-smi does.",
    ),
    Call(
        "nvmlDeviceGetMemoryInfo",
        Group.CALM,
        _MEMORY,
        note="Version 1, only where version 2 is missing; used then includes the reserved part.",
    ),
)

_SLOW: Final = (
    Call(
        "nvmlDeviceGetFieldValues",
        Group.SLOW,
        _fields(
            Value("recovery_action", "action", field=230),
            Value("memory_temp_c", "C", field=82),
        ),
        cost_us=110,
    ),
    Call(
        "nvmlDeviceGetRemappedRows",
        Group.SLOW,
        (
            Value("remapped_corrected", "count", "0"),
            Value("remapped_uncorrected", "count", "1"),
            Value("remap_pending", "flag", "2"),
            Value("remap_failed", "flag", "3"),
        ),
        cost_us=3.0,
    ),
    Call(
        "nvmlDeviceGetEnforcedPowerLimit",
        Group.SLOW,
        (Value("limit_w", "W", scale=0.001),),
        cost_us=1.9,
    ),
    Call(
        "nvmlDeviceGetSamples",
        Group.SLOW,
        (Value("power_samples", "list"),),
        args=(0,),
        cost_us=640,
        note="Type 0, the driver's own power samples, about 10 ms apart on an H200.",
    ),
    Call(
        "nvmlDeviceGetComputeRunningProcesses",
        Group.USERS,
        (Value("compute_pids", "list"),),
        cost_us=46,
    ),
    Call(
        "nvmlDeviceGetGraphicsRunningProcesses",
        Group.USERS,
        (Value("graphics_pids", "list"),),
        cost_us=59,
    ),
)

_RARE: Final = (
    Call(
        "nvmlDeviceGetFieldValues",
        Group.RARE,
        _fields(
            Value("pcie_tx_bytes", "bytes", field=197),
            Value("pcie_rx_bytes", "bytes", field=198),
        ),
        cost_us=880,
        note="Lifetime counts; rates are their differences.",
    ),
    Call(
        "nvmlDeviceGetFieldValues",
        Group.SELDOM,
        _fields(
            Value("throttle_sw_thermal_ns", "ns", field=269),
            Value("throttle_hw_thermal_ns", "ns", field=270),
            Value("throttle_hw_power_brake_ns", "ns", field=271),
        ),
        cost_us=2000,
        note="Lifetime sums.",
    ),
    Call(
        "nvmlDeviceGetFieldValues",
        Group.SELDOM,
        _fields(
            Value("pcie_replay_rollover", "count", field=95),
            Value("pcie_l0_to_recovery", "count", field=169),
            Value("pcie_correctable_errors", "count", field=173),
            Value("pcie_naks_received", "count", field=174),
            Value("pcie_receiver_errors", "count", field=175),
            Value("pcie_bad_tlp", "count", field=176),
            Value("pcie_naks_sent", "count", field=177),
            Value("pcie_bad_dllp", "count", field=178),
            Value("pcie_non_fatal_errors", "count", field=179),
            Value("pcie_fatal_errors", "count", field=180),
            Value("pcie_unsupported_requests", "count", field=181),
            Value("pcie_lcrc_errors", "count", field=182),
            Value("pcie_lane_errors", "count", field=183),
        ),
        cost_us=2600,
        note="Lifetime counts of the GPU's own side of the link; only a rise means something.",
    ),
    Call(
        "nvmlDeviceGetPcieReplayCounter",
        Group.SELDOM,
        (Value("pcie_replay", "count"),),
        cost_us=428,
    ),
    Call(
        "nvmlDeviceGetTotalEccErrors",
        Group.RARE,
        (Value("ecc_corrected_volatile", "count"),),
        args=(0, 0),
        cost_us=3.0,
        note="Since the driver was loaded.",
    ),
    Call(
        "nvmlDeviceGetTotalEccErrors",
        Group.RARE,
        (Value("ecc_uncorrected_volatile", "count"),),
        args=(1, 0),
        cost_us=3.0,
        note="Since the driver was loaded.",
    ),
    Call(
        "nvmlDeviceGetTotalEccErrors",
        Group.RARE,
        (Value("ecc_corrected_aggregate", "count"),),
        args=(0, 1),
        cost_us=3.0,
        note="Over the card's life.",
    ),
    Call(
        "nvmlDeviceGetTotalEccErrors",
        Group.RARE,
        (Value("ecc_uncorrected_aggregate", "count"),),
        args=(1, 1),
        cost_us=3.0,
        note="Over the card's life.",
    ),
)

_ONCE: Final = (
    Call("nvmlDeviceGetPciInfo", Group.ONCE, (Value("pci_device_id", "id", "pciDeviceId"),)),
    Call("nvmlDeviceGetName", Group.ONCE, (Value("name", "text"),)),
    Call("nvmlDeviceGetUUID", Group.ONCE, (Value("uuid", "text"),)),
    Call("nvmlDeviceGetIndex", Group.ONCE, (Value("index", "number"),)),
    Call("nvmlDeviceGetSerial", Group.ONCE, (Value("serial", "text"),)),
    Call("nvmlDeviceGetVbiosVersion", Group.ONCE, (Value("vbios", "text"),)),
    Call("nvmlDeviceGetGspFirmwareVersion", Group.ONCE, (Value("gsp_firmware", "text"),)),
    Call("nvmlDeviceGetInforomImageVersion", Group.ONCE, (Value("inforom", "text"),)),
    Call(
        "nvmlDeviceGetMaxPcieLinkGeneration",
        Group.ONCE,
        (Value("max_link_gen", "generation"),),
        note="The lesser of the card's and the system's best.",
    ),
    Call("nvmlDeviceGetMaxPcieLinkWidth", Group.ONCE, (Value("max_link_width", "lanes"),)),
    Call(
        "nvmlDeviceGetGpuMaxPcieLinkGeneration",
        Group.ONCE,
        (Value("gpu_max_link_gen", "generation"),),
        note="The card's own best.",
    ),
    Call(
        "nvmlDeviceGetPowerManagementLimitConstraints",
        Group.ONCE,
        (Value("min_limit_w", "W", "0", scale=0.001), Value("max_limit_w", "W", "1", scale=0.001)),
    ),
    Call(
        "nvmlDeviceGetPowerManagementDefaultLimit",
        Group.ONCE,
        (Value("default_limit_w", "W", scale=0.001),),
    ),
    Call(
        "nvmlDeviceGetTemperatureThreshold",
        Group.ONCE,
        (Value("shutdown_temp_c", "C"),),
        args=(0,),
    ),
    Call(
        "nvmlDeviceGetTemperatureThreshold",
        Group.ONCE,
        (Value("slowdown_temp_c", "C"),),
        args=(1,),
    ),
    Call("nvmlDeviceGetPersistenceMode", Group.ONCE, (Value("persistence_mode", "flag"),)),
    Call(
        "nvmlDeviceGetMigMode",
        Group.ONCE,
        (Value("mig_mode", "flag", "0"), Value("mig_mode_pending", "flag", "1")),
    ),
    Call(
        "nvmlDeviceGetEccMode",
        Group.ONCE,
        (Value("ecc_mode", "flag", "0"), Value("ecc_mode_pending", "flag", "1")),
    ),
    Call(
        "nvmlDeviceGetDriverModel",
        Group.ONCE,
        (Value("driver_model", "number", "0"),),
        note="Windows alone.",
    ),
)

_LIBRARY: Final = (
    Call("nvmlInit", Group.LIBRARY, note="Opens no GPU by itself; the handle calls do."),
    Call("nvmlShutdown", Group.LIBRARY, note="Left out once a device was lost or hung."),
    Call("nvmlSystemGetDriverVersion", Group.LIBRARY),
    Call("nvmlSystemGetNVMLVersion", Group.LIBRARY),
    Call("nvmlSystemGetCudaDriverVersion", Group.LIBRARY),
    Call("nvmlDeviceGetCount", Group.LIBRARY, note="Every 5 s, to see devices come and go."),
    Call("nvmlDeviceGetHandleByIndex", Group.LIBRARY),
    Call(
        "nvmlDeviceGetHandleByPciBusId",
        Group.LIBRARY,
        note="Instead of the index when a GPU is to be left alone.",
    ),
    Call("nvmlDeviceGetMaxMigDeviceCount", Group.LIBRARY, note="With MIG on."),
    Call("nvmlDeviceGetMigDeviceHandleByIndex", Group.LIBRARY, note="With MIG on."),
)

EVENT_WAIT_MS: Final = 600

_EVENT: Final = (
    Call("nvmlEventSetCreate", Group.EVENT),
    Call("nvmlDeviceGetSupportedEventTypes", Group.EVENT),
    Call("nvmlDeviceRegisterEvents", Group.EVENT),
    Call("nvmlEventSetWait", Group.EVENT, note=f"Waits {EVENT_WAIT_MS} ms at most."),
)

CALLS: Final = (*_FAST, *_CALM, *_SLOW, *_RARE, *_ONCE, *_LIBRARY, *_EVENT)
"""Every call, in the order of the numbers in the shared memory (0 there means none)."""

NEVER: Final = {
    "nvmlDeviceGetSupportedGraphicsClocks": "has hung machines",
    "nvmlDeviceGetSupportedMemoryClocks": "has hung machines",
    "nvmlDeviceGetPcieThroughput": "blocks 20 ms a direction; fields 197 and 198 do not",
    "nvmlDeviceGetTotalEnergyConsumption": "takes 3 ms",
    "nvmlDeviceGetMarginTemperature": "takes 0.7 ms and adds nothing that is judged",
}
"""Calls that are left alone, and why."""

XID_EVENT: Final = 0x8
UNAVAILABLE_EVENT: Final = 0x4000
RECOVERY_EVENT: Final = 0x8000
EVENT_TYPES: Final = XID_EVENT | UNAVAILABLE_EVENT | RECOVERY_EVENT
"""NVML events that are asked for, where the device offers them: Xid, unavailable, recovery."""

FIRMWARE_XIDS: Final = frozenset({62, 119, 120, 175})
"""Xids after which the GPU's own firmware does not answer: no further call at all."""

DEADLINES_S: Final = {
    Group.FAST: 2.0,
    Group.CALM: 2.0,
    Group.SLOW: 10.0,
    Group.USERS: 10.0,
    Group.RARE: 10.0,
    Group.SELDOM: 10.0,
    Group.ONCE: 10.0,
    Group.LIBRARY: 10.0,
    Group.EVENT: 2.0,
}
"""After how long without an answer a call counts as stalled, in seconds."""


@cache
def number_of(function: str, args: tuple[int, ...] = ()) -> int:
    """The call's number in the shared memory, from 1.

    Raises:
        KeyError: The list does not hold it.
    """
    for number, call in enumerate(CALLS, 1):
        if call.function == function and call.args == args:
            return number
    raise KeyError(function)


def call_of(number: int) -> Call | None:
    """The call of a number in the shared memory, or None outside of any call."""
    return CALLS[number - 1] if 0 < number <= len(CALLS) else None


def values(group: Group) -> tuple[Value, ...]:
    """What a group gives, each name once, in order."""
    found = {value.name: value for call in CALLS if call.group is group for value in call.gives}
    return tuple(found.values())
