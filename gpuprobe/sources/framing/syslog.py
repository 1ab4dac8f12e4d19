"""Syslog files and the journal's one-line formats: a time, a host, an identifier."""

from __future__ import annotations

from gpuprobe.clock import Stamp
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.framing.base import Framing, Peeled
from gpuprobe.sources.framing.times import (
    ISO,
    clock_stamp,
    epoch_stamp,
    iso_stamp,
    month_number,
)

_LEVELS = r"(?:TRACE|DEBUG|INFO|NOTICE|WARN|WARNING|ERROR|CRITICAL|FATAL|trace|debug|info|notice|warn|warning|error|critical|fatal)\b"

# The host may be missing where the identifier is beyond doubt. Words that start kernel messages
# themselves are no identifiers, though they stand before a colon.
_NO_IDENTIFIER = frozenset((
    "nvrm", "nvidia", "nvidia-modeset", "nvidia-uvm", "nvidia-drm", "nvidia-nvlink",
    "nvidia-nvswitch", "nvidia-gpu", "nvidia_uvm", "nvidia_drm", "nouveau", "novacore",
    "amdgpu", "radeon", "drm", "i915", "xe", "pcieport", "pciehp", "aer", "dpc", "pcie", "pci",
    "ghes", "edac", "mce", "xid", "sxid", "iommu", "dmar", "amd-vi", "acpi", "thunderbolt",
    "vfio-pci", "vfio", "usb", "nvme", "ata", "bug", "warning", "info", "error", "call",
    "traceback", "oom-kill", "oom_reaper", "hardware", "memory", "cpu", "rip", "code", "gpu",
    "cuda", "runtimeerror", "task", "watchdog", "traps", "perf", "xhci_hcd", "snd_hda_intel",
))  # fmt: skip
_HEAD = regex(
    r"(?P<host>(?!" + _LEVELS + r")(?:[A-Za-z0-9_][\w.:-]{0,253}(?<!:)|\.\.\.)) +"
    r"(?P<ident>(?:[A-Za-z_/.]|\((?=[^()\s]{1,60}\)))[\w.@/()+\\-]{0,127})(?:\[(?P<pid>\d{1,10})\])?:(?: |$)"
)
_BARE_HEAD = regex(
    r"(?:(?P<kernel>kernel)|(?P<ident>[A-Za-z_(/.][\w.@/()+\\-]{0,127})\[(?P<pid>\d{1,10})\]):(?: |$)"
)
_LEVEL_TAG = regex(r"<(?:kern|user|daemon|local\d|auth|syslog)\.\w{3,7}> ")

_CLOCK = r"(?P<clock>\d\d:\d\d:\d\d(?:[.,]\d{1,9})?)"
_WORD = r"(?:[^\W\d_]{3,12}\.?|\d{1,2}[月월])"
_DATE = regex(
    r"\s*(?P<raw>(?:[^\W\d_]{1,10}[.,]{0,2} +)?"
    rf"(?:(?P<month>{_WORD}) {{1,2}}(?P<day>\d{{1,2}})[日일.]?|(?P<day2>\d{{1,2}})\.? {{1,2}}(?:de )?(?P<month2>{_WORD}))"
    rf",?(?: (?P<year>\d{{4}}))? {{1,2}}{_CLOCK}(?: (?P<year2>\d{{4}})(?= ))?)(?::?\s+|$)"
)
_ISO = regex(
    rf"\s*(?P<raw>(?:[^\W\d_]{{1,10}}\.?,? )?(?P<iso>{ISO})(?: (?P<zone>[A-Z]{{2,5}}(?=[ ]))?)?)\s*(?=[^\s])"
)
_UNIX = regex(r"\s*(?P<raw>(?P<s>\d{9,10})\.(?P<fraction>\d{3,6})) (?=\S+ \S+: )")
_5424 = regex(
    r"\s*(?:<(?P<prio>\d{1,3})>)?1 (?P<stamp>-|\d{4}-\d\d-\d\dT\S{8,30}) (?P<host>\S{1,255}) (?P<app>\S{1,48})"
    r" (?P<pid>\S{1,128}) (?P<msgid>\S{1,32}) (?P<sd>-|(?:\[(?:[^\]\"\\]|\\.|\"(?:[^\"\\]|\\.)*\")*\])+)(?: |$)"
)
_KERNEL = regex(r"\s*(?P<host>(?:[A-Za-z0-9][\w.-]{0,63} )?)kernel: ")
_KERNEL_CLOCK = regex(r"\[ *\d+\.\d{6}\]")
_BOOT = regex(r"\s*-- Boot (?P<id>[0-9a-f]{32}) --")


def _host(text: str | None) -> str | None:
    return None if text in (None, "", "...", "-") else text


