"""AER, DPC, pciehp, PCI core and tools: what their lines say, field by field."""

from __future__ import annotations

from pathlib import Path

import pytest
from _windows import events_of

from gpuprobe.events import (
    AdminActed,
    AerRecoveryEnded,
    AerReported,
    BridgeLinked,
    ConfigSpaceUnreadable,
    DeviceChanged,
    DeviceIdentified,
    DpcTriggered,
    Event,
    HostFaulted,
    LinkStateReported,
    LossHinted,
    SlotChanged,
    SystemDescribed,
)
from gpuprobe.identity import PciAddress
from gpuprobe.sources.wording import aer, device_acts, pci, pci_tools, pciehp

GPU = PciAddress.parse("0000:65:00.0")
PORT = PciAddress.parse("0000:64:00.0")


def one(module: object, text: str) -> Event:
    (event,) = events_of(module.FAMILY, text)  # type: ignore[attr-defined]
    return event


def report(text: str) -> AerReported:
    event = one(aer, text)
    assert isinstance(event, AerReported)
    return event


def test_aer_block_is_one_event() -> None:
    """The source line, the bus error, the status and its bits are one report."""
    event = report(
        "pcieport 0000:64:00.0: AER: Multiple Uncorrectable (Fatal) error message received from 0000:65:00.0\n"
        "nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Requester ID)\n"
        "nvidia 0000:65:00.0:   device [10de:2684] error status/mask=00004020/00000000\n"
        "nvidia 0000:65:00.0:    [ 5] SDES                   (First)\n"
        "nvidia 0000:65:00.0:    [14] CmpltTO\n"
        "nvidia 0000:65:00.0:   TLP Header: 40000001 0000000f fee00000 00000000"
    )

    assert (event.severity, event.layer, event.agent) == ("fatal", "Transaction Layer", "requester")
    assert event.bits == ("SDES", "CmpltTO")
    assert (event.device, event.port, event.driver) == (GPU, PORT, "nvidia")


def test_aer_old_words() -> None:
    """Kernels before 4.17 say Corrected, id= and long bit names."""
    event = report(
        "pcieport 0000:00:1c.4: AER: Corrected error received: id=00e4\n"
        "pcieport 0000:00:1c.4: PCIe Bus Error: severity=Corrected, type=Data Link Layer, id=00e4(Transmitter ID)\n"
        "pcieport 0000:00:1c.4:   device [8086:a114] error status/mask=00001000/00002000\n"
        "pcieport 0000:00:1c.4:    [12] Replay Timer Timeout"
    )

    assert (event.severity, event.bits, event.agent) == ("correctable", ("Timeout",), "transmitter")
    assert event.port == PciAddress.parse("0000:00:1c.4")


def test_one_number_is_two_bits() -> None:
    """Bit 12 is a replay timeout among correctable errors and a poisoned TLP among the others."""
    block = "nvidia 0000:65:00.0: PCIe Bus Error: severity={}, type=x, (Receiver ID)\nnvidia 0000:65:00.0:   device [10de:2684] error status/mask=00001000/00000000"

    assert report(block.format("Correctable")).bits == ("Timeout",)
    assert report(block.format("Uncorrectable (Non-Fatal)")).bits == ("TLP",)


def test_masked_bits_are_not_named() -> None:
    """Where the bit lines were filtered out, the status is decoded without its masked bits."""
    event = report(
        "nvidia 0000:65:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n"
        "nvidia 0000:65:00.0:   device [10de:2684] error status/mask=00002001/00002000"
    )

    assert event.bits == ("RxErr",)


def test_status_of_all_ones_is_inaccessible() -> None:
    """A status that reads back all ones names no bits: the device did not answer."""
    event = report(
        "nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)\n"
        "nvidia 0000:65:00.0:   device [ffff:ffff] error status/mask=ffffffff/ffffffff"
    )

    assert (event.layer, event.bits) == ("Inaccessible", ())


