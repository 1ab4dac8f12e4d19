"""NVRM's lines say what they say, field by field."""

from __future__ import annotations

import pytest
from _windows import events_of, events_of_one_record

from gpuprobe.events import (
    AdapterInitFailed,
    DeviceIdentified,
    DriverUnusable,
    FirmwareFaulted,
    GpuLostReported,
    LossHinted,
    SystemDescribed,
    XidReported,
)
from gpuprobe.identity import PciAddress
from gpuprobe.sources.wording.nvrm import FAMILY

GPU = PciAddress.parse("0000:65:00.0")
UUID = "GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc"
BANNER = (
    "NVRM: The NVIDIA GPU 0000:65:00.0",
    "NVRM: (PCI ID: 10de:2684) installed in this system has",
    "NVRM: fallen off the bus and is not responding to commands.",
)


def xid(text: str) -> XidReported:
    (event,) = events_of(FAMILY, text)
    assert isinstance(event, XidReported)
    return event


@pytest.mark.parametrize(
    ("tail", "code", "pid", "process", "message"),
    [
        (
            "79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.",
            79,
            None,
            None,
            "GPU has fallen off the bus.",
        ),
        (
            "79, pid=8123, GPU has fallen off the bus.",
            79,
            8123,
            None,
            "GPU has fallen off the bus.",
        ),
        ("79, GPU has fallen off the bus.", 79, None, None, "GPU has fallen off the bus."),
        ("79", 79, None, None, ""),
        ("79,", 79, None, None, ""),
        (
            "31, pid=77, name=my prog, Ch 00000008, intr 0. MMU Fault",
            31,
            77,
            "my prog",
            "Ch 00000008, intr 0. MMU Fault",
        ),
        ("79, pid=77, name=Xorg, GPU has fal", 79, 77, "Xorg", "GPU has fal"),
        (
            "13, pid=<redacted>, name=python3, Graphics Exception",
            13,
            None,
            "python3",
            "Graphics Exception",
        ),
    ],
)
def test_xid_caller_and_message(
    tail: str, code: int, pid: int | None, process: str | None, message: str
) -> None:
    """Number, process and message are taken apart in every generation's form."""
    event = xid(f"NVRM: Xid (PCI:0000:65:00): {tail}")

    assert (code, pid, process, message) == (event.code, event.pid, event.process, event.message)
    assert event.device == GPU
    assert event.via == "kernel"


@pytest.mark.parametrize(
    "head",
    [
        "NVRM: Xid (0000:65:00)",
        "NVRM: Xid (PCI:0000:65:00)",
        "NVRM: Xid (PCI:00000000:65:00.0)",
        "NVRM: NVRM: Xid (PCI:0000:65:00)",
        "Xid (PCI:0000:65:00)",
        "usb 1-2: new devicNVRM: Xid (PCI:0000:65:00)",
    ],
)
def test_xid_is_found_whatever_stands_before_it(head: str) -> None:
    """A missing, doubled or glued prefix does not hide an Xid."""
    assert xid(f"{head}: 62, 0000(0000)").device == GPU


def test_xid_mig_parts() -> None:
    """The MIG slice is kept apart from the address."""
    event = xid("NVRM: Xid (PCI:0001:b1:00 GPU-I:02 GPU-CI:01): 94, pid=9, name=w, Contained")

    assert event.mig == "GPU-I:02 GPU-CI:01"
    assert event.device == PciAddress.parse("0001:b1:00.0")


def test_two_glued_xids_are_two() -> None:
    """Two reports on one line are both read, each with its own message."""
    events = events_of(
        FAMILY,
        "NVRM: Xid (PCI:0000:65:00): 79, GPU has fallen off the bus.NVRM: Xid (PCI:0000:66:00): 154, x",
    )

    assert [event.code for event in events if isinstance(event, XidReported)] == [79, 154]


def test_xid_45_names_its_cause() -> None:
    """The driver's own cause mark is read."""
    assert (
        xid(
            "NVRM: Xid (PCI:0000:65:00): 45, pid=1, name=p, Ch 11 caused by previous Xid 79"
        ).caused_by
        == 79
    )


