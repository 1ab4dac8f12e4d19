"""When a GPU is said to have left the bus, and when not."""

from __future__ import annotations

import pytest
from _judging import findings, first, kinds, lines, only, pci, unchecked

from gpuprobe.diagnosis import Certainty, Kind, Role

KIND = Kind.DEVICE_LEFT_BUS
BOUND = "[    8.100000] nvidia 0000:27:00.0: enabling device (0140 -> 0142)\n"
BELOW = (
    BOUND
    + "[    1.900000] pci 0000:27:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x16 link at 0000:26:00.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
)
XID79 = "[ 2750.123456] NVRM: Xid (PCI:0000:27:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus.\n"


@pytest.mark.parametrize(
    "text",
    [
        XID79,
        "[ 2750.100000] NVRM: Xid (0000:27:00): 79, GPU has fallen off the bus.\n",
        "[ 2750.100000] NVRM: GPU 0000:27:00.0: GPU has fallen off the bus.\n",
        "[   41.700000] NVRM: GPU at 0000:27:00.0 has fallen off the bus.\n",
        "[   12.200000] NVRM: The NVIDIA GPU 0000:27:00.0\n[   12.200000] NVRM: (PCI ID: 10de:2204) installed in this system has\n[   12.200000] NVRM: fallen off the bus and is not responding to commands.\n",
        BOUND + "[ 2750.100000] nvidia 0000:27:00.0: Unable to change power state from D0 to D3hot, device inaccessible\n",
        BOUND + "[ 2750.100000] nvidia 0000:27:00.0: not ready 65535ms after bus reset; giving up\n",
        BOUND + "[ 2750.100000] nvidia 0000:27:00.0: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Inaccessible, (Unregistered Agent ID)\n",
        BELOW + "[ 2750.100000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Down\n",
        BELOW + "[ 2750.100000] pcieport 0000:26:00.0: DPC: containment event, status:0x1f01 source:0x2700\n",
        "[ 2750.100000] amdgpu 0000:27:00.0: amdgpu: device lost from bus!\n",
    ],
    ids=[
        "xid", "xid-old", "no-xid", "no-xid-old", "probe", "power-state", "not-ready",
        "inaccessible", "link-down", "dpc", "amdgpu",
    ],
)  # fmt: skip
def test_every_proof_by_itself_confirms_the_loss(text: str) -> None:
    """One proof line that names the device is enough, and the device is the one it names."""
    verdict = first(text)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert pci(verdict) == "0000:27:00.0"


@pytest.mark.parametrize(
    "text",
    [
        "RuntimeError: CUDA error: unspecified launch failure\n",
        "[ 2750.100000] NVRM: Xid (PCI:0000:27:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)\n",
        "No devices were found\n",
        "[ 2750.100000] NVRM: Xid (PCI:0000:27:00): 45, pid=991, name=python3, Ch 00000010\n",
        "[ 2750.100000] INFO: task nvidia-smi:991 blocked for more than 120 seconds.\n",
        "5e:00.0 3D controller [0302]: NVIDIA Corporation GH100 [10de:2331] (rev a1)\n\t\tLnkCap:\tPort #0, Speed 32GT/s, Width x16\n\t\tLnkSta:\tSpeed 2.5GT/s (downgraded), Width x16\n",
        "[   21.400000] nvidia 0000:27:00.0: not ready 1023ms after FLR; waiting\n",
        "[ 2750.100000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Down\n",
        "[    2.100000] pcieport 0000:26:00.0: pciehp: Slot(7): Card not present\n",
        "[    1.100000] pcieport 0000:26:00.0: pciehp: Slot(7): Card not present\n" + BELOW.replace("[    8.1", "[  108.1"),
    ],
    ids=[
        "cuda", "xid-154", "no-devices", "xid-45", "hung-smi", "idle-generation", "waiting",
        "port-without-gpu", "empty-slot-at-boot", "slot-set-up-above-a-gpu",
    ],
)  # fmt: skip
def test_what_is_no_proof_never_fires(text: str) -> None:
    """Words that go with a loss and with other things give no loss at any certainty."""
    assert findings(KIND, text) == []
    assert KIND not in kinds(text)


