"""NVIDIA's kernel driver (`NVRM:`): a GPU gone, not coming up, or the driver not fit to be used.

Lines of Xids are in `nvrm_xid`, as agents repeat them in `xid_agents`, of the GPU's firmware in
`nvrm_gsp`, of a driver that does not come up in `nvrm_init`; this module has what is said about a
loss and joins them.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import (
    AdminActed,
    AerReported,
    DeviceChanged,
    GpuLostReported,
    LossHinted,
    OtherFailed,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import nvrm_gsp, nvrm_init, nvrm_xid, xid_agents
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF, HIDDEN, SLOT, UUID

_OPEN = "open kernel modules 515 to 595"

_RM_STATUS = {
    0x60: "RC error",
    0x62: "reset required",
    0x65: "timeout",
    0x71: "fatal error",
}
"""RM statuses that say more than that one call failed (nvstatuscodes.h)."""


def _hint(what: str) -> Callable[[re.Match[str], Window], Reading]:
    """A reader that gives `LossHinted(what)` with the address, if the match names one."""

    def read(match: re.Match[str], window: Window) -> Reading:
        return LossHinted(**window.base(match.groupdict().get("bdf")), what=what)

    return read


def _read_lost(match: re.Match[str], window: Window) -> Reading:
    return GpuLostReported(**window.base(match.groupdict().get("bdf")), by="driver")


def _read_rc_all(match: re.Match[str], window: Window) -> Reading:
    what = "rc-user-channels" if match["user"] else "rc-all-channels"
    return LossHinted(**window.base(), what=what, xid=int(match["code"]))


def _read_rm_status(match: re.Match[str], window: Window) -> Reading:
    status = int(match["reset"] or match["status"], 16)
    if status not in _RM_STATUS:
        return None
    return OtherFailed(
        **window.base(), what=f"RM status 0x{status:02x} ({_RM_STATUS[status]})", where="NVRM"
    )


def _read_timer(match: re.Match[str], window: Window) -> Reading:
    # Any other value than all ones is a timer that ran backwards, which says nothing of the bus.
    return LossHinted(**window.base(), what="all-ones")


def _read_eeh(match: re.Match[str], window: Window) -> Reading:
    return AerReported(**window.base(match["bdf"]), severity="fatal", driver="nvidia")


def _read_reset(match: re.Match[str], window: Window) -> Reading:
    return [
        AdminActed(**window.base(match["bdf"]), what="reset"),
        DeviceChanged(**window.base(match["bdf"]), what="reset-done"),
    ]


def _read_reset_by_agent(match: re.Match[str], window: Window) -> Reading:
    return AdminActed(**window.base(), what="reset")


_LOSS: tuple[Pattern, ...] = (
    Pattern(
        id="nvrm-lost",
        needles=("GPU has fal", "has fallen off"),
        regex=regex(rf"GPU (?:at )?(?:PCI:)?(?P<bdf>{SLOT})(?:: ?GPU has fal|\s+has fallen off)"),
        read=_read_lost,
        examples=(
            "NVRM: GPU 0000:65:00.0: GPU has fallen off the bus.",
            "NVRM: GPU at 0000:02:00.0 has fallen off the bus.",
        ),
        near=("My GPU has fallen off the desk.",),
        source=f"{_OPEN}, osinit.c; 304 series for the second",
    ),
    Pattern(
        id="nvrm-lost-unnamed",
        needles=("fallen off the bus",),
        regex=regex(
            rf"NVRM: (?:\w+: )?(?:The )?GPU(?: \d+| {HIDDEN}: ?GPU)? has fallen off the bus"
        ),
        read=_read_lost,
        examples=(
            "NVRM: GPU has fallen off the bus.",
            "NVRM: GPU [redacted]: GPU has fallen off the bus.",
        ),
        near=("says that the GPU has fallen off the bus",),
        source="logs with addresses taken out",
    ),
    Pattern(
        id="nvrm-crash-dump",
        needles=("GPU crash dump has",),
        regex=regex(r"A GPU crash dump has been created"),
        read=_hint("crash-dump"),
        examples=("NVRM: A GPU crash dump has been created. If possible, please run",),
        near=("No GPU crash dump has been found",),
        source=f"{_OPEN}, osapi.c",
    ),
    Pattern(
        id="nvrm-rc-all",
        needles=("channels for critical error",),
        regex=regex(r"RC all (?P<user>user )?channels for critical error (?P<code>\d{1,3})"),
        read=_read_rc_all,
        examples=(
            "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.",
            "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all user channels for critical error 120.",
        ),
        near=("closing channels for critical error handling",),
        source=f"{_OPEN}, kernel_rc.c",
    ),
    Pattern(
        id="nvrm-status-lost",
        needles=(
            "NV_ERR_GPU_IS_LOST",
            "lost from the bus",
            *(
                f"tatus{sep}0x{zeros}f"
                for sep in (" ", "=", ": ", " = ")
                for zeros in ("0000000", "")
            ),
        ),
        regex=regex(
            r"(?:NV_ERR_GPU_IS_LOST|GPU lost from the bus"
            r"|(?:NVRM|[Rr]pc|G[Ss][Pp]|\brm[A-Z]|\bnv[A-Z])[^\n]{0,300}?[Ss]tatus(?: = |: |[ =])0x(?:0000000)?f\b)"
            r"[^\n]*"  # one hint a line, however often it says so
        ),
        read=_hint("status-lost"),
        examples=(
            "NVRM: nvCheckOkFailedNoLog: Check failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) returned from thisCall()",
            "_issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 78!",
            "NVRM: GPU1 rpcRmApiFree_GSP: GspRmFree failed: hClient=0xc1d0; paramsStatus=0x0; status=0x0000000f",
        ),
        near=(
            "NVRM: rpcSendMessage failed with status 0x00000ff0",
            "usb: transfer status 0x0000000f",
        ),
        source=f"{_OPEN}, nvstatuscodes.h",
    ),
    Pattern(
        id="nvrm-rm-status",
        needles=("NV_ERR_RESET_REQUIRED", "failed with status 0x000000"),
        regex=regex(
            r"NV_ERR_RESET_REQUIRED\W{1,4}0x0*(?P<reset>62)"
            r"|NVRM[^\n]{0,200}?failed with status 0x000000(?P<status>[0-9a-f]{2})\b"
        ),
        read=_read_rm_status,
        examples=(
            "NVRM: GPU0 _issueRpcAndWait: rpcSendMessage failed with status 0x00000062 for fn 76!",
            "NVRM: Check failed: GPU requires reset [NV_ERR_RESET_REQUIRED] (0x00000062) returned from aCall()",
        ),
        near=("NVRM: aCall failed with status 0x00000056",),
        source=f"{_OPEN}, nvstatuscodes.h",
    ),
    Pattern(
        id="nvrm-attached-check",
        needles=("API_GPU_ATTACHED_SANITY_CHECK",),
        regex=regex(r"API_GPU_ATTACHED_SANITY_CHECK failed"),
        read=_hint("attached-check"),
        examples=("NVRM: _threadNodeCheckTimeout: API_GPU_ATTACHED_SANITY_CHECK failed!",),
        near=("#define API_GPU_ATTACHED_SANITY_CHECK(pGpu)",),
        source=f"{_OPEN}, thread_state.c",
    ),
    Pattern(
        id="nvrm-uvm-fatal",
        needles=("uvm encountered global",),
        regex=regex(r"uvm encountered global fatal error(?: 0x[0-9a-fA-F]+)?"),
        read=_hint("uvm-fatal"),
        examples=(
            "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
        ),
        near=("has uvm encountered globals?",),
        source=f"{_OPEN}, nv_gpu_ops.c",
    ),
    Pattern(
        id="nvrm-timer-all-ones",
        needles=("Bad TimeLo value",),
        regex=regex(r"Bad TimeLo value (?:0x)?[fF]{8}\b"),
        read=_read_timer,
        examples=("NVRM: tmrGetTimeEx_GH100: NVRM-RC: Consistently Bad TimeLo value ffffffff",),
        near=("NVRM: tmrGetTimeEx_GH100: NVRM-RC: Consistently Bad TimeLo value 12345678",),
        source=f"{_OPEN}, timer_gh100.c",
    ),
    Pattern(
        id="nvrm-cannot-attach",
        needles=("annot attach gpu",),
        regex=regex(r"[Cc]annot attach gpu"),
        read=_hint("cannot-attach"),
        examples=("NVRM: osInitNvMapping: *** Cannot attach gpu",),
        near=("*** Cannot attach to gpu",),
        source=f"{_OPEN}, osinit.c",
    ),
    Pattern(
        id="nvrm-remove-busy",
        needles=("Attempting to remove", "Continuing with GPU removal"),
        regex=regex(
            r"(?:Attempting to remove (?:minor )?device (?P<dev>\S+) with non-zero usage count"
            r"|Continuing with GPU removal for device (?P<dev2>\S+))"
        ),
        read=lambda match, window: LossHinted(
            **window.base((match["dev"] or match["dev2"]).rstrip("!.")), what="remove-busy"
        ),
        examples=(
            "NVRM: Attempting to remove device 0000:65:00.0 with non-zero usage count!",
            "NVRM: Continuing with GPU removal for device 0000:65:00.0",
        ),
        near=("Attempting to remove device node /dev/foo",),
        source=f"{_OPEN}, nv-pci.c",
    ),
    Pattern(
        id="nvrm-eeh",
        needles=("A fatal error was detected",),
        regex=regex(rf"NVRM: GPU (?P<bdf>{BDF}): A fatal error was detected"),
        read=_read_eeh,
        examples=("NVRM: GPU 0000:65:00.0: A fatal error was detected.",),
        near=("app: A fatal error was detected in the parser",),
        source="open kernel modules up to 565, nv-pci.c",
    ),
    Pattern(
        id="nvidia-smi-reset",
        needles=("was successfully reset",),
        regex=regex(rf"GPU (?P<bdf>{BDF}) was successfully reset"),
        read=_read_reset,
        examples=("GPU 00000000:65:00.0 was successfully reset.",),
        near=("Your password was successfully reset.",),
        source="nvidia-smi --gpu-reset",
    ),
    Pattern(
        id="nvsentinel-reset",
        needles=("GPU reset executed: ",),
        regex=regex(rf"GPU reset executed: {UUID}"),
        read=_read_reset_by_agent,
        examples=("GPU reset executed: GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc",),
        near=("GPU reset executed: no",),
        source="NVIDIA/NVSentinel, gpu-reset job",
    ),
)

FAMILY = Family(
    "nvrm",
    (
        *nvrm_xid.PATTERNS,
        *xid_agents.PATTERNS,
        *_LOSS,
        *nvrm_gsp.PATTERNS,
        *nvrm_init.PATTERNS,
    ),
)