def behind_time(text: str, start: int, name: str, stamp: Stamp | None) -> Peeled | None:
    """Take host and identifier off what stands behind a time, or None where they are not there."""
    tag = _LEVEL_TAG.match(text, start)
    if tag is not None:
        start = tag.end()
    bare = _BARE_HEAD.match(text, start)
    if bare is not None:
        source = "kernel" if bare["kernel"] else bare["ident"]
        pid = int(bare["pid"]) if bare["pid"] else None
        return Peeled(
            text[bare.end() :], name, stamp, source=source, pid=pid, kernel=source == "kernel"
        )
    head = _HEAD.match(text, start)
    if head is None:
        return None
    ident, host = head["ident"], _host(head["host"])
    word = ident.rstrip("0123456789").lower()
    if host is not None and host.lower() in _NO_IDENTIFIER:
        return None
    if head["pid"] is None and (ident.lower() in _NO_IDENTIFIER or word in _NO_IDENTIFIER):
        # `kernel:` was left out: only the host goes.
        return Peeled(text[head.start("ident") :], name, stamp, host=host)
    return Peeled(
        text[head.end() :],
        name,
        stamp,
        host=host,
        source=ident,
        pid=int(head["pid"]) if head["pid"] else None,
        kernel=ident == "kernel",
    )


def _dated(text: str) -> Peeled | None:
    match = _DATE.match(text)
    if match is None:
        return None
    month = month_number(match["month"] or match["month2"])
    if month is None:
        return None
    year = match["year"] or match["year2"]
    stamp = clock_stamp(
        match["raw"].strip(),
        month,
        int(match["day"] or match["day2"]),
        match["clock"],
        year=int(year) if year else None,
    )
    if stamp is None:
        return None
    name = "journal-short-precise" if "." in match["clock"] else "journal-short"
    peeled = behind_time(text, match.end(), name, stamp)
    if peeled is None:
        return Peeled(text[match.end() :], "syslog-3164", stamp)
    if peeled.kernel and peeled.rest[:1] == "[" and _KERNEL_CLOCK.match(peeled.rest):
        # Only a syslog daemon that reads /dev/kmsg keeps the kernel's own clock.
        name = "syslog-3164"
        return Peeled(peeled.rest, name, stamp, peeled.host, source="kernel", kernel=True)
    return peeled


def _iso(text: str) -> Peeled | None:
    match = _ISO.match(text)
    if match is None:
        return None
    stamp = iso_stamp(match["iso"], zone_name=match["zone"], raw=match["raw"].strip())
    if stamp is None:
        return None
    name = "journal-short-iso"
    if not text.lstrip()[:1].isdecimal():
        name = "journal-short-full"
    peeled = behind_time(text, match.end(), name, stamp)
    if peeled is not None and name == "journal-short-iso" and not peeled.kernel:
        # A program may write a date and two words, too; syslog also has a zone or a pid.
        aligned = len(match[0]) - len(match[0].rstrip()) > 1
        syslog_like = stamp.wall is not None and stamp.wall.tzinfo is not None and not aligned
        if not syslog_like and peeled.pid is None:
            return None
    return peeled


def _unix(text: str) -> Peeled | None:
    match = _UNIX.match(text)
    if match is None:
        return None
    stamp = epoch_stamp(match["raw"], float(match["raw"]), match["fraction"])
    return behind_time(text, match.end(), "journal-short-unix", stamp)


def _rfc5424(text: str) -> Peeled | None:
    match = _5424.match(text)
    if match is None:
        return None
    app, pid = match["app"], match["pid"]
    prio = match["prio"]
    kernel = app == "kernel" or (prio is not None and int(prio) < 8 and app == "-")
    rest = text[match.end() :].removeprefix("\ufeff")
    return Peeled(
        rest,
        "syslog-5424",
        iso_stamp(match["stamp"]),
        host=_host(match["host"]),
        source=_host(app),
        pid=int(pid) if pid.isdecimal() else None,
        kernel=kernel,
    )


def _kernel(text: str) -> Peeled | None:
    match = _KERNEL.match(text)
    if match is None:
        return None
    return Peeled(
        text[match.end() :],
        "journal-short",
        host=_host(match["host"].strip()),
        source="kernel",
        kernel=True,
    )


def _boot(text: str) -> Peeled | None:
    match = _BOOT.match(text)
    return match and Peeled(text, "journal-short", boot_id=match["id"], final=True)


FRAMINGS = (
    Framing("syslog-5424", "<1", _rfc5424, outermost=True),
    Framing("journal-short-unix", "123456789", _unix),
    Framing("journal-short-iso", "0123456789", _iso),
    Framing("journal-short-full", "", _iso),
    Framing("syslog-3164", "0123456789", _dated),
    Framing("syslog-3164", "", _dated),
    Framing("kernel", "0123456789", _kernel),
    Framing("kernel", "", _kernel),
    Framing("boot", "-", _boot),
)