def test_a_tool_that_asks_nvml_is_a_witness() -> None:
    """GPU_IS_LOST of NVML for a device is a proof."""
    verdict = first(
        "Unable to determine the device handle for GPU0000:27:00.0: GPU is lost.  Reboot the system to recover this GPU\n"
    )

    assert verdict.kind is KIND
    assert pci(verdict) == "0000:27:00.0"


def test_a_bare_line_is_at_most_likely() -> None:
    """The words alone on a line, with no log around them, may be anybody's print."""
    verdict = first(
        "the trainer died and then\nGPU has fallen off the bus.\nthat is what it printed\n"
        + "NVRM: GPU 0000:27:00.0: GPU has fallen off the bus.\n"
    )

    assert verdict.kind in (KIND, Kind.CANNOT_TELL)
    assert verdict.certainty is not Certainty.CONFIRMED


def test_a_loss_without_an_address_names_no_device() -> None:
    """Where no line says which GPU, none is guessed, and it is at most likely."""
    verdict = first(
        "Aug 12 03:10:40 box gpuwatch[88]: nvmlDeviceGetUtilizationRates: GPU is lost\n"
    )

    assert verdict.kind is KIND
    assert pci(verdict) is None
    assert verdict.certainty is Certainty.LIKELY


def test_clean_up_words_alone_are_likely() -> None:
    """Status 0x0f in the driver's clean-up is support: a likely loss."""
    verdict = first(
        BOUND
        + "[ 2751.000000] NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!\n"
        "[ 2751.100000] NVRM: nvCheckOkFailedNoLog: Check failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) returned from kgraphicsFree()\n"
    )

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert "probably" in verdict.summary


def test_clean_up_words_after_a_proof_are_consequences() -> None:
    """The same words behind an Xid 79 are folded under it."""
    verdict = only(
        XID79
        + "[ 2751.000000] NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!\n"
    )

    assert lines(verdict, Role.PROOF) == [1]
    assert lines(verdict, Role.CONSEQUENCE) == [2]


def test_a_link_that_comes_back_within_a_minute_is_no_loss() -> None:
    """Link Down and Link Up 30 s later is link trouble."""
    text = (
        BELOW
        + "[ 2750.000000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Down\n[ 2780.000000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Up\n"
    )

    assert findings(KIND, text) == []
    assert kinds(text)[0] is Kind.PCIE_LINK_ERRORS


PLUGGED = (
    "[  900.000000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Up\n"
    "[  900.200000] pci 0000:27:00.0: [10de:2684] type 00 class 0x030000 PCIe Legacy Endpoint\n"
)


def test_a_gpu_found_as_a_slot_gets_its_link_hangs_on_that_slot() -> None:
    """No line names both, but the kernel finds the GPU right after the slot's Link Up."""
    down = "[ 2750.000000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Down\n"
    verdict = first(PLUGGED + down)

    assert (verdict.kind, pci(verdict)) == (KIND, "0000:27:00.0")
    assert kinds(down.replace("2750", "0899") + PLUGGED)[0] is Kind.PCIE_LINK_ERRORS


def test_a_gpu_found_long_after_a_slot_s_link_is_not_tied_to_it() -> None:
    """A disk was put into the slot, and the GPU came with a later rescan."""
    down = "[ 2750.000000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Down\n"
    later = PLUGGED.replace("900.200000", "990.200000")

    assert findings(KIND, later + down) == []
    assert (
        findings(KIND, later.replace("[  990.200000] ", "").replace("[  900.000000] ", "") + down)
        == []
    )


def test_of_two_slots_that_get_a_link_at_a_time_none_is_the_gpu_s() -> None:
    """Which of them the GPU hangs on is not said."""
    other = PLUGGED.splitlines(keepends=True)[0].replace("26:00.0", "2a:00.0")
    down = "[ 2750.000000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Down\n"

    assert findings(KIND, other + PLUGGED + down) == []


def test_a_gpu_that_windows_misses_on_its_bus_is_likely_lost() -> None:
    """Windows says the same of a card that was unplugged or switched off on purpose."""
    verdict = first(
        'Information\t3/1/2026 4:02:11 PM\tKernel-PnP\t420\t(214)\t"Device PCI\\VEN_10DE&DEV_2204&REV_A1\\4&1 was surprise removed as it was reported as missing on the bus."\n'
        'Error\t3/1/2026 4:02:13 PM\tnvlddmkm\t14\tNone\t"\\Device\\Video3\n'
    )

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert "on purpose" in verdict.summary


