"""PCIe Advanced Error Reporting: native blocks, firmware-first blocks, recovery.

The lines of one report become one `AerReported`, built where the block's anchor line stands. The
bit tables are Linux's (drivers/pci/pcie/aer.c); the two severities use one number for different
bits, so they are kept apart.
"""

from __future__ import annotations

import re
from typing import Literal

from gpuprobe.events import (
    AerRecoveryEnded,
    AerReported,
    DeviceIdentified,
    LossHinted,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Record, Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF, DEVICE, address, lines_from

Severity = Literal["correctable", "non-fatal", "fatal"]

_LINUX = "Linux, drivers/pci/pcie/aer.c"

CORRECTABLE = {
    0: "RxErr",
    6: "BadTLP",
    7: "BadDLLP",
    8: "Rollover",
    12: "Timeout",
    13: "NonFatalErr",
    14: "CorrIntErr",
    15: "HeaderOF",
}
UNCORRECTABLE = {
    0: "Undefined",
    4: "DLP",
    5: "SDES",
    12: "TLP",
    13: "FCP",
    14: "CmpltTO",
    15: "CmpltAbrt",
    16: "UnxCmplt",
    17: "RxOF",
    18: "MalfTLP",
    19: "ECRC",
    20: "UnsupReq",
    21: "ACSViol",
    22: "UncorrIntErr",
    23: "BlockedTLP",
    24: "AtomicOpBlocked",
    25: "TLPBlockedErr",
    26: "PoisonTLPBlocked",
}

_BLOCK_LINES = 16
_ALL_ONES = 0xFFFFFFFF

_STATUS = regex(
    r"(?:error status/mask=|aer_(?:uncor_|cor_)?status: 0x)(?P<status>[0-9a-fA-F]{8})"
    r"(?:(?:/|, aer_(?:uncor_|cor_)?mask: 0x)(?P<mask>[0-9a-fA-F]{8}))?"
)
_BIT = regex(r"\[ ?(?P<bit>\d{1,2})\] +[A-Z]")
_LAYER = regex(r"aer_layer=(?P<layer>[A-Za-z ]+?), aer_agent=(?P<agent>[A-Za-z]+)")
_BUS_ERROR = regex(r"(?:PCIe|CXL) Bus Error: severity=")
_RECEIVED = regex(
    rf"(?P<port>{BDF}): AER: (?:Multiple )?(?:Corr|Uncorr)\w+(?: \((?:Non-)?Fatal\))? error (?:message )?"
    rf"received(?:: id=(?P<id>[0-9a-fA-F]{{4}})|(?: from|:) (?P<src>{BDF}))?"
)
_SEVERITY = r"(?P<sev>Correct(?:able|ed)|Uncorrect(?:able|ed) \((?:Non-)?Fatal\))"


def _severity(text: str) -> Severity:
    """Both generations' words for a severity, as this project's own."""
    lowered = text.lower()
    if "uncorrect" not in lowered:
        return "correctable"
    return "non-fatal" if "non-fatal" in lowered else "fatal"


def _agent(text: str | None) -> str:
    """`Receiver ID` as `receiver`; what is not one of the four agents as an empty text."""
    word = (text or "").split(" ")[0].lower()
    return word if word in ("receiver", "transmitter", "requester", "completer") else ""


def _names(numbers: list[int], severity: Severity) -> tuple[str, ...]:
    table = CORRECTABLE if severity == "correctable" else UNCORRECTABLE
    return tuple(dict.fromkeys(table.get(bit, f"bit{bit}") for bit in numbers))


def _set_bits(status: int, mask: int) -> list[int]:
    """Numbers of the bits that are set and not masked, which are those the kernel names."""
    return [bit for bit in range(32) if (status & ~mask) >> bit & 1]


def _block(
    match: re.Match[str], window: Window, device: str, severity: Severity
) -> tuple[tuple[str, ...], bool]:
    """Read the rest of a block: names of its bits, and whether its status read back all ones."""
    printed: list[int] = []
    decoded: list[int] = []
    for text in lines_from(match, window, _BLOCK_LINES):
        if _BUS_ERROR.search(text) or _RECEIVED.search(text):
            break
        # Lines of another device can stand between: several CPUs print at once.
        if device not in text and re.search(BDF, text):
            continue
        if status := _STATUS.search(text):
            if int(status["status"], 16) == _ALL_ONES:
                return (), True
            decoded = _set_bits(int(status["status"], 16), int(status["mask"] or "0", 16))
        elif bit := _BIT.search(text):
            printed.append(int(bit["bit"]))
    return _names(printed or decoded, severity), False


def _port(window: Window, device: PciAddress | None) -> PciAddress | None:
    """The root port whose "message received" line stands just above, if it is about `device`."""
    for record in window.before(6):
        found = _RECEIVED.search(record.message)
        if found is None:
            continue
        port, source = PciAddress.parse(found["port"]), PciAddress.try_parse(found["src"])
        if found["id"]:
            source = PciAddress.from_requester_id(int(found["id"], 16), port.domain)
        # The message can come from another function of the card, or from the port itself.
        if device is None or source is None or device in (port, source):
            return port
        return port if source.slot == device.slot else None
    return None


def _read_bus_error(match: re.Match[str], window: Window) -> Reading:
    severity = _severity(match["sev"])
    device = address(match)
    bits, all_ones = _block(match, window, match["bdf"], severity)
    layer = (match["type"] or "").strip()
    if all_ones or layer == "Unaccessible":
        layer = "Inaccessible"
    return AerReported(
        **window.base(device),
        severity=severity,
        layer=layer,
        agent=_agent(match["agent"]),
        bits=bits,
        port=_port(window, device),
        driver=match["drv"],
    )


def _about(record: Record, device: PciAddress) -> bool:
    """True when a record holds a block's anchor for a function of `device`'s slot."""
    if not _BUS_ERROR.search(record.message) and "aer_status" not in record.message:
        return False
    found = re.search(BDF, record.message)
    named = PciAddress.try_parse(found[0]) if found else None
    return named is not None and named.slot == device.slot


def _read_received(match: re.Match[str], window: Window) -> Reading:
    port = PciAddress.parse(match["bdf"])
    source = PciAddress.try_parse(match["src"])
    if match["id"]:
        source = PciAddress.from_requester_id(int(match["id"], 16), port.domain)
    source = source or port
    # Where a block follows, that block is the event: this line only says who was told.
    for record in window.after(_BLOCK_LINES):
        if _about(record, source) or _about(record, port):
            return None
        if _RECEIVED.search(record.message):
            break
    if any(_BUS_ERROR.search(line) for line in window.text[match.end() :].split("\n")):
        return None
    return AerReported(
        **window.base(source), severity=_severity(match["sev"]), port=port, driver=match["drv"]
    )


def _read_no_device(match: re.Match[str], window: Window) -> Reading:
    port = PciAddress.parse(match["bdf"])
    device = PciAddress.from_requester_id(int(match["id"], 16), port.domain)
    return LossHinted(**window.base(device), what="bridge-error")


def _severity_of_status(match: re.Match[str], window: Window) -> Severity | None:
    """Severity of a status line without its anchor, from the bits' names; None if in doubt.

    An uncorrectable bit counts as fatal where the PCIe specification's default says so.
    """
    text = " ".join(lines_from(match, window, 8))
    if re.search(r"\] +(?:SDES|Surprise Down|DLP|FCP|RxOF|MalfTLP|UncorrIntErr)", text):
        return "fatal"
    if re.search(
        r"\] +(?:CmpltTO|CmpltAbrt|UnxCmplt|ECRC|UnsupReq|ACSViol|Completion|Unsupported)", text
    ):
        return "non-fatal"
    if re.search(
        r"\] +(?:RxErr|BadTLP|BadDLLP|Rollover|Timeout|Receiver Error|Bad |RELAY|Replay)", text
    ):
        return "correctable"
    return None


def _read_status(match: re.Match[str], window: Window) -> Reading:
    device = PciAddress.parse(match["bdf"])
    for record in window.before(40):
        text = record.message
        if match["bdf"] in text and (_BUS_ERROR.search(text) or "device_id: " in text):
            return None
    if any(_BUS_ERROR.search(line) for line in window.text[: match.start()].split("\n")):
        return None
    severity = _severity_of_status(match, window)
    if match["uncor"] and severity is None:
        severity = "non-fatal"
    if severity is None:
        return None
    status = int(match["status"], 16)
    bits = _set_bits(status, int(match["mask"], 16)) if status != _ALL_ONES else []
    layer = _LAYER.search(" ".join(lines_from(match, window, _BLOCK_LINES)))
    return AerReported(
        **window.base(device),
        severity=severity,
        layer=layer["layer"] if layer else "Inaccessible" if status == _ALL_ONES else "",
        agent=_agent(layer["agent"]) if layer else "",
        bits=_names(bits, severity),
        driver=match["drv"],
        firmware_first="aer_" in match[0],
    )


_GHES = {
    "info": "correctable",
    "corrected": "correctable",
    "recoverable": "non-fatal",
    "fatal": "fatal",
}


def _read_ghes(match: re.Match[str], window: Window) -> Reading:
    mark = match["mark"] or ""
    above = [record.message for record in window.before(12)]
    above = [*window.text[: match.start()].split("\n")[::-1], *above]
    below = list(lines_from(match, window, 40))
    severity: Severity = "non-fatal"
    for text in above:
        found = re.search(
            r"(?:event severity|type|error_severity): (info|corrected|recoverable|fatal)", text
        )
        if found and mark in text:
            severity = _GHES[found[1]]  # type: ignore[assignment]
            break
    body = "\n".join(text for text in below if "[Hardware Error]" not in text or mark in text)
    body = re.split(r"section_type:|Hardware error from APEI", body)[0]
    named = re.search(rf"device_id: ({BDF})", body)
    layer = _LAYER.search(body)
    bits: tuple[str, ...] = ()
    kind = "cor" if severity == "correctable" else "uncor"
    status = re.search(
        rf"aer_(?:{kind}_)?status: 0x([0-9a-fA-F]{{8}}), aer_(?:{kind}_)?mask: 0x([0-9a-fA-F]{{8}})",
        body,
    )
    if status and int(status[1], 16) != _ALL_ONES:
        bits = _names(_set_bits(int(status[1], 16), int(status[2], 16)), severity)
    report = AerReported(
        **window.base(named[1] if named else None),
        severity=severity,
        layer=layer["layer"] if layer else "",
        agent=_agent(layer["agent"]) if layer else "",
        bits=bits,
        driver="pcieport" if re.search(r"port_type: \d+, .*\bport\b", body) else None,
        firmware_first=True,
    )
    # The block gives the function's class; a display controller is a GPU without any driver's name.
    if named and re.search(r"class_code: (?:0x)?03(?:0[012]|8)", body):
        return (DeviceIdentified(**window.base(named[1]), is_gpu=True), report)
    return report


def _read_recovery(match: re.Match[str], window: Window) -> Reading:
    what = match["what"].lower()
    outcome: Literal["recovered", "failed", "link-reset", "no-callback"]
    if "no error_detected" in what:
        outcome = "no-callback"
    elif "link has been reset" in what:
        # The number is the reset's return code; older kernels print none, and only on success.
        outcome = "link-reset" if match["code"] in (None, "0") else "failed"
    else:
        outcome = "recovered" if "success" in what else "failed"
    return AerRecoveryEnded(**window.base(match["bdf"]), outcome=outcome, driver=match["drv"])


def _read_granted(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(**window.base(match["bdf"]), key="aer-granted", value=match[0])


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="aer-bus-error",
        needles=("Bus Error: severity=",),
        regex=regex(
            rf"{DEVICE}(?:AER: )*(?:PCIe|CXL) Bus Error: severity={_SEVERITY}"
            r"(?:, type=(?P<type>[A-Za-z ]+)(?:, (?:id=[0-9a-fA-F]{4})?\(?(?P<agent>[A-Za-z ]+)\)?)?)?"
        ),
        read=_read_bus_error,
        examples=(
            "nvidia 0000:65:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            "pcieport 0000:00:1d.0: AER: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)\npcieport 0000:00:1d.0: AER:   device [8086:2030] error status/mask=00004000/00000000\npcieport 0000:00:1d.0: AER:    [14] CmpltTO                (First)",
            "pcieport 0000:00:1c.4: PCIe Bus Error: severity=Corrected, type=Physical Layer, id=00e4(Receiver ID)",
            "nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)",
        ),
        near=("SAS Bus Error: severity=high",),
        source=_LINUX,
    ),
    Pattern(
        id="aer-received",
        needles=("AER: Corr", "AER: Uncorr", "AER: Multiple "),
        regex=regex(
            rf"{DEVICE}AER: (?:Multiple )?{_SEVERITY} error (?:message )?received"
            rf"(?:: id=(?P<id>[0-9a-fA-F]{{4}})|(?: from|:) (?P<src>{BDF}))?"
        ),
        read=_read_received,
        examples=(
            "pcieport 0000:64:00.0: AER: Correctable error message received from 0000:65:00.0",
            "pcieport 0000:64:00.0: AER: Multiple Uncorrectable (Fatal) error message received from 0000:65:00.0",
            "pcieport 0000:00:1c.4: AER: Corrected error received: id=00e4",
        ),
        near=("AER: Corrections to the manual",),
        source=_LINUX,
    ),
    Pattern(
        id="aer-no-device",
        needles=("find device of ID",),
        regex=regex(rf"{DEVICE}(?:AER: )?can['\u2019]t find device of ID(?P<id>[0-9a-fA-F]{{4}})"),
        read=_read_no_device,
        examples=("pcieport 0000:64:00.0: AER: can't find device of ID6500",),
        near=("can't find device of ID 5",),
        source=_LINUX,
    ),
    Pattern(
        id="aer-status",
        needles=("error status/mask=", "aer_status: 0x"),
        regex=regex(
            rf"{DEVICE}(?:AER: )? *(?:device \[[0-9a-fA-F]{{4}}:[0-9a-fA-F]{{4}}\] error status/mask=|aer_(?P<uncor>uncor_)?status: 0x)"
            r"(?P<status>[0-9a-fA-F]{8})(?:/|, aer_mask: 0x)(?P<mask>[0-9a-fA-F]{8})"
        ),
        read=_read_status,
        examples=(
            "pcieport 0000:00:03.1:   device [8086:2030] error status/mask=00000001/00002000\npcieport 0000:00:03.1:    [ 0] RxErr",
            "nvidia 0000:e3:00.0: aer_status: 0x00004000, aer_mask: 0x00000000\nnvidia 0000:e3:00.0:    [14] CmpltTO\nnvidia 0000:e3:00.0: aer_layer=Transaction Layer, aer_agent=Requester ID",
        ),
        near=("pcieport 0000:00:03.1:   device [8086:2030] error status/mask=00000001/00002000",),
        source=_LINUX,
    ),
    Pattern(
        id="aer-ghes",
        needles=("section_type: PCIe",),
        regex=regex(r"(?P<mark>\{\d+\})?\[Hardware Error\]:\s+section_type: PCIe error"),
        read=_read_ghes,
        examples=(
            "{3}[Hardware Error]: event severity: corrected\n{3}[Hardware Error]:   section_type: PCIe error\n{3}[Hardware Error]:   device_id: 0000:e3:00.0",
        ),
        near=("{3}[Hardware Error]:   section_type: memory error",),
        source="Linux, drivers/firmware/efi/cper.c",
    ),
    Pattern(
        id="aer-recovery",
        needles=(
            "recovery failed",
            "recovery success",
            "t recover (no",
            "link has been reset",
            "device reset failed",
            "successfully recovered",
        ),
        regex=regex(
            rf"{DEVICE}(?:AER: |DPC: |EDR: )*(?P<what>[Cc]an['\u2019]t recover \(no error_detected callback\)"
            r"|[Dd]evice recovery (?:failed|successful)|DPC port (?:recovery failed|successfully recovered)"
            r"|(?:Root Port|Downstream Port|Upstream|[Dd]ownstream) link has been reset(?: \((?P<code>-?\d+)\))?"
            r"|subordinate device reset failed)"
        ),
        read=_read_recovery,
        examples=(
            "nvidia 0000:65:00.0: AER: can't recover (no error_detected callback)",
            "nvidia 0000:65:00.0: AER: can\u2019t recover (no error_detected callback)",
            "pcieport 0000:64:00.0: AER: device recovery failed",
            "pcieport 0000:64:00.0: AER: Device recovery successful",
            "pcieport 0000:64:00.0: AER: Root Port link has been reset (0)",
            "pcieport 0000:64:00.0: AER: Root Port link has been reset (-25)",
            "pcieport 0000:64:00.0: AER: subordinate device reset failed",
        ),
        near=("EXT4-fs: journal recovery failed", "eth0: link has been reset"),
        source="Linux, drivers/pci/pcie/err.c, dpc.c, edr.c",
    ),
    Pattern(
        id="aer-enabled",
        needles=("AER: enabled with IRQ",),
        regex=regex(rf"{DEVICE}AER: enabled with IRQ \d+"),
        read=_read_granted,
        examples=("pcieport 0000:64:00.0: AER: enabled with IRQ 24",),
        near=("AER: enabled with IRQ",),
        source=_LINUX,
    ),
)

FAMILY = Family("aer", PATTERNS)
