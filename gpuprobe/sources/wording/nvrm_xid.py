"""Xids, as the kernel driver prints them in all its generations."""

from __future__ import annotations

import re

from gpuprobe.events import DeviceIdentified, Event, XidReported
from gpuprobe.identity import PciAddress
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.retyped import repaired
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.shapes import HIDDEN, SLOT, UUID, address, continued

_OPEN = "open kernel modules 515 to 595, kernel_rc.c"

_CALLER = regex(r"\s*,\s*(?P<key>pid|name)=(?P<value>'?<unknown>'?|[^,]*)")
_CAUSED_BY = regex(r"caused by previous Xid (\d+)")
_XID = regex(
    r"(?<![Ss])Xid \((?:PCI:)?"
    rf"(?P<where>{SLOT}|[0-9a-fA-FxX]{{2,8}}(?::[0-9a-fA-FxX]{{2}}){{1,2}}(?:\.[0-7xX])?|{UUID}|(?P<hidden>{HIDDEN}))"
    r"(?P<mig>(?: GPU-C?I:\d+)*)\)\s?:\s*(?P<code>\d{1,3})(?!\d)"
    r"(?P<rest>(?:(?!NVRM: ).)*)"
)
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
    if match["hidden"] and not window.record.kernel:
        return None  # a form that somebody describes
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


def _read_retyped(match: re.Match[str], window: Window) -> Reading:
    found = _XID.search(repaired(match[0]))
    return None if found is None else _read_xid(found, window)


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
        regex=_XID,
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
            "NVRM: Xid (PCI:...): 79 is what it prints",
        ),
        source=_OPEN,
    ),
    Pattern(
        id="nvrm-xid-retyped",
        needles=("NVRM", "Xid (", "Xid(", "Xld (", "Xld(", "X1d (", "X1d(", "XId (", "X|d ("),
        regex=regex(
            r"(?<![A-Za-z])X(?:[l1]d ?|[I|]d |id ?)\([^\n]{8,600}|NVRM ?[:：] ?Xid ?（[^\n]{8,600}"
        ),
        read=_read_retyped,
        examples=(
            "NVRM：Xid（PCI：0000：65：00）：79，pid=‘<unknown>’，GPU has fallen off the bus。",
            "NVRM: Xld (PC1:0000:65:00): 79, pid='<unknown>', name=<unknown>, GPU has fal1en off the bus.",
        ),
        near=("the Xid (see the catalogue): 79 is one of them", "Xid（错误码）：79"),
        source="pictures and forums of public reports",
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