@pytest.mark.parametrize(
    ("words", "action"),
    [
        ("0x1 (GPU Reset Required)", 1),
        ("0x2 (Node Reboot Required)", 2),
        ("0x1 (PF FLR)", 1),
        ("0x2 (OS Reboot)", 2),
    ],
)
def test_xid_154_by_number(words: str, action: int) -> None:
    """The recovery action is the hex number, whatever a release calls it."""
    line = (
        f"NVRM: Xid (PCI:0000:65:00): 154, GPU recovery action changed from 0x0 (None) to {words}"
    )

    assert xid(line).recovery_action == action


def test_xid_154_cut_by_a_terminal() -> None:
    """The new value is read from the next, unprefixed line where a terminal broke the text."""
    text = "NVRM: Xid (PCI:0000:65:00): 154, GPU recovery action changed from 0x0 (None)\nto 0x2 (Node Reboot Required)"
    (event,) = events_of(FAMILY, text, framing="text")

    assert isinstance(event, XidReported)
    assert event.recovery_action == 2


@pytest.mark.parametrize(
    ("line", "codes", "via", "device", "uuid"),
    [
        ("XID 79(GPU has fallen off the bus) detected on PCI:0000:65:00", [79], "gpud", GPU, None),
        (
            f"XidCriticalError: Xid=48 on Device={UUID}, the device will go unhealthy.",
            [48],
            "k8s-device-plugin",
            None,
            UUID,
        ),
        (
            f"XidCriticalError: Xid=79 on Device=nvidia3, uuid={UUID}, the device will go unhealthy.",
            [79],
            "k8s-device-plugin",
            None,
            UUID,
        ),
        (
            "Processing event {Device:{Handle:0x7f3a} EventType:8 EventData:79 GpuInstanceId:1}",
            [79],
            "k8s-device-plugin",
            None,
            None,
        ),
        (
            f"Processing event XID=79 event\nSending XID=79 health event for device {UUID}",
            [79],
            "k8s-device-plugin",
            None,
            UUID,
        ),
        (
            'XidCriticalError  True  Mon, 02 Feb 2026 10:00:00 +0000  Mon, 02 Feb 2026 09:58:00 +0000  {"48":true,"94":true}  a1',
            [48, 94],
            "node-problem-detector",
            None,
            None,
        ),
        (
            f'{{"checkName":"SysLogsXIDError","isHealthy":false,"errorCode":["79"],"entitiesImpacted":[{{"entityType":"PCI","entityValue":"0000:65:00"}},{{"entityType":"GPU_UUID","entityValue":"{UUID}"}}]}}',
            [79],
            "nvsentinel",
            GPU,
            UUID,
        ),
        (
            f'DCGM_FI_DEV_XID_ERRORS{{gpu="3",UUID="{UUID}",pci_bus_id="00000000:65:00.0"}} 79',
            [79],
            "dcgm-exporter",
            GPU,
            UUID,
        ),
        (
            f'DCGM_EXP_XID_ERRORS_COUNT{{gpu="3",UUID="{UUID}",window_size_in_ms="300000",xid="79"}} 2',
            [79],
            "dcgm-exporter",
            None,
            UUID,
        ),
        ("Detected XID 79 for GPU 2", [79], "dcgm", None, None),
        ("XID 79 detected on GPU 2(0000:65:00.0) in /dev/kmsg.", [79], "dcgm", GPU, None),
        ("detected XID-79 on the instance, review kernel logs", [79], "nvml-agent", None, None),
        ("XID error: 79, XID causes: HW Error. ", [79], "nvml-agent", None, None),
        ("GPU 0: Xid 79, GPU has fallen off the bus", [79], "nvml-agent", None, None),
    ],
)
def test_agents_spellings(
    line: str, codes: list[int], via: str, device: PciAddress | None, uuid: str | None
) -> None:
    """An agent's report is an Xid with the agent's name and the GPU as it names it."""
    events = events_of(FAMILY, line)

    assert codes == [event.code for event in events if isinstance(event, XidReported)]
    for event in events:
        assert isinstance(event, XidReported)
        assert (via, device, uuid) == (event.via, event.device, event.uuid)


