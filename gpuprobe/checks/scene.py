"""What a check looks at: gathered once, each part a value or the reason why there is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reading, Reason, Unavailable

if TYPE_CHECKING:
    from pathlib import Path

    from gpuprobe.diagnosis import Diagnosis
    from gpuprobe.jitcache.report import ScanReport
    from gpuprobe.timeline import Timeline

NVIDIA = 0x10DE
"""PCI vendor id of NVIDIA."""

NOT_ASKED = Unavailable(Reason.NOT_ASKED)
"""Reading of a part that nobody asked for."""


@dataclass(frozen=True, slots=True)
class Link:
    """A PCIe link as one of its ends sees it.

    Attributes:
        speed_gts: GT/s now. width: Lanes now.
        max_speed_gts: Best GT/s of this end. max_width: Best lanes of this end.
    """

    speed_gts: float | None
    width: int | None
    max_speed_gts: float | None
    max_width: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Function:
    """A GPU or a bridge above it.

    Attributes:
        address: Its address.
        link: Its link, `lost` where it reads all ones.
        aer: AER counts since this boot enumerated it: `correctable`, `nonfatal`, `fatal`, each
            by name of the bit; for a root port `rootport` as well.
        error_reporting: Whether its Device Control lets it report correctable errors.
        aer_service: Of a root port: whether the kernel's AER driver serves it.
    """

    address: PciAddress
    link: Reading[Link] = NOT_ASKED
    aer: Reading[Mapping[str, Mapping[str, int]]] = NOT_ASKED
    error_reporting: Reading[bool] = NOT_ASKED
    aer_service: Reading[bool] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class GpuOnBus:
    """A GPU as sysfs shows it.

    Attributes:
        function: The GPU's own function.
        bridges: From the root port down to the port the GPU is in.
        vendor_id: PCI vendor id, cached by the kernel: no sign of life.
        driver: Kernel driver bound to it, None for none.
        runtime_status: `active`, `suspended`, ...
        presence: Whether its config space answers.
    """

    function: Function
    bridges: tuple[Function, ...] = ()
    vendor_id: int | None = None
    driver: Reading[str | None] = NOT_ASKED
    runtime_status: Reading[str] = NOT_ASKED
    presence: Reading[bool] = NOT_ASKED

    @property
    def address(self) -> PciAddress:
        """The GPU's address."""
        return self.function.address

    @property
    def path(self) -> tuple[Function, ...]:
        """From the root port down to the GPU itself."""
        return (*self.bridges, self.function)

    @property
    def asleep(self) -> bool:
        """Whether it is suspended, so that nothing may touch it."""
        return isinstance(self.runtime_status, Known) and self.runtime_status.value == "suspended"


@dataclass(frozen=True, slots=True, kw_only=True)
class BootLog:
    """The kernel log of one boot.

    Attributes:
        timeline: Its events.
        diagnosis: What they come to.
        boot_id: The journal's id, or "".
        whole: False where only part of it may be read, or it wrapped.
        notes: What a reader should know about how it was read.
    """

    timeline: Timeline
    diagnosis: Diagnosis
    boot_id: str = ""
    whole: bool = True
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class DriverFacts:
    """Versions of the NVIDIA driver's parts.

    Attributes:
        loaded: Of the kernel module that runs (/proc/driver/nvidia/version).
        installed: Of the kernel module on disk, that the next boot loads.
        library: Of libnvidia-ml, by its file name.
        open_module: Whether the open kernel module runs.
    """

    loaded: Reading[str] = NOT_ASKED
    installed: Reading[str] = NOT_ASKED
    library: Reading[str] = NOT_ASKED
    open_module: Reading[bool] = NOT_ASKED


