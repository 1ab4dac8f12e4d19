"""Xids: as the kernel driver prints them in all its generations, and as agents repeat them."""

from __future__ import annotations

import re

from gpuprobe.events import DeviceIdentified, Event, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.shapes import SLOT, UUID, address, continued

_OPEN = "open kernel modules 515 to 595, kernel_rc.c"

_CALLER = regex(r"\s*,\s*(?P<key>pid|name)=(?P<value>'?<unknown>'?|[^,]*)")
_CAUSED_BY = regex(r"caused by previous Xid (\d+)")
_ACTION = regex(r"recovery action changed from 0x[0-9a-fA-F]+.{0,60}? to 0x([0-9a-fA-F]+)")


def _caller(rest: str) -> tuple[int | None, str | None, str]:
    """Take `, pid=..., name=...` off: pid, process, message; None for `<unknown>`."""
    found: dict[str, str] = {}
    while (match := _CALLER.match(rest)) and match["key"] not in found:
        found[match["key"]] = match["value"].strip().strip("'")
        rest = rest[match.end() :]
    pid, name = found.get("pid", ""), found.get("name", "")
    return (
        int(pid) if pid.isdecimal() else None,
        None if name in ("", "<unknown>") else name,
        rest.strip(" ,\t"),
    )


def _read_xid(match: re.Match[str], window: Window) -> Reading:
    code = int(match["code"])
    pid, process, message = _caller(match["rest"])
    caused_by = recovery_action = None
    # Both facts stand at the very end of a long line, where a terminal's width cuts first.
    if code == 45 and (cause := _CAUSED_BY.search(continued(match, window))):
        caused_by = int(cause[1])
    if code == 154 and (action := _ACTION.search(continued(match, window))):
        recovery_action = int(action[1], 16)
    where = match["where"]
    return XidReported(
        **window.base(where),
        code=code,
        message=message,
        pid=pid,
        process=process,
        caused_by=caused_by,
        recovery_action=recovery_action,
        mig=match["mig"].strip() or None,
        uuid=where if where.startswith("GPU-") else None,
    )


def _agent(match: re.Match[str], window: Window, via: str) -> Reading:
    named = match.groupdict()
    return XidReported(
        **window.base(named.get("bdf")),
        code=int(match["code"]),
        message=(named.get("msg") or "").strip(),
        uuid=named.get("uuid"),
        via=via,
    )


def _read_gpud(match: re.Match[str], window: Window) -> Reading:
    return _agent(match, window, "gpud")


def _read_nouveau(match: re.Match[str], window: Window) -> Reading:
    return _agent(match, window, "nouveau")


def _read_device_plugin(match: re.Match[str], window: Window) -> Reading:
    return _agent(match, window, "k8s-device-plugin")


def _read_dcgm(match: re.Match[str], window: Window) -> Reading:
    return _agent(match, window, "dcgm")


def _read_agent(match: re.Match[str], window: Window) -> Reading:
    return _agent(match, window, "nvml-agent")


def _read_exporter(match: re.Match[str], window: Window) -> Reading:
    code = int(match["code"])
    if code == 0:
        return None
    labels = dict(re.findall(r'(\w+)="([^"]*)"', match["labels"]))
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


def _read_nvsentinel_condition(match: re.Match[str], window: Window) -> Reading:
    return _agent(match, window, "nvsentinel")


def _read_uuid(match: re.Match[str], window: Window) -> Reading:
    # A line cut within the UUID still says that this address is a GPU.
    whole = re.fullmatch(UUID, match["uuid"])
    return DeviceIdentified(
        **window.base(match["bdf"]), uuid=match["uuid"] if whole else None, is_gpu=True
    )


_UUID_LINE = regex(rf"GPU at (?:PCI:)?(?P<bdf>{SLOT}): {UUID}")