def test_a_link_that_comes_back_after_more_than_a_minute_was_a_loss() -> None:
    """Link Up two minutes later does not undo the loss."""
    text = (
        BELOW
        + "[ 2750.000000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Down\n[ 2871.000000] pcieport 0000:26:00.0: pciehp: Slot(7): Link Up\n"
    )

    assert kinds(text)[0] is KIND


def test_a_removal_on_purpose_is_no_loss() -> None:
    """An absence that somebody asked for a minute before is not held against the GPU."""
    text = (
        "Apr 02 10:00:00 h kernel: nvidia 0000:27:00.0: enabling device (0140 -> 0142)\n"
        "Apr 02 11:00:00 h sudo[1]:  ada : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/tee /sys/bus/pci/devices/0000:27:00.0/remove\n"
        "Apr 02 11:00:05 h kernel: NVRM: GPU 0000:27:00.0: GPU has fallen off the bus.\n"
    )

    assert KIND not in kinds(text)
    assert kinds(text.replace("11:00:05", "12:00:05"))[0] is KIND


def test_a_device_that_its_driver_could_not_take_is_a_gpu() -> None:
    """The NVIDIA driver is offered GPUs alone: what vfio said of the device is about a GPU."""
    silent = "[  80.100000] vfio-pci 0000:3b:00.0: not ready 65535ms after bus reset; giving up\n"
    refused = "[  99.000001] nvidia 0000:3b:00.0: probe with driver nvidia failed with error -1\n"
    verdict = first(silent + refused)

    assert (verdict.kind, pci(verdict)) == (Kind.DEVICE_LEFT_BUS, "0000:3b:00.0")
    assert first(silent).kind is Kind.CANNOT_TELL


def test_a_removal_of_another_device_excuses_nothing() -> None:
    """Somebody took out another card: this GPU's loss stands."""
    text = (
        "Apr 02 11:00:00 h sudo[1]:  ada : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/tee /sys/bus/pci/devices/0000:81:00.0/remove\n"
        "Apr 02 11:00:05 h kernel: NVRM: GPU 0000:27:00.0: GPU has fallen off the bus.\n"
    )

    assert kinds(text)[0] is KIND


def test_a_removal_of_the_port_above_takes_the_gpu_with_it() -> None:
    """Whoever removes a port removes what lies below it."""
    text = (
        "Apr 02 10:00:00 h kernel: pci 0000:27:00.0: 126.016 Gb/s available PCIe bandwidth, limited by 8.0 GT/s PCIe x16 link at 0000:26:00.0 (capable of 252.048 Gb/s with 16.0 GT/s PCIe x16 link)\n"
        "Apr 02 11:00:00 h sudo[1]:  ada : TTY=pts/0 ; PWD=/ ; USER=root ; COMMAND=/usr/bin/tee /sys/bus/pci/devices/0000:26:00.0/remove\n"
        "Apr 02 11:00:05 h kernel: NVRM: GPU 0000:27:00.0: GPU has fallen off the bus.\n"
    )

    assert KIND not in kinds(text)


def test_config_space_that_answers_later_speaks_for_the_driver() -> None:
    """Only the driver lost it: still confirmed, worded so, and it speaks against the link."""
    verdict = first(
        XID79
        + "27:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x16\n"
    )

    assert verdict.certainty is Certainty.CONFIRMED
    assert "config space still answers" in verdict.summary
    assert {cause.cause: cause.score for cause in verdict.causes}["link"] == "against"
    assert "config space" not in unchecked(verdict)


def test_all_ones_of_a_card_that_may_sleep_are_at_most_likely() -> None:
    """`rev ff` reads the same for a GPU that is powered down on purpose."""
    verdict = first(
        "27:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev ff)\n"
    )

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)


def test_all_ones_of_a_sleeping_card_are_nothing() -> None:
    """Where runtime_status says suspended, all ones are expected."""
    text = (
        "/sys/bus/pci/devices/0000:27:00.0/power/runtime_status:suspended\n"
        "27:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev ff)\n"
    )

    assert kinds(text) == [Kind.NO_FAULT]
    assert kinds(text.replace("suspended", "active"))[0] is KIND


