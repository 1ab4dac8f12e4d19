"""What the drivers of GPUs report."""

from __future__ import annotations

from typing import Literal

from gpuprobe.events.base import Event, observed


@observed
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


@observed
class SxidReported(Event):
    """NVSwitch reported an error. `fatal` is None where the line does not say."""

    code: int
    fatal: bool | None = None
    link: int | None = None
    message: str = ""


@observed
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


@observed
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
            `surprise-removed` (Windows: "reported as missing on the bus"),
            `unavailable` (NVML's event 0x4000: lost, or its firmware hangs), `smu-all-ones`,
            `gpuprobe` (its own word in an engine's log),
            `bridge-error` (a sibling function or port died beside it).
    """

    what: str
    index: int | None = None
    xid: int | None = None


@observed
class FirmwareFaulted(Event):
    """The GPU's own firmware (GSP, PMU, SEC2) stopped answering or crashed.

    Attributes:
        what: `heartbeat`, `rpc-timeout`, `crash-cat`, `gfw-boot`, `wpr2`, `pmu-halted`,
            `unresponsive`, `boot-failed`, `slow`, `sanity-check` (with its status in `status`),
            `card-heartbeat` (an accelerator that has no GSP).
        gpu_instance: The driver's own GPU number (`GPU6`), which is not NVML's index.
        status: Status number printed with it, if any.
    """

    what: str
    gpu_instance: int | None = None
    status: int | None = None


@observed
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


@observed
class DriverUnusable(Event):
    """The driver cannot be used, for a reason that is not the GPU's.

    Attributes:
        what: `version-mismatch`, `not-loaded`, `no-devices` ("No devices were found"),
            `no-permission`, `bound-elsewhere` (vfio-pci, nouveau, nova), `no-cuda-device`,
            `container-setup` (the container could not be given the GPU), `vm-setup` (a virtual
            machine could not be given a PCI device), `too-old` (driver),
            `no-library` (libcuda or NVML missing), `unsupported` (GPU too old for the driver),
            `wrong-flavour` (needs the open modules), `probe-failed`, `bar-invalid`,
            `smi-failed` (couldn't communicate with the driver), `fabric` (fabric manager not
            running).
    """

    what: str


@observed
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


@observed
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