def test_type_inaccessible_and_a_cut_tail() -> None:
    """The layer is read, and a line cut behind the severity still is a report."""
    assert (
        report(
            "nvidia 0000:65:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)"
        ).layer
        == "Inaccessible"
    )
    assert (
        report("nvidia 0000:65:00.0: PCIe Bus Error: severity=Correctable").severity
        == "correctable"
    )


def test_two_blocks_keep_their_bits() -> None:
    """A block ends where the next one begins."""
    events = events_of(
        aer.FAMILY,
        "pcieport 0000:64:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n"
        "pcieport 0000:64:00.0:    [ 0] RxErr\n"
        "nvidia 0000:65:00.0: PCIe Bus Error: severity=Correctable, type=Data Link Layer, (Receiver ID)\n"
        "nvidia 0000:65:00.0:    [ 6] BadTLP",
    )

    assert [event.bits for event in events if isinstance(event, AerReported)] == [
        ("RxErr",),
        ("BadTLP",),
    ]


def test_source_line_alone_is_the_event() -> None:
    """With no block behind it, the port's line is the report, about the sender."""
    event = report(
        "pcieport 0000:64:00.0: AER: Uncorrectable (Non-Fatal) error message received from 0000:65:00.0 (no details found)"
    )

    assert (event.severity, event.device, event.port) == ("non-fatal", GPU, PORT)


def test_sender_not_found() -> None:
    """A sender that cannot be read any more is a hint, with the id decoded."""
    event = one(aer, "pcieport 0000:64:00.0: AER: can't find device of ID6500")

    assert isinstance(event, LossHinted)
    assert event.device == GPU


def test_ghes_block_is_one_event() -> None:
    """A firmware-first block and the status lines after it are one report."""
    event = report(
        "{7}[Hardware Error]: Hardware error from APEI Generic Hardware Error Source: 512\n"
        "{7}[Hardware Error]: event severity: recoverable\n"
        "{7}[Hardware Error]:  Error 0, type: recoverable\n"
        "{7}[Hardware Error]:   section_type: PCIe error\n"
        "{7}[Hardware Error]:   port_type: 0, PCIe end point\n"
        "{7}[Hardware Error]:   device_id: 0000:65:00.0\n"
        "{7}[Hardware Error]:   aer_uncor_status: 0x00004000, aer_uncor_mask: 0x00000000\n"
        "nvidia 0000:65:00.0: aer_status: 0x00004000, aer_mask: 0x00000000\n"
        "nvidia 0000:65:00.0:    [14] CmpltTO                (First)\n"
        "nvidia 0000:65:00.0: aer_layer=Transaction Layer, aer_agent=Requester ID"
    )

    assert (
        event.severity,
        event.device,
        event.bits,
        event.firmware_first,
    ) == ("non-fatal", GPU, ("CmpltTO",), True)
    assert (event.layer, event.agent) == ("Transaction Layer", "requester")


@pytest.mark.parametrize(
    ("line", "outcome"),
    [
        ("nvidia 0000:65:00.0: AER: can't recover (no error_detected callback)", "no-callback"),
        ("pcieport 0000:64:00.0: AER: device recovery failed", "failed"),
        ("pcieport 0000:64:00.0: AER: Device recovery successful", "recovered"),
        ("pcieport 0000:64:00.0: AER: Root Port link has been reset (0)", "link-reset"),
        ("pcieport 0000:64:00.0: AER: Root Port link has been reset (-25)", "failed"),
        ("pcieport 0000:64:00.0: Downstream Port link has been reset", "link-reset"),
        ("pcieport 0000:64:00.0: EDR: DPC port successfully recovered", "recovered"),
    ],
)
def test_recovery(line: str, outcome: str) -> None:
    """A reset that returned an error is no recovery."""
    event = one(aer, line)

    assert isinstance(event, AerRecoveryEnded)
    assert event.outcome == outcome


