"""When the link misbehaves and the device is still there."""

from __future__ import annotations

import pytest
from _judging import findings, first, kinds, only, pci

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.PCIE_LINK_ERRORS
BOUND = "[    8.100000] nvidia 0000:27:00.0: enabling device (0140 -> 0142)\n"


def corrected(up: float, driver: str = "nvidia", device: str = "0000:27:00.0") -> str:
    return (
        f"[{up:12.6f}] pcieport 0000:26:00.0: AER: Correctable error message received from {device}\n"
        f"[{up:12.6f}] {driver} {device}: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n"
        f"[{up:12.6f}] {driver} {device}:   device [10de:2204] error status/mask=00000001/0000a000\n"
        f"[{up:12.6f}] {driver} {device}:    [ 0] RxErr                  (First)\n"
    )


def test_repeated_corrected_errors_of_the_gpu_are_confirmed() -> None:
    """Several corrected errors are told with their count and bit, and the device is there."""
    verdict = only(BOUND + "".join(corrected(100.0 + step) for step in range(5)))

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert pci(verdict) == "0000:27:00.0"
    assert "5 times" in verdict.summary
    assert "RxErr" in verdict.summary


def test_one_corrected_error_is_only_possible() -> None:
    """A single corrected error is worth a possible."""
    assert only(BOUND + corrected(100.0)).certainty is Certainty.POSSIBLE


def test_errors_of_a_disk_are_no_gpu_s() -> None:
    """AER of an NVMe drive gives no verdict."""
    text = BOUND + "".join(corrected(100.0 + s, "nvme", "0000:03:00.0") for s in range(5))

    assert findings(KIND, text) == []
    assert kinds(text) == [Kind.NO_FAULT]


def test_errors_of_the_card_s_sound_function_are_the_gpu_s() -> None:
    """Any function of the card speaks for the card's link."""
    text = BOUND + "".join(corrected(100.0 + s, "snd_hda_intel", "0000:27:00.1") for s in range(5))

    assert pci(only(text)) == "0000:27:00.0"


def test_an_uncorrectable_error_with_the_device_still_there_is_link_trouble() -> None:
    """Non-fatal errors of the GPU with nothing lost are confirmed link errors."""
    text = BOUND + (
        "[ 900.000000] nvidia 0000:27:00.0: PCIe Bus Error: severity=Uncorrectable (Non-Fatal), type=Transaction Layer, (Requester ID)\n"
        "[ 900.000000] nvidia 0000:27:00.0:   device [10de:2204] error status/mask=00004000/00400000\n"
        "[ 900.000000] nvidia 0000:27:00.0:    [14] CmpltTO                (First)\n"
    )

    assert (first(text).kind, first(text).certainty) == (KIND, Certainty.CONFIRMED)
    assert "uncorrectable PCIe error" in first(text).summary


def test_a_narrow_link_is_never_the_answer() -> None:
    """Fewer lanes than possible is worth a later, possible verdict."""
    text = (
        "27:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width x4 (downgraded)\n"
    )

    assert kinds(text) == [Kind.NO_FAULT, KIND]
    assert findings(KIND, text)[0].certainty is Certainty.POSSIBLE


def test_a_lower_generation_at_idle_is_healthy() -> None:
    """Generation 1 with all lanes is how an idle card saves power."""
    text = (
        "27:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16\n"
    )

    assert kinds(text) == [Kind.NO_FAULT]


def test_corrected_errors_do_not_explain_a_cuda_error() -> None:
    """A link that mends its errors and an engine that dies are two verdicts."""
    text = (
        BOUND
        + "".join(corrected(100.0 + s) for s in range(5))
        + ("[ 130.000000] vllm: RuntimeError: CUDA error: unspecified launch failure\n")
    )

    assert set(kinds(text)) == {KIND, Kind.CANNOT_TELL}


