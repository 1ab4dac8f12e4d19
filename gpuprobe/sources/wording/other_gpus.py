"""GPUs that are not NVIDIA's driver's: amdgpu, i915, xe, nouveau, Gaudi, the DRM core, macOS.

Source: drivers/gpu/drm of Linux 4.x to 6.x, FreeBSD's drm-kmod, public logs of macOS.
"""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import (
    DriverUnusable,
    GpuHung,
    GpuLostReported,
    LossHinted,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import amdgpu_ras, habanalabs
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_ADDRESS = r"[0-9A-Fa-f]{4,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-7]"
_DRIVER = regex(rf"\b(?P<driver>amdgpu|radeon|i915|xe|nouveau)\b(?: (?P<address>{_ADDRESS}))?")
_NO_DEVICE = -19
"""-ENODEV: what a reset returns when the device does not answer."""


def _named(window: Window) -> tuple[str, str | None]:
    """Driver and address that stand before the message; amdgpu where only FreeBSD's drmn does."""
    found = _DRIVER.search(window.text)
    if found is None:
        return "amdgpu", None
    return found["driver"].replace("radeon", "amdgpu"), found["address"]


def _hung(what: str, recovered: bool | None = None) -> Callable[[re.Match[str], Window], Reading]:
    def read(match: re.Match[str], window: Window) -> Reading:
        driver, address = _named(window)
        return GpuHung(driver=driver, what=what, recovered=recovered, **window.base(address))

    return read


def _read_ring(match: re.Match[str], window: Window) -> Reading:
    driver, address = _named(window)
    soft = "soft recovered" in window.text
    return GpuHung(
        driver=driver,
        what="ring-timeout",
        recovered=True if soft else None,
        **window.base(address),
    )


def _read_reset_end(match: re.Match[str], window: Window) -> Reading:
    _, address = _named(window)
    code = int(match["ret"])
    hung = GpuHung(
        driver="amdgpu",
        what="reset" if code == 0 else "reset-failed",
        recovered=code == 0,
        **window.base(address),
    )
    if code == _NO_DEVICE:
        return (hung, LossHinted(what="status-lost", **window.base(address)))
    return hung


def _read_page_fault(match: re.Match[str], window: Window) -> Reading:
    return GpuHung(driver="amdgpu", what="page-fault", **window.base(match["address"]))


def _read_lost(match: re.Match[str], window: Window) -> Reading:
    _, address = _named(window)
    return GpuLostReported(by="amdgpu", **window.base(address))


def _read_smu(match: re.Match[str], window: Window) -> Reading:
    _, address = _named(window)
    return LossHinted(what="smu-all-ones", **window.base(address))


def _read_wedged(match: re.Match[str], window: Window) -> Reading:
    recovered = not match["how"].startswith("needs")
    return GpuHung(
        driver=match["driver"],
        what="reset" if recovered else "wedged",
        recovered=recovered,
        **window.base(match["address"]),
    )


def _read_nouveau(match: re.Match[str], window: Window) -> Reading:
    return GpuHung(driver="nouveau", what="fault", **window.base(match["address"]))


def _read_nouveau_gone(match: re.Match[str], window: Window) -> Reading:
    return LossHinted(what="all-ones", **window.base(match["address"]))


def _macos(what: str) -> Callable[[re.Match[str], Window], Reading]:
    def read(match: re.Match[str], window: Window) -> Reading:
        return GpuHung(driver="macos", what=what, **window.base())

    return read


def _read_mac_panic(match: re.Match[str], window: Window) -> Reading:
    hung = GpuHung(driver="macos", what="fault", **window.base())
    # The panic prints what it read of the config space; all ones is a GPU that did not answer.
    if re.search(r"CFG 0xffffffff|VendorID invalid", window.text):
        return (hung, LossHinted(what="all-ones", **window.base()))
    return hung


def _read_no_init(match: re.Match[str], window: Window) -> Reading:
    _, address = _named(window)
    return DriverUnusable(what="probe-failed", **window.base(address))


_AMDGPU = (
    *amdgpu_ras.PATTERNS,
    Pattern(
        id="amdgpu-lost",
        needles=("device lost from bus",),
        regex=regex(r"(?:amdgpu|drmn\d+)\b.{0,160}device lost from bus"),
        read=_read_lost,
        examples=("amdgpu 0000:2d:00.0: amdgpu: device lost from bus!",),
        near=("usb 1-4: device lost from bus",),
        source="drivers/gpu/drm/amd/amdgpu/amdgpu_device.c",
    ),
    Pattern(
        id="amdgpu-ring-timeout",
        needles=(" timeout, signaled", " timeout, but soft"),
        regex=regex(
            r"(?:amdgpu|job_timedout|radeon|drmn\d+)\b.{0,160}[Rr]ing (?P<ring>\S+) timeout, (?:signaled|but soft)"
        ),
        read=_read_ring,
        examples=(
            "amdgpu 0000:2d:00.0: amdgpu: ring gfx_0.1.0 timeout, signaled seq=7120, emitted seq=7122",
            "[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=31, emitted seq=33",
            "[drm ERROR :amdgpu_job_timedout] ring comp_1.0.0 timeout, signaled seq=871, emitted seq=873",
            "amdgpu 0000:2d:00.0: amdgpu: ring gfx timeout, but soft recovered",
        ),
        near=("e1000e 0000:00:1f.6: ring rx timeout",),
        source="amdgpu_job.c",
    ),
    Pattern(
        id="amdgpu-reset-end",
        needles=("GPU reset end with ret", "GPU Recovery Failed"),
        regex=regex(r"GPU (?:reset end with ret\s?=\s?|Recovery Failed:\s*)(?P<ret>-?\d+)"),
        read=_read_reset_end,
        examples=(
            "amdgpu 0000:2d:00.0: amdgpu: GPU reset end with ret = -19",
            "amdgpu 0000:2d:00.0: amdgpu: GPU Recovery Failed: -110",
        ),
        near=("GPU reset end",),
        source="amdgpu_device.c",
    ),
    Pattern(
        id="amdgpu-reset",
        needles=("GPU reset",),
        regex=regex(
            r"(?:amdgpu|radeon|drmn\d+)\b.{0,160}GPU reset(?:\(\d+\))? (?:begin!?|succeeded|failed)"
        ),
        read=lambda match, window: (
            _hung("reset", recovered=True)
            if "succeeded" in match.group()
            else _hung("reset-failed", recovered=False)
            if "failed" in match.group()
            else _hung("reset")
        )(match, window),
        examples=(
            "amdgpu 0000:2d:00.0: amdgpu: GPU reset begin!",
            "amdgpu 0000:2d:00.0: amdgpu: GPU reset(3) succeeded!",
            "drmn1: GPU reset begin!",
        ),
        near=("GPU reset acknowledged by operator",),
        source="amdgpu_device.c",
    ),
    Pattern(
        id="amdgpu-vram-lost",
        needles=("VRAM is lost due to GPU reset",),
        regex=regex(r"VRAM is lost due to GPU reset"),
        read=_hung("reset", recovered=True),
        examples=("[drm] VRAM is lost due to GPU reset!",),
        near=("[drm] VRAM: 8176M used",),
        source="amdgpu_device.c",
    ),
    Pattern(
        id="amdgpu-smu-all-ones",
        needles=("SMU", "smu"),
        regex=regex(
            r"(?:amdgpu|drmn\d+)\b.{0,160}(?:SMU|smu)\b.{0,160}\bresp(?:onse)?\b\s?[:=]?\s?0x(?:FFFFFFFF|ffffffff)\b"
        ),
        read=_read_smu,
        examples=(
            "amdgpu 0000:2d:00.0: amdgpu: SMU: response:0xFFFFFFFF for index:9 param:0x00000000 message:GetEnabledSmuFeatures?",
        ),
        near=("amdgpu 0000:2d:00.0: amdgpu: SMU: response:0x00000001 for index:9",),
        source="smu_cmn.c",
    ),
    Pattern(
        id="amdgpu-no-init",
        needles=("Fatal error during GPU init", "hw_init of IP block"),
        regex=regex(
            r"(?:amdgpu|radeon|drmn\d+)\b.{0,160}(?:Fatal error during GPU init|hw_init of IP block <\w+> failed)"
        ),
        read=_read_no_init,
        examples=(
            "amdgpu 0000:2d:00.0: amdgpu: Fatal error during GPU init",
            "[drm:amdgpu_device_init [amdgpu]] *ERROR* hw_init of IP block <gfx_v10_0> failed -22",
        ),
        near=("Fatal error during GPU initialisation of the game",),
        source="amdgpu_device.c, amdgpu_kms.c",
    ),
    Pattern(
        id="amdgpu-no-resume",
        needles=("device_ip_resume failed", "resume of IP block"),
        regex=regex(
            r"(?:amdgpu|drmn\d+)\b.{0,160}(?:device_ip_resume failed|resume of IP block <\w+> failed)"
        ),
        read=_hung("fault", recovered=False),
        examples=("amdgpu 0000:2d:00.0: amdgpu: resume of IP block <psp> failed -22",),
        near=("amdgpu 0000:2d:00.0: amdgpu: SMU is resumed successfully!",),
        source="amdgpu_device.c",
    ),
    Pattern(
        id="amdgpu-page-fault",
        needles=("page fault (src_id:", "GPU fault detected: "),
        regex=regex(
            rf"(?:amdgpu|drmn\d+|radeon)\b(?: (?P<address>{_ADDRESS}))?(?:.{{0,60}}\[(?:gfx|mm)hub\d*\] (?:no-retry |retry )?page fault \(src_id:|.{{0,20}}: GPU fault detected: \d+ 0x)"
        ),
        read=_read_page_fault,
        examples=(
            "amdgpu 0000:2d:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:8 pasid:32773)",
            "amdgpu 0000:2d:00.0: GPU fault detected: 147 0x0120c404",
            "drmn0: [gfxhub0] retry page fault (src_id:0 ring:0 vmid:3 pasid:32770, for process  pid 771 thread  pid 771)",
        ),
        near=(
            "amdgpu 0000:2d:00.0: amdgpu: GCVM_L2_PROTECTION_FAULT_STATUS:0x00801031",
            "no GPU fault detected: 0",
        ),
        source="gmc_v8_0.c, gmc_v11_0.c",
    ),
    Pattern(
        id="rocm-hang",
        needles=("reason :GPU Hang", "reason: GPU Hang"),
        regex=regex(r"HW Exception by GPU node-\d+.{0,80}reason ?: ?GPU Hang"),
        read=_hung("reset"),
        examples=("HW Exception by GPU node-1 (Agent handle: 0x5581c0) reason :GPU Hang",),
        near=("HW Exception by GPU node-1 (Agent handle: 0x5581c0) reason :Unknown",),
        source="ROCR-Runtime, amd_gpu_agent.cpp",
    ),
    Pattern(
        id="amdgpu-mes",
        needles=("MES failed to respon", "failed to halt cp", "SMU: I'm not done"),
        regex=regex(r"MES failed to respon|failed to halt cp|SMU: I'm not done"),
        read=_hung("reset"),
        examples=(
            "[drm ERROR :mes_v11_0_submit_pkt_and_poll_completion] MES failed to response msg=4",
        ),
        near=("MES enabled",),
        source="mes_v11_0.c",
    ),
)

_OTHERS = (
    Pattern(
        id="drm-wedged",
        needles=("device wedged",),
        regex=regex(
            rf"\b(?P<driver>[a-z]\w+) (?P<address>{_ADDRESS}): \[drm\] device wedged, "
            r"(?P<how>but recovered through reset|but no recovery needed|needs recovery)"
        ),
        read=_read_wedged,
        examples=("xe 0000:03:00.0: [drm] device wedged, needs recovery",),
        near=("printer device wedged, call support",),
        source="drivers/gpu/drm/drm_drv.c",
    ),
    Pattern(
        id="xe-job",
        needles=("Timedout job", "Engine reset: engine_class", "ngine reset request failed"),
        regex=regex(
            r"\b(?:xe|\[drm)\b.{0,160}(?:Timedout job: seqno|Engine reset: (?:engine_class|guc_id)|engine reset request failed on)"
        ),
        read=_hung("ring-timeout"),
        examples=(
            "xe 0000:03:00.0: [drm] Tile0: GT0: Timedout job: seqno=41, lrc_seqno=41, guc_id=7, flags=0x0 in python3 [3121]",
            "xe 0000:03:00.0: [drm] GT0: Engine reset: engine_class=rcs, logical_mask: 0x1, guc_id=19",
        ),
        near=("scheduler: Timedout job: seqno was never set",),
        source="drivers/gpu/drm/xe/xe_guc_submit.c",
    ),
    Pattern(
        id="xe-wedged",
        needles=("Xe has declared device",),
        regex=regex(r"Xe has declared device \S+ as wedged"),
        read=_hung("wedged", recovered=False),
        examples=(
            "xe 0000:03:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:03:00.0 as wedged.",
        ),
        near=("Xe has declared a new firmware",),
        source="drivers/gpu/drm/xe/xe_device.c",
    ),
    Pattern(
        id="i915-hang",
        needles=(
            "GPU HANG",
            "Failed to reset chip",
            "esetting chip",
            "for hang on",
            "for preemption time out",
            "for stopped heartbeat",
            "ngine reset failed",
            "CT: No response for request",
            "invalidation response timed out",
        ),
        regex=regex(
            r"\b(?:i915|xe|\[drm)\b.{0,160}(?:GPU HANG|Failed to reset chip|[Rr]esetting chip (?:for|after)|[Rr]esetting [a-z]{3,4}\d+ (?:for hang on|for preemption time out|for stopped heartbeat)|Engine reset failed on"
            r"|CT: No response for request|(?:tlb|TLB) invalidation response timed out)|GPU HANG: ecode"
        ),
        read=lambda match, window: (
            _hung("wedged", recovered=False) if "Failed" in match.group() else _hung("reset")
        )(match, window),
        examples=(
            "i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in chrome [4321]",
            "i915 0000:00:02.0: [drm] *ERROR* Failed to reset chip.",
            "i915 0000:00:02.0: [drm] Resetting chip for stopped heartbeat on rcs0",
            "i915 0000:00:02.0: Resetting vcs0 for hang on vcs0",
            "i915 0000:03:00.0: [drm] *ERROR* GT0 [GUC COMMUNICATION] CT: No response for request 0x5506 (fence 21)",
        ),
        near=("Setting i915.reset=1 after a hang",),
        source="drivers/gpu/drm/i915",
    ),
    Pattern(
        id="nouveau-all-ones",
        needles=("nouveau",),
        regex=regex(
            rf"nouveau (?P<address>{_ADDRESS}):.{{0,160}}(?:unknown chipset \(ffffffff\)|read(?:ing)? ffffffff|\bffffffff ffffffff ffffffff\b)"
        ),
        read=_read_nouveau_gone,
        examples=("nouveau 0000:01:00.0: unknown chipset (ffffffff)",),
        near=("nouveau 0000:01:00.0: NVIDIA GP107 (137000a1)",),
        source="drivers/gpu/drm/nouveau/nvkm/engine/device/base.c",
    ),
    Pattern(
        id="nouveau-fault",
        needles=("nouveau",),
        regex=regex(
            rf"nouveau (?P<address>{_ADDRESS}): (?:bus: MMIO (?:read|write) of [0-9a-f]+ FAULT at|fifo: (?:\w+ )?fault|fifo: SCHED_ERROR|"
            r"gr: .{0,160}(?:TRAP|timeout)|\S+: channel \d+.{0,160}killed|timeout at|.{0,160}runner_timeout|.{0,160}failed to idle)"
        ),
        read=_read_nouveau,
        examples=(
            "nouveau 0000:01:00.0: bus: MMIO write of 80000041 FAULT at 10eb14 [ IBUS ]",
            "nouveau 0000:01:00.0: fifo: SCHED_ERROR 20 []",
        ),
        near=("nouveau 0000:01:00.0: DRM: VRAM: 2048 MiB",),
        source="drivers/gpu/drm/nouveau",
    ),
    Pattern(
        id="macos-gpu-panic",
        needles=("GPU Panic: ",),
        regex=regex(r"GPU Panic: (?:mux-regs|\[<None>\]|NVRM\[|[A-Z]\w+).{0,400}"),
        read=_read_mac_panic,
        examples=(
            'panic(cpu 2 caller 0xffffff7f8b9a0000): "GPU Panic: mux-regs 4 3 7f 0 0 0 severity 3 WS-ready 1 : NVRM[0/1:0:0]: Read Error 0x00000110: CFG 0xffffffff 0xffffffff 0xffffffff, BAR0 0xc0000000"',
        ),
        near=("how to fix a GPU Panic: 3 tips",),
        source="AppleGraphicsControl, GPUPanic.cpp, as panic reports print it",
    ),
    Pattern(
        id="macos-fence-timeout",
        needles=("fence_timeout", "HangState", "GPURestart", "gpuRestart"),
        regex=regex(
            r"fence_timeout\(|GPU HangState 0x(?!0+\b)[0-9A-Fa-f]+|(?:GPURestart|gpuRestart)\w*.{0,160}(?:hang|reset|Channel|signaled)"
        ),
        read=_macos("fence"),
        examples=(
            "(IOAcceleratorFamily2) void IOAccelFenceMachine::fence_timeout(IOTimerEventSource *): AMDRadeonAccelerator prodding blockFenceInterrupt",
            "(AMDRadeonX6000HWLibs) AMD Cail: [7:0:0] GPU HangState 0x00000030, HangFlags 0x00000003: IndividualEngineHang 1",
        ),
        near=("AMD Cail: GPU HangState 0x00000000, HangFlags 0x00000000",),
        source="public logs of IOAcceleratorFamily2",
    ),
)

FAMILY = Family("other_gpus", (*_AMDGPU, *_OTHERS, *habanalabs.PATTERNS))
