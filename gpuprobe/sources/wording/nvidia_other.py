"""NVIDIA's other components: NVSwitch, display, UVM, NVLink, persistence, fabric.

What DCGM says is in `dcgm`; this module joins both.
"""

from __future__ import annotations

import re

from gpuprobe.events import (
    AdapterInitFailed,
    AdminActed,
    DeviceChanged,
    DeviceIdentified,
    DriverUnusable,
    GpuLostReported,
    LossHinted,
    NvmlReturned,
    OtherFailed,
    SxidReported,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import dcgm
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF, int_or_none

_NVML_NAMES = {
    4: "NO_PERMISSION",
    6: "NOT_FOUND",
    8: "INSUFFICIENT_POWER",
    9: "DRIVER_NOT_LOADED",
    11: "IRQ_ISSUE",
    14: "CORRUPTED_INFOROM",
    15: "GPU_IS_LOST",
    16: "RESET_REQUIRED",
    17: "OPERATING_SYSTEM",
    18: "LIB_RM_VERSION_MISMATCH",
    28: "GPU_NOT_FOUND",
    999: "UNKNOWN",
}
"""NVML return codes that speak of a fault; the others (3 not supported, 10 timeout) are normal."""


def _read_sxid(match: re.Match[str], window: Window) -> Reading:
    # Data and `Severity n` lines repeat an error's registers and do not say whether it is fatal.
    fatal = None if match["severity"] is None else match["severity"] == "Fatal"
    return SxidReported(
        **window.base(match["bdf"]),
        code=int(match["code"]),
        fatal=fatal,
        link=int_or_none(match["link"]),
        message=match["message"].strip(" ,"),
    )


def _read_fabric_error(match: re.Match[str], window: Window) -> Reading:
    return SxidReported(
        **window.base(match["bdf"]),
        code=int(match["code"]),
        fatal=match["severity"] == "fatal",
        link=int_or_none(match["link"]),
    )


def _read_modeset(match: re.Match[str], window: Window) -> Reading:
    message = match["message"]
    if re.search(r"0x0000000f\b", message):
        return LossHinted(**window.base(), what="modeset-lost")
    if match["level"] == "ERROR":
        return OtherFailed(**window.base(), what=message.strip(), where="nvidia-modeset")
    return None


def _read_power_management(match: re.Match[str], window: Window) -> Reading:
    what = f"the GPU's driver {match['what']}"
    return OtherFailed(**window.base(match["bdf"]), what=what, where="nvidia")


_OOPS = regex(r"\bBUG: (?:unable to handle|kernel NULL)|general protection fault|\bOops: ")


def _read_oops(match: re.Match[str], window: Window) -> Reading:
    # A mere warning prints its registers as well.
    if not any(_OOPS.search(record.message) for record in window.before(14)):
        return None
    return OtherFailed(
        **window.base(), what="the GPU's driver crashed in the kernel", where=match["where"]
    )


def _gpu_id_address(text: str) -> PciAddress:
    """The driver's GPU id holds domain, bus and device in 16, 8 and 8 bits: 0x00000900 is 09:00."""
    number = int(text, 16)
    return PciAddress(number >> 16 & 0xFFFF, number >> 8 & 0xFF, number & 0x1F, 0)


def _read_drm(match: re.Match[str], window: Window) -> Reading:
    device = _gpu_id_address(match["id"])
    message = match["message"].strip()
    head = window.text[: match.start()]
    if "*ERROR*" in head or re.match(r"(?:Failed|Flip event timeout|Error)", message):
        return OtherFailed(**window.base(device), what=message, where="nvidia-drm")
    return DeviceIdentified(**window.base(device), is_gpu=True)


def _read_drm_initialized(match: re.Match[str], window: Window) -> Reading:
    return [
        DeviceChanged(**window.base(match["bdf"]), what="bound", driver="nvidia-drm"),
        DeviceIdentified(**window.base(match["bdf"]), is_gpu=True),
    ]


def _read_unloaded(match: re.Match[str], window: Window) -> Reading:
    return AdminActed(**window.base(), what="rmmod")


def _read_persistenced(match: re.Match[str], window: Window) -> Reading:
    what = match["what"]
    if what.startswith("failed to open"):
        return AdapterInitFailed(**window.base(match["bdf"]))
    return DeviceIdentified(**window.base(match["bdf"]), is_gpu=True)


def _read_persistenced_none(match: re.Match[str], window: Window) -> Reading:
    return DriverUnusable(**window.base(), what="no-devices")


def _read_fabric(match: re.Match[str], window: Window) -> Reading:
    what = "version-mismatch" if "version" in match[0] else "fabric"
    return DriverUnusable(**window.base(), what=what)


def _read_nvml_number(match: re.Match[str], window: Window) -> Reading:
    code = int(match["code"])
    name = _NVML_NAMES.get(code)
    if name is None:
        return None
    index = int_or_none(match["index"])
    if code == 15:
        return GpuLostReported(**window.base(), by="nvml", index=index)
    return NvmlReturned(**window.base(), code=code, name=name, index=index)


def _read_wait_failed(match: re.Match[str], window: Window) -> Reading:
    return NvmlReturned(**window.base(), code=999, name="UNKNOWN")


def _read_modeset_version(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(**window.base(), key="driver", value=match["version"])


def _read_power_cap(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(
        **window.base(match["bdf"]), key="power-cap", value=f"{match['watts']} W"
    )


_PROC_FIELD = regex(r"\s*(?P<key>Model|GPU UUID|GPU Firmware):\s*(?P<value>\S.*?)\s*$")


def _read_proc_information(match: re.Match[str], window: Window) -> Reading:
    """`/proc/driver/nvidia/gpus/*/information`: names above the line with the address."""
    fields: dict[str, str] = {}
    for record in window.before(8):
        if found := _PROC_FIELD.match(record.message):
            fields.setdefault(found["key"], found["value"])
    uuid = fields.get("GPU UUID", "")
    return DeviceIdentified(
        **window.base(match["bdf"]),
        name=fields.get("Model"),
        uuid=uuid if uuid.startswith("GPU-") and "?" not in uuid else None,
        is_gpu=True,
    )


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="nvswitch-sxid",
        needles=("SXid (",),
        regex=regex(
            rf"SXid \((?:PCI:)?(?P<bdf>{BDF})\): (?P<code>\d{{4,5}})(?!\d)"
            r"(?:, (?P<severity>Fatal|Non-fatal)(?=[, ]|$))?(?:,? ?Link (?P<link>\d+))?(?P<message>.*)"
        ),
        read=_read_sxid,
        examples=(
            "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 12028, Non-fatal, Link 31 egress non-posted PRIV error (First)",
            "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 20034, Fatal, Link 12 LTSSM Fault Up",
            "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 12028, Data {0x00000010, 0x00000000}",
            "nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 12028, Severity 0 Engine instance 31 Sub-engine instance 00",
        ),
        near=("NVRM: Xid (PCI:0000:86:00): 12, x", "look up the SXid (see the table)"),
        source="open kernel modules, common_nvswitch.h",
    ),
    Pattern(
        id="fabric-nvswitch-error",
        needles=("fatal error ",),
        regex=regex(
            r"detected NVSwitch (?P<severity>fatal|non-fatal) error (?P<code>\d{4,5})\b"
            rf"(?:.{{0,80}}?pci bus id (?P<bdf>{BDF}))?(?:.{{0,80}}?\bport (?P<link>\d+))?"
        ),
        read=_read_fabric_error,
        examples=(
            "detected NVSwitch fatal error 20034 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 12",
        ),
        near=("git: fatal error 1",),
        source="NVIDIA fabric manager log",
    ),
    Pattern(
        id="nvidia-modeset",
        needles=("nvidia-modeset: ERROR", "nvidia-modeset: WARNING"),
        regex=regex(r"nvidia-modeset: (?P<level>ERROR|WARNING): (?:GPU:\d+: )?(?P<message>.+)"),
        read=_read_modeset,
        examples=(
            "nvidia-modeset: ERROR: GPU:0: Failed to query display engine channel state: 0x0000ca7e:0:0:0x0000000f",
            "nvidia-modeset: ERROR: GPU:0: Error while waiting for GPU progress: 0x0000c77d:0 2:0:3072:3064",
        ),
        near=(
            "nvidia-modeset: WARNING: GPU:0: Lost display notification (0:0x00000000); continuing.",
        ),
        source="open kernel modules, nvkms",
    ),
    Pattern(
        id="nvidia-modeset-version",
        needles=("Kernel Mode Setting Driver",),
        regex=regex(
            r"Loading NVIDIA .{0,40}?Kernel Mode Setting Driver(?: for \S+)?\s+(?P<version>\d{2,3}\.\d+(?:\.\d+)*)"
        ),
        read=_read_modeset_version,
        examples=(
            "nvidia-modeset: Loading NVIDIA UNIX Open Kernel Mode Setting Driver for x86_64  580.82.07",
        ),
        near=("the NVIDIA Kernel Mode Setting Driver",),
        source="open kernel modules, nvidia-modeset",
    ),
    Pattern(
        id="nvidia-oops",
        needles=("RIP: 0010:",),
        regex=regex(r"RIP: 0010:(?P<where>[\w.]+)\+0x[0-9a-f]+/0x[0-9a-f]+ \[nvidia(?:_\w+)?\]"),
        read=_read_oops,
        examples=(
            "BUG: kernel NULL pointer dereference, address: 0000000000000020\nRIP: 0010:_nv031212rm+0x1c/0x40 [nvidia]",
        ),
        near=(
            "WARNING: CPU: 3 PID: 77 at nvidia/nv.c:12\nRIP: 0010:_nv031212rm+0x1c/0x40 [nvidia]",
            "BUG: kernel NULL pointer dereference, address: 0000000000000020\nRIP: 0010:foo+0x1c/0x40 [zfs]",
        ),
        source="Linux, arch/x86/kernel/dumpstack.c",
    ),
    Pattern(
        id="nvidia-power-management",
        needles=(": PM: failed to ", "nv_pmops_"),
        regex=regex(
            rf"nvidia (?P<bdf>{BDF}): PM: (?P<what>failed to (?:suspend|resume|freeze|thaw|restore)[^:\n]{{0,20}}: error -\d+|[^\n]{{0,60}}nv_pmops_(?P<call>\w+)\S* [^\n]{{0,20}}returns -\d+)"
        ),
        read=_read_power_management,
        examples=(
            "nvidia 0000:65:00.0: PM: failed to suspend async: error -5",
            "nvidia 0000:65:00.0: PM: pci_pm_suspend(): nv_pmops_suspend+0x0/0x30 [nvidia] returns -5",
        ),
        near=("nvme 0000:01:00.0: PM: failed to suspend async: error -5",),
        source="Linux, drivers/base/power/main.c",
    ),
    Pattern(
        id="nvidia-drm",
        needles=("[GPU ID 0x",),
        regex=regex(r"\[nvidia-drm\] \[GPU ID (?P<id>0x[0-9a-fA-F]{8})\] (?P<message>.+)"),
        read=_read_drm,
        examples=(
            "[drm:nv_drm_atomic_commit [nvidia_drm]] *ERROR* [nvidia-drm] [GPU ID 0x00006500] Failed to apply atomic modeset.  Error code: -22",
            "[drm] [nvidia-drm] [GPU ID 0x00006500] Loading driver",
        ),
        near=("[GPU ID 0x6500]",),
        source="open kernel modules, nvidia-drm",
    ),
    Pattern(
        id="nvidia-drm-initialized",
        needles=("Initialized nvidia-drm",),
        regex=regex(rf"Initialized nvidia-drm \S+ (?:\d{{8}} )?for (?P<bdf>{BDF})"),
        read=_read_drm_initialized,
        examples=("[drm] Initialized nvidia-drm 0.0.0 20160202 for 0000:65:00.0 on minor 1",),
        near=("[drm] Initialized nvidia-drm",),
        source="Linux, drivers/gpu/drm/drm_drv.c",
    ),
    Pattern(
        id="nvidia-unloaded",
        needles=(
            "Unloaded the UVM driver",
            "Unregistered Nvlink Core",
            "Unregistered the Nvlink Core",
        ),
        regex=regex(
            r"nvidia-uvm: Unloaded the UVM driver|nvidia-nvlink: Unregistered (?:the )?Nvlink Core"
        ),
        read=_read_unloaded,
        examples=(
            "nvidia-uvm: Unloaded the UVM driver.",
            "nvidia-nvlink: Unregistered Nvlink Core, major device number 511",
        ),
        near=("nvidia-uvm: Loaded the UVM driver, major device number 509.",),
        source="open kernel modules, nvidia-uvm and nvlink",
    ),
    Pattern(
        id="persistenced",
        needles=(" - registered", " - failed to open", " - persistence mode"),
        regex=regex(
            rf"device (?P<bdf>{BDF}) - (?P<what>registered|failed to open|persistence mode)"
        ),
        read=_read_persistenced,
        examples=("device 0000:65:00.0 - registered", "device 0000:65:00.0 - failed to open."),
        near=("user lee - registered",),
        source="NVIDIA/nvidia-persistenced",
    ),
    Pattern(
        id="persistenced-none",
        needles=("to query NVIDIA devices",),
        regex=regex(r"[Ff]ailed to query NVIDIA devices"),
        read=_read_persistenced_none,
        examples=(
            "Failed to query NVIDIA devices. Please ensure that the NVIDIA device files exist",
        ),
        near=("how to query NVIDIA devices",),
        source="NVIDIA/nvidia-persistenced",
    ),
    Pattern(
        id="fabric-manager",
        needles=("abric manager", "abric Manager", "NVSwitch device"),
        regex=regex(
            r"[Ff]abric [Mm]anager NVIDIA GPU driver interface version \S+ don't match with driver version"
            r"|[Ff]ailed to (?:start|initialize) (?:NVIDIA )?[Ff]abric [Mm]anager"
            r"|request to query NVSwitch device information from NVSwitch driver failed"
        ),
        read=_read_fabric,
        examples=(
            "fabric manager NVIDIA GPU driver interface version 550.54.15 don't match with driver version 550.90.07. Please update with matching NVIDIA driver package.",
            "Failed to start NVIDIA fabric manager service",
            "request to query NVSwitch device information from NVSwitch driver failed with error:WARNING Nothing to do [NV_WARN_NOTHING_TO_DO]",
        ),
        near=("Started NVIDIA fabric manager service",),
        source="NVIDIA fabric manager log",
    ),
    Pattern(
        id="proc-information",
        needles=("Bus Location:",),
        regex=regex(
            r"Bus Location:\s+(?P<bdf>[0-9a-fA-F]{4,8}:[0-9a-fA-F]{2}:[0-9a-fA-F]{2}\.[0-7])"
        ),
        read=_read_proc_information,
        examples=("Bus Location: \t 0000:41:00.0",),
        near=("Bus Location: ??",),
        source="NVIDIA/open-gpu-kernel-modules, nv-procfs.c",
    ),
    Pattern(
        id="nvml-wait-failed",
        needles=("waiting for event: ",),
        regex=regex(r"Error waiting for event: (?P<name>ERROR_UNKNOWN|Unknown Error)"),
        read=_read_wait_failed,
        examples=("Error waiting for event: ERROR_UNKNOWN; Marking all devices as unhealthy",),
        near=("Error waiting for event: ERROR_TIMEOUT",),
        source="NVIDIA/k8s-device-plugin, health.go",
    ),
    Pattern(
        id="power-cap",
        needles=("Power limit for GPU ",),
        regex=regex(
            r"Power limit for GPU (?P<bdf>[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7])"
            r" was set to (?P<watts>\d+(?:\.\d+)?) W"
        ),
        read=_read_power_cap,
        examples=("Power limit for GPU 00000000:65:00.0 was set to 260.00 W from 350.00 W.",),
        near=("Power limit for GPU 00000000:65:00.0 is not supported.",),
        source="nvidia-smi -pl",
    ),
    Pattern(
        id="nvml-number",
        needles=("nvmlDevice", "nvmlInit", "nvmlEvent", "nvmlSystem"),
        regex=regex(
            r"\bnvml(?:Device|Init|Event|System)\w*(?:\(\))?,? (?:call )?(?:returned|failed|got|error)"
            r"(?:[:,]? (?:with |nvml )?(?:error |code |ret |status |st )?)[\"'(=]*(?P<code>\d{1,3})(?!\d)"
            r"(?:.{0,80}?\b(?:gpuId|GPU|gpu|index)[ :=]*(?P<index>\d{1,2})\b)?"
        ),
        read=_read_nvml_number,
        examples=(
            "[ERROR] nvmlDeviceGetPowerUsage returned 15 for gpuId 2",
            "nvmlDeviceGetTemperature failed with error 999",
        ),
        near=("nvmlDeviceGetEccMode returned 3 for gpuId 2", "nvmlDeviceGetCount found 8 GPUs"),
        source="NVIDIA/DCGM, nv-hostengine log",
    ),
)

FAMILY = Family("nvidia_other", (*PATTERNS, *dcgm.PATTERNS))
