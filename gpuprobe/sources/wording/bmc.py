"""What a board's controller (BMC, iDRAC, iLO) logs of PCIe errors and of the host's end.

It names a slot or an address and never what sits there, so by itself no line is about a GPU,
unless the sensor or the part is called one.

Source: IPMI 2.0, table 42-3 (sensor types 13h Critical Interrupt, 23h Watchdog 2), as `ipmitool
sel list` and `elist` print them; Dell iDRAC messages PCI1318, PCI1320, PCI1322, PCI1360; HPE iLO's
Integrated Management Log; Redfish's message ResourceErrorsDetected, with which NVIDIA's own
controller tells of GPUs by their place on the board.
"""

from __future__ import annotations

import re
from typing import Literal

from gpuprobe.events import (
    BOARD_CONTROLLER,
    AerReported,
    GpuMemoryCounted,
    OtherFailed,
    ThermalReported,
    UncleanEndFound,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_Severity = Literal["correctable", "non-fatal", "fatal"]


def _severity(words: str) -> _Severity:
    words = words.lower()
    if "fatal" in words and "non-fatal" not in words:
        return "fatal"
    return "correctable" if re.search(r"\bcorrect", words) else "non-fatal"


def _report(window: Window, severity: _Severity, device: PciAddress | None = None) -> AerReported:
    return AerReported(
        **window.base(device), severity=severity, driver=BOARD_CONTROLLER, firmware_first=True
    )


def _read_sel(match: re.Match[str], window: Window) -> Reading:
    return _report(window, _severity(match["what"]))


def _read_idrac(match: re.Match[str], window: Window) -> Reading:
    device = None
    if match["bus"]:
        # iDRAC writes these numbers in decimal.
        numbers = int(match["bus"]), int(match["device"]), int(match["function"])
        if numbers[0] > 255 or numbers[1] > 31 or numbers[2] > 7:
            return None
        device = PciAddress(0, *numbers, domain_assumed=True)
    return _report(window, _severity(match["what"]), device)


def _read_ilo(match: re.Match[str], window: Window) -> Reading:
    domain = int(match["segment"] or "0", 16)
    device = PciAddress(
        domain,
        int(match["bus"], 16),
        int(match["device"], 16),
        int(match["function"], 16),
        domain_assumed=match["segment"] is None,
    )
    return _report(window, _severity(match["what"]), device)


def _read_resource(match: re.Match[str], window: Window) -> Reading:
    if match["code"]:
        return XidReported(
            **window.base(), code=int(match["code"]), message=match["msg"].strip(), via="bmc"
        )
    what = match["what"].strip()
    if re.search(r"remap\w*\s+fail", what, re.IGNORECASE):
        return GpuMemoryCounted(**window.base(), what="remap-failed")
    if re.search(r"uncorrectable ECC|ECC uncorrectable", what, re.IGNORECASE):
        return GpuMemoryCounted(**window.base(), what="uncorrectable")
    if re.search(r"\boverT\b|over.?temp", f"{match['part']} {what}", re.IGNORECASE):
        return ThermalReported(**window.base(), what="shutdown")
    if what.lower() == "no errors":
        return None
    return OtherFailed(**window.base(), what=f"{match['part']}: {what}"[:120], where="bmc")


def _read_hot(match: re.Match[str], window: Window) -> Reading:
    figure = re.search(r"Reading[ =]+(\d{2,3}(?:\.\d+)?)\b", window.text)
    return ThermalReported(
        **window.base(), what="critical", temp_c=float(figure[1]) if figure else None
    )


def _read_watchdog(match: re.Match[str], window: Window) -> Reading:
    found = match.groupdict()
    return UncleanEndFound(
        **window.base(), what="bmc", detail=found["what"] or found.get("dell", "")
    )


FAMILY = Family(
    "bmc",
    (
        Pattern(
            id="bmc-critical-interrupt",
            needles=("Critical Interrupt",),
            regex=regex(
                r"[|,] ?Critical Interrupt\b[^|,]{0,60}[|,] *(?P<what>Bus Fatal Error|Bus Uncorrectable error|Bus Correctable error|PCI [SP]ERR|Fatal NMI)\b[^|]{0,60}?(?:[|-] *Assert|$)",
                re.IGNORECASE,
            ),
            read=_read_sel,
            examples=(
                "   2 | 03/03/2026 | 03:14:02 | Critical Interrupt #0x79 | Bus Fatal Error | Asserted",
                "  1c | 03/03/2026 | 03:14:02 | Critical Interrupt PCIe Fatal Err | PCI SERR | Asserted",
                "   3 | 03/03/2026 | 03:14:02 | Critical Interrupt #0x18 | Bus Correctable error | Asserted",
                "13,2026/03/03 03:14:02,Unknown #0xff,Critical Interrupt,Bus Fatal Error - Asserted",
            ),
            near=(
                "   2 | 03/03/2026 | 03:16:02 | Critical Interrupt #0x79 | Bus Fatal Error | Deasserted",
                "   2 | 03/03/2026 | 03:16:02 | Critical Interrupt #0x05 | Front Panel NMI/Diagnostic Interrupt | Asserted",
            ),
            source="IPMI 2.0, ipmitool",
        ),
        Pattern(
            id="bmc-idrac-pcie",
            needles=("error was detected on a component at",),
            regex=regex(
                r"\bAn? (?P<what>(?:bus )?(?:fatal|non-fatal|uncorrectable|correctable)(?: error)?)(?: bus)?(?: error)? was detected on a component at (?:bus (?P<bus>\d{1,3}) device (?P<device>\d{1,2}) function (?P<function>\d{1,2})|slot \S{1,8})"
            ),
            read=_read_idrac,
            examples=(
                "Description: A bus fatal error was detected on a component at bus 65 device 0 function 0.",
                "PCI1318 A fatal error was detected on a component at bus 23 device 0 function 0.",
                "Message = A bus fatal error was detected on a component at slot 6.",
            ),
            near=("A problem was detected on a component at the plant",),
            source="Dell, PowerEdge event and error messages, PCI1318, PCI1320, PCI1322, PCI1360",
        ),
        Pattern(
            id="bmc-ilo-pcie",
            needles=("PCI Express Error",),
            regex=regex(
                r"(?P<what>Uncorrectable|Correctable|Fatal|Non-Fatal) PCI Express Error\b[^\n]{0,60}\((?:[^()\n]{0,40}, )?(?:Segment 0x(?P<segment>[0-9A-Fa-f]{1,4}), )?Bus (?:0x)?(?P<bus>[0-9A-Fa-f]{1,2}), Device (?:0x)?(?P<device>[01]?[0-9A-Fa-f]), Function (?:0x)?(?P<function>[0-7])"
            ),
            read=_read_ilo,
            examples=(
                "Uncorrectable PCI Express Error Detected. Slot 2 (Segment 0x0, Bus 0x86, Device 0x0, Function 0x0). Uncorrectable Error Status: 0x00004000",
                "Uncorrectable PCI Express Error (Slot 4, Bus 0, Device 3, Function 0, Error status 0x00000000)",
            ),
            near=("No PCI Express Error was found (Bus 0)",),
            source="HPE, iLO Integrated Management Log messages",
        ),
        Pattern(
            id="bmc-xcc-pcie",
            needles=("PCIe Error has Occurred at Bus ",),
            regex=regex(
                r"\bAn? (?P<what>Uncorrectable|Correctable|Fatal|Non-Fatal) PCIe Error has Occurred at (?P<segment>)Bus (?:0x)?(?P<bus>[0-9A-Fa-f]{1,2}) Device (?:0x)?(?P<device>[01]?[0-9A-Fa-f]) Function (?:0x)?(?P<function>[0-7])",
                re.IGNORECASE,
            ),
            read=_read_ilo,
            examples=(
                "An Uncorrectable PCIe Error has Occurred at Bus 4B Device 0 Function 0. The Vendor ID for the device is 10DE and the Device ID is 2330. The physical slot number is 4.",
            ),
            near=("A PCIe error has occurred at bus stop 4",),
            source="Lenovo, XClarity Controller messages, FQXSFIO0010M",
        ),
        Pattern(
            id="bmc-gpu-errors",
            needles=("has detected errors of type",),
            regex=regex(
                r"[Tt]he resource property '?(?P<part>(?:\w+[ _])*?(?:GPU|NVSwitch|NVLink)[\w ./:-]{0,60}?)'? has detected errors of type "
                r"(?:\[[^\]\n]{1,40}\]\[\d+\]\[[0-9a-fA-F]+\] XID (?P<code>\d{1,3})(?P<msg>[^\n\"]*)|'(?P<what>[^'\n]{1,120})')"
            ),
            read=_read_resource,
            examples=(
                "The resource property GPU_SXM_5 DRAM has detected errors of type 'Uncorrectable ECC Error'.",
                "The resource property GPU_2 Driver Event Message has detected errors of type [Tue Mar 03 03:14:02 UTC 2026][7][1] XID 94 Contained: SM (0x1). RST: No, D-RST: No",
                "The resource property 'GPU0 OverT' has detected errors of type 'interrupt asserted'.",
                "The resource property GPU_SXM_3 NVLink_7 has detected errors of type 'Link down'.",
            ),
            near=(
                "The resource property 'Firmware Update Service' has detected errors of type 'Invalid FW Package'.",
                "The resource property GPU_SXM_1 has detected errors of type 'No Errors'.",
                "The resource property GPU_SXM_1 has corrected errors of type 'ECC'.",
            ),
            source="DMTF, ResourceEvent registry; NVIDIA/bmcweb, NvidiaXidEventHandler",
        ),
        Pattern(
            # The sensor's name says GPU; what else is hot in the chassis is context.
            id="bmc-gpu-hot",
            needles=("oing High", "oing high"),
            regex=regex(
                r"(?:\bGPU[ _-]?\d{0,2}[ _]?(?:[A-Z]{2,4}[ _])?Temp|\bTemp\w* (?:GPU|Accelerator))\w*\b[^\n]{0,80}?\bUpper (?:Critical|Non-recoverable)[ -]+going high(?![^\n]*Deassert)",
                re.IGNORECASE,
            ),
            read=_read_hot,
            examples=(
                "   7 | 03/03/2026 | 03:20:02 | Temperature GPU5 Temp | Upper Critical going high | Asserted | Reading 94 > Threshold 93 degrees C",
                "7 | 2026/03/03 03:20:02 | GPU5 Temp | Temperature | Upper Critical - Going High | Assertion Event",
                "7,Mar-03-2026,03:20:02,GPU5 Temp,Temperature,Upper Non-recoverable - going high ; Sensor Reading = 97.00 C",
            ),
            near=(
                "   8 | 03/03/2026 | 03:25:02 | Temperature GPU5 Temp | Upper Critical going high | Deasserted",
                "   7 | 03/03/2026 | 03:20:02 | Temperature #0x71 | Upper Critical going high | Asserted",
                "   7 | 03/03/2026 | 03:20:02 | Temperature GPU5 Temp | Upper Non-critical going high | Asserted",
            ),
            source="IPMI 2.0, table 42-2, as ipmitool and ipmi-sel print it",
        ),
        Pattern(
            id="bmc-system-stopped",
            needles=("| IERR", "un-time critical stop", "un-time Critical Stop", "internal error (IERR)"),
            regex=regex(
                r"\| (?P<what>IERR|Run-time critical stop)\b(?: \(\))?(?! *\| *Deasserted)|\bhas an internal error \((?P<dell>IERR)\)",
                re.IGNORECASE,
            ),
            read=_read_watchdog,
            examples=(
                "   5 | 03/03/2026 | 03:20:02 | Processor CPU1 Status | IERR | Asserted",
                "   6 | 03/03/2026 | 03:20:04 | OS Critical Stop #0x46 | Run-time critical stop () | Asserted",
                "CPU 1 has an internal error (IERR).",
            ),
            near=(
                "   7 | 03/03/2026 | 03:24:02 | Processor CPU1 Status | IERR | Deasserted",
                "   8 | 03/03/2026 | 03:24:02 | OS Critical Stop | OS graceful shutdown | Asserted",
            ),
            source="IPMI 2.0, table 42-3 (07h, 20h), ipmitool; Dell, CPU0000",
        ),
        Pattern(
            id="bmc-ilo-restarted",
            needles=("Unexpected Shutdown and Restart", "Server Critical Fault", "Server reset due to"),
            regex=regex(
                r"(?P<what>Unexpected Shutdown and Restart|Server Critical Fault(?= \(Service Information:)|Server reset due to (?:loss of power|power loss|[Ww]atchdog))"
            ),
            read=_read_watchdog,
            examples=(
                'Caution,OS,03/03/2026 03:14,1,"Unexpected Shutdown and Restart - An undetermined error type resulted in a reboot of the server"',
                "Server Critical Fault (Service Information: Runtime Fault, System Board, Main 12V)",
            ),
            near=("Server reset by user lee.", "Server Critical Faults are listed below"),
            source="HPE, iLO Integrated Management Log messages",
        ),
        Pattern(
            id="bmc-watchdog",
            needles=("| Watchdog",),
            regex=regex(
                r"\| Watchdog ?2? [^|]{0,60}\| *(?P<what>Hard reset|Power cycle|Power down)\b(?! *\| *Deasserted)",
                re.IGNORECASE,
            ),
            read=_read_watchdog,
            examples=(
                "   9 | 03/03/2026 | 03:20:02 | Watchdog2 #0xca | Hard reset | Asserted",
                "   9 | 03/03/2026 | 03:20:02 | Watchdog 2 IPMI Watchdog | Power cycle () | Asserted",
            ),
            near=("   9 | 03/03/2026 | 03:20:02 | Watchdog2 #0xca | Timer expired () | Asserted",),
            source="IPMI 2.0, ipmitool",
        ),
    ),
)  # fmt: skip
"""Entries of a board's own event log."""
