"""Hot-plug ports, Downstream Port Containment and the link below a port."""

from __future__ import annotations

import re

from gpuprobe.events import (
    DpcTriggered,
    LinkStateReported,
    SlotChanged,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.shapes import BDF, DEVICE, address, lines_from

_SLOT_WORDS = (
    ("link down/up ignored", "ignored"),
    ("link down", "link-down"),
    ("link up", "link-up"),
    ("card not present", "card-not-present"),
    ("card present", "card-present"),
    ("already disabled", "already-disabled"),
    ("power fault", "power-fault"),
    ("no device found", "no-device"),
    ("cannot train link", "no-device"),
    ("powering off due to button press", "powering-off"),
    ("button", "attention-button"),
)

_CONTAINED = regex(rf"(?P<bdf>{BDF}): DPC: containment event")
_REASON = regex(
    r"(?P<why>unmasked uncorrectable error|ERR_NONFATAL|ERR_FATAL|RP PIO error|software trigger|reserved error)"
)
_SENDER = regex(rf"received from ({BDF})")


def _contained_before(window: Window, device: str, lines: int) -> bool:
    """True when the same port's containment line stands within `lines` records above."""
    for record in window.before(lines):
        found = _CONTAINED.search(record.message)
        if found and found["bdf"] == device:
            return True
    return False


def _read_containment(match: re.Match[str], window: Window) -> Reading:
    port = PciAddress.parse(match["bdf"])
    reason, sender = "", None
    if match["source"]:
        source = int(match["source"], 16)
        sender = PciAddress.from_requester_id(source, port.domain) if source else None
    for text in lines_from(match, window, 3):
        # The rest of the anchor's own line has no address of the port in it.
        if text and re.search(rf"{BDF}: ", text) and f"{match['bdf']}: DPC" not in text:
            continue
        if found := _REASON.search(text):
            reason = found["why"]
            named = _SENDER.search(text)
            sender = PciAddress.try_parse(named[1]) if named else sender
            break
    return DpcTriggered(**window.base(port), sender=sender, reason=reason)


def _read_reason(match: re.Match[str], window: Window) -> Reading:
    if _contained_before(window, match["bdf"], 12) or _CONTAINED.search(window.text):
        return None
    sender = _SENDER.search(window.text[match.end() :])
    return DpcTriggered(
        **window.base(match["bdf"]),
        sender=PciAddress.try_parse(sender[1]) if sender else None,
        reason=match["why"],
    )


def _read_edr(match: re.Match[str], window: Window) -> Reading:
    for text in lines_from(match, window, 6):
        found = _CONTAINED.search(text)
        if found and found["bdf"] == match["bdf"]:
            return None
    return DpcTriggered(**window.base(match["bdf"]), reason="EDR")


def _read_slot(match: re.Match[str], window: Window) -> Reading:
    slot = match["slot"] or match["slot2"]
    words = (match["what"] or match["what2"]).lower()
    for text, what in _SLOT_WORDS:
        if words.startswith(text) or (what == "attention-button" and text in words):
            return SlotChanged(**window.base(match["bdf"] or match["old"]), slot=slot, what=what)
    return None


def _read_service(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(**window.base(match["bdf"]), key="hotplug-port", value=match["value"])


def _read_active(match: re.Match[str], window: Window) -> Reading:
    what = "inactive" if match["what"] == "set" else "active"
    return LinkStateReported(**window.base(match["bdf"]), what=what)


def _read_check_link(match: re.Match[str], window: Window) -> Reading:
    return LinkStateReported(**window.base(match["bdf"]), what="inactive")


def _read_retrain(match: re.Match[str], window: Window) -> Reading:
    if match["what"].startswith("removing"):
        return LinkStateReported(**window.base(match["bdf"]), what="active")
    if match["what"] == "retraining failed":
        return LinkStateReported(**window.base(match["bdf"]), what="retrain-failed")
    return LinkStateReported(**window.base(match["bdf"]), what="retraining", speed_gts=2.5)


def _read_bandwidth(match: re.Match[str], window: Window) -> Reading:
    return LinkStateReported(
        **window.base(match["bdf"]),
        what="limited",
        speed_gts=float(match["speed"]),
        width=int(match["width"]),
        max_speed_gts=float(match["max_speed"]) if match["max_speed"] else None,
        max_width=int(match["max_width"]) if match["max_width"] else None,
        limited_by=address(match, "hop"),
    )


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="dpc-containment",
        needles=("DPC: containment event",),
        regex=regex(
            rf"{DEVICE}DPC: containment event(?:, status:0x[0-9a-fA-F]+)?(?:,? source:(?P<source>0x[0-9a-fA-F]+))?"
        ),
        read=_read_containment,
        examples=(
            "pcieport 0000:64:00.0: DPC: containment event, status:0x1f01 source:0x6500",
            "pcieport 0000:64:00.0: DPC: containment event, status:0x1f05, ERR_FATAL received from 0000:65:00.0",
            "pcieport 0000:64:00.0: DPC: containment event, status:0x1f01: unmasked uncorrectable error detected",
        ),
        near=("DPC: containment events are counted",),
        source="Linux, drivers/pci/pcie/dpc.c",
    ),
    Pattern(
        id="dpc-reason",
        needles=("DPC: unmasked", "DPC: ERR_", "DPC: RP PIO", "DPC: software", "DPC: reserved"),
        regex=regex(
            rf"{DEVICE}DPC: (?P<why>unmasked uncorrectable error|ERR_NONFATAL|ERR_FATAL|RP PIO error|software trigger|reserved error)"
        ),
        read=_read_reason,
        examples=("pcieport 0000:64:00.0: DPC: ERR_FATAL detected",),
        near=("DPC: software is not found",),
        source="Linux, drivers/pci/pcie/dpc.c",
    ),
    Pattern(
        id="dpc-rp-pio",
        needles=("Request received", "Request Completion Timeout"),
        regex=regex(
            rf"{DEVICE}(?:DPC: )?\[ ?\d{{1,2}}\] (?P<why>(?:Configuration|I/O|Memory) Request (?:received (?:UR|CA) Completion|Completion Timeout))"
        ),
        read=_read_reason,
        examples=("pcieport 0000:64:00.0: DPC: [18] Memory Request Completion Timeout (First)",),
        near=("http: Request received from client",),
        source="Linux, drivers/pci/pcie/dpc.c",
    ),
    Pattern(
        id="dpc-edr",
        needles=("EDR event received",),
        regex=regex(rf"{DEVICE}(?:EDR: |DPC: )*EDR event received"),
        read=_read_edr,
        examples=("pcieport 0000:64:00.0: EDR: EDR event received",),
        near=("agent: EDR event received",),
        source="Linux, drivers/pci/pcie/edr.c",
    ),
    Pattern(
        id="pciehp-slot",
        needles=("pciehp", "shpchp"),
        regex=regex(
            rf"(?:(?P<bdf>{BDF}): )?(?:pciehp|shpchp)(?: (?P<old>{BDF})[^ ]*)?: "
            r"(?:[Ss]lot\((?P<slot>[^)]{1,20})\): (?P<what>[A-Z].*)"
            r"|(?P<what2>Card (?:not )?present|Power fault|Link Down|Link Up) on Slot\((?P<slot2>[^)]{1,20})\))"
        ),
        read=_read_slot,
        examples=(
            "pcieport 0000:64:00.0: pciehp: Slot(4): Link Down",
            "pcieport 0000:64:00.0: pciehp: Slot(0-1): Card not present",
            "pcieport 0000:64:00.0: pciehp: Slot(272): Link Down/Up ignored (recovered by DPC)",
            "pciehp 0000:00:1c.4:pcie004: slot(4): Link Down event",
            "pciehp 0000:00:1c.4:pcie004: Card not present on Slot(4)",
            "pcieport 0000:64:00.0: pciehp: Slot(4): Attention button pressed",
            "pcieport 0000:64:00.0: pciehp: Slot(4): Powering off due to button press",
        ),
        near=(
            "pciehp: PCI Express Hot Plug Controller Driver version: 0.4",
            "pcieport 0000:64:00.0: pciehp: Slot(4): Already enabled",
        ),
        source="Linux, drivers/pci/hotplug/pciehp_ctrl.c",
    ),
    Pattern(
        id="pciehp-service",
        needles=("pciehp: Slot #",),
        regex=regex(rf"{DEVICE}pciehp: (?P<value>Slot #\d+ .*)"),
        read=_read_service,
        examples=(
            "pcieport 0000:64:00.0: pciehp: Slot #4 AttnBtn- PwrCtrl- MRL- HotPlug+ Surprise+",
        ),
        near=("pciehp: Slot # unknown",),
        source="Linux, drivers/pci/hotplug/pciehp_hpc.c",
    ),
    Pattern(
        id="pciehp-check-link",
        needles=("check link status",),
        regex=regex(rf"{DEVICE}pciehp: (?:Slot\([^)]*\): )?Failed to check link status"),
        read=_read_check_link,
        examples=("pcieport 0000:64:00.0: pciehp: Failed to check link status",),
        near=("eth0: check link status",),
        source="Linux, drivers/pci/hotplug/pciehp_ctrl.c",
    ),
    Pattern(
        id="link-active",
        needles=("Link Active not",),
        regex=regex(
            rf"{DEVICE}(?:DPC: |pciehp: )?Data Link Layer Link Active not (?P<what>set|cleared) in \d+ msec"
        ),
        read=_read_active,
        examples=("pcieport 0000:64:00.0: Data Link Layer Link Active not set in 1000 msec",),
        near=("Data Link Layer Link Active not known",),
        source="Linux, drivers/pci/pci.c",
    ),
    Pattern(
        id="link-retrain",
        needles=("broken device, retraining", "retraining failed", "link speed restriction"),
        regex=regex(
            rf"{DEVICE}(?P<what>broken device, retraining|retraining failed|removing 2\.5GT/s downstream link speed restriction)"
        ),
        read=_read_retrain,
        examples=(
            "pcieport 0000:64:00.0: broken device, retraining non-functional downstream link at 2.5GT/s",
            "pcieport 0000:64:00.0: retraining failed",
        ),
        near=("model retraining failed",),
        source="Linux, drivers/pci/quirks.c",
    ),
    Pattern(
        id="link-bandwidth",
        needles=("available PCIe bandwidth",),
        regex=regex(
            rf"{DEVICE}[\d.]+ Gb/s available PCIe bandwidth, limited by (?P<speed>[\d.]+) ?GT/s(?: PCIe)? x(?P<width>\d+) link"
            rf"(?: at (?P<hop>{BDF}))?(?: \(capable of [\d.]+ Gb/s with (?P<max_speed>[\d.]+) ?GT/s(?: PCIe)? x(?P<max_width>\d+))?"
        ),
        read=_read_bandwidth,
        examples=(
            "nvidia 0000:65:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x4 link at 0000:64:00.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
        ),
        near=(
            "mlx5_core 0000:3b:00.0: 126.016 Gb/s available PCIe bandwidth (16.0 GT/s PCIe x8 link)",
        ),
        source="Linux, drivers/pci/pci.c",
    ),
)

FAMILY = Family("pciehp", PATTERNS)