@pytest.mark.parametrize(
    ("text", "reason", "sender"),
    [
        (
            "pcieport 0000:64:00.0: DPC: containment event, status:0x1f01 source:0x6500\npcieport 0000:64:00.0: DPC: ERR_FATAL detected",
            "ERR_FATAL",
            GPU,
        ),
        (
            "pcieport 0000:64:00.0: DPC: containment event, status:0x1f01 source:0x0000\npcieport 0000:64:00.0: DPC: unmasked uncorrectable error detected",
            "unmasked uncorrectable error",
            None,
        ),
        (
            "pcieport 0000:64:00.0: DPC: containment event, status:0x1f05, ERR_FATAL received from 0000:65:00.0",
            "ERR_FATAL",
            GPU,
        ),
        ("pcieport 0000:64:00.0: DPC: ERR_NONFATAL detected", "ERR_NONFATAL", None),
        ("pcieport 0000:64:00.0: EDR: EDR event received", "EDR", None),
        (
            "pcieport 0000:64:00.0: EDR: EDR event received\npcieport 0000:64:00.0: DPC: containment event, status:0x1f0b source:0x0000\npcieport 0000:64:00.0: DPC: RP PIO error detected\npcieport 0000:64:00.0: DPC: [18] Memory Request Completion Timeout (First)",
            "RP PIO error",
            None,
        ),
    ],
)
def test_dpc(text: str, reason: str, sender: PciAddress | None) -> None:
    """One containment is one event, with its reason and its sender."""
    event = one(pciehp, text)

    assert isinstance(event, DpcTriggered)
    assert (PORT, reason, sender) == (event.device, event.reason, event.sender)


@pytest.mark.parametrize(
    ("line", "slot", "what"),
    [
        ("pcieport 0000:64:00.0: pciehp: Slot(4): Link Down", "4", "link-down"),
        ("pcieport 0000:64:00.0: pciehp: Slot(0-1): Link Up", "0-1", "link-up"),
        ("pcieport 0000:64:00.0: pciehp: Slot(4): Card not present", "4", "card-not-present"),
        ("pcieport 0000:64:00.0: pciehp: Slot(4): Card present", "4", "card-present"),
        ("pcieport 0000:64:00.0: pciehp: Slot(4): Already disabled", "4", "already-disabled"),
        (
            "pcieport 0000:64:00.0: pciehp: Slot(4): Link Down/Up ignored (recovered by DPC)",
            "4",
            "ignored",
        ),
        ("pcieport 0000:64:00.0: pciehp: Slot(4): Power fault", "4", "power-fault"),
        (
            "pcieport 0000:64:00.0: pciehp: Slot(4): Button press: will power off in 5 sec",
            "4",
            "attention-button",
        ),
        ("pciehp 0000:64:00.0:pcie004: slot(4): Link Down event", "4", "link-down"),
        ("pciehp 0000:64:00.0:pcie004: Card not present on Slot(4)", "4", "card-not-present"),
        ("shpchp 0000:64:00.0: Card not present on Slot(4)", "4", "card-not-present"),
    ],
)
def test_slot(line: str, slot: str, what: str) -> None:
    """Old and new hot-plug lines name port, slot and change."""
    event = one(pciehp, line)

    assert isinstance(event, SlotChanged)
    assert (PORT, slot, what) == (event.device, event.slot, event.what)


def test_bandwidth() -> None:
    """Speeds, widths and the limiting hop are read."""
    event = one(
        pciehp,
        "nvidia 0000:65:00.0: 63.008 Gb/s available PCIe bandwidth, limited by 16.0 GT/s PCIe x4 link at 0000:64:00.0 (capable of 504.112 Gb/s with 32.0 GT/s PCIe x16 link)",
    )

    assert isinstance(event, LinkStateReported)
    assert (
        event.what,
        event.speed_gts,
        event.width,
        event.max_speed_gts,
        event.max_width,
        event.limited_by,
    ) == ("limited", 16.0, 4, 32.0, 16, PORT)


