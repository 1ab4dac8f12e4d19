"""What was observed: frozen, past tense, each with the place it was read from.

An event judges nothing. Sources produce events, a timeline orders them, rules weigh them.
"""

from __future__ import annotations

from dataclasses import MISSING, dataclass, field, fields
from enum import StrEnum
from typing import (
    TYPE_CHECKING,
    Any,
    ClassVar,
    Final,
    Literal,
    Self,
    TypeVar,
    dataclass_transform,
)

from gpuprobe.clock import Stamp
from gpuprobe.identity import PciAddress
from gpuprobe.values import Frozen


class Setting(StrEnum):
    """In what surroundings the words stood, which decides how much they can prove."""

    LOG = "log"
    """A line with a log's prefix, a structured record, or a line of plainly pasted output."""
    BARE = "bare"
    """Machine words alone on a line, with no prefix: a program may have written them."""
    PROSE = "prose"
    """Inside somebody's sentence: context, never evidence."""
    CODE = "code"
    """Inside a string literal, a diff, a table of codes or program text: context."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where an event was read, so that a verdict can quote its proof.

    Attributes:
        input: The `inputs[].path` it came from; `-` is stdin, `a.tar!b` an archive's member.
        line: Line number from 1 in the decompressed input; None for what has no lines.
        text: The line as it stands or the message in it, at most 500 characters, no controls.
        ref: Table and row, or cursor, where there is no line.
        order: Place among all that was read; ties between equal times are broken by it.
    """

    input: str
    line: int | None
    text: str
    ref: str | None = None
    order: tuple[int, int] = (0, 0)


_T = TypeVar("_T", bound="Event")


@dataclass_transform(frozen_default=True, kw_only_default=True, eq_default=False)
def _observed(cls: type[_T]) -> type[_T]:
    """A frozen dataclass with what `Event` has for all.

    Like `Value`, and for its reason, but without fields in order: subclasses add required ones.
    """
    made = dataclass(init=False, repr=False, eq=False)(cls)
    made._defaults = {
        item.name: item.default for item in fields(made) if item.default is not MISSING
    }
    made._names = frozenset(item.name for item in fields(made))
    made._needed = made._names - made._defaults.keys()
    return made


@_observed
class Event(Frozen):
    """What all events have.

    Attributes:
        origin: Where it was read.
        stamp: The stamp that says when, or None.
        host: Host field of a kernel or syslog line, else None.
        machine_id: The journal's machine id, else None.
        boot: Which boot of its input it belongs to: a journal boot id, or a number as text.
        setting: In what surroundings the words stood.
        device: The function the line names, or None. Never guessed.
        source: Which program or subsystem wrote it (`kernel`, `vllm[2201]`), or None.
        count: How many times a line of this shape came, this one included.
        last: The last of them, when `count` is above 1.
    """

    origin: Origin
    stamp: Stamp | None = None
    host: str | None = None
    machine_id: str | None = None
    boot: str | None = None
    setting: Setting = Setting.LOG
    device: PciAddress | None = None
    source: str | None = None
    count: int = 1
    last: Origin | None = None

    _defaults: ClassVar[dict[str, Any]]
    _names: ClassVar[frozenset[str]]
    _needed: ClassVar[frozenset[str]]

    @classmethod
    def trusted(cls, values: dict[str, Any]) -> Self:
        """One of fields that are known to be right, for what is made at a sampling rate."""
        made = cls.__new__(cls)
        made.__dict__.update(cls._defaults)
        made.__dict__.update(values)
        return made

    if not TYPE_CHECKING:

        def __init__(self, **values: Any) -> None:
            if not (values.keys() <= self._names and values.keys() >= self._needed):
                wrong = (values.keys() - self._names) | (self._needed - values.keys())
                raise TypeError(f"{type(self).__name__}: {sorted(wrong)}")
            self.__dict__.update(self._defaults)
            self.__dict__.update(values)