def _read_serial(match: re.Match[str], window: Window) -> Reading:
    device: PciAddress | None = address(match)
    if device is None:
        # "GPU Board Serial Number" has no address; the driver prints it right below the UUID.
        above = [_UUID_LINE.search(record.message) for record in window.before(1)]
        device = address(above[0]) if above and above[0] else None
    event: Event = DeviceIdentified(
        **window.base(device), serial=match["serial"].rstrip("."), is_gpu=True
    )
    return event


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="nvrm-xid",
        needles=("Xid (",),
        regex=regex(
            r"(?<![Ss])Xid \((?:PCI:)?"
            rf"(?P<where>{SLOT}|[0-9a-fA-FxX]{{2,8}}(?::[0-9a-fA-FxX]{{2}}){{1,2}}(?:\.[0-7xX])?|{UUID})"
            r"(?P<mig>(?: GPU-C?I:\d+)*)\)\s?:\s*(?P<code>\d{1,3})(?!\d)"
            r"(?P<rest>(?:(?!NVRM: ).)*)"
        ),
        read=_read_xid,
        examples=(
            "NVRM: Xid (0000:05:00): 14, Channel 00000003",
            "NVRM: Xid (PCI:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            "NVRM: Xid (PCI:0000:65:00): 79, pid=8123, GPU has fallen off the bus.",
            "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.",
            "NVRM: Xid (PCI:0000:65:00): 79",
            "NVRM: NVRM: Xid (PCI:0002:b1:00 GPU-I:02 GPU-CI:00): 94, pid=991, name=worker 3, Contained: CE User Channel (0x9). RST: No, D-RST: No",
            "usb 1-2: resetNVRM: Xid (PCI:00010000:65:00.0): 13, Graphics Exception",
            "Xid (PCI:0000:65:00): 45, pid=8123, name=python3, Ch 00000011 caused by previous Xid 31",
            "NVRM: Xid (PCI:0000:65:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (OS Reboot)",
        ),
        near=(
            "nvidia-nvswitch1: SXid (PCI:0000:06:00.0): 12028, Non-fatal, Link 31 error",
            'printf("NVRM: Xid (PCI:%04x:%02x:%02x): %d, ", domain, bus, slot, code);',
            "dhclient: XID (0x5a3f) timed out",
        ),
        source=_OPEN,
    ),
    Pattern(
        id="xid-gpud",
        needles=("detected on PCI", "detected on GPU"),
        regex=regex(
            r"\b[Xx][Ii][Dd] (?P<code>\d{1,3})\s?\((?P<msg>.{0,200}?)\) detected on "
            rf"(?=PCI|GPU)(?:GPU (?=GPU-|PCI))?(?:(?P<uuid>{UUID})\s?)?\(?(?:PCI:(?P<bdf>{SLOT}))?"
        ),
        read=_read_gpud,
        examples=("XID 79(GPU has fallen off the bus) detected on PCI:0000:c1:00",),
        near=("motion detected on GPU camera",),
        source="leptonai/gpud, xid component",
    ),
    Pattern(
        id="xid-gpud-event",
        needles=("detected by dmesg", "detected by nvml", "detected by kmsg"),
        regex=regex(r"\b[Xx][Ii][Dd] (?P<code>\d{1,3}) detected by (?:dmesg|nvml|kmsg)"),
        read=_read_gpud,
        examples=('"message": "xid 119 detected by dmesg (47 minutes ago)",',),
        near=("no xid detected by dmesg",),
        source="leptonai/gpud, xid events",
    ),
    Pattern(
        id="xid-nouveau",
        needles=("gsp: Xid:",),
        regex=regex(rf"nouveau (?P<bdf>{SLOT}): gsp: Xid:(?P<code>\d{{1,3}})(?P<msg> .*)?"),
        read=_read_nouveau,
        examples=(
            "nouveau 0000:65:00.0: gsp: Xid:13 Graphics SM Warp Exception on (GPC 0, TPC 1)",
        ),
        near=("nouveau 0000:65:00.0: gsp: RM version: 535.113.01",),
        source="Linux, drivers/gpu/drm/nouveau/nvkm/subdev/gsp",
    ),
    Pattern(
        id="xid-device-plugin",
        needles=("XidCriticalError: Xid=",),
        regex=regex(
            rf"XidCriticalError: Xid=(?P<code>\d{{1,3}})\b(?: on (?:Device=)?(?P<uuid>{UUID}))?"
        ),
        read=_read_device_plugin,
        examples=(
            "XidCriticalError: Xid=48 on Device=GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc, the device will go unhealthy.",
            "XidCriticalError: Xid=48 on all devices; all devices will go unhealthy.",
        ),
        near=("XidCriticalError: Xid= on Device=",),
        source="NVIDIA/k8s-device-plugin, health.go",
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
        read=_read_nvsentinel_condition,
        examples=(
            "ErrorCode:79 PCI:0002:00:00 GPU has fallen off the bus Recommended Action=RESTART_BM",
        ),
        near=("ErrorCode:79 in module foo",),
        source="NVIDIA/NVSentinel, node condition message",
    ),
    Pattern(
        id="xid-dcgm-exporter",
        needles=("DCGM_FI_DEV_XID_ERRORS",),
        regex=regex(
            r"DCGM_FI_DEV_XID_ERRORS\{(?P<labels>[^}]*)\}\s+(?P<code>\d{1,3})(?:\.0+)?(?!\d)"
        ),
        read=_read_exporter,
        examples=(
            'DCGM_FI_DEV_XID_ERRORS{gpu="3",UUID="GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc",pci_bus_id="00000000:5A:00.0"} 79',
        ),
        near=('DCGM_FI_DEV_XID_ERRORS{gpu="3"} 0', "# TYPE DCGM_FI_DEV_XID_ERRORS gauge"),
        source="NVIDIA/dcgm-exporter",
    ),
    Pattern(
        id="xid-dcgm",
        needles=("Detected XID", "Detected Xid", "Detected a XID", "Detected an XID"),
        regex=regex(
            r"Detected (?:an? XID|XID|Xid)(?: error)?:? (?P<code>\d{1,3})(?: error)? (?:for|on) GPU"
        ),
        read=_read_dcgm,
        examples=("Detected XID 79 for GPU 2. Drain and reboot.",),
        near=("Detected XID wraparound in table 3",),
        source="NVIDIA/DCGM, error texts",
    ),
    Pattern(
        id="xid-dcgm-uncontained",
        needles=("an uncontained error (XID",),
        regex=regex(r"\bGPU(?: \d{1,2})? had an uncontained error \(XID (?P<code>95)\)"),
        read=_read_dcgm,
        examples=("GPU had an uncontained error (XID 95)",),
        near=("an uncontained error (XID 95) means that the GPU has to be reset",),
        source="NVIDIA/DCGM, dcgm_errors.h",
    ),
    Pattern(
        id="xid-nvml-agent",
        needles=("Xid ", "Xid: ", "XID "),
        regex=regex(
            rf"\bGPU[ #]?\d{{1,2}}(?: \((?:(?P<uuid>{UUID})|(?:PCI:)?(?P<bdf>{SLOT}))?[^)]*\))?:? "
            r"(?:Xid|XID)(?: error| event)?:? (?P<code>\d{1,3})(?![\dx])(?:[,:] (?P<msg>.*))?"
        ),
        read=_read_agent,
        examples=(
            "GPU 0: Xid 79, GPU has fallen off the bus",
            "GPU 3 (PCI:0000:65:00): Xid error: 63",
        ),
        near=("GPU 0: Xid counters cleared",),
        source="common form of NVML event listeners",
    ),
    Pattern(
        id="nvrm-uuid",
        needles=("GPU at ",),
        regex=regex(rf"GPU at (?:PCI:)?(?P<bdf>{SLOT}): (?P<uuid>GPU-[0-9a-fA-F-]{{4,36}})"),
        read=_read_uuid,
        examples=("NVRM: GPU at PCI:0000:65:00: GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc",),
        near=("NVRM: GPU at PCI:0000:65:00: not there",),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-serial",
        needles=("Board Serial Number: ", "GPU serial number is "),
        regex=regex(
            rf"(?:GPU (?P<bdf>{SLOT}): )?GPU (?:Board Serial Number: |serial number is )(?P<serial>\w+)"
        ),
        read=_read_serial,
        examples=(
            "NVRM: GPU Board Serial Number: 1329876543210",
            "NVRM: GPU 0000:65:00.0: GPU serial number is 1329876543210.",
        ),
        near=("NVRM: GPU Board Serial Number: ",),
        source=_OPEN,
    ),
)