@pytest.mark.parametrize(
    ("line", "how", "state"),
    [
        (
            "nvidia 0000:65:00.0: Unable to change power state from D3cold to D0, device inaccessible",
            "power-state",
            "D3cold",
        ),
        (
            "pci 0000:65:00.0: can't change power state from D3hot to D0 (config space inaccessible)",
            "power-state",
            "D3hot",
        ),
        ("nvidia 0000:65:00.0: not ready 65535ms after bus reset; giving up", "not-ready", None),
        ("vfio-pci 0000:65:00.0: not ready 1023ms after FLR; waiting", "waiting", None),
    ],
)
def test_config_space(line: str, how: str, state: str | None) -> None:
    """Config space that does not answer says how that was found."""
    event = one(pci, line)

    assert isinstance(event, ConfigSpaceUnreadable)
    assert (GPU, how, state) == (event.device, event.how, event.from_state)


def test_ready_again() -> None:
    """`ready` is an answer, not a failure."""
    event = one(pci, "nvidia 0000:65:00.0: ready 2047ms after bus reset")

    assert isinstance(event, DeviceChanged)
    assert (event.what, event.driver) == ("answered", "nvidia")


@pytest.mark.parametrize(
    ("ids", "class_code", "is_gpu"),
    [
        ("10de:2684", "0x030000", True),
        ("10de:22ba", "0x040300", None),
        ("1a03:2000", "0x030000", None),
        ("10de:2330", "0x030200", True),
    ],
)
def test_enumeration(ids: str, class_code: str, is_gpu: bool | None) -> None:
    """A display class of a GPU maker is a GPU; its sound function and a BMC's VGA are not."""
    added, identified = events_of(
        pci.FAMILY, f"pci 0000:65:00.0: [{ids}] type 00 class {class_code}"
    )

    assert isinstance(added, DeviceChanged)
    assert isinstance(identified, DeviceIdentified)
    assert added.class_code == int(class_code, 16)
    assert identified.is_gpu is is_gpu


def test_bridge_to_bus() -> None:
    """The first function of the secondary bus stands for what lies below the bridge."""
    event = one(pci, "pci 0000:64:00.0: PCI bridge to [bus 65-66]")

    assert isinstance(event, BridgeLinked)
    assert (event.device, event.parent) == (GPU, PORT)


def test_iommu_fault_names_the_device() -> None:
    """A DMA fault is the host's, with the requester as device."""
    event = one(
        pci,
        "DMAR: [DMA Read NO_PASID] Request device [65:00.0] fault addr 0x7f000000 [fault reason 0x06]",
    )

    assert isinstance(event, HostFaulted)
    assert (event.what, event.device) == ("iommu", GPU)


def test_cmdline_that_switches_aer_off() -> None:
    """The command line is kept, and pci=noaer is named."""
    events = events_of(
        pci.FAMILY, "Kernel command line: BOOT_IMAGE=/vmlinuz root=/dev/sda1 pci=nomsi,noaer"
    )

    assert [event.key for event in events if isinstance(event, SystemDescribed)] == [
        "cmdline",
        "aer-disabled",
    ]


def test_sysfs_path_gives_every_hop() -> None:
    """Each pair of neighbours in the path is a link."""
    events = events_of(
        pci_tools.FAMILY, "/sys/devices/pci0000:60/0000:60:01.0/0000:64:00.0/0000:65:00.0"
    )

    assert [
        (str(event.device), str(event.parent))
        for event in events
        if isinstance(event, BridgeLinked)
    ] == [("0000:64:00.0", "0000:60:01.0"), ("0000:65:00.0", "0000:64:00.0")]


def test_lspci_tree() -> None:
    """Rows of the first level start on the root's bus, the hops below on the bus in brackets."""
    events = events_of(
        pci_tools.FAMILY,
        "-[0000:60]-+-00.0  Acme Root Complex\n"
        "           +-01.0-[64-65]----00.0-[65]----00.0  NVIDIA Corporation AD102\n"
        "           \\-1f.0  Acme LPC",
    )

    assert [
        (str(event.device), str(event.parent))
        for event in events
        if isinstance(event, BridgeLinked)
    ] == [("0000:64:00.0", "0000:60:01.0"), ("0000:65:00.0", "0000:64:00.0")]


