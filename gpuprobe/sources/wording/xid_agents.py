"""Xids as agents repeat them: plugins of Kubernetes, DCGM, health monitors, and nouveau."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import XidReported
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.shapes import SLOT, UUID


def _code(groups: dict[str, str | None]) -> int:
    """The Xid of a pattern in which several spellings have a `code...` group each."""
    return int(next(text for name, text in groups.items() if name.startswith("code") and text))


def _told_by(via: str) -> Callable[[re.Match[str], Window], Reading]:
    """What reads the groups `code...`, `bdf`, `uuid` and `msg` of an agent's line."""

    def read(match: re.Match[str], window: Window) -> Reading:
        named = match.groupdict()
        return XidReported(
            **window.base(named.get("bdf")),
            code=_code(named),
            message=(named.get("msg") or "").strip(),
            uuid=named.get("uuid"),
            via=via,
        )

    return read


def _read_plugin_event(match: re.Match[str], window: Window) -> Reading:
    """An NVML event that a plugin looks at; where it tells of the device next, that counts."""
    groups = match.groupdict()
    code = _code(groups)
    told = rf"(?:XidCriticalError: Xid|Sending XID)={code}\b"
    if groups["uuid"] is None and any(re.search(told, r.message) for r in window.after(3)):
        return None
    return XidReported(**window.base(), code=code, uuid=groups["uuid"], via="k8s-device-plugin")


def _read_exporter(match: re.Match[str], window: Window) -> Reading:
    labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"]))
    # The counter has the code for a label; the gauge has it for its value.
    code = int(labels.get("xid", "0") if match["counts"] and int(match["code"]) else match["code"])
    if code == 0:
        return None
    return XidReported(
        **window.base(labels.get("pci_bus_id")),
        code=code,
        uuid=labels.get("UUID"),
        via="dcgm-exporter",
    )


def _read_node_condition(match: re.Match[str], window: Window) -> Reading:
    codes = re.findall(r'"(\d{1,3})"\s*:\s*true', match["codes"])
    return [
        XidReported(**window.base(), code=int(code), via="node-problem-detector") for code in codes
    ]