def test_all_ones_of_a_card_whose_power_state_is_active_are_proof() -> None:
    """The runtime status decides, in a log or a shell's transcript; that of another card says nothing."""
    text = (
        "lee@forge:~$ cat /sys/bus/pci/devices/0000:27:00.0/power/runtime_status\nactive\n"
        "lee@forge:~$ lspci -s 27:00.0\n"
        "27:00.0 3D controller: NVIDIA Corporation GH100 [H100 PCIe] (rev ff)\n"
    )

    assert first(text).certainty is Certainty.CONFIRMED
    assert first(text.replace("0000:27:00.0", "0000:28:00.0")).certainty is Certainty.LIKELY

    asleep = "".join(f"2026-08-08T08:08:08.1Z {line}\n" for line in text.splitlines())
    assert kinds(asleep.replace("Z active", "Z suspended")) == [Kind.NO_FAULT]


def test_all_ones_of_a_sound_function_whose_gpu_answers_are_nothing() -> None:
    """The functions of a card sleep by themselves; a lost card is silent in all of them."""
    gpu = (
        "27:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev a1)\n"
    )
    sound = (
        "27:00.1 Audio device: NVIDIA Corporation GA102 High Definition Audio Controller (rev ff) (prog-if ff)\n"
        "\t!!! Unknown header type 7f\n\t\tLnkSta:\tSpeed unknown, Width x63\n"
    )

    assert kinds(gpu + sound) == [Kind.NO_FAULT]
    assert kinds(gpu.replace(" (rev a1)", "") + sound) == [Kind.NO_FAULT]
    assert kinds(gpu.replace("a1", "ff") + sound)[0] is KIND
    assert kinds(gpu.replace(" (rev a1)", "\n(rev ff)") + sound)[0] is KIND


def test_a_uuid_is_the_gpu_that_a_row_of_names_ties_it_to() -> None:
    """A device plugin knows the UUID alone; a query without a figure says where that GPU is."""
    uuid = "GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc"
    text = (
        f"XidCriticalError: Xid=79 on Device={uuid}; marking device as unhealthy.\n"
        f"index, uuid, pci.bus_id\n0, {uuid.replace('0d', '1d')}, 00000000:18:00.0\n"
        f"1, {uuid}, 00000000:27:00.0\n"
    )

    assert pci(first(text)) == "0000:27:00.0"


def test_a_slot_that_is_powered_off_by_its_button_loses_nothing() -> None:
    """Somebody pressed it, or a virtual machine's host took the device away."""
    text = (
        "[   10.000001] nvidia 0000:27:00.0: enabling device (0140 -> 0142)\n"
        "[   10.000002] pci 0000:26:01.0: PCI bridge to [bus 27]\n"
        "[ 9000.000001] pcieport 0000:26:01.0: pciehp: Slot(7): Powering off due to button press\n"
        "[ 9005.000001] pcieport 0000:26:01.0: pciehp: Slot(7): Card not present\n"
    )

    assert kinds(text) == [Kind.NO_FAULT]
    assert (
        kinds(text.replace("26:01.0: pciehp: Slot(7): Pow", "25:01.0: pciehp: Slot(7): Pow"))[0]
        is KIND
    )
    assert (
        kinds(text.replace("Powering off due to button press", "Attention button pressed"))[0]
        is KIND
    )


def test_a_driver_that_finds_the_gpu_dead_after_it_was_unloaded_found_a_loss() -> None:
    """Unloading a driver takes no GPU off the bus."""
    act = "Jan 10 10:00:00 lab sudo[81]: lee : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/sbin/rmmod nvidia\n"
    gone = (
        "Jan 10 10:00:22 lab kernel: NVRM: The NVIDIA GPU 0000:27:00.0\n"
        "Jan 10 10:00:22 lab kernel: NVRM: (PCI ID: 10de:2204) installed in this system has\n"
        "Jan 10 10:00:22 lab kernel: NVRM: fallen off the bus and is not responding to commands.\n"
    )

    assert first(act + gone).kind is KIND
    asleep = "Jan 10 10:00:22 lab kernel: nvidia 0000:27:00.0: Unable to change power state from D3cold to D0, device inaccessible\n"
    assert first(act + asleep).kind is not KIND