def test_uuid_and_serial() -> None:
    """The UUID line names the GPU, and the serial below it is the same GPU's."""
    events = events_of(
        FAMILY, f"NVRM: GPU at PCI:0000:65:00: {UUID}\nNVRM: GPU Board Serial Number: 132"
    )

    assert [
        (event.device, event.uuid, event.serial)
        for event in events
        if isinstance(event, DeviceIdentified)
    ] == [(GPU, UUID, None), (GPU, None, "132")]


def test_lone_serial_has_no_device() -> None:
    """A serial with no UUID line above it is not given to any GPU."""
    (event,) = events_of(FAMILY, "usb 1-1: x\nNVRM: GPU Board Serial Number: 132")

    assert event.device is None


@pytest.mark.parametrize(
    "line",
    [
        "NVRM: GPU 0000:65:00.0: GPU has fallen off the bus.",
        "NVRM: GPU at 0000:65:00.0 has fallen off the bus.",
    ],
)
def test_lost(line: str) -> None:
    """Old and new words of a loss name the GPU."""
    (event,) = events_of(FAMILY, line)

    assert isinstance(event, GpuLostReported)
    assert (event.by, event.device) == ("driver", GPU)


@pytest.mark.parametrize(
    "text",
    [
        "\n".join(BANNER),
        " ".join(BANNER),
        "".join(BANNER),
        "\n".join((BANNER[0], "usb 1-1: x", *BANNER[1:])),
    ],
)
def test_probe_banner_is_one_loss(text: str) -> None:
    """Three records, one glued line or lines torn apart: one loss found by the probe."""
    (event,) = events_of(FAMILY, text)

    assert isinstance(event, GpuLostReported)
    assert (event.by, event.device) == ("probe", GPU)


def test_probe_banner_in_one_record() -> None:
    """One record with line breaks, as /dev/kmsg has it, is the same loss."""
    (event,) = events_of_one_record(FAMILY, "\n".join(BANNER))

    assert isinstance(event, GpuLostReported)
    assert event.device == GPU


def test_probe_banner_without_its_head_has_no_device() -> None:
    """The last line alone is a loss of an unnamed GPU."""
    (event,) = events_of(FAMILY, BANNER[2])

    assert isinstance(event, GpuLostReported)
    assert event.device is None


def test_probe_banner_of_two_gpus_is_not_mixed_up() -> None:
    """A supported-elsewhere banner does not take the loss of the GPU after it."""
    text = (
        "NVRM: The NVIDIA GPU 0000:17:00.0\nNVRM: (PCI ID: 10de:2684) installed in this system has\n"
        + "\n".join(BANNER)
    )
    events = events_of(FAMILY, text)

    assert [event.device for event in events if isinstance(event, GpuLostReported)] == [GPU]


def test_banner_for_open_modules() -> None:
    """A card that needs the open modules is the driver's trouble, not a loss."""
    (event,) = events_of(
        FAMILY,
        "NVRM: The NVIDIA GPU 0000:65:00.0 (PCI ID: 10de:2b85)\nNVRM: installed in this system requires use of the NVIDIA open kernel modules.",
    )

    assert isinstance(event, DriverUnusable)
    assert (event.what, event.device) == ("wrong-flavour", GPU)


@pytest.mark.parametrize(
    ("line", "what", "code"),
    [
        (
            "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.",
            "rc-all-channels",
            79,
        ),
        (
            "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all user channels for critical error 120.",
            "rc-user-channels",
            120,
        ),
        (
            "NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!",
            "status-lost",
            None,
        ),
        ("GPU lost from the bus [NV_ERR_GPU_IS_LOST]", "status-lost", None),
        ("NVRM: osInitNvMapping: *** Cannot attach gpu", "cannot-attach", None),
        (
            "NVRM: nvGpuOpsReportFatalError: uvm encountered global fatal error 0x60, requiring os reboot to recover.",
            "uvm-fatal",
            None,
        ),
        (
            "NVRM: _threadNodeCheckTimeout: API_GPU_ATTACHED_SANITY_CHECK failed!",
            "attached-check",
            None,
        ),
        (
            "NVRM: tmrGetTimeEx_GH100: NVRM-RC: Consistently Bad TimeLo value ffffffff",
            "all-ones",
            None,
        ),
    ],
)
def test_hints(line: str, what: str, code: int | None) -> None:
    """Words that go with a loss are hints and name their kind."""
    (event,) = events_of(FAMILY, line)

    assert isinstance(event, LossHinted)
    assert (what, code) == (event.what, event.xid)


