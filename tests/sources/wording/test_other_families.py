"""Other drivers, Windows, the host and people's words become the events their words justify."""

from __future__ import annotations

import pytest
from _windows import read, read_lines

from gpuprobe.events import (
    Event,
    GpuHung,
    GpuLostReported,
    HostFaulted,
    LossHinted,
    PowerReported,
    ProseMentioned,
    SystemDescribed,
    ThermalReported,
)
from gpuprobe.sources.wording.host import FAMILY as HOST
from gpuprobe.sources.wording.other_gpus import FAMILY as OTHER_GPUS
from gpuprobe.sources.wording.prose import FAMILY as PROSE
from gpuprobe.sources.wording.windows import FAMILY as WINDOWS

AMD = "amdgpu 0000:2d:00.0: amdgpu: "


@pytest.mark.parametrize(
    ("line", "driver", "what", "recovered", "device"),
    [
        (AMD + "ring gfx_0.1.0 timeout, signaled seq=7120, emitted seq=7122", "amdgpu", "ring-timeout", None, "0000:2d:00.0"),
        (AMD + "ring gfx timeout, but soft recovered", "amdgpu", "ring-timeout", True, "0000:2d:00.0"),
        ("[drm:amdgpu_job_timedout [amdgpu]] *ERROR* ring sdma0 timeout, signaled seq=3, emitted seq=5", "amdgpu", "ring-timeout", None, None),
        ("[drm ERROR :amdgpu_job_timedout] ring comp_1.0.0 timeout, signaled seq=3, emitted seq=5", "amdgpu", "ring-timeout", None, None),
        (AMD + "GPU reset begin!", "amdgpu", "reset", None, "0000:2d:00.0"),
        ("drmn0: GPU reset begin!", "amdgpu", "reset", None, None),
        (AMD + "GPU reset succeeded, trying to resume", "amdgpu", "reset", True, "0000:2d:00.0"),
        (AMD + "GPU reset(2) failed", "amdgpu", "reset-failed", False, "0000:2d:00.0"),
        (AMD + "GPU reset end with ret = 0", "amdgpu", "reset", True, "0000:2d:00.0"),
        (AMD + "GPU reset end with ret = -62", "amdgpu", "reset-failed", False, "0000:2d:00.0"),
        ("[drm] VRAM is lost due to GPU reset!", "amdgpu", "reset", True, None),
        ("xe 0000:03:00.0: [drm] *ERROR* CRITICAL: Xe has declared device 0000:03:00.0 as wedged.", "xe", "wedged", False, "0000:03:00.0"),
        ("i915 0000:00:02.0: [drm] GPU HANG: ecode 12:1:85dffffb, in chrome [4321]", "i915", "reset", None, "0000:00:02.0"),
        ("i915 0000:00:02.0: [drm] *ERROR* Failed to reset chip.", "i915", "wedged", False, "0000:00:02.0"),
        ("amdgpu 0000:2d:00.0: [drm] device wedged, but recovered through reset", "amdgpu", "reset", True, "0000:2d:00.0"),
        ("nouveau 0000:01:00.0: bus: MMIO read of 00000000 FAULT at 6013d4 [ PRIVRING ]", "nouveau", "fault", None, "0000:01:00.0"),
        ("(AMDRadeonX6000HWLibs) AMD Cail: [7:0:0] GPU HangState 0x00000030, HangFlags 0x00000003", "macos", "fence", None, None),
    ],
)  # fmt: skip
def test_hangs_of_other_drivers(
    line: str, driver: str, what: str, recovered: bool | None, device: str | None
) -> None:
    (event,) = read(OTHER_GPUS, line)

    assert isinstance(event, GpuHung)
    assert (event.driver, event.what, event.recovered) == (driver, what, recovered)
    assert (str(event.device) if event.device else None) == device


def test_amdgpus_own_word_for_a_loss_is_a_loss() -> None:
    (event,) = read(OTHER_GPUS, AMD + "device lost from bus!")

    assert isinstance(event, GpuLostReported)
    assert (event.by, str(event.device)) == ("amdgpu", "0000:2d:00.0")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        (
            AMD + "SMU: response:0xFFFFFFFF for index:9 param:0x0 message:GetEnabledSmuFeatures?",
            "smu-all-ones",
        ),
        (AMD + "GPU reset end with ret = -19", "status-lost"),
        ("nouveau 0000:2d:00.0: unknown chipset (ffffffff)", "all-ones"),
    ],
)
def test_hints_of_a_loss_of_other_drivers(line: str, what: str) -> None:
    hints = [event for event in read(OTHER_GPUS, line) if isinstance(event, LossHinted)]

    assert [(hint.what, str(hint.device)) for hint in hints] == [(what, "0000:2d:00.0")]


@pytest.mark.parametrize(
    ("line", "recovered"),
    [
        ("The description for Event ID 14 from source nvlddmkm cannot be found.", None),
        ("Error occurred on GPUID: 2100", None),
        ("Display driver nvlddmkm stopped responding and has successfully recovered.", True),
        ("VIDEO_TDR_FAILURE (116)", False),
        ("The bugcheck was: 0x00000116 (0xffffbc8f, 0x1, 0x2, 0x3)", False),
        ("LiveKernelEvent 141", None),
    ],
)
def test_windows_hangs(line: str, recovered: bool | None) -> None:
    (event,) = read(WINDOWS, line)

    assert isinstance(event, GpuHung)
    assert (event.driver, event.what, event.recovered) == ("nvlddmkm", "tdr", recovered)