def test_a_surprise_down_after_which_the_link_was_reset_is_link_trouble() -> None:
    """The port above says that its link is up again: the device did not leave."""
    text = BOUND + (
        "[ 900.000000] pcieport 0000:26:00.0: AER: Uncorrectable (Fatal) error message received from 0000:27:00.0\n"
        "[ 900.000000] nvidia 0000:27:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Data Link Layer, (Receiver ID)\n"
        "[ 900.000000] nvidia 0000:27:00.0:   device [10de:2330] error status/mask=00000020/00000000\n"
        "[ 900.000000] nvidia 0000:27:00.0:    [ 5] SDES                   (First)\n"
    )
    reset = (
        "[ 901.000000] pcieport 0000:26:00.0: AER: Root Port link has been reset (0)\n"
        "[ 901.000000] pcieport 0000:26:00.0: AER: device recovery failed\n"
    )

    assert kinds(text)[0] is Kind.DEVICE_LEFT_BUS
    assert kinds(text + reset) == [KIND]


def test_a_card_that_the_kernel_finds_again_within_a_minute_did_not_leave() -> None:
    """Its ids are read again: it answers, whether a driver takes it or not."""
    ids = "[{:12.6f}] pci 0000:61:00.0: [10de:1eb8] type 00 class 0x030200 PCIe Endpoint\n"
    text = (
        "[    0.900001] pci 0000:60:03.1: PCI bridge to [bus 61]\n"
        + ids.format(0.9001)
        + "[ 5000.000000] pcieport 0000:60:03.1: pciehp: Slot(3): Link Down\n"
    )

    assert kinds(text)[0] is Kind.DEVICE_LEFT_BUS
    assert kinds(text + ids.format(5010.0)) == [KIND]
    assert kinds(text + ids.format(6310.0))[0] is Kind.DEVICE_LEFT_BUS


BUSY_HEADER = "index, pci.bus_id, pcie.link.gen.current, pcie.link.gen.max, utilization.gpu [%]\n"


def test_a_low_generation_while_the_gpu_is_busy_is_likely() -> None:
    """Generation 1 of 4 at 97 % utilisation names both speeds."""
    verdict = only(BUSY_HEADER + "0, 00000000:27:00.0, 1, 4, 97 %\n")

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert "2.5 GT/s of 16 GT/s" in verdict.summary


@pytest.mark.parametrize(
    "rows",
    [
        "0, 00000000:27:00.0, 1, 4, 0 %\n",
        "0, 00000000:27:00.0, 4, 4, 97 %\n",
        "0, 00000000:27:00.0, 1, 4, 97 %\n0, 00000000:27:00.0, 4, 4, 99 %\n",
    ],
    ids=["idle", "full speed", "on its way up"],
)
def test_a_generation_that_rises_with_the_load_is_healthy(rows: str) -> None:
    """Idle, full speed, and one low sample at the start of the load give no verdict."""
    assert kinds(BUSY_HEADER + rows) == [Kind.NO_FAULT]


WHEA = (
    "Log Name:      System\nSource:        Microsoft-Windows-WHEA-Logger\nEvent ID:      17\n"
    "Description:\nA corrected hardware error has occurred.\n\n"
    "Component: PCI Express Root Port\nError Source: Advanced Error Reporting (PCI Express)\n\n"
    "Primary Bus:Device:Function: 0x0:0x1:0x1\nSecondary Bus:Device:Function: 0x2B:0x0:0x0\n"
    "Primary Device Name:PCI\\VEN_8086&DEV_A70D\nSecondary Device Name:PCI\\VEN_{}&DEV_2684\n"
)


def test_a_windows_event_of_the_port_is_the_gpu_s_that_it_names_below() -> None:
    """The secondary device says what sits on the port; a disk there is no GPU."""
    verdict = only(WHEA.format("10DE"))

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.POSSIBLE)
    assert pci(verdict) == "0000:2b:00.0"
    assert kinds(WHEA.format("144D")) == [Kind.NO_FAULT]


def test_a_board_s_own_log_speaks_of_the_gpu_that_the_kernel_names_there() -> None:
    """iDRAC writes the bus in decimal: 39 is 0x27."""
    verdict = first(
        BOUND + "A bus fatal error was detected on a component at bus 39 device 0 function 0.\n"
    )

    assert verdict.kind is KIND
    assert pci(verdict) == "0000:27:00.0"