def test_remove_busy_names_the_device() -> None:
    """The exclamation mark is not part of the address."""
    (event,) = events_of(
        FAMILY, "NVRM: Attempting to remove device 0000:65:00.0 with non-zero usage count!"
    )

    assert event.device == GPU


@pytest.mark.parametrize(
    ("line", "what", "instance", "status"),
    [
        (
            "NVRM: Timeout after 45s of waiting for RPC response from GPU2 GSP! Expected function 76",
            "rpc-timeout",
            2,
            None,
        ),
        ("NVRM: Timeout waiting for RPC from GSP! Expected function 76", "rpc-timeout", None, None),
        (
            "NVRM: GPU4 _kgspIsHeartbeatTimedOut: Heartbeat timed out, currentTimeMs 91",
            "heartbeat",
            4,
            None,
        ),
        (
            "NVRM: f: GPU2 sanity check failed 0xf waiting for RPC response from GSP.",
            "sanity-check",
            2,
            15,
        ),
        (
            "NVRM: kgspWaitForGfwBootOk_TU102: failed to wait for GFW boot complete: 0x65 VBIOS version 95",
            "gfw-boot",
            None,
            0x65,
        ),
        (
            "NVRM: _kgspBootGspRm: unexpected WPR2 already up, cannot proceed with booting GSP",
            "wpr2",
            None,
            None,
        ),
        (
            "NVRM: kgspHealthCheck_TU102: ****** GSP-CrashCat Report *******",
            "crash-cat",
            None,
            None,
        ),
        ("NVRM: GPU0 x: ====== GSP core unresponsive ======", "unresponsive", 0, None),
        ("NVRM: GPU0 x: ====== GSP-RM is slow ======", "slow", 0, None),
    ],
)
def test_firmware(line: str, what: str, instance: int | None, status: int | None) -> None:
    """A firmware line gives its kind, the driver's GPU number and the status."""
    (event,) = events_of(FAMILY, line)

    assert isinstance(event, FirmwareFaulted)
    assert (what, instance, status) == (event.what, event.gpu_instance, event.status)


def test_adapter_init() -> None:
    """Three numbers: step and status are hex, the source line is decimal."""
    (event,) = events_of(FAMILY, "NVRM: GPU 0000:65:00.0: RmInitAdapter failed! (0x62:0x55:2477)")

    assert isinstance(event, AdapterInitFailed)
    assert (event.step, event.status, event.source_line, event.device) == (0x62, 0x55, 2477, GPU)


def test_loading_line() -> None:
    """Version and flavour of the module are both taken."""
    events = events_of(
        FAMILY, "NVRM: loading NVIDIA UNIX Open Kernel Module for x86_64  580.82.07  Release Build"
    )

    assert [(event.key, event.value) for event in events if isinstance(event, SystemDescribed)] == [
        ("driver", "580.82.07"),
        ("open-module", "open"),
    ]


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("NVRM: GPU 0000:65:00.0 is already bound to NovaCore.", "bound-elsewhere"),
        ("NVRM: API mismatch: the client 'x' (pid 3) has the version 1.2, but", "version-mismatch"),
        ("NVRM: No NVIDIA devices probed.", "no-devices"),
        ("NVRM: None of the NVIDIA devices were initialized.", "probe-failed"),
    ],
)
def test_driver_unusable(line: str, what: str) -> None:
    """What keeps the driver from use is named."""
    (event,) = events_of(FAMILY, line)

    assert isinstance(event, DriverUnusable)
    assert event.what == what
