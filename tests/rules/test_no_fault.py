"""When nothing in the inputs failed."""

from __future__ import annotations

import pytest
from _judging import kinds, only, unchecked

from gpuprobe.diagnosis import Kind, Role
from gpuprobe.errors import InputUnreadableError


def test_a_healthy_log_has_no_fault_and_says_what_it_did_not_see() -> None:
    """No certainty, no device, and the kernel log under not checked."""
    verdict = only("INFO:     Uvicorn running on http://0.0.0.0:8000\nINFO:     200 OK\n")

    assert (verdict.kind, verdict.certainty, verdict.device) == (Kind.NO_FAULT, None, None)
    assert "the kernel log" in unchecked(verdict)
    assert verdict.next_steps == ()


def test_blank_lines_have_no_fault_and_nothing_at_all_is_an_error() -> None:
    """Lines were read and none failed; where there is none, nobody knows."""
    assert only("\n\n").kind is Kind.NO_FAULT
    with pytest.raises(InputUnreadableError, match="empty"):
        only("")


@pytest.mark.parametrize(
    "text",
    [
        "Jul 01 09:00:00 h dhclient[9]: DHCPACK of 192.0.2.4 from 192.0.2.1 (xid=0x79)\n",
        "Jul 01 09:00:00 h kernel: e1000e 0000:00:1f.6 eno1: NIC Link is Down\n",
        "Jul 01 09:00:00 h bluetoothd[4]: 00:00:5E:00:53:01: link down\n",
        "[    3.000000] nvidia-nvlink: Nvlink Core is being initialized, major device number 235\n",
    ],
    ids=["dhcp", "network", "bluetooth", "nvlink-core"],
)
def test_lookalikes_are_no_fault(text: str) -> None:
    """Words that only look like a GPU's fault are quiet."""
    assert only(text).kind is Kind.NO_FAULT


def test_errors_of_other_devices_are_shown_as_context() -> None:
    """A disk's AER is quoted, and said to be none of the GPU's."""
    verdict = only(
        "[  100.000000] nvme 0000:03:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)\n"
    )

    assert verdict.kind is Kind.NO_FAULT
    assert [item.role for item in verdict.evidence] == [Role.CONTEXT]


def test_what_root_took_away_at_a_prompt_is_no_fault() -> None:
    """`#` is root's prompt before a command that writes, and a comment elsewhere."""
    text = (
        "# echo 0000:2b:00.0 > /sys/bus/pci/drivers/nvidia/unbind\n"
        "# echo 1 > /sys/bus/pci/devices/0000:2b:00.0/remove\n"
        "# nvidia-smi\n"
        "No devices were found\n"
    )

    assert kinds(text) == [Kind.NO_FAULT]
    assert kinds(text.replace("# echo", "# do not write")) == [Kind.CANNOT_TELL]


@pytest.mark.parametrize(
    "text",
    [
        "It would be great if the engine printed when a GPU has fallen off the bus (Xid 79).\n",
        "The loss goes to nan. Someone told me about GPUs falling off the bus, but dmesg is clean.\n",
        "There is no Xid 79 in dmesg and nvidia-smi works, so why is it slow?\n",
    ],
    ids=["wished", "hearsay", "denied"],
)
def test_a_fault_that_nobody_saw_is_no_fault(text: str) -> None:
    """A sentence that wishes for a message, repeats hearsay or denies tells of no fault."""
    assert kinds(text) == [Kind.NO_FAULT]
