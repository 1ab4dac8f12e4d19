"""Boots, and NVIDIA's components beside NVRM: what their lines say, field by field."""

from __future__ import annotations

import pytest
from _windows import events_of

from gpuprobe.events import (
    AdapterInitFailed,
    BootStarted,
    Event,
    GpuLostReported,
    GpuMemoryCounted,
    HostFaulted,
    LossHinted,
    NvmlReturned,
    OtherFailed,
    PowerReported,
    ShutdownStarted,
    SxidReported,
    SystemDescribed,
    UncleanEndFound,
)
from gpuprobe.identity import PciAddress
from gpuprobe.sources.wording import boot, nvidia_other


def one(module: object, text: str) -> Event:
    (event,) = events_of(module.FAMILY, text)  # type: ignore[attr-defined]
    return event


@pytest.mark.parametrize(
    ("tail", "fatal", "link"),
    [
        ("Non-fatal, Link 31 Minion Link DLREQ interrupt", False, 31),
        ("Fatal, Link 12 LTSSM Fault Up", True, 12),
        ("Data {0x0000002b, 0x0000002b}", None, None),
        ("Severity 0 Engine instance 44 Sub-engine instance 00", None, None),
    ],
)
def test_sxid_severity_only_where_a_line_says_it(
    tail: str, fatal: bool | None, link: int | None
) -> None:
    """Only the words Fatal and Non-fatal decide; data lines say neither."""
    event = one(nvidia_other, f"nvidia-nvswitch1: SXid (PCI:0000:86:00.0): 22013, {tail}")

    assert isinstance(event, SxidReported)
    assert (22013, fatal, link) == (event.code, event.fatal, event.link)
    assert event.device == PciAddress.parse("0000:86:00.0")


@pytest.mark.parametrize(
    ("text", "what", "count"),
    [
        ("Detected 2 volatile double-bit ECC error(s) in GPU 3.", "uncorrectable", 2),
        ("GPU 3 had uncorrectable memory errors and row remapping failed.", "remap-failed", 1),
        ("GPU 3 had memory errors and row remappings are pending", "remap-pending", 1),
        ("A pending retired page has been detected in GPU 3.", "remap-pending", 1),
    ],
)
def test_dcgm_on_memory(text: str, what: str, count: int) -> None:
    """A health check's row counts like what nvidia-smi prints of the same."""
    event = one(nvidia_other, text)

    assert isinstance(event, GpuMemoryCounted)
    assert (what, count) == (event.what, event.value)


def test_drm_gpu_id_is_an_address() -> None:
    """The GPU id's second byte is the bus."""
    event = one(
        nvidia_other,
        "[drm:nv_drm_atomic_commit [nvidia_drm]] *ERROR* [nvidia-drm] [GPU ID 0x00006500] Failed to apply atomic modeset.  Error code: -22",
    )

    assert isinstance(event, OtherFailed)
    assert event.device == PciAddress.parse("0000:65:00.0")


def test_modeset_lost() -> None:
    """Status 0x0000000f in a display line is the loss seen from the display side."""
    event = one(
        nvidia_other,
        "nvidia-modeset: ERROR: GPU:0: Failed to query display engine channel state: 0x0000ca7e:0:0:0x0000000f",
    )

    assert isinstance(event, LossHinted)
    assert event.what == "modeset-lost"


def test_persistenced_failure() -> None:
    """A GPU that cannot be opened at boot did not come up."""
    event = one(nvidia_other, "nvidia-persistenced: device 0000:65:00.0 - failed to open.")

    assert isinstance(event, AdapterInitFailed)
    assert event.device == PciAddress.parse("0000:65:00.0")


def test_nvml_numbers() -> None:
    """15 is a loss, 999 an error, 3 and 10 are normal."""
    lost = one(nvidia_other, "nvmlDeviceGetPowerUsage returned 15 for gpuId 2")
    unknown = one(nvidia_other, "nvmlDeviceGetTemperature failed with error 999")

    assert isinstance(lost, GpuLostReported)
    assert (lost.by, lost.index) == ("nvml", 2)
    assert isinstance(unknown, NvmlReturned)
    assert (unknown.code, unknown.name) == (999, "UNKNOWN")
    assert events_of(nvidia_other.FAMILY, "nvmlEventSetWait returned 10") == []


def test_boot_of_a_kernel_log() -> None:
    """A framed version line starts a boot; the same words out of /proc/version do not."""
    line = "Linux version 6.8.0-79-generic (b@h) (gcc) #79-Ubuntu SMP"
    framed = events_of(boot.FAMILY, line)
    read_later = events_of(boot.FAMILY, line, framing="text")
    console = events_of(boot.FAMILY, f"{line}\nCommand line: root=/dev/sda1", framing="text")

    assert [e.kernel for e in framed if isinstance(e, BootStarted)] == ["6.8.0-79-generic"]
    assert not any(isinstance(event, BootStarted) for event in read_later)
    assert any(isinstance(event, BootStarted) for event in console)


def test_journal_boot_line() -> None:
    """The boot id is kept."""
    event = one(boot, "-- Boot 3f9a0c5d1b2e4f60718293a4b5c6d7e8 --")

    assert isinstance(event, BootStarted)
    assert event.boot_id == "3f9a0c5d1b2e4f60718293a4b5c6d7e8"