def _read_nvsentinel(match: re.Match[str], window: Window) -> Reading:
    text = window.text.replace('\\"', '"')
    codes = re.search(r'"errorCode"\s*:\s*\[?([^\]}]*)', text)
    if codes is None or re.search(r'"isHealthy"\s*:\s*true', text):
        return None
    # The GPU monitor names DCGM's finding in place of the number, which its message then has.
    named = re.findall(r'"(\d{1,3})"', codes[1]) or re.findall(
        r'"message"\s*:\s*"[^"]{0,200}\bXID (\d{1,3})\b', text
    )
    entity = re.search(rf'"entityType"\s*:\s*"PCI"\s*,\s*"entityValue"\s*:\s*"({SLOT})"', text)
    uuid = re.search(UUID, text)
    return [
        XidReported(
            **window.base(entity[1] if entity else None),
            code=int(code),
            uuid=uuid[0] if uuid else None,
            via="nvsentinel",
        )
        for code in named
    ]


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="xid-gpud",
        needles=("detected on PCI", "detected on GPU"),
        regex=regex(
            r"\b[Xx][Ii][Dd] (?P<code>\d{1,3})\s?\((?P<msg>.{0,200}?)\) detected on "
            rf"(?=PCI|GPU)(?:GPU (?=GPU-|PCI))?(?:(?P<uuid>{UUID})\s?)?\(?(?:PCI:(?P<bdf>{SLOT}))?"
        ),
        read=_told_by("gpud"),
        examples=("XID 79(GPU has fallen off the bus) detected on PCI:0000:c1:00",),
        near=("motion detected on GPU camera",),
        source="leptonai/gpud, xid component",
    ),
    Pattern(
        id="xid-gpud-event",
        needles=("detected by dmesg", "detected by nvml", "detected by kmsg"),
        regex=regex(r"\b[Xx][Ii][Dd] (?P<code>\d{1,3}) detected by (?:dmesg|nvml|kmsg)"),
        read=_told_by("gpud"),
        examples=('"message": "xid 119 detected by dmesg (47 minutes ago)",',),
        near=("no xid detected by dmesg",),
        source="leptonai/gpud, xid events",
    ),
    Pattern(
        id="xid-nouveau",
        needles=("gsp: Xid:",),
        regex=regex(rf"nouveau (?P<bdf>{SLOT}): gsp: Xid:(?P<code>\d{{1,3}})(?P<msg> .*)?"),
        read=_told_by("nouveau"),
        examples=(
            "nouveau 0000:65:00.0: gsp: Xid:13 Graphics SM Warp Exception on (GPC 0, TPC 1)",
        ),
        near=("nouveau 0000:65:00.0: gsp: RM version: 535.113.01",),
        source="Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp",
    ),
    Pattern(
        # The driver of Tegra writes the Xid's number into the channel, and logs that it did.
        id="xid-nvgpu",
        needles=("error notifier set to",),
        regex=regex(
            r"\b(?:nvgpu|gk20a)\b.{0,160}\berror notifier set to (?P<code>8|13|31|43)\b(?= for ch|, ch)"
        ),
        read=_told_by("nvgpu"),
        examples=(
            "nvgpu: 17000000.gpu     nvgpu_set_err_notifier_locked:143  [ERR]  error notifier set to 31 for ch 479 owned by python3",
            "gk20a 57000000.gpu: gk20a_set_error_notifier: error notifier set to 8 for ch 3",
        ),
        near=("tegra-vi4 15700000.vi: error notifier set to 1",),
        source="nvgpu, os/linux/linux-channel.c",
    ),
    Pattern(
        id="xid-device-plugin",
        needles=("XidCriticalError: Xid=",),
        regex=regex(
            rf"XidCriticalError: Xid=(?P<code>\d{{1,3}})\b(?: on (?:Device=)?(?:nvidia\d+, uuid=)?(?P<uuid>{UUID}))?"
        ),
        read=_told_by("k8s-device-plugin"),
        examples=(
            "XidCriticalError: Xid=48 on Device=GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc, the device will go unhealthy.",
            "XidCriticalError: Xid=48 on all devices; all devices will go unhealthy.",
            "XidCriticalError: Xid=48 on Device=nvidia3, uuid=GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc, the device will go unhealthy.",
        ),
        near=("XidCriticalError: Xid= on Device=",),
        source="NVIDIA/k8s-device-plugin, health.go; container-engine-accelerators, health_checker.go",
    ),
    Pattern(
        id="xid-plugin-event",
        needles=(
            "EventType:8 EventData:",
            "event XID=",
            "Sending XID=",
            "Skip error Xid=",
            "is skipping Xid ",
        ),
        regex=regex(
            r"\b(?:Processing|Skipping) event \{.{0,120}?EventType:8 EventData:(?P<code>\d{1,3})\b|Processing event XID=(?P<code_dra>\d{1,3}) event"
            rf"|Sending XID=(?P<code_sent>\d{{1,3}}) health event for device (?P<uuid>{UUID})|Skip error Xid=(?P<code_gke>\d{{1,3}}) as it is not"
            r"|Health checker is skipping Xid (?P<code_skip>\d{1,3}) error"
        ),
        read=_read_plugin_event,
        examples=(
            "Processing event {Device:{Handle:0x7f3a5c0d2d48} EventType:8 EventData:48 GpuInstanceId:4294967295 ComputeInstanceId:4294967295}",
            "Skipping event {Device:{Handle:0x7f3a5c0d2d48} EventType:8 EventData:31 GpuInstanceId:4294967295 ComputeInstanceId:4294967295}",
            "Processing event XID=43 event",
            "Sending XID=48 health event for device GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc",
            "Skip error Xid=31 as it is not Xid Critical",
            "Health checker is skipping Xid 31 error",
        ),
        near=(
            "Skipping event {Device:{Handle:0x7f3a5c0d2d48} EventType:1 EventData:2 GpuInstanceId:1}",
            "Processing event XID= event",
        ),
        source="NVIDIA/k8s-device-plugin, health.go; dra-driver-nvidia-gpu, device_health.go; container-engine-accelerators, health_checker.go",
    ),
    Pattern(
        id="xid-node-condition",
        needles=("XidCriticalError",),
        regex=regex(
            r"XidCriticalError\s+True\b.{0,300}?\{(?P<codes>\s*\"\d{1,3}\"\s*:\s*true[^}]*)\}"
        ),
        read=_read_node_condition,
        examples=(
            'XidCriticalError   True   Mon, 02 Feb 2026 10:00:00 +0000   Mon, 02 Feb 2026 09:58:00 +0000   {"48":true,"94":true}   0aa1',
        ),
        near=("XidCriticalError   False   Mon, 02 Feb 2026 10:00:00 +0000   NoXidError",),
        source="GKE node condition as kubectl describe prints it",
    ),
    Pattern(
        id="xid-nvsentinel",
        needles=("SysLogsXIDError", "GpuXidError"),
        regex=regex(r"(?:SysLogs|SyslogGPU|Gpu)(?:XIDError|XidError)"),
        read=_read_nvsentinel,
        examples=(
            '{"agent":"syslog-health-monitor","checkName":"SysLogsXIDError","isFatal":true,"isHealthy":false,"errorCode":["79"],"entitiesImpacted":[{"entityType":"PCI","entityValue":"0001:00:00"}]}',
            '{"checkName":"GpuXidError","message":"GPU has fallen off the bus (XID 79).","errorCode":["DCGM_FR_GPU_FALLEN_OFF_BUS"]}',
        ),
        near=(
            '{"checkName":"SysLogsXIDError","isHealthy":true,"message":"No Health Failures","errorCode":[]}',
            '{"msg":"Adding filter","check":"SysLogsXIDError"}',
        ),
        source="NVIDIA/NVSentinel, syslog-health-monitor",
    ),
    Pattern(
        id="xid-nvsentinel-condition",
        needles=("ErrorCode:",),
        regex=regex(rf"\bErrorCode:(?P<code>\d{{1,3}}) PCI:(?P<bdf>{SLOT})"),
        read=_told_by("nvsentinel"),
        examples=(
            "ErrorCode:79 PCI:0002:00:00 GPU has fallen off the bus Recommended Action=RESTART_BM",
        ),
        near=("ErrorCode:79 in module foo",),
        source="NVIDIA/NVSentinel, node condition message",
    ),
    Pattern(
        id="xid-dcgm-exporter",
        needles=("DCGM_FI_DEV_XID_ERRORS", "DCGM_EXP_XID_ERRORS_COUNT"),
        regex=regex(
            r"DCGM_(?:FI_DEV_XID_ERRORS|(?P<counts>EXP_XID_ERRORS_COUNT))\{(?P<labels>[^}]*)\}\s+(?P<code>\d{1,3})(?:\.0+)?(?!\d)"
        ),
        read=_read_exporter,
        examples=(
            'DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc",pci_bus_id="00000000:5A:00.0"} 79',
            'DCGM_EXP_XID_ERRORS_COUNT{gpu="3",UUID="GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc",window_size_in_ms="300000",xid="48"} 1',
        ),
        near=(
            'DCGM_FI_DEV_XID_ERRORS{gpu="3"} 0',
            'DCGM_EXP_XID_ERRORS_COUNT{gpu="3",xid="0"} 0',
            "# TYPE DCGM_FI_DEV_XID_ERRORS gauge",
        ),
        source="NVIDIA/dcgm-exporter",
    ),
    Pattern(
        id="xid-dcgm-alert",
        needles=("DCGM_FI_DEV_XID_ERRORS",),
        regex=regex(
            r"DCGM_FI_DEV_XID_ERRORS(?:'s)?(?: value)?(?: is| ?=|:) ?(?P<code>[1-9]\d{0,2})(?![\d.]*\d| or\b)"
        ),
        read=_told_by("dcgm"),
        examples=(
            "description = DCGM_FI_DEV_XID_ERRORS is 79 on GPU 3 of rack4-n2",
            "Value: DCGM_FI_DEV_XID_ERRORS=48",
        ),
        near=(
            "DCGM_FI_DEV_XID_ERRORS is 0 on GPU 3",
            "DCGM_FI_DEV_XID_ERRORS == 79",
            "DCGM_FI_DEV_XID_ERRORS, gauge, Value of the last XID error encountered.",
        ),
        source="annotations of alerts on DCGM's metrics",
    ),
    Pattern(
        id="xid-dcgm",
        needles=("Detected XID", "Detected Xid", "Detected a XID", "Detected an XID", "XID error "),
        regex=regex(
            rf"(?:PCI:(?P<bdf>{SLOT})(?: GPU_UUID:(?P<uuid>{UUID}))? )?Detected (?:an? XID|XID|Xid)(?: error)?:? (?P<code>\d{{1,3}})(?: error)? (?:for|on) GPU"
            r"|XID error (?P<code_policy>\d{1,3}) detected\.\s*$"
        ),
        read=_told_by("dcgm"),
        examples=(
            "Detected XID 79 for GPU 2. Drain and reboot.",
            "ErrorCode:DCGM_FR_XID_ERROR GPU:4 PCI:0000:c4:00.0 GPU_UUID:GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc Detected XID 31 for GPU 4 Please consult the documentation.",
            "XID error 79 detected.",
        ),
        near=("Detected XID wraparound in table 3", "no XID error 79 detected in a year"),
        source="NVIDIA/DCGM, error texts",
    ),
    Pattern(
        id="xid-dcgm-uncontained",
        needles=("an uncontained error (XID",),
        regex=regex(r"\bGPU(?: \d{1,2})? had an uncontained error \(XID (?P<code>95)\)"),
        read=_told_by("dcgm"),
        examples=("GPU had an uncontained error (XID 95)",),
        near=("an uncontained error (XID 95) means that the GPU has to be reset",),
        source="NVIDIA/DCGM, dcgm_errors.h",
    ),
    Pattern(
        id="xid-dcgm-kmsg",
        needles=("in /dev/kmsg",),
        regex=regex(
            rf"\bXID (?P<code>\d{{1,3}}) detected (?:on GPU \d+ ?\((?P<bdf>{SLOT})\) )?in /dev/kmsg"
        ),
        read=_told_by("dcgm"),
        examples=(
            "XID 79 detected on GPU 3(0000:65:00.0) in /dev/kmsg.",
            "XID 119 detected in /dev/kmsg. Hostengine restart required.",
        ),
        near=("detected XID error in /dev/kmsg, inserting blank value instead",),
        source="NVIDIA/DCGM, DcgmCacheManager.cpp",
    ),
    Pattern(
        id="xid-node-agent",
        needles=(" on the instance, review", ", XID causes: "),
        regex=regex(
            r"\bdetected (?:unknown )?XID-(?P<code>\d{1,3}) on the instance, review|\bXID error: (?P<code_gcm>\d{1,3}), XID causes: "
        ),
        read=_told_by("nvml-agent"),
        examples=(
            "NvidiaXID79Error   node/ip-10-0-1-2   detected XID-79 on the instance, review kernel logs for additional information.",
            "non-critical XID error: 31, XID causes: User App Error.",
        ),
        near=("No XID error was found.", "ErrorCause, XID causes: none known"),
        source="aws/eks-node-monitoring-agent, dcgm_policies.go; facebookresearch/gcm, check_syslogs.py",
    ),
    Pattern(
        id="xid-nvml-agent",
        needles=("Xid ", "Xid: ", "XID "),
        regex=regex(
            rf"\bGPU[ #]?\d{{1,2}}(?: \((?:(?P<uuid>{UUID})|(?:PCI:)?(?P<bdf>{SLOT}))?[^)]*\))?:? "
            r"(?:Xid|XID)(?: error| event)?:? (?P<code>\d{1,3})(?![\dx])(?:[,:] (?P<msg>.*))?"
        ),
        read=_told_by("nvml-agent"),
        examples=(
            "GPU 0: Xid 79, GPU has fallen off the bus",
            "GPU 3 (PCI:0000:65:00): Xid error: 63",
        ),
        near=("GPU 0: Xid counters cleared",),
        source="common form of NVML event listeners",
    ),
)
