r"""What Windows says of a GPU: nvlddmkm's events, TDR, bugchecks, and WSL's dxgkrnl.

Windows has no line for a GPU that left the bus. Event 14 may carry the driver's own words, which
the NVRM family reads; everything here is a hang or a reset.

Source: System event log (nvlddmkm, Display 4101), Windows Error Reporting (LiveKernelEvent),
bugcheck reference on learn.microsoft.com, drivers of WSL2 (dxgkrnl).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

from gpuprobe.events import (
    AerReported,
    BridgeLinked,
    DeviceIdentified,
    GpuHung,
    GpuLostReported,
    HostFaulted,
    LossHinted,
    OtherFailed,
    SystemDescribed,
    UncleanEndFound,
)
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading


def _hung(
    driver: str, what: str, recovered: bool | None = None
) -> Callable[[re.Match[str], Window], Reading]:
    def read(match: re.Match[str], window: Window) -> Reading:
        return GpuHung(driver=driver, what=what, recovered=recovered, **window.base())

    return read


def _read_display(match: re.Match[str], window: Window) -> Reading:
    """Windows reset a display driver."""
    driver = "amdgpu" if match["driver"].startswith(("amd", "ati")) else "nvlddmkm"
    return GpuHung(driver=driver, what="tdr", recovered=True, **window.base())


_OFF_THE_BUS = regex(r"fallen off the bus|GPU is lost")


def _read_event(match: re.Match[str], window: Window) -> Reading:
    """An nvlddmkm event; when its data says that the GPU is off the bus, that is what counts."""
    if _OFF_THE_BUS.search(window.text):
        return GpuLostReported(by="driver", **window.base())
    for place, record in enumerate(window.after(14), start=window.index + 1):
        if re.match(r"\s*(?:(?:Log Name|Source|Provider ?Name)\s*:|</?Event\b)", record.message):
            break  # another event
        if _OFF_THE_BUS.search(record.message):
            said = replace(window, index=place, text=record.message)
            return GpuLostReported(by="driver", **said.base())
    return GpuHung(driver="nvlddmkm", what="tdr", **window.base())


_NUMBER = regex(
    r"\s*(?:\S{0,20}[- ]?I[dD]\b\D{0,20}[:：]\s*(?:13|14|153)\s*$|<EventID\b[^>]{0,40}>(?:13|14|153)</EventID>)"
)
"""The number of an event of nvlddmkm that tells of a fault, on a line of its own."""


def _read_source(match: re.Match[str], window: Window) -> Reading:
    """An event copied as text: its number stands some lines beside its source."""
    near = (*window.before(4), *window.after(4))
    if not any(_NUMBER.match(record.message) for record in near):
        return None
    if any(re.search(r"\bID\b.{1,60}nvlddmkm", record.message) for record in window.after(14)):
        return None  # its description, which the pattern above reads
    return _read_event(match, window)


def _read_kernel_power(match: re.Match[str], window: Window) -> Reading:
    """Kernel-Power 41 in any language; the English description is read by the family of boots."""
    near = [record.message for record in (*window.before(4), *window.after(14))]
    if any("without cleanly shutting down" in text for text in near):
        return None
    if match["row"] or any(
        re.search(r"[:：]\s*41\s*$|<EventID\b[^>]{0,40}>41<", text) for text in near
    ):
        return UncleanEndFound(what="reset-reason", detail="Kernel-Power 41", **window.base())
    return None


def _read_dxg(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(key="wsl", value="dxgkrnl", **window.base())


def _read_whea(match: re.Match[str], window: Window) -> Reading:
    """A WHEA event about a PCI Express component, from the lines of its description."""
    near = [record.message for record in window.before(12)][::-1]
    text = "\n".join((*near, window.text, *(record.message for record in window.after(12))))
    place = re.search(
        r"(?<!Secondary )Bus:Device:Function: 0x([0-9A-Fa-f]{1,2}):0x([0-9A-Fa-f]{1,2}):0x([0-7])",
        text,
    )
    if place is None:
        return None
    device = PciAddress(0, int(place[1], 16), int(place[2], 16), int(place[3]), domain_assumed=True)
    fatal = re.search(r"[Aa] fatal hardware error|Event ID:\s+18\b", text)
    report = AerReported(
        severity="fatal" if fatal else "correctable", firmware_first=True, **window.base(device)
    )
    # The name is the component's own: a root port's says nothing of what sits below it.
    vendor = re.search(r"Primary Device Name:\s*PCI\\VEN_(10DE|1002)", text, re.IGNORECASE)
    if vendor and match["what"] in ("Endpoint", "Legacy Endpoint"):
        return (DeviceIdentified(is_gpu=True, **window.base(device)), report)
    below = re.search(
        r"Secondary Bus:Device:Function: 0x([0-9A-Fa-f]{1,2}):0x([0-9A-Fa-f]{1,2}):0x([0-7])", text
    )
    if below and re.search(r"Secondary Device Name:\s*PCI\\VEN_(?:10DE|1002)", text, re.IGNORECASE):
        gpu = PciAddress(
            0, int(below[1], 16), int(below[2], 16), int(below[3]), domain_assumed=True
        )
        return (
            DeviceIdentified(is_gpu=True, **window.base(gpu)),
            BridgeLinked(parent=device, **window.base(gpu)),
            report,
        )
    return report


def _read_code_43(match: re.Match[str], window: Window) -> Reading:
    """Any device can have the code; the lines around must show a GPU."""
    near = (window.text, *(record.message for record in (*window.before(6), *window.after(6))))
    # The code alone, in whatever language, is told of by people too: only the id proves it.
    makers = "" if match[0].startswith("(") else "|NVIDIA|GeForce|Radeon"
    if not any(re.search(rf"VEN_(?:10DE|1002){makers}", text, re.IGNORECASE) for text in near):
        return None
    return OtherFailed(
        what="the GPU's driver reported problems (Code 43)", where="Windows", **window.base()
    )


def _read_bugcheck(match: re.Match[str], window: Window) -> Reading:
    code = match["detail"] or "0x124, a fatal hardware error"
    return UncleanEndFound(what="reset-reason", detail=f"bugcheck {code}", **window.base())


def _read_dpc_watchdog(match: re.Match[str], window: Window) -> Reading:
    return HostFaulted(what="soft-lockup", **window.base())


FAMILY = Family(
    "windows",
    (
        Pattern(
            id="nvlddmkm-event",
            needles=("nvlddmkm",),
            regex=regex(
                r"(?:The description for )?[Ee]vent ID [('\"]? ?(?:0|13|14|153) ?[)'\"]? (?:from|in|\()\s?(?:source|Source)?[ ('\"]{0,3}nvlddmkm"
                r"|nvlddmkm\W{1,12}(?:[Ee]vent(?: ID)?|ID)?\W{0,6}(?:13|14|153)\b"
                r"|[Ee]vent(?: ID)?\W{0,3}(?:0|13|14|153)\W{1,12}nvlddmkm"
                r"|(?:Ereignis-ID|ID d.événement|identificador de evento|ID evento|ID do evento|идентификатор\w* события)\W{1,3}(?:0|13|14|153)\b[^\n]{1,40}nvlddmkm"
                r"|<Provider Name=['\"]nvlddmkm['\"][^\n<]{0,60}>(?:</Provider>)?\s*<EventID\b[^>]{0,40}>(?:13|14|153)</EventID>"
                r"|[^\n]{0,20}nvlddmkm[^\n]{1,12}(?:事件|イベント) ?ID ?(?:0|13|14|153)\b[^\n]{0,200}"
            ),
            read=_read_event,
            examples=(
                "The description for Event ID 14 from source nvlddmkm cannot be found. Either the component that raises this event is not installed",
                "The description for Event ID ( 13 ) in Source ( nvlddmkm ) cannot be found.",
                "Message     : The description for Event ID '153' in Source 'nvlddmkm' cannot be found.",
                "Error 3/2/2026 8:15:22 PM nvlddmkm 153 None",
                'Die Beschreibung für die Ereignis-ID "153" aus der Quelle "nvlddmkm" wurde nicht gefunden.',
                "无法找到来自源 nvlddmkm 的事件 ID 14 的描述。",
                "<Event><System><Provider Name='nvlddmkm'/><EventID Qualifiers='49322'>14</EventID><Level>2</Level>",
            ),
            near=("nvlddmkm.sys 32.0.15.6094 loaded",),
            source="System event log",
        ),
        Pattern(
            id="nvlddmkm-source",
            needles=("nvlddmkm",),
            regex=regex(r"\A\s*(?:Source|Provider ?Name|Source ?Name|Quelle|Origen|Origine|Origem|Fonte|Bron|Источник|来源|來源|ソース|원본)\s*[:：]\s*nvlddmkm\s*\Z|\A\s*<Provider Name=['\"]nvlddmkm['\"]"),
            read=_read_source,
            examples=(
                "Source:        nvlddmkm\nEvent ID:      14\nLevel:         Error",
                "    <Provider Name='nvlddmkm' />\n    <EventID Qualifiers='0'>153</EventID>",
            ),
            near=("Source:        nvlddmkm\nEvent ID:      1\nLevel:         Information",),
            source="System event log, copied as text",
        ),
        Pattern(
            id="nvlddmkm-device",
            needles=("Error occurred on GPUID", "CMDre ", "Resetting TDR occurred on GPUID", "Reset TDR occurred"),
            regex=regex(
                r"(?:Error|Resetting TDR|Reset TDR|Restarting TDR) occurred on GPUID: ?[0-9a-fA-F]+|(?<!, )\bCMDre [0-9a-f]{8} [0-9a-f]{8}"
            ),
            read=_hung("nvlddmkm", "tdr"),
            examples=("Error occurred on GPUID: 2100", "CMDre 00000000 00000210 ffffffff 00000007 00000000"),
            near=(
                "Error occurred on line 2100",
                "NVRM: Xid (PCI:0000:65:00): 56, pid=811, name=Xorg, CMDre 00000000 00000080 00000001 00000005",
            ),
            source="nvlddmkm's event data",
        ),
        Pattern(
            id="display-4101",
            needles=("stopped responding and has",),
            regex=regex(
                r"[Dd]isplay driver (?P<driver>\w+) stopped responding and has (?P<ok>successfully )?recovered"
            ),
            read=_read_display,
            examples=("Display driver nvlddmkm stopped responding and has successfully recovered.",),
            near=("The service stopped responding and has been closed",),
            source="Event 4101",
        ),
        Pattern(
            id="display-4101-translated",
            needles=("nvlddmkm", "amdkmdag", "amdwddmg", "atikmdag"),
            regex=regex(
                r"[^\n]{0,40}\b(?P<driver>nvlddmkm|amdkmdag|amdwddmg|atikmdag)\b[\"“”»']? ?(?:reagiert nicht mehr|ne répond(?:ait)? (?:plus|pas)|dejó de responder|ha smesso di rispondere|parou de responder|reageert niet meer|slutade svara"
                r"|перестал отвечать|przestał odpowiadać|已停止响应|已停止回應|が応答を停止|디스플레이 드라이버가 응답을 중지)[^\n]{0,120}"
            ),
            read=_read_display,
            examples=(
                'Der Anzeigetreiber "nvlddmkm" reagiert nicht mehr und wurde wiederhergestellt.',
                "Le pilote d’affichage nvlddmkm ne répondait plus et a été récupéré avec succès.",
                "显示器驱动程序 nvlddmkm 已停止响应，并且已成功恢复。",
                "Видеодрайвер amdwddmg перестал отвечать и был успешно восстановлен.",
            ),
            near=("Der Treiber nvlddmkm wurde geladen.",),
            source="Event 4101 in other languages",
        ),
        Pattern(
            id="kernel-power-41",
            needles=("Kernel-Power",),
            regex=regex(
                r"\A\s*[^\s:：]{1,16}(?: ?[^\s:：]{1,10})?\s*[:：]\s*(?:Microsoft-Windows-)?Kernel-Power\s*\Z|\A\s*<Provider Name=['\"]Microsoft-Windows-Kernel-Power['\"]|\bKernel-Power(?:\s{1,8}|['\"][^\n]{0,100}<EventID>)(?P<row>41)(?:\s{1,8}\(63\)|</EventID>)"
            ),
            read=_read_kernel_power,
            examples=(
                "Quelle:        Microsoft-Windows-Kernel-Power\nDatum:         12.11.2025 20:44:10\nEreignis-ID:   41",
                "Critical\t11/21/2025 8:44:10 PM\tKernel-Power\t41\t(63)",
                "<Event><System><Provider Name='Microsoft-Windows-Kernel-Power' Guid='{331c3b3a}'/><EventID>41</EventID>",
            ),
            near=(
                "Quelle:        Microsoft-Windows-Kernel-Power\nDatum:         12.11.2025 20:44:10\nEreignis-ID:   105",
            ),
            source="System event log, Kernel-Power 41",
        ),
        Pattern(
            id="tdr-bugcheck",
            needles=("VIDEO_TDR_", "VIDEO_ENGINE_TIMEOUT", "VIDEO_SCHEDULER_INT", "ugcheck", "ug check"),
            regex=regex(
                r"\bVIDEO_TDR_(?:FAILURE|ERROR|TIMEOUT_DETECTED)\b|\bVIDEO_ENGINE_TIMEOUT_DETECTED\b|\bVIDEO_SCHEDULER_INTERNAL_ERROR\b"
                r"|(?:The computer has rebooted from a bugcheck\.\s+)?(?:The )?[Bb]ug ?check (?:was: |code:? ?|)0x(?:00000)?(?:116|117|119)\b"
            ),
            read=_hung("nvlddmkm", "tdr", recovered=False),
            examples=(
                "VIDEO_TDR_FAILURE (116)",
                "The computer has rebooted from a bugcheck.  The bugcheck was: 0x00000116 (0xffffbc8f, 0x1, 0x2, 0x3)",
            ),
            near=("mapped BAR0 at 0x116 pages",),
            source="bugcheck reference",
        ),
        Pattern(
            id="bugcheck",
            needles=("rebooted from a bugcheck", "WHEA_UNCORRECTABLE_ERROR"),
            regex=regex(
                r"rebooted from a bugcheck\.\s+The bugcheck was: (?P<detail>0x(?!0{0,5}11[679]\b)[0-9a-fA-F]{2,16})\b|\bWHEA_UNCORRECTABLE_ERROR \(124\)"
            ),
            read=_read_bugcheck,
            examples=(
                "The computer has rebooted from a bugcheck.  The bugcheck was: 0x00000124 (0x4, 0xffffd20c, 0x0, 0x0). A dump was saved in: C:\\Windows\\MEMORY.DMP.",
                "WHEA_UNCORRECTABLE_ERROR (124)\nA fatal hardware error has occurred.",
            ),
            near=("The bugcheck was saved", "what does WHEA_UNCORRECTABLE_ERROR mean?"),
            source="System event log, BugCheck 1001; WinDbg",
        ),
        Pattern(
            id="live-kernel-event",
            needles=("LiveKernelEvent",),
            regex=regex(
                # The label of the code is in the language of the system.
                r"LiveKernelEvent\b\W{0,40}(?:(?:P1|Parameter 1|[^\W\d]{2,10})\W{0,6})?(?P<code>141|117|1a8|193)\b"
            ),
            read=lambda match, window: GpuHung(
                driver="nvlddmkm",
                what="tdr",
                recovered=True if match["code"] == "117" else None,
                **window.base(),
            ),
            examples=("Problem Event Name: LiveKernelEvent\nCode: 141", "LiveKernelEvent 117", "Fault bucket LKD_0x141, Event Name: LiveKernelEvent, Code: 141", "Nombre del evento de problema: LiveKernelEvent\nC\u00f3digo: 141", "\u95ee\u9898\u4e8b\u4ef6\u540d\u79f0: LiveKernelEvent\n\u4ee3\u7801: 117"),
            near=("LiveKernelEvent 1d4",),
            source="Windows Error Reporting",
        ),
        Pattern(
            id="lkd-bucket",
            needles=("LKD_0x1",),
            regex=regex(r"\bLKD_0x(?:141|117)(?![0-9A-Fa-f])"),
            read=_hung("nvlddmkm", "tdr"),
            examples=("FAILURE_BUCKET_ID:  LKD_0x141_Tdr:6_IMAGE_nvlddmkm.sys_Ampere",),
            near=("FAILURE_BUCKET_ID:  LKD_0x15E_ndis.sys",),
            source="WinDbg",
        ),
        Pattern(
            id="whea-pcie",
            needles=("Component: PCI Express",),
            regex=regex(r"Component: PCI Express (?P<what>(?:Legacy )?Endpoint|(?:Legacy )?[A-Z]\w+ [A-Z]\w+(?: \w+)?)"),
            read=_read_whea,
            examples=(
                "A corrected hardware error has occurred.\n\nComponent: PCI Express Root Port\nError Source: Advanced Error Reporting (PCI Express)\n\nPrimary Bus:Device:Function: 0x0:0x3:0x1\nPrimary Device Name:PCI\\VEN_1022&DEV_1483",
            ),
            near=("Component: Memory",),
            source="Microsoft-Windows-WHEA-Logger, events 17 and 18",
        ),
        Pattern(
            id="code-43",
            needles=("(Code 43)", "digo 43)", "odice 43)", "(Kod 43)"),
            regex=regex(
                r"(?:Windows has stopped this device )?because it has reported problems\. ?\(Code 43\)"
                r"|\((?:Code|C\u00f3digo|Codice|Kod) 43\)"
            ),
            read=_read_code_43,
            examples=(
                "Windows has stopped this device because it has reported problems. (Code 43)\nDevice PCI\\VEN_10DE&DEV_2684&SUBSYS_16F110DE&REV_A1 had a problem starting.",
                "Windows hat dieses Ger\u00e4t angehalten, weil es Probleme gemeldet hat. (Code 43)\nGer\u00e4t PCI\\VEN_10DE&DEV_2684&SUBSYS_16F110DE&REV_A1",
            ),
            near=(
                "USB: Windows has stopped this device because it has reported problems. (Code 43)",
                "Meine GeForce zeigt den Fehler (Code 43)",
            ),
            source="Device Manager",
        ),
        Pattern(
            id="pnp-surprise",
            needles=(" surprise removed",),
            regex=regex(r"PCI\\VEN_(?:10DE|1002)&[^\n]{0,160}(?:was|has been) surprise removed", re.IGNORECASE),
            read=lambda match, window: LossHinted(what="surprise-removed", **window.base()),
            examples=(
                "Device PCI\\VEN_10DE&DEV_2204&SUBSYS_14671 was surprise removed as it was reported as missing on the bus.",
                "Device PCI\\VEN_1002&DEV_744C&SUBSYS_5316\\6&1 has been surprise removed as it is reported as missing on the bus. Count of devices removed: 2",
            ),
            near=("Device USB\\VID_0B05 was surprise removed as it was reported as missing on the bus.",),
            source="Microsoft-Windows-Kernel-PnP",
        ),
        Pattern(
            id="dpc-watchdog",
            needles=("DPC_WATCHDOG_VIOLATION",),
            regex=regex(r"\bDPC_WATCHDOG_VIOLATION\b"),
            read=_read_dpc_watchdog,
            examples=("DPC_WATCHDOG_VIOLATION (133)",),
            near=("DPC watchdog enabled",),
            source="bugcheck reference",
        ),
        Pattern(
            id="wsl-dxg",
            needles=("dxgk: ",),
            regex=regex(r"\bdxgk: dxgk\w+:\s+Ioctl failed"),
            read=_read_dxg,
            examples=("misc dxg: dxgk: dxgkio_query_adapter_info: Ioctl failed: -22",),
            near=("misc dxg: registered",),
            source="dxgkrnl of WSL2; the lines are normal there",
        ),
    ),
)  # fmt: skip