@dataclass(frozen=True, slots=True, kw_only=True)
class HostFacts:
    """What this machine lets a probe see.

    Attributes:
        kernel: Release, `6.8.0-79-generic`.
        cmdline: The kernel's command line.
        container: `docker`, `podman`, `kubernetes`, `lxc`, ..., or None outside of one.
        wsl: Whether this is WSL2.
        root: Whether this process is root.
        kernel_log: How the kernel log can be followed.
        udev: How device events can be followed.
        journal: `persistent` or `volatile`.
        pstore: Where the kernel can leave its last words.
        recorders: Recorders of this machine that run now.
        sensors: Names of board and supply sensors that give voltages.
        systemd: Whether systemd runs. efi: Whether the machine was booted by UEFI.
    """

    kernel: Reading[str] = NOT_ASKED
    cmdline: Reading[str] = NOT_ASKED
    container: str | None = None
    wsl: bool = False
    root: bool = False
    kernel_log: Reading[str] = NOT_ASKED
    udev: Reading[str] = NOT_ASKED
    journal: Reading[str] = NOT_ASKED
    pstore: Reading[str] = NOT_ASKED
    recorders: Reading[tuple[str, ...]] = NOT_ASKED
    sensors: Reading[tuple[str, ...]] = NOT_ASKED
    systemd: bool = False
    efi: bool = False


@dataclass(frozen=True, slots=True)
class RecordingSeen:
    """A recording of this machine.

    Attributes:
        path: The file.
        written: Whether a recorder has it open now.
        ended: How it ended, or None where it has no end mark: what wrote it was cut short.
        last_at: When it was written last, seconds since 1970.
    """

    path: Path
    written: bool
    ended: str | None
    last_at: float


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadSample:
    """One sample of a GPU while the user's own load runs; None for what was not read.

    Attributes:
        device: The GPU. at_s: Seconds since the sampling began.
        util_percent: Percent. power_w: Watts. limit_w: Watts. temp_c: Celsius, core.
        link_gen: PCIe generation. link_width: Lanes.
        reasons: NVML's bit mask of clock-event reasons.
    """

    device: PciAddress
    at_s: float
    util_percent: float | None = None
    power_w: float | None = None
    limit_w: float | None = None
    temp_c: float | None = None
    link_gen: int | None = None
    link_width: int | None = None
    reasons: int | None = None


@dataclass(frozen=True, slots=True)
class Requirements:
    """What the work needs of every GPU's link.

    Attributes:
        gen: PCIe generation, 1 to 6. width: Lanes. bytes_per_s: Practical rate, one direction.
    """

    gen: int | None = None
    width: int | None = None
    bytes_per_s: float | None = None

    def __bool__(self) -> bool:
        return self != Requirements()


_REFUSED = re.compile(r"nvmlDeviceGetHandleBy\w+ returned (\w+ \(\d+\))")