def is_evidence(event: Event) -> bool:
    """Whether the words are a log's or a program's own, not somebody's talk of them."""
    return event.setting in (Setting.LOG, Setting.BARE)


# --- NVIDIA's kernel driver ------------------------------------------------------------------


@_observed
class XidReported(Event):
    """The driver, or an agent that listens to it, reported an Xid.

    Attributes:
        code: The Xid's number.
        message: What stands behind the number.
        pid: The process named, which may only be the one that noticed.
        process: Its name, at most 15 characters.
        caused_by: For Xid 45 with "caused by previous Xid N".
        recovery_action: For Xid 154, the new value (0 none, 1 GPU reset, 2 node reboot, ...).
        mig: The `GPU-I:..` part of the bracket, if any.
        uuid: The GPU by UUID where the line names it so (NVML agents do).
        via: Who reported it: `kernel`, or the agent's name.
    """

    code: int
    message: str = ""
    pid: int | None = None
    process: str | None = None
    caused_by: int | None = None
    recovery_action: int | None = None
    mig: str | None = None
    uuid: str | None = None
    via: str = "kernel"


@_observed
class SxidReported(Event):
    """NVSwitch reported an error. `fatal` is None where the line does not say."""

    code: int
    fatal: bool | None = None
    link: int | None = None
    message: str = ""


@_observed
class GpuLostReported(Event):
    """Someone who asked the GPU says that it is gone.

    Attributes:
        by: `driver` ("has fallen off the bus"), `probe` (the same at probe time, three lines),
            `nvml` (GPU_IS_LOST), `amdgpu` ("device lost from bus!").
        index: NVML's index where the line names it.
        uuid: The GPU's UUID where the line names it.
    """

    by: Literal["driver", "probe", "nvml", "amdgpu"]
    index: int | None = None
    uuid: str | None = None


@_observed
class LossHinted(Event):
    """Words that go with a lost GPU and do not prove it.

    Attributes:
        what: `status-lost` (status 0x0000000f, NV_ERR_GPU_IS_LOST in clean-up lines),
            `no-handle` ("Unable to determine the device handle ... Unknown Error"),
            `cannot-attach` (osInitNvMapping "Cannot attach gpu"), `attached-check`
            (API_GPU_ATTACHED_SANITY_CHECK failed), `uvm-fatal` (uvm global fatal error),
            `rc-all-channels`, `rc-user-channels` (user channels alone, as after a GSP crash),
            `modeset-lost` (status 0x0000000f in nvidia-modeset),
            `crash-dump`, `stuck-in-d3`, `all-ones` (a register reads back 0xffffffff),
            `smi-error` (ERR! or "GPU requires restart" style state of one GPU),
            `remove-busy` ("Attempting to remove device ... non-zero usage count"),
            `unavailable` (NVML's event 0x4000: lost, or its firmware hangs), `smu-all-ones`,
            `gpuprobe` (its own word in an engine's log),
            `bridge-error` (a sibling function or port died beside it).
    """

    what: str
    index: int | None = None
    xid: int | None = None


@_observed
class FirmwareFaulted(Event):
    """The GPU's own firmware (GSP, PMU, SEC2) stopped answering or crashed.

    Attributes:
        what: `heartbeat`, `rpc-timeout`, `crash-cat`, `gfw-boot`, `wpr2`, `pmu-halted`,
            `unresponsive`, `boot-failed`, `slow`, `sanity-check` (with its status in `status`).
        gpu_instance: The driver's own GPU number (`GPU6`), which is not NVML's index.
        status: Status number printed with it, if any.
    """

    what: str
    gpu_instance: int | None = None
    status: int | None = None


@_observed
class AdapterInitFailed(Event):
    """The driver could not initialise a GPU (`RmInitAdapter failed! (0x26:0x56:1470)`).

    Attributes:
        step: First number: how far initialisation came.
        status: Second number: the RM status (0x0f lost, 0x62 reset required, ...).
        source_line: Third number.
    """

    step: int | None = None
    status: int | None = None
    source_line: int | None = None