@pytest.mark.parametrize(
    "line",
    [
        "The system will reboot now!",
        "reboot: Power down",
        "Reached target Power-Off.",
        "systemd-shutdown[1]: Syncing filesystems and block devices.",
    ],
)
def test_shutdown(line: str) -> None:
    """An orderly end is known."""
    assert isinstance(one(boot, line), ShutdownStarted)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            "File /var/log/journal/a/user-1000.journal corrupted or uncleanly shut down, renaming and replacing.",
            "journal",
        ),
        ("/dev/sda2: recovering journal", "filesystem"),
        (
            "x86/amd: Previous system reset reason [0x08000800]: an uncorrected error caused a data fabric sync flood event",
            "reset-reason",
        ),
        ("lee pts/0 192.0.2.7 Tue Mar  3 20:14 - crash  (02:11)", "last-crash"),
        ("4 | 03/03/2026 | 20:14:02 | Power Unit #0x01 | AC lost | Asserted", "bmc"),
    ],
)
def test_unclean_end(line: str, what: str) -> None:
    """Signs of an end without a shutdown name their kind."""
    event = one(boot, line)

    assert isinstance(event, UncleanEndFound)
    assert event.what == what


def test_unsafe_shutdowns_must_rise() -> None:
    """One reading of a lifetime counter, or two equal ones, is no sign."""
    name = "/dev/nvme0n1: "
    assert events_of(boot.FAMILY, f"{name}Unsafe Shutdowns: 41\n{name}Unsafe Shutdowns: 41") == []
    event = one(boot, f"{name}Unsafe Shutdowns: 41\n{name}Unsafe Shutdowns: 43")
    assert isinstance(event, UncleanEndFound)
    assert event.detail == "unsafe shutdowns 41 -> 43"


def nvme_log(name: str, count: str) -> str:
    return (
        f"Smart Log for NVME device:{name} namespace-id:ffffffff\ncritical_warning : 0\n"
        f"power_cycles : 812\nunsafe_shutdowns : {count}\nmedia_errors : 0\n"
    )


def smartctl(serial: str, count: str) -> str:
    return f"Model Number:   Example SSD\nSerial Number:  {serial}\nUnsafe Shutdowns:  {count}\n"


@pytest.mark.parametrize(
    "text",
    [
        nvme_log("nvme0", "41") + nvme_log("nvme1", "42"),
        smartctl("S4EWNX0R1", "41") + smartctl("S4EWNX0R2", "42"),
        smartctl("S4EWNX0R1", "41") + nvme_log("nvme0", "42"),
        smartctl("[REDACTED]", "41") + smartctl("[REDACTED]", "42"),
        "Unsafe Shutdowns: 41\nUnsafe Shutdowns: 42",
        nvme_log("nvme0", "41") + "Unsafe Shutdowns: 42",
        nvme_log("nvme0", "42") + nvme_log("nvme1", "41") + nvme_log("nvme0", "42"),
    ],
)
def test_counts_of_several_drives_are_no_rise(text: str) -> None:
    """41 of one and 42 of the next; nor where it is not said which drive is meant."""
    assert events_of(boot.FAMILY, text) == []


@pytest.mark.parametrize(
    "text",
    [
        nvme_log("nvme0", "41") + nvme_log("nvme1", "7") + nvme_log("nvme0", "42"),
        nvme_log("nvme0n1", "41") + nvme_log("nvme0", "42"),
        smartctl("S4EWNX0R1", "41") + smartctl("S4EWNX0R2", "7") + smartctl("S4EWNX0R1", "42"),
    ],
)
def test_a_rise_is_found_past_another_drive(text: str) -> None:
    """All drives of a machine, read before and after."""
    (event,) = events_of(boot.FAMILY, text)
    assert isinstance(event, UncleanEndFound)
    assert event.detail == "unsafe shutdowns 41 -> 42"


def test_sleep_and_supply() -> None:
    """Suspend and resume are told apart; a supply's own event is the host's power."""
    states = [one(boot, line) for line in ("PM: suspend entry (s2idle)", "PM: suspend exit")]
    supply = one(boot, "5 | 03/03/2026 | Power Supply #0x51 | Power Supply AC lost | Asserted")

    assert [state.what for state in states if isinstance(state, HostFaulted)] == [
        "suspend",
        "resume",
    ]
    assert isinstance(supply, PowerReported)
    assert (supply.what, supply.gpu) == ("supply", False)


@pytest.mark.parametrize(
    ("line", "keys"),
    [
        ("DMI: Acme Corp. Station 7/0ABC12, BIOS 2.1 01/02/2025", ["chassis"]),
        ("DMI: QEMU Standard PC (Q35 + ICH9, 2009), BIOS 1.16.3 04/01/2014", ["chassis", "vm"]),
        ("DMI: LENOVO 20YQ/20YQ, ThinkPad P15, BIOS N37ET49W 11/15/2023", ["chassis", "laptop"]),
        ("DMI: Dell Inc. Precision T7810/0KJCC5, BIOS A10 04/14/2015", ["chassis"]),
        ("Hypervisor detected: KVM", ["vm"]),
        ("Detected virtualization wsl.", ["wsl"]),
    ],
)
def test_machine(line: str, keys: list[str]) -> None:
    """Chassis, virtual machine, WSL and laptop are told from their own lines."""
    assert keys == [
        event.key for event in events_of(boot.FAMILY, line) if isinstance(event, SystemDescribed)
    ]


def test_fabric_manager_names_switch_and_port() -> None:
    """The fabric manager's own report gives the switch's address and the port."""
    event = one(
        nvidia_other,
        "detected NVSwitch non-fatal error 12028 on fid 0 on NVSwitch pci bus id 00000000:86:00.0 physical id 3 port 61",
    )

    assert isinstance(event, SxidReported)
    assert (event.code, event.fatal, event.link) == (12028, False, 61)
    assert event.device == PciAddress.parse("0000:86:00.0")
