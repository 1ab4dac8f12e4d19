"""What the machine is and holds, its boots, and trouble of its own."""

from __future__ import annotations

from gpuprobe.events.base import Event, observed


@observed
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


@observed
class GpusListed(Event):
    """A tool listed every GPU that the driver serves.

    Attributes:
        gpus: Each GPU's UUID; of a table, its address and its name.
        machine: What ties tables of addresses to one machine (driver and day); "" for UUIDs.
        prompt: `user@host` of the prompt above, or "".
        apart: It may show a part of the machine's GPUs: filtered, or asked for in a container.
    """

    gpus: tuple[str, ...]
    machine: str = ""
    prompt: str = ""
    apart: bool = False


@observed
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


@observed
class BootStarted(Event):
    """A kernel started (`Linux version`, `-- Boot`), so what follows is another boot."""

    boot_id: str | None = None
    kernel: str | None = None


@observed
class ShutdownStarted(Event):
    """The machine was shut down or rebooted in order."""


@observed
class UncleanEndFound(Event):
    """A sign that the boot before ended without a shutdown.

    Attributes:
        what: `journal` (journal uncleanly shut down), `filesystem` (recovery at mount),
            `reset-reason` (Previous system reset reason), `nvme` (unsafe shutdowns rose),
            `last-crash` (`last -x` says crash), `bmc`, `panic` (the kernel's last words), `bert`
            (a fatal hardware error of the boot before, kept by the firmware), `scheduler`
            (Slurm says "unexpectedly rebooted").
        detail: The figure or the words.
    """

    what: str
    detail: str = ""


@observed
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


@observed
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