@_observed
class DriverUnusable(Event):
    """The driver cannot be used, for a reason that is not the GPU's.

    Attributes:
        what: `version-mismatch`, `not-loaded`, `no-devices` ("No devices were found"),
            `no-permission`, `bound-elsewhere` (vfio-pci, nouveau, nova), `no-cuda-device`,
            `container-setup` (the container could not be given the GPU), `too-old` (driver),
            `no-library` (libcuda or NVML missing), `unsupported` (GPU too old for the driver),
            `wrong-flavour` (needs the open modules), `probe-failed`, `bar-invalid`,
            `smi-failed` (couldn't communicate with the driver), `fabric` (fabric manager not
            running).
    """

    what: str


@_observed
class NvmlReturned(Event):
    """NVML, or a tool on it, got an error code other than GPU_IS_LOST.

    Attributes:
        code: NVML's return code number.
        name: Its name without the NVML_ERROR_ prefix.
        index: NVML's index where the line names it.
    """

    code: int
    name: str
    index: int | None = None


# --- PCI and PCIe ----------------------------------------------------------------------------

BOARD_CONTROLLER: Final = "bmc"
"""In place of a driver's name: the board's controller (BMC) wrote it in a log of its own."""


@_observed
class AerReported(Event):
    """One AER report, its lines put together.

    Attributes:
        severity: `correctable`, `non-fatal` or `fatal`.
        layer: `Physical Layer`, `Data Link Layer`, `Transaction Layer`, `Inaccessible`, or "".
        agent: `receiver`, `transmitter`, `requester`, `completer`, or "".
        bits: Names of the set status bits, short form (`RxErr`, `BadTLP`, `SDES`).
        port: The root port that got the message, when the block says so.
        driver: The bound driver's name as the kernel prints it, `BOARD_CONTROLLER`, or None.
        firmware_first: Reported through GHES by the firmware.
    """

    severity: Literal["correctable", "non-fatal", "fatal"]
    layer: str = ""
    agent: str = ""
    bits: tuple[str, ...] = ()
    port: PciAddress | None = None
    driver: str | None = None
    firmware_first: bool = False

    @property
    def by_board(self) -> bool:
        """Whether the board's controller tells of it and not the kernel."""
        return self.driver == BOARD_CONTROLLER


@_observed
class AerRecoveryEnded(Event):
    """AER or DPC recovery ended.

    Attributes:
        outcome: `recovered`, `failed`, `link-reset`, `no-callback`.
    """

    outcome: Literal["recovered", "failed", "link-reset", "no-callback"]
    driver: str | None = None


@_observed
class DpcTriggered(Event):
    """Downstream Port Containment cut the link below `device` (a port).

    Attributes:
        sender: Who sent the error message, from `source:0x2100`, or None.
        reason: As printed, such as `ERR_FATAL`, or "".
    """

    sender: PciAddress | None = None
    reason: str = ""


@_observed
class SlotChanged(Event):
    """A hot-plug port (`device`) said something about its slot.

    Attributes:
        slot: The slot's name, as printed.
        what: `link-down`, `link-up`, `card-not-present`, `card-present`, `already-disabled`,
            `power-fault`, `ignored` (bounce that DPC recovered), `no-device`, `attention-button`.
    """

    slot: str
    what: str


@_observed
class LinkStateReported(Event):
    """A link's state at `device`.

    Attributes:
        what: `inactive` (Data Link Layer Link Active not set), `active`, `retraining`,
            `retrain-failed`, `limited` (available bandwidth below what the card can),
            `sampled` (lspci, nvidia-smi -q or sysfs text).
        speed_gts: Speed now, or None. width: Lanes now, or None.
        max_speed_gts: Best speed, or None. max_width: Best width, or None.
        limited_by: The hop that limits it.
    """

    what: str
    speed_gts: float | None = None
    width: int | None = None
    max_speed_gts: float | None = None
    max_width: int | None = None
    limited_by: PciAddress | None = None