def test_an_nvlddmkm_event_with_the_drivers_words_for_a_loss_is_a_loss() -> None:
    block = "The description for Event ID 14 from source nvlddmkm cannot be found.\n\n\\Device\\Video7\nGPU has fallen off the bus"

    assert isinstance(read_lines(WINDOWS, block)[0], GpuLostReported)


def test_dxgs_failing_ioctls_are_only_wsl() -> None:
    (event,) = read(WINDOWS, "misc dxg: dxgk: dxgkio_is_feature_enabled:    Ioctl failed: -22")

    assert isinstance(event, SystemDescribed)
    assert event.key == "wsl"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("mce: [Hardware Error]: Machine check events logged", "mce"),
        ("EDAC MC1: 3 CE memory read error on CPU_SrcID#1_MC#0_Chan#0_DIMM#1", "edac"),
        ("{2}[Hardware Error]:   section_type: memory error", "ghes"),
        ("watchdog: BUG: soft lockup - CPU#7 stuck for 48s! [nvidia-smi:9001]", "soft-lockup"),
        ("INFO: task python3:3321 blocked for more than 122 seconds.", "hung-task"),
        (
            "mce: CPU5: Package temperature above threshold, cpu clock throttled (total events = 31)",
            "cpu-heat",
        ),
        ("nvme nvme1: controller is down; will reset: CSTS=0xffffffff, PCI_STATUS=0xffff", "nvme"),
        ("cp: error writing '/a': No space left on device", "disk-full"),
        (
            "clocksource: Marking clocksource 'tsc' as unstable because the skew is too large:",
            "clocksource",
        ),
        ("thermal thermal_zone0: acpitz: critical temperature reached, shutting down", "heat"),
        (" 2b | 05/11/2026 | 07:14:21 | Fan #0x44 | Lower Critical going low  | Asserted", "fan"),
    ],
)
def test_host_trouble_has_its_name(line: str, what: str) -> None:
    (event,) = read(HOST, line)

    assert isinstance(event, HostFaulted)
    assert event.what == what


@pytest.mark.parametrize(
    ("line", "what", "gpu"),
    [
        ("Under-voltage detected! (0x00050001)", "under-voltage", False),
        ("hwmon hwmon1: Voltage normalised", "voltage-normal", False),
        (
            "NVRM: GPU 0000:82:00.0: GPU does not have the necessary power cables connected.",
            "external-missing",
            True,
        ),
    ],
)
def test_power_lines_say_whose_power(line: str, what: str, gpu: bool) -> None:
    (event,) = read(HOST, line)

    assert isinstance(event, PowerReported)
    assert (event.what, event.gpu) == (what, gpu)


def test_a_gpus_heat_is_not_the_hosts() -> None:
    (event,) = read(
        HOST, "nouveau 0000:01:00.0: therm: temperature (97 C) hit the 'downclock' threshold"
    )

    assert isinstance(event, ThermalReported)
    assert (event.what, event.temp_c, str(event.device)) == ("slowdown", 97, "0000:01:00.0")


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("kvm: vfio: Unable to power on device, stuck in D3", "stuck-in-d3"),
        ("[warn] LINK_CTRL_1 bit3=0 read-back 0xffffffff (was 0xffffffff)", "all-ones"),
    ],
)
def test_hints_from_user_space(line: str, what: str) -> None:
    (event,) = read(HOST, line)

    assert isinstance(event, LossHinted)
    assert event.what == what


def _mentions(events: list[Event]) -> set[tuple[str, int | None]]:
    return {(event.topic, event.xid) for event in events if isinstance(event, ProseMentioned)}


@pytest.mark.parametrize(
    ("line", "mentions"),
    [
        ("We get Xid 79 twice a day", {("xid", 79)}),
        ("the driver said XID: 119 and then hung", {("xid", 119)}),
        ("XID79 again", {("xid", 79)}),
        ("first Xid 31, then Xid 79", {("xid", 31), ("xid", 79)}),
        ("the card falls off the PCIe bus under load", {("loss", None)}),
        ("it dropped off the bus", {("loss", None)}),
        ("we lost a GPU over night", {("loss", None)}),
        ("Die Karte ist vom Bus gefallen", {("loss", None)}),
        ("La carte est tombée du bus", {("loss", None)}),
    ],
)
def test_peoples_words_name_xid_and_loss(line: str, mentions: set[tuple[str, int | None]]) -> None:
    assert _mentions(read(PROSE, line)) == mentions


@pytest.mark.parametrize(
    "line",
    [
        "BOOTP/DHCP, Reply, length 268, xid 0x294e07b2, Flags [none]",
        "dhcp client eth1: xid 31 renewed",
        "RPC: reply xid 48 in 3 ms",
        "LOG: autovacuum, oldest xid 79",
        "xid=79",
        "Xid 7912345",
        "the last xid:79:1 pair",
        "Xid 0 and Xid 999",
    ],
)
def test_other_xids_are_not_mentions(line: str) -> None:
    assert read(PROSE, line) == []
