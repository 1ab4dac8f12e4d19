"""What DCGM's health checks, diagnostics and tables say of a GPU or an NVSwitch, and who repeats it."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import (
    GpuLostReported,
    GpuMemoryCounted,
    OtherFailed,
    SxidReported,
    ThermalReported,
    XidReported,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.shapes import SLOT

_ERRORS = "NVIDIA/DCGM, dcgm_errors.h"

_TABLE_ROWS = 20
"""Rows below a header that are looked at: more than a machine has GPUs."""

_MEMORY_CODES = {
    "VOLATILE_DBE_DETECTED": "uncorrectable",
    "CUDA_DBE": "uncorrectable",
    "UNCONTAINED_ERROR": "uncorrectable",
    "ROW_REMAP_FAILURE": "remap-failed",
    "PENDING_ROW_REMAP": "remap-pending",
    "PENDING_PAGE_RETIREMENTS": "remap-pending",
    "DBE_PENDING_PAGE_RETIREMENTS": "remap-pending",
    "UNCORRECTABLE_ROW_REMAP": "remapped",
}
_THERMAL_CODES = frozenset({"CLOCK_THROTTLE_THERMAL", "THERMAL_VIOLATIONS"})
_OTHER_CODES = frozenset(
    (
        "PCI_REPLAY_RATE", "PCIE_H_REPLAY_VIOLATION", "NVLINK_DOWN", "NVLINK_ERROR_CRITICAL",
        "NVLINK_CRC_ERROR_THRESHOLD", "NVSWITCH_FATAL_ERROR", "NVSWITCH_DOWN", "SXID_ERROR",
        "FAULTY_MEMORY", "MEMORY_MISMATCH", "L1TAG_MISCOMPARE", "SRAM_THRESHOLD",
    )
)  # fmt: skip
"""Failures whose words name no device or measure a threshold: not weighed by themselves."""


def _read_lost(match: re.Match[str], window: Window) -> Reading:
    return GpuLostReported(**window.base(), by="nvml")


def _memory(what: str) -> Callable[[re.Match[str], Window], Reading]:
    def read(match: re.Match[str], window: Window) -> Reading:
        count = match.groupdict().get("count")
        return GpuMemoryCounted(**window.base(), what=what, value=int(count or 1))

    return read


def _read_sxid(match: re.Match[str], window: Window) -> Reading:
    return SxidReported(**window.base(), code=int(match["code"]), fatal=True)


def _read_other(match: re.Match[str], window: Window) -> Reading:
    return OtherFailed(**window.base(), what=match["said"], where="dcgm")


def _read_thermal(match: re.Match[str], window: Window) -> Reading:
    return ThermalReported(**window.base(), what="slowdown")


def _read_dmon(match: re.Match[str], window: Window) -> Reading:
    """The rows under a header of `dcgmi dmon`: the last Xid of each GPU, 0 for none."""
    column = window.text.replace("#Entity", "# Entity").split().index("XIDER") - 1
    found = []
    for place, record in enumerate(window.after(_TABLE_ROWS), window.index + 1):
        row = re.match(r"\s*GPU (\d{1,2})\s+(.*)", record.message)
        cells = row[2].split() if row else []
        if len(cells) >= column >= 1 and cells[column - 1].isdecimal() and cells[column - 1] != "0":
            code = int(cells[column - 1])
            found.append(XidReported(**window.at(place).base(), code=code, via="dcgm"))
    return found


def _read_code(match: re.Match[str], window: Window) -> Reading:
    if re.search(r"\"isHealthy\\?\"\s*:\s*true", window.text):
        return None
    base, code = window.base(match["bdf"]), match["code"]
    if code == "FALLEN_OFF_BUS":
        return GpuLostReported(**base, by="nvml")
    if code in _MEMORY_CODES:
        return GpuMemoryCounted(**base, what=_MEMORY_CODES[code])
    if code in _THERMAL_CODES:
        return ThermalReported(**base, what="slowdown")
    if code in _OTHER_CODES:
        return OtherFailed(**base, what=f"DCGM_FR_{code}", where="dcgm")
    return None


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="dcgm-lost",
        needles=("DCGM_ST_GPU_IS_LOST",),
        regex=regex(r"DCGM_ST_GPU_IS_LOST"),
        read=_read_lost,
        examples=("[ERROR] GetLatestSample returned DCGM_ST_GPU_IS_LOST",),
        near=("DCGM_ST_OK",),
        source="NVIDIA/DCGM, dcgm_structs.h",
    ),
    Pattern(
        id="dcgm-ecc",
        needles=("double-bit ECC error", "RAM uncorrectable error"),
        regex=regex(
            r"Detected a GPU [SD]RAM uncorrectable error for the volatile counter for GPU|Detected (?P<count>[1-9]\d*) volatile double-bit ECC error|A double-bit ECC error has violated policy manager values"
            r"|CUDA APIs have indicated that a double-bit ECC error has oc"
        ),
        read=_memory("uncorrectable"),
        examples=(
            "GPU 3 Detected 2 volatile double-bit ECC error(s) in GPU 3. Drain the GPU and reset it or reboot the node.",
            "A double-bit ECC error has violated policy manager values.",
            "CUDA APIs have indicated that a double-bit ECC error has occured on GPU 2.",
            "Warning: Detected a GPU SRAM uncorrectable error for the volatile counter for GPU ID 3, please offline this node (n1)",
        ),
        near=("Detected 0 volatile double-bit ECC errors",),
        source=_ERRORS,
    ),
    Pattern(
        # What NVSentinel and others repeat: DCGM's code, and the GPU where they know it.
        id="dcgm-code",
        needles=("DCGM_FR_",),
        regex=regex(
            r"(?i:errorCode)(?:\\?\")?\s*:\s*\[?\s*(?:\\?\")?DCGM_FR_(?P<code>[A-Z][A-Z_]*)"
            rf"(?:\b[^\n]{{0,40}}? PCI:(?P<bdf>{SLOT}))?"
        ),
        read=_read_code,
        examples=(
            "ErrorCode:DCGM_FR_VOLATILE_DBE_DETECTED GPU:4 PCI:0000:c4:00.0 Drain the GPU. Recommended Action=RESTART_VM;",
            '{"checkName":"GpuMemWatch","isHealthy":false,"errorCode":["DCGM_FR_ROW_REMAP_FAILURE"]}',
            "ErrorCode:DCGM_FR_CLOCK_THROTTLE_THERMAL GPU:1 Recommended Action=NONE;",
            "ErrorCode:DCGM_FR_FALLEN_OFF_BUS GPU:1 PCI:0000:d8:00.0 Recommended Action=RESTART_BM;",
            "ErrorCode:DCGM_FR_NVLINK_DOWN GPU:1 Recommended Action=NONE;",
        ),
        near=(
            "ErrorCode:DCGM_FR_IMEX_UNHEALTHY GPU:0 IMEX daemon status is -3 (not READY)",
            "ErrorCode:DCGM_FR_XID_ERROR GPU:4",
            '{"checkName":"GpuMemWatch","isHealthy":true,"errorCode":["DCGM_FR_ROW_REMAP_FAILURE"]}',
            "suppressedErrorCodes: [DCGM_FR_VOLATILE_DBE_DETECTED]",
        ),
        source="NVIDIA/NVSentinel, platform-connectors; NVIDIA/DCGM, dcgm_errors.h",
    ),
    Pattern(
        id="dcgm-dmon-xid",
        needles=("XIDER",),
        regex=regex(r"#\s*Entity\b.*?\sXIDER(?=\s|$)"),
        read=_read_dmon,
        examples=(
            "#Entity   GPUTL  XIDER\nID\nGPU 0     12     0\nGPU 1     0      120",
        ),
        near=("#Entity   XIDER\nID\nGPU 0     0\nGPU 1     0", "#Entity   TMPTR\nGPU 0     41"),
        source="NVIDIA/DCGM, dcgmi dmon, field 230",
    ),
    Pattern(
        id="dcgm-remapped",
        needles=("rows were remapped", "uncorrectable memory errors and"),
        regex=regex(
            r"GPU \d+ had uncorrectable memory errors and (?P<count>[1-9]\d*) rows were remapped"
        ),
        read=_memory("remapped"),
        examples=("GPU 5 had uncorrectable memory errors and 2 rows were remapped",),
        near=("GPU 5 had uncorrectable memory errors and 0 rows were remapped",),
        source=_ERRORS,
    ),
    Pattern(
        id="dcgm-remap-failed",
        needles=("row remapping failed", "uncorrectable memory errors and"),
        regex=regex(r"GPU \d+ had uncorrectable memory errors and row remapping failed"),
        read=_memory("remap-failed"),
        examples=("GPU 3 had uncorrectable memory errors and row remapping failed.",),
        near=("had uncorrectable memory errors and row remapping failed in 2023",),
        source=_ERRORS,
    ),
    Pattern(
        id="dcgm-remap-pending",
        needles=("row remappings are pending", "pending retired page", "together with a DBE"),
        regex=regex(
            r"GPU \d+ had memory errors and row remappings are pending|A pending retired page has been detected in GPU \d+"
            r"|Pending page retirements together with a DBE were detected on GPU \d+"
        ),
        read=_memory("remap-pending"),
        examples=(
            "GPU 3 had memory errors and row remappings are pending Verify there are no memory errors.",
            "A pending retired page has been detected in GPU 3.",
            "Pending page retirements together with a DBE were detected on GPU 3.",
        ),
        near=("No pending retired page has been detected", "row remappings are pending in none"),
        source=_ERRORS,
    ),
    Pattern(
        id="dcgm-sxid",
        needles=("fatal NvSwitch SXID", "SXID Fatal Error Code "),
        regex=regex(
            r"(?:Detected fatal NvSwitch SXID|SXID Fatal Error Code) (?P<code>\d{4,5})(?!\d)"
        ),
        read=_read_sxid,
        examples=("Detected fatal NvSwitch SXID 20034", "SXID Fatal Error Code 20034"),
        near=("Detected fatal NvSwitch SXID count: none",),
        source="NVIDIA/DCGM, dcgm_errors.h; aws/eks-node-monitoring-agent, dcgm_watchfield.go",
    ),
    Pattern(
        id="dcgm-other",
        needles=(
            "PCIe replays per minute for GPU", "is running at PCI link ", "Bandwidth of GPU ", "host-side PCIe replay violation",
            "A memory mismatch was detected on GPU", "faulty memory elements on GPU", "fatal errors on NvSwitch ", "NVLink (should be 0)",
            "has violated policy manager values",
        ),
        regex=regex(
            r"(?P<said>Detected more than \d+ PCIe replays per minute for GPU \d+|GPU \d+ is running at PCI link (?:generation|width) \w+, which is below"
            r"|Bandwidth of GPU \d+ in direction \w+ of [\d.]+ did not exceed|GPU \d+ host-side PCIe replay violation"
            r"|A memory mismatch was detected on GPU \d+|Found [1-9]\d* faulty memory elements on GPU \d+"
            r"|A PCIe (?:error|replay event) has violated policy manager values|NVLink Counter \d+ has violated policy manager values"
            r"|Detected fatal errors on NvSwitch \d+ link \d+|Detected [1-9]\d* \S+ NvLink errors on GPU \d+'s NVLink \(should be 0\))"
        ),
        read=_read_other,
        examples=(
            "Detected more than 8 PCIe replays per minute for GPU 2 : 41 Reconnect PCIe card.",
            "GPU 5 is running at PCI link width 4X, which is below the minimum allowed link generation of 16 (parameter 'pcie.min_width')",
            "Found 3 faulty memory elements on GPU 1",
            "Detected fatal errors on NvSwitch 2 link 30",
            "A PCIe replay event has violated policy manager values.",
            "Detected 4 nvlink_replay_error_count_l0 NvLink errors on GPU 3's NVLink (should be 0)",
        ),
        near=(
            "Found 0 faulty memory elements on GPU 1", "Bandwidth of GPU links is shared",
            "Detected nonfatal errors on NvSwitch 2 link 30", "Detected 0 x NvLink errors on GPU 3's NVLink (should be 0)",
        ),
        source=_ERRORS,
    ),
    Pattern(
        id="dcgm-nvlink-down",
        needles=("is currently down", "'s NvLink "),
        regex=regex(
            r"(?P<said>GPU \d+'s NvLink link \d+ is currently down|NvSwitch physical ID \d+'s NvLink port \d+ is currently down|NVSwitch \d+'s NvLink \d+ is down)"
        ),
        read=_read_other,
        examples=(
            "Detected NVLink error: GPU 1's NvLink link 7 is currently down Run a field diagnostic on the GPU.",
            "NvSwitch physical ID 2's NvLink port 4 is currently down.",
            "NVSwitch 2's NvLink 4 is down.",
        ),
        near=("The page is currently down", "GPU 1's NvLink 4 is up"),
        source=_ERRORS,
    ),
    Pattern(
        id="dcgm-thermal",
        needles=("due to thermal violation", "thermal violations totaling"),
        regex=regex(
            r"[Dd]etected (?:clocks? (?:event|throttling)|throttling) due to thermal violation in GPU \d+"
            r"|There were thermal violations totaling (?!0\.0 )[\d.]+ seconds for GPU \d+"
        ),
        read=_read_thermal,
        examples=(
            "[[Health]] Detected a WARNING in health system Thermal: 'Detected clocks event due to thermal violation in GPU 1. Verify that the cooling on this machine is functional'",
            "There were thermal violations totaling 12.1 seconds for GPU 3",
        ),
        near=("a throttle due to thermal violation", "There were thermal violations totaling 0.0 seconds for GPU 3"),
        source=_ERRORS,
    ),
)  # fmt: skip