@_observed
class ConfigSpaceUnreadable(Event):
    """The device's config space did not answer.

    Attributes:
        how: `power-state` ("device inaccessible" / "config space inaccessible"), `not-ready`
            ("not ready ... giving up"), `waiting` (not ready yet), `all-ones` (lspci `rev ff`,
            header type 7f, config reading ff ff ff ff, link width 63).
        driver: The driver name printed before the address, or None.
        from_state: The power state the kernel believed it in (`D3cold`), or None.
    """

    how: Literal["power-state", "not-ready", "waiting", "all-ones"]
    driver: str | None = None
    from_state: str | None = None


@_observed
class DeviceChanged(Event):
    """The kernel or the driver noticed a device come, go, answer again or be reset.

    Attributes:
        what: `added`, `removed`, `bound`, `unbound`, `answered` (ready, reset done, enabled),
            `reset-done`, `suspended`, `tunnel-lost` (thunderbolt disconnected).
        class_code: PCI class (0x030000), where the line has it.
        driver: Driver it was bound to, where the line has it.
    """

    what: str
    class_code: int | None = None
    driver: str | None = None


@_observed
class AdminActed(Event):
    """Somebody removed, unbound or reset a device on purpose, or unloaded the driver.

    Attributes:
        what: `remove`, `unbind`, `reset`, `rescan`, `rmmod`, `slot-power`, `bind-vfio`,
            `config-write` (setpci).
    """

    what: str


# --- Identity and topology -------------------------------------------------------------------


@_observed
class DeviceIdentified(Event):
    """A line joined names of one device.

    Attributes:
        uuid: `GPU-...`. name: Marketing name. index: NVML index. serial: Board serial.
        is_gpu: True when the line shows the device to be a GPU, None when it does not say.
        driver_version: The driver's version, where the line gives one.
        vendor_id: PCI vendor id. device_id: PCI device id.
    """

    uuid: str | None = None
    name: str | None = None
    index: int | None = None
    serial: str | None = None
    is_gpu: bool | None = None
    driver_version: str | None = None
    vendor_id: int | None = None
    device_id: int | None = None


@_observed
class BridgeLinked(Event):
    """A line showed that `device` lies below `parent` (sysfs path, lspci -t, enumeration)."""

    parent: PciAddress


@_observed
class SystemDescribed(Event):
    """A fact about the machine or the software.

    Attributes:
        key: `driver`, `kernel`, `cmdline`, `chassis` (DMI line), `laptop`, `vm`, `wsl`,
            `container`, `egpu`, `riser`, `engine`, `engine-argv`, `framework`, `cuda`,
            `open-module`, `power-cap` (set by nvidia-smi), `aer-granted`, `aer-disabled`, `aspm`,
            `hotplug-port` (what a port's slot can do), `engine-gpus` (addresses of the GPUs that
            a watched engine uses), `gpus-on-bus` (`none` where a look found none),
            `stranger-process` (the id of one that is none of it); of one card `vbios`,
            `gsp-firmware`, `gpu-modes`, `power-limits`.
        value: As printed.
    """

    key: str
    value: str


# --- Boots and the host ----------------------------------------------------------------------


@_observed
class BootStarted(Event):
    """A kernel started (`Linux version`, `-- Boot`), so what follows is another boot."""

    boot_id: str | None = None
    kernel: str | None = None


@_observed
class ShutdownStarted(Event):
    """The machine was shut down or rebooted in order."""