def test_lspci_section_of_a_dead_card() -> None:
    """`rev ff` and header type 7f of one card are one finding, its link state another."""
    events = events_of(
        pci_tools.FAMILY,
        "65:00.0 VGA compatible controller: NVIDIA Corporation Device 2684 (rev ff) (prog-if ff)\n\t!!! Unknown header type 7f\n\tKernel driver in use: nvidia",
    )

    assert [
        (event.device, event.how) for event in events if isinstance(event, ConfigSpaceUnreadable)
    ] == [(GPU, "all-ones")]


def test_lspci_link_of_a_section() -> None:
    """LnkSta takes the device from the section's head and the best values from LnkCap."""
    events = events_of(
        pci_tools.FAMILY,
        "65:00.0 VGA compatible controller: NVIDIA Corporation AD102 (rev a1)\n\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16, ASPM L1\n\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x8 (downgraded)",
    )
    (link,) = [event for event in events if isinstance(event, LinkStateReported)]

    assert (
        link.device,
        link.speed_gts,
        link.width,
        link.max_speed_gts,
        link.max_width,
    ) == (GPU, 2.5, 8, 16.0, 16)


@pytest.mark.parametrize(
    ("line", "what", "device"),
    [
        (
            "lee : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/tee /sys/bus/pci/devices/0000:65:00.0/remove",
            "remove",
            GPU,
        ),
        ("# echo 1 > /sys/bus/pci/devices/0000:65:00.0/reset", "reset", GPU),
        ("# echo 1 | sudo tee /sys/bus/pci/rescan", "rescan", None),
        ("# echo 1 > /sys/devices/pci0000:60/0000:64:00.0/0000:65:00.0/remove", "remove", GPU),
        ("# echo 0000:65:00.0 > /sys/bus/pci/drivers/nvidia/unbind", "unbind", GPU),
        ("# echo 0000:65:00.0 > /sys/bus/pci/drivers/vfio-pci/bind", "bind-vfio", GPU),
        ("# nvidia-smi --gpu-reset -i 0", "reset", None),
        ("# nvidia-smi -i 0000:65:00.0 -r", "reset", GPU),
        ("# modprobe -r nvidia_uvm nvidia", "rmmod", None),
        ("# setpci -s 0000:64:00.0 BRIDGE_CONTROL=40:40", "reset", PORT),
        ("# echo 0 > /sys/bus/pci/slots/4/power", "slot-power", None),
    ],
)
def test_admin(line: str, what: str, device: PciAddress | None) -> None:
    """What somebody did on purpose is known with the device it was done to."""
    (event,) = [
        event for event in events_of(device_acts.FAMILY, line) if isinstance(event, AdminActed)
    ]

    assert (what, device) == (event.what, event.device)


def test_recorded_surprise_down() -> None:
    """A real kernel's log of a surprise link-down gives port, bits and a failed recovery."""
    log = Path(__file__).parents[2] / "data" / "vm-surprise-down.console.log"
    text = "\n".join(line.split("] ", 1)[-1] for line in log.read_text().splitlines())
    port = PciAddress.parse("0000:00:04.0")
    aer_events = events_of(aer.FAMILY, text)

    (found,) = [event for event in aer_events if isinstance(event, AerReported)]
    assert ("fatal", ("SDES",), port, port) == (
        found.severity,
        found.bits,
        found.device,
        found.port,
    )
    assert [event.outcome for event in aer_events if isinstance(event, AerRecoveryEnded)] == [
        "no-callback",
        "failed",
        "failed",
        "failed",
    ]
    slots = [
        event.what for event in events_of(pciehp.FAMILY, text) if isinstance(event, SlotChanged)
    ]
    assert slots == ["card-not-present", "already-disabled"]