NvmlValues = Mapping[PciAddress, Mapping[str, Known[Any] | Unavailable]]
"""What NVML said, by GPU and name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Scene:
    """All that the checks look at.

    Attributes:
        bus: GPUs in sysfs, in order of address.
        nvml: What NVML said.
        driver: Versions.
        host: The machine.
        this_boot: The kernel log since this boot began.
        previous_boot: The same of the boot before, and how it ended.
        recordings: Those of this machine, oldest first.
        jit_caches: What a scan of JIT caches found; `not-asked` where nothing ended uncleanly.
        load: Samples under load, `not-asked` without `--under-load`.
        after_load: The bus once more, after the sampling, to see which counters rose.
        nvml_after_load: NVML once more, likewise.
        needs: What the work needs.
        device: Only this GPU, or None for all.
        nvml_wanted: False with `--no-nvml`.
    """

    bus: Reading[tuple[GpuOnBus, ...]] = NOT_ASKED
    nvml: Reading[NvmlValues] = NOT_ASKED
    driver: Reading[DriverFacts] = NOT_ASKED
    host: Reading[HostFacts] = NOT_ASKED
    this_boot: Reading[BootLog] = NOT_ASKED
    previous_boot: Reading[BootLog] = NOT_ASKED
    recordings: Reading[tuple[RecordingSeen, ...]] = NOT_ASKED
    jit_caches: Reading[ScanReport] = NOT_ASKED
    load: Reading[tuple[LoadSample, ...]] = NOT_ASKED
    after_load: Reading[tuple[GpuOnBus, ...]] = NOT_ASKED
    nvml_after_load: Reading[NvmlValues] = NOT_ASKED
    needs: Requirements = field(default_factory=Requirements)
    device: PciAddress | None = None
    nvml_wanted: bool = True

    def gpus(self) -> tuple[GpuOnBus, ...]:
        """The GPUs to check, in order of address; empty where there are none."""
        found = self.bus.value if isinstance(self.bus, Known) else ()
        return tuple(gpu for gpu in found if self._wanted(gpu.address))

    def addresses(self) -> tuple[PciAddress, ...]:
        """Addresses of all GPUs that sysfs or NVML know of."""
        there = {gpu.address for gpu in self.gpus()}
        if isinstance(self.nvml, Known):
            there |= {address for address in self.nvml.value if self._wanted(address)}
        return tuple(sorted(there))

    def _wanted(self, address: PciAddress) -> bool:
        return self.device is None or address.slot == self.device.slot

    def on_bus(self, address: PciAddress) -> GpuOnBus | None:
        """What sysfs shows of a GPU, or None."""
        return next((gpu for gpu in self.gpus() if gpu.address == address), None)

    def is_nvidia(self, address: PciAddress) -> bool:
        """Whether NVML can speak for this GPU: it is NVIDIA's, or only NVML knows of it."""
        gpu = self.on_bus(address)
        return gpu is None or gpu.vendor_id == NVIDIA

    def nvml_value(self, address: PciAddress, name: str) -> Known[Any] | Unavailable:
        """One value of NVML, or why there is none."""
        gpu = self.on_bus(address)
        if gpu is not None and gpu.asleep:
            return Unavailable(Reason.ASLEEP)
        if isinstance(self.nvml, Unavailable):
            if self.nvml.reason is Reason.TIMED_OUT:
                # The finding about NVML itself names the call.
                return Unavailable(Reason.TIMED_OUT)
            return self.nvml
        values = self.nvml.value.get(address)
        if values is None and gpu is not None and gpu.presence == Known(False):
            return Unavailable(Reason.LOST)
        if values is None and self.nvml_stuck():
            return Unavailable(Reason.TIMED_OUT, "a call into the driver has not returned")
        if values is None:
            return Unavailable(Reason.NOT_THERE, "NVML does not list this GPU")
        found = values.get(name, Unavailable(Reason.NOT_SUPPORTED, "this driver does not offer it"))
        dead = isinstance(found, Unavailable) and found.reason in (Reason.TIMED_OUT, Reason.LOST)
        # What was not read because the GPU is lost has no reason of its own.
        return Unavailable(Reason.LOST) if dead and self.nvml_lost(address) else found

    def nvml_stuck(self) -> tuple[str, ...]:
        """Calls into the driver that had not returned at the deadline, in words."""
        values = self.nvml.value if isinstance(self.nvml, Known) else None
        return tuple(str(left) for left in getattr(values, "left_behind", ()))

    def nvml_refused(self, address: PciAddress) -> str | None:
        """Name and number of the code with which NVML refused to open a GPU, or None."""
        values = self.nvml.value.get(address) if isinstance(self.nvml, Known) else None
        reading = (values or {}).get("name")
        if not isinstance(reading, Unavailable):
            return None
        match = _REFUSED.search(reading.detail)
        return match[1] if match else None

    def nvml_answers(self, address: PciAddress) -> bool:
        """Whether NVML gave any value of this GPU that its driver has to ask it for."""
        values = self.nvml.value.get(address) if isinstance(self.nvml, Known) else None
        return values is not None and any(
            isinstance(values.get(name), Known) for name in SIGNS_OF_LIFE
        )

    def nvml_lost(self, address: PciAddress) -> bool:
        """Whether NVML says that this GPU is lost."""
        values = self.nvml.value.get(address) if isinstance(self.nvml, Known) else None
        return values is not None and any(
            isinstance(value, Unavailable) and value.reason is Reason.LOST
            for value in values.values()
        )

    def name(self, address: PciAddress) -> str | None:
        """Marketing name as NVML gives it, or None."""
        reading = self.nvml_value(address, "name")
        return str(reading.value) if isinstance(reading, Known) else None


SIGNS_OF_LIFE = ("power_w", "temp_c", "sm_clock_mhz", "pstate", "util_percent", "memory_used_bytes")
"""Values of NVML that come from the GPU rather than from what the driver remembers."""