@_observed
class UncleanEndFound(Event):
    """A sign that the boot before ended without a shutdown.

    Attributes:
        what: `journal` (journal uncleanly shut down), `filesystem` (recovery at mount),
            `reset-reason` (Previous system reset reason), `nvme` (unsafe shutdowns rose),
            `last-crash` (`last -x` says crash), `bmc`, `panic` (the kernel's last words), `bert`
            (a fatal hardware error of the boot before, kept by the firmware).
        detail: The figure or the words.
    """

    what: str
    detail: str = ""


@_observed
class HostFaulted(Event):
    """Trouble of the host that is no GPU fault by itself.

    Attributes:
        what: `mce`, `edac`, `ghes`, `iommu`, `soft-lockup`, `hung-task`, `nvme`, `cpu-heat`,
            `suspend`, `resume`, `disk-full`, `clocksource`, `heat` (board or inlet,
            by the BMC or ACPI), `fan`, `oops` (the kernel itself faulted and went on).
        module: The GPU driver's module that a kernel's trace stands in, or "".
    """

    what: str
    module: str = ""


@_observed
class OomKilled(Event):
    """The kernel's or a cgroup's OOM killer ended a process, or systemd-oomd or Kubernetes did.

    Attributes:
        pid: Process id. process: Its name. cgroup: True when a cgroup's limit was the reason.
        rss_kib: anon-rss of the killed process, KiB.
        refused: True where nobody was killed: the host would not give a program memory.
    """

    pid: int | None = None
    process: str | None = None
    cgroup: bool = False
    rss_kib: int | None = None
    refused: bool = False


@_observed
class ThermalReported(Event):
    """A GPU's temperature passed a limit, or a tool printed temperatures.

    Attributes:
        what: `slowdown`, `shutdown`, `reading`.
        temp_c: Core temperature. slowdown_c: Its slowdown limit. memory_temp_c: Memory.
    """

    what: str
    temp_c: float | None = None
    slowdown_c: float | None = None
    memory_temp_c: float | None = None


@_observed
class PowerReported(Event):
    """Something about power.

    Attributes:
        what: `brake` (clock-event reason 0x80), `external-missing`, `under-voltage` (host),
            `supply` (a supply's own event, BMC), `reading`, `voltage-normal`.
        power_w: Draw, watts. limit_w: Limit, watts.
        gpu: False when it is about the host only.
    """

    what: str
    power_w: float | None = None
    limit_w: float | None = None
    gpu: bool = True


@_observed
class GpuMemoryCounted(Event):
    """A tool printed a count of a GPU's memory errors that is not zero.

    Attributes:
        what: `uncorrectable` (since the driver was loaded), `remap-pending`, `remap-failed`.
        value: The count; 1 where the tool says Yes.
    """

    what: str
    value: int = 1


@_observed
class GpuSampled(Event):
    """One row of a sampling tool (`nvidia-smi --query-gpu`, dmon); None for what it left out.

    Attributes:
        power_w: Watts. limit_w: Watts. temp_c: Celsius. sm_clock_mhz: MHz. util_percent: Percent.
        link_gen: PCIe generation. link_width: Lanes. clocks_event_reasons: NVML's bit mask.
        lost: The row says `[GPU is lost]`.
        memory_temp_c: Celsius. mem_clock_mhz: MHz. pstate: 0 (fastest) to 15.
        memory_used_bytes: Bytes. memory_total_bytes: Bytes.
        rx_bytes_per_s: PCIe to the GPU, bytes per second. tx_bytes_per_s: From it.
    """

    power_w: float | None = None
    limit_w: float | None = None
    temp_c: float | None = None
    sm_clock_mhz: float | None = None
    util_percent: float | None = None
    link_gen: int | None = None
    link_width: int | None = None
    clocks_event_reasons: int | None = None
    lost: bool = False
    memory_temp_c: float | None = None
    mem_clock_mhz: float | None = None
    pstate: int | None = None
    memory_used_bytes: int | None = None
    memory_total_bytes: int | None = None
    rx_bytes_per_s: float | None = None
    tx_bytes_per_s: float | None = None


