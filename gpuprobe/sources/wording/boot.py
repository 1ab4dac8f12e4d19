"""A machine's boots: how one starts, how it ends, and signs that one ended without a shutdown."""

from __future__ import annotations

import re
from collections.abc import Callable

from gpuprobe.events import (
    BootStarted,
    Event,
    HostFaulted,
    PowerReported,
    ShutdownStarted,
    SystemDescribed,
    UncleanEndFound,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import unsafe_shutdowns
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_LAPTOP = regex(
    r"ThinkPad|ThinkBook|IdeaPad|Laptop|Notebook|Latitude|Inspiron 1[3-7]|XPS 1[3-7]|Vostro 1[3-7]"
    r"|Precision (?:[357][3-7][0-9]0\b|M\d{4})|MacBook|Zephyrus|ROG Strix G\d|TUF Gaming [AF]1[5-8]"
    r"|Blade 1[4-8]|ZBook|EliteBook|ProBook|Pavilion .*Laptop|OMEN .*Laptop|Predator (?:Helios|Triton)"
    r"|Nitro AN|Legion (?:Pro )?\d|Raider|Stealth|VivoBook|ZenBook|Galaxy Book|TUXEDO (?:Pulse|Stellaris|InfinityBook)",
    re.IGNORECASE,
)
_VIRTUAL = regex(
    r"QEMU|KVM|VMware|VirtualBox|innotek|Xen|Amazon EC2|Google Compute Engine|Virtual Machine|OpenStack|Bochs|Parallels|Nutanix AHV",
    re.IGNORECASE,
)


def _read_linux_version(match: re.Match[str], window: Window) -> Reading:
    kernel = match["kernel"]
    events: list[Event] = [SystemDescribed(**window.base(), key="kernel", value=kernel)]
    if "microsoft" in kernel.lower():
        events.append(SystemDescribed(**window.base(), key="wsl", value=kernel))
    # /proc/version reads the same words out of a running system; a kernel that starts prints its
    # command line next.
    starts = window.record.framed or any(
        "ommand line: " in record.message for record in window.after(3)
    )
    if starts:
        events.append(BootStarted(**window.base(), kernel=kernel))
    return events


def _read_journal_boot(match: re.Match[str], window: Window) -> Reading:
    return BootStarted(**window.base(), boot_id=match["id"])


def _read_shutdown(match: re.Match[str], window: Window) -> Reading:
    return ShutdownStarted(**window.base())


def _unclean(what: str) -> Callable[[re.Match[str], Window], Reading]:
    """A reader that gives `UncleanEndFound(what)` with the matched words as its detail."""

    def read(match: re.Match[str], window: Window) -> Reading:
        return UncleanEndFound(
            **window.base(), what=what, detail=match.groupdict().get("detail") or match[0]
        )

    return read


def _read_reset_reason(match: re.Match[str], window: Window) -> Reading:
    # A restart that software asked for is no unclean end.
    if re.search(r"software|ACPI power state transition|power state transition", match["detail"]):
        return None
    return UncleanEndFound(**window.base(), what="reset-reason", detail=match["detail"].strip())


def _read_panic(match: re.Match[str], window: Window) -> Reading:
    detail = match["linux"] or match["darwin"]
    if "sysrq triggered" in detail:
        return None  # somebody asked for it
    return UncleanEndFound(**window.base(), what="panic", detail=detail.strip())


def _read_bert(match: re.Match[str], window: Window) -> Reading:
    if not any("severity: fatal" in record.message for record in window.after(3)):
        return None
    return UncleanEndFound(**window.base(), what="bert", detail="a fatal hardware error")


def _read_sleep(match: re.Match[str], window: Window) -> Reading:
    up = re.search(r"exit|Waking|returned", match[0])
    return HostFaulted(**window.base(), what="resume" if up else "suspend")


def _read_bmc(match: re.Match[str], window: Window) -> Reading:
    if match["detail"]:
        return UncleanEndFound(**window.base(), what="bmc", detail=match["detail"])
    return PowerReported(**window.base(), what="supply", gpu=False)


def _read_dmi(match: re.Match[str], window: Window) -> Reading:
    value = match["value"].strip()
    events: list[Event] = [SystemDescribed(**window.base(), key="chassis", value=value)]
    if _VIRTUAL.search(value):
        events.append(SystemDescribed(**window.base(), key="vm", value=value))
    elif found := _LAPTOP.search(value):
        events.append(SystemDescribed(**window.base(), key="laptop", value=found[0]))
    return events


def _read_vm(match: re.Match[str], window: Window) -> Reading:
    value = match["value"].strip().rstrip(".")
    key = "wsl" if value == "wsl" else "vm"
    return SystemDescribed(**window.base(), key=key, value=value)


def _read_laptop(match: re.Match[str], window: Window) -> Reading:
    return SystemDescribed(**window.base(), key="laptop", value=match[0])


PATTERNS: tuple[Pattern, ...] = (
    Pattern(
        id="linux-version",
        needles=("Linux version ",),
        regex=regex(r"\bLinux version (?P<kernel>\d+\.\d+\S*) \("),
        read=_read_linux_version,
        examples=(
            "Linux version 6.8.0-79-generic (buildd@lcy02) (x86_64-linux-gnu-gcc-13) #79-Ubuntu SMP",
        ),
        near=("needs Linux version 5.4 or later",),
        source="Linux, init/version.c",
    ),
    Pattern(
        id="journal-boot",
        needles=("-- Boot ", "-- Reboot --"),
        regex=regex(r"-- (?:Boot (?P<id>[0-9a-f]{32})|Reboot) --"),
        read=_read_journal_boot,
        examples=("-- Boot 3f9a0c5d1b2e4f60718293a4b5c6d7e8 --", "-- Reboot --"),
        near=("-- Boot menu --",),
        source="systemd, journalctl",
    ),
    Pattern(
        id="shutdown",
        needles=(
            "Reached target shutdown",
            "Reached target reboot",
            "Reached target poweroff",
            "Reached target halt",
            "Reached target Shutdown",
            "Reached target Reboot",
            "Reached target Power",
            "Reached target Halt",
            "Reached target System",
            "The system will ",
            "System is rebooting",
            "System is powering down",
            "System is halting",
            "Power key pressed",
            "reboot: ",
            "systemd-shutdown",
            "shutting down for system",
        ),
        regex=regex(
            r"Reached target (?:shutdown\.target|reboot\.target|poweroff\.target|halt\.target"
            r"|(?:System )?(?:Shutdown|Reboot|Power[- ]?Off|Halt)\b)"
            r"|The system will (?:reboot|power off|halt|kexec)(?: now)?!?|System is (?:rebooting|powering down|halting)"
            r"|Power key pressed(?! long)|\breboot: (?:Restarting system|Power down|System halted|machine restart)"
            r"|systemd-shutdown\[\d+\]: |shutting down for system (?:reboot|halt|power)"
        ),
        read=_read_shutdown,
        examples=(
            "Reached target shutdown.target - System Shutdown.",
            "Reached target Reboot.",
            "Reached target System Power Off.",
            "The system will reboot now!",
            "System is powering down.",
            "Power key pressed.",
            "reboot: Restarting system",
        ),
        near=("Reached target System Time Synchronized.", "The system will suspend now!"),
        source="systemd; Linux, kernel/reboot.c",
    ),
    Pattern(
        id="unclean-journal",
        needles=("uncleanly shut down",),
        regex=regex(r"(?:corrupted or )?uncleanly shut down, (?:renaming and )?replacing"),
        read=_unclean("journal"),
        examples=(
            "File /var/log/journal/0a1b/system.journal corrupted or uncleanly shut down, renaming and replacing.",
        ),
        near=("if a service was uncleanly shut down",),
        source="systemd-journald",
    ),
    Pattern(
        id="unclean-filesystem",
        needles=(
            "recovering journal",
            "Dirty bit is set",
            "ecovery required on readonly",
            "Starting recovery (logdev",
            "not properly unmounted",
            "start tree-log replay",
            "not cleanly unmounted",
            "): recovery complete",
        ),
        regex=regex(
            r"recovering journal|Dirty bit is set|[Rr]ecovery required on readonly|Starting recovery \(logdev"
            r"|[Vv]olume was not properly unmounted|start tree-log replay|was not cleanly unmounted"
            r"|EXT[34]-fs \([^()\s]+\): recovery complete"
        ),
        read=_unclean("filesystem"),
        examples=(
            "/dev/nvme0n1p2: recovering journal",
            "EXT4-fs (nvme0n1p2): INFO: recovery required on readonly filesystem",
            "XFS (sda3): Starting recovery (logdev: internal)",
            "FAT-fs (nvme0n1p1): Volume was not properly unmounted. Some data may be corrupt. Please run fsck.",
            "EXT4-fs (nvme0n1p2): recovery complete",
        ),
        near=(
            "EXT4-fs (nvme0n1p2): mounted filesystem with ordered data mode",
            "backup (nightly): recovery complete",
        ),
        source="e2fsck, ext4, xfs, fat, btrfs",
    ),
    Pattern(
        id="reset-reason",
        needles=("revious system reset reason",),
        regex=regex(r"[Pp]revious system reset reason \[0x[0-9a-fA-F]+\]: (?P<detail>.+)"),
        read=_read_reset_reason,
        examples=(
            "x86/amd: Previous system reset reason [0x08000800]: an uncorrected error caused a data fabric sync flood event",
        ),
        near=(
            "x86/amd: Previous system reset reason [0x00080000]: software wrote 0x6 to reset control register 0xCF9",
        ),
        source="Linux 6.16, arch/x86/kernel/cpu/amd.c",
    ),
    Pattern(
        id="kernel-panic",
        needles=("Kernel panic - not syncing: ", "panic(cpu "),
        regex=regex(
            r"(?<!end )Kernel panic - not syncing: (?P<linux>[^\n]{1,160})"
            r"|\bpanic\(cpu \d+ caller 0x[0-9a-f]+\): (?P<darwin>[^\n]{1,160})"
        ),
        read=_read_panic,
        examples=(
            "Kernel panic - not syncing: Fatal exception in interrupt",
            'panic(cpu 3 caller 0xffffff80123a4b5c): "AppleThunderboltNHI: link lost"',
        ),
        near=(
            "---[ end Kernel panic - not syncing: Fatal exception in interrupt ]---",
            "Kernel panic - not syncing: sysrq triggered crash",
        ),
        source="Linux, kernel/panic.c; XNU, osfmk/kern/debug.c",
    ),
    Pattern(
        id="bert",
        needles=("Error records from previous boot",),
        regex=regex(r"BERT: Error records from previous boot"),
        read=_read_bert,
        examples=(
            "BERT: Error records from previous boot:\n[Hardware Error]: event severity: fatal",
        ),
        near=(
            "BERT: Error records from previous boot:\n[Hardware Error]: event severity: corrected",
        ),
        source="Linux, drivers/acpi/apei/bert.c",
    ),
    Pattern(
        id="last-crash",
        needles=("- crash",),
        regex=regex(r"- crash\s{1,8}\(\d[\d+:]*\)"),
        read=_unclean("last-crash"),
        examples=("lee      pts/0        192.0.2.7        Tue Mar  3 20:14 - crash  (02:11)",),
        near=("known issues - crash (on start)",),
        source="util-linux, last(1)",
    ),
    Pattern(
        id="windows-unclean",
        needles=("without cleanly shutting down", "was unexpected"),
        regex=regex(
            r"rebooted without cleanly shutting down first|previous system shutdown at .{4,40} was unexpected"
        ),
        read=_unclean("reset-reason"),
        examples=(
            "The system has rebooted without cleanly shutting down first.",
            "The previous system shutdown at 8:14:02 PM on 3/3/2026 was unexpected.",
        ),
        near=("the answer was unexpected",),
        source="Windows events Kernel-Power 41, EventLog 6008",
    ),
    unsafe_shutdowns.PATTERN,
    Pattern(
        id="bmc-power-lost",
        needles=(
            "AC lost",
            "Power off/down",
            "input for power supply",
            "ower supply redundancy",
            "Power Supply ",
            "Power supply ",
        ),
        regex=regex(
            r"Power Unit .{0,40}?\| ?(?P<detail>AC lost|Power off/down)(?! *\| *Deasserted)"
            r"|Power Supply .{0,40}?\| ?(?:Power Supply )?(?:AC lost|Failure detected)(?! *\| *Deasserted)"
            r"|\bPower [Ss]upply \d+ (?:has )?[Ff]ailed\b|\bSystem Power Supply Failure \(Power Supply \d+\)"
            r"|[Tt]he power input for power supply \d+ is lost|[Pp]ower supply redundancy is lost"
        ),
        read=_read_bmc,
        examples=(
            "   4 | 03/03/2026 | 20:14:02 | Power Unit #0x01 | AC lost | Asserted",
            "   5 | 03/03/2026 | 20:14:02 | Power Supply #0x51 | Power Supply AC lost | Asserted",
            "The power input for power supply 1 is lost.",
            "   5 | 03/03/2026 | 20:14:02 | Power Supply PS1 Status | Failure detected () | Asserted",
            "Power Supply 2 has Failed.",
            "Caution  Power  System Power Supply Failure (Power Supply 2)",
        ),
        near=(
            "which power supply do you use?",
            "   6 | 03/03/2026 | 20:16:02 | Power Supply #0x51 | Power Supply AC lost | Deasserted",
        ),
        source="ipmitool sel elist, Dell iDRAC, Lenovo XCC, HPE iLO",
    ),
    Pattern(
        id="suspend",
        needles=(
            "PM: suspend ",
            "PM: hibernation",
            "Waking up from system sleep",
            "system will suspend",
            "Entering sleep state",
            "System returned from sleep",
            "PM: Preparing system for sleep",
        ),
        regex=regex(
            r"PM: (?:suspend|hibernation:?) (?:entry|exit)|PM: Preparing system for sleep"
            r"|Waking up from system sleep state|The system will suspend now|Entering sleep state"
            r"|System returned from sleep"
        ),
        read=_read_sleep,
        examples=(
            "PM: suspend entry (deep)",
            "PM: suspend exit",
            "ACPI: PM: Waking up from system sleep state S3",
        ),
        near=("PM: suspend is not supported",),
        source="Linux, kernel/power; systemd-sleep",
    ),
    Pattern(
        id="dmi",
        needles=("DMI: ",),
        regex=regex(r"\bDMI: (?P<value>[^,\n]{3}[^\n]{0,300}?, BIOS .*)"),
        read=_read_dmi,
        examples=(
            "DMI: Acme Corp. Station 7/0ABC12, BIOS 2.1 01/02/2025",
            "DMI: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.3 04/01/2014",
            "DMI: LENOVO 20YQ/20YQ, ThinkPad P15, BIOS N37ET49W (1.30 ) 11/15/2023",
        ),
        near=("DMI: no table",),
        source="Linux, drivers/firmware/dmi_scan.c",
    ),
    Pattern(
        id="hypervisor",
        needles=("ypervisor detected: ", "Detected virtualization "),
        regex=regex(r"(?:Hypervisor detected: |Detected virtualization )(?P<value>[\w -]+\.?)"),
        read=_read_vm,
        examples=("Hypervisor detected: KVM", "Detected virtualization wsl."),
        near=("Detected virtualization: ",),
        source="Linux, arch/x86/kernel/cpu/hypervisor.c; systemd",
    ),
    Pattern(
        id="laptop",
        needles=(
            "Slot [BAT",
            "Type: Notebook",
            "Type: Laptop",
            "Type: Portable",
            "Type: Convertible",
        ),
        regex=regex(
            r"[Bb]attery:? Slot \[BAT\d\] \(battery present\)|Type: (?:Notebook|Laptop|Portable|Convertible)\b"
        ),
        read=_read_laptop,
        examples=("ACPI: battery: Slot [BAT0] (battery present)", "Type: Notebook"),
        near=("ACPI: battery: Slot [BAT0] (battery absent)",),
        source="Linux, drivers/acpi/battery.c; dmidecode",
    ),
)

FAMILY = Family("boot", PATTERNS)