def test_a_gpu_that_does_not_come_back_from_a_reset_is_lost() -> None:
    """Who resets a device wants it back, however long that takes."""
    act = "Jan 10 10:00:00 lab sudo[81]: lee : TTY=pts/0 ; PWD=/root ; USER=root ; COMMAND=/usr/bin/nvidia-smi --gpu-reset -i 2\n"
    end = "Jan 10 10:01:10 lab kernel: nvidia 0000:27:00.0: not ready 65535ms after bus reset; giving up\n"

    assert first(act + end).kind is KIND


@pytest.mark.parametrize("hidden", ["<redacted>", "...", "[REMOVED]", "***"])
def test_an_address_that_was_taken_out_names_no_device(hidden: str) -> None:
    """The kernel's line counts none the less; a form that somebody describes does not."""
    line = XID79.replace("0000:27:00", hidden)

    found = first(line)

    assert (found.kind, found.certainty, pci(found)) == (KIND, Certainty.LIKELY, None)
    told = f"NVRM: Xid (PCI:{hidden}): 79 is what a lost GPU prints\n"
    assert first(told).kind is not KIND


def test_two_gpus_that_leave_are_two_verdicts() -> None:
    """Each GPU with its own proof has its own verdict."""
    text = XID79 + XID79.replace("27:00", "28:00")

    assert kinds(text) == [KIND, KIND]


def test_the_witness_is_not_called_the_cause() -> None:
    """The time of an Xid 79 is when the loss was noticed."""
    verdict = only(XID79.replace("'<unknown>'", "4711").replace("<unknown>", "nvidia-smi"))

    assert "noticed" in verdict.summary
    assert "nvidia-smi" not in verdict.summary


def test_what_was_not_seen_is_listed_with_the_way_to_see_it() -> None:
    """No samples, no reading of config space, no link state: three rows, each with a command."""
    text = unchecked(only(XID79))

    assert "nvidia-smi --query-gpu" in text
    assert "setpci -s 0000:27:00.0" in text
    assert "lspci -vvv -s 0000:27:00.0" in text
    assert "the kernel log" not in text


def test_a_vendor_id_of_all_ones_is_a_config_space_that_does_not_answer() -> None:
    """The output of setpci that the report asks for is understood; a vendor's id is no loss."""
    asked = "[    8.000000] nvidia 0000:1a:00.0: enabling device (0140 -> 0142)\n$ sudo setpci -s 0000:1a:00.0 VENDOR_ID\n"

    verdict = first(asked + "ffff\n")
    assert (verdict.kind, verdict.certainty) == (Kind.DEVICE_LEFT_BUS, Certainty.LIKELY)
    assert kinds(asked + "10de\n") == [Kind.NO_FAULT]


def test_a_gpu_without_a_handle_is_a_gpu_whose_config_space_counts() -> None:
    """nvidia-smi names it, setpci reads all ones."""
    verdict = first(
        "$ nvidia-smi\nUnable to determine the device handle for GPU0: 0000:1a:00.0: Unknown Error\n"
        "$ sudo setpci -s 1a:00.0 VENDOR_ID\nffff\n"
    )

    assert (verdict.kind, pci(verdict)) == (KIND, "0000:1a:00.0")


def test_all_ones_of_a_card_that_is_switched_off_are_nothing() -> None:
    """A laptop's second GPU without power reads as a lost one does."""
    lspci = "01:00.0 3D controller: NVIDIA Corporation GM107M [GeForce GTX 960M] (rev ff)\n"
    off = "[   13.345101] bbswitch: Succesfully loaded. Discrete card 0000:01:00.0 is off\n"

    assert kinds(lspci)[0] is KIND
    assert kinds(off + lspci) == [Kind.NO_FAULT]


def test_a_gpu_that_nvidia_smi_drained_is_no_loss() -> None:
    """Somebody took it away with `nvidia-smi drain`."""
    text = (
        "# nvidia-smi drain -p 0000:27:00.0 -m 1\n# nvidia-smi drain -p 0000:27:00.0 -r\n"
        "# nvidia-smi\nNo devices were found\n"
    )

    assert kinds(text) == [Kind.NO_FAULT]