@_observed
class HostSampled(Event):
    """The host's memory and pressure at one moment; None for what could not be read.

    Attributes:
        memory_available_bytes: What programs could still get without swapping.
        memory_total_bytes: All of it.
        memory_pressure_percent: Share of the last 10 s in which some task waited for memory.
        io_pressure_percent: For a disk. cpu_pressure_percent: For a processor.
    """

    memory_available_bytes: int | None = None
    memory_total_bytes: int | None = None
    memory_pressure_percent: float | None = None
    io_pressure_percent: float | None = None
    cpu_pressure_percent: float | None = None


# --- Live sampling ---------------------------------------------------------------------------


@_observed
class CountersSampled(Event):
    """Counter values of one device at one moment. Only rises mean something.

    Attributes:
        counters: Name and value: NVML's PCIe and ECC counters, AER counters of sysfs by their
            file and name (`aer_dev_correctable.RxErr`), remapped rows.
    """

    counters: tuple[tuple[str, int], ...] = ()


@_observed
class PowerSampled(Event):
    """The driver's own power samples since the last such event, about 10 ms apart.

    Finer than polling, and far too coarse for the microsecond spikes that trip a supply.

    Attributes:
        samples: Seconds since 1970 by the driver's stamp, and watts; in order. A live source gives
            what reads like a tuple.
    """

    samples: tuple[tuple[float, float], ...] = ()


@_observed
class PresenceTested(Event):
    """Somebody looked whether a device is still there.

    Attributes:
        directory: Its directory in sysfs exists.
        config: `answers`, `all-ones`, `unreadable` or `not-asked` (asleep, or no permission).
        driver: `answers`, `lost`, `silent` (no answer in time) or `not-asked`.
    """

    directory: bool
    config: Literal["answers", "all-ones", "unreadable", "not-asked"]
    driver: Literal["answers", "lost", "silent", "not-asked"] = "not-asked"


@_observed
class ProbeStalled(Event):
    """A call into the driver did not return in time: evidence, never a verdict.

    Attributes:
        call: The NVML call that hangs.
        pid: The child's process id; tid: the thread's.
        state: Process state from /proc (`D` uninterruptible, `R`, `S`), or "".
        wchan: Kernel function it waits in, or "".
        waited_s: Seconds since the call began.
    """

    call: str
    pid: int
    tid: int = 0
    state: str = ""
    wchan: str = ""
    waited_s: float = 0.0


@_observed
class SourceChanged(Event):
    """A live source started, stopped, was released, or lost messages.

    Attributes:
        name: The source.
        what: `started`, `stopped`, `released`, `taken`, `gap`, `unavailable`.
    """

    name: str
    what: str


@_observed
class ProcessesListed(Event):
    """NVML listed the processes that use a GPU.

    Attributes:
        pids: Their process ids, in the namespace of the driver.
    """

    pids: tuple[int, ...] = ()


@_observed
class OutputWritten(Event):
    """Lines that a followed program wrote: kept for the reader, never weighed.

    What they mean, if anything, arrives as events of its own.

    Attributes:
        stream: `stdout`, `stderr`, or "" where the two cannot be told apart.
        lines: Line number from 1 since the program began, and the text without its line end.
        dropped: Bytes that came too fast before these lines and were not read.
    """

    stream: str = ""
    lines: tuple[tuple[int, str], ...] = ()
    dropped: int = 0


# --- Programs --------------------------------------------------------------------------------


@_observed
class CudaFailed(Event):
    """A program printed a CUDA error.

    Attributes:
        code: CUDA runtime number (719, 700, ...), or None where only words are known.
        name: `cudaErrorLaunchFailure` style name, or None.
        message: NVIDIA's text.
        framework: `torch`, `jax`, `tensorflow`, `ggml`, `nccl`, `triton`, ... or None.
        where: Frame, function or call that noticed it.
        rank: Rank or local device index printed with it.
        teardown: Printed while the process was already dying of an earlier one.
    """

    code: int | None
    name: str | None
    message: str
    framework: str | None = None
    where: str = ""
    rank: int | None = None
    teardown: bool = False


@_observed
class DeviceAssertFailed(Event):
    """A kernel's own assert fired: file, line, condition, block, thread are in the text."""

    condition: str = ""


@_observed
class GpuMemoryExhausted(Event):
    """An allocator of GPU memory said no.

    Attributes:
        wanted: As printed, such as `20.00 MiB`. total: As printed. free: As printed.
    """

    wanted: str = ""
    total: str = ""
    free: str = ""
    index: int | None = None


@_observed
class CollectiveFailed(Event):
    """A collective or its store timed out, or a peer went away.

    Attributes:
        what: `timeout`, `peer-gone`, `store-timeout`, `abort`.
        rank: This rank. operation: `ALLREDUCE` and the like. timeout_ms: The limit.
    """

    what: str
    rank: int | None = None
    operation: str = ""
    timeout_ms: int | None = None


@_observed
class EngineChanged(Event):
    """An engine's life: start, a worker's end, the server's stop.

    Attributes:
        what: `started`, `worker-exited`, `stopping`, `stopped`, `restarted`, `engine-dead`,
            `failed-to-start`, `cpu-fallback`, `request-aborted`, `killed-by-supervisor`.
        who: Process, worker, unit or container named.
        code: Exit code or signal, where printed.
    """

    what: str
    who: str = ""
    code: int | None = None


@_observed
class ProcessCrashed(Event):
    """A process was ended by a signal or aborted.

    Attributes:
        signal: `SIGSEGV`, `SIGBUS`, `SIGKILL`, `SIGABRT`, `SIGILL`, `SIGFPE`.
        process: Its name. pid: Its id.
        in_library: Library the kernel names (`segfault at ... in libcuda.so`), or "".
    """

    signal: str
    process: str = ""
    pid: int | None = None
    in_library: str = ""


SCANNED = "jitcache-scan"
"""`source` of a damaged file that a scan of the cache found, not a program's own words."""


@_observed
class JitCacheFailed(Event):
    """A file of a JIT cache could not be read or used.

    Attributes:
        cache: `triton`, `inductor`, `vllm`, `flashinfer`, `torch-extensions`, `jax`, `numba`,
            `cuda`, `deepgemm`, `tilelang`.
        why: What is wrong, in a few words.
        path: Folder or file named by the log, or "".
        key: The entry's key, or "".
        fatal: False when the program rebuilt it and went on.
        sure: False where other faults print the same words ("device kernel image is invalid").
    """

    cache: str
    why: str
    path: str = ""
    key: str = ""
    fatal: bool = True
    sure: bool = True


@_observed
class GpuHung(Event):
    """A GPU or one of its engines hung, by a driver other than NVRM's Xids.

    Attributes:
        driver: `amdgpu`, `i915`, `xe`, `nouveau`, `nvlddmkm`, `macos`, `vulkan`, `d3d`.
        what: `ring-timeout`, `reset`, `reset-failed`, `wedged`, `tdr`, `device-removed`, `fence`,
            `fault`, `page-fault`.
        recovered: True when the line says that a reset brought it back, None when it is silent.
    """

    driver: str
    what: str
    recovered: bool | None = None


@_observed
class ProfilerSeen(Event):
    """A profiler was attached (nsys, ncu, CUPTI): it can give 719 on a healthy GPU."""

    name: str


@_observed
class ProseMentioned(Event):
    """Somebody's own words mention a fault.

    Attributes:
        topic: `xid`, `loss`, `cuda`, `oom`, `thermal`.
        xid: The Xid's number where named.
    """

    topic: str
    xid: int | None = None


@_observed
class OtherFailed(Event):
    """Something failed in words no rule weighs by itself (Traceback, `ERROR`, exit status)."""

    what: str
    where: str = field(default="")
