"""What the kernel logs of this boot and of the one before come to."""

from __future__ import annotations

from machines import GPU, QUIET, log, lost, nvml, only, run, scene, statuses

from gpuprobe.checks import Status, previous_boot, xids
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Known, Reason, Unavailable

LOSS = QUIET + (
    "[ 4021.118] NVRM: Xid (PCI:0000:65:00): 79, pid=2201, name=engine, "
    "GPU has fallen off the bus.\n"
    "[ 4021.118] NVRM: GPU 0000:65:00.0: GPU has fallen off the bus.\n"
)
TRAP = QUIET + "[ 311.5] NVRM: Xid (PCI:0000:65:00): 31, pid=77, name=engine, Ch 00000008\n"
FIRMWARE = QUIET + (
    "[ 900.1] NVRM: Xid (PCI:0000:65:00): 119, pid=8, name=engine, Timeout after 45s of waiting "
    "for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL) (0x20800a4c 0x4).\n"
)
SILENT = Unavailable(Reason.NOT_THERE, "nvmlInit returned LIBRARY_NOT_FOUND")


def test_a_quiet_boot(tree) -> None:
    """No Xid, said with the figure."""
    found = only(xids, scene(tree), "Xids")

    assert found.status is Status.OK
    assert found.figures == {"xids": 0}


def test_a_cut_log_is_not_called_quiet(tree) -> None:
    """Only part of it could be read."""
    found = run(xids, scene(tree, this_boot=log(QUIET, whole=False)))

    assert statuses(found) == {Status.NOT_CHECKED}


def test_an_unreadable_log_says_how(tree) -> None:
    """An ordinary user may not read it."""
    denied = Unavailable(Reason.NOT_PERMITTED, "/dev/kmsg", "Run it with sudo.")

    (found,) = run(xids, scene(tree, this_boot=denied))

    assert found.status is Status.NOT_CHECKED
    assert found.how == "Run it with sudo."


def test_a_loss_of_a_gpu_that_answers_again_is_past(tree) -> None:
    """A line with its time; it changes nothing."""
    found = only(xids, scene(tree, this_boot=log(LOSS)), "device-left-bus")

    assert found.status is Status.WARN
    assert found.subject == GPU
    assert "answers again" in found.text


def test_a_loss_that_nothing_speaks_against_lasts(tree) -> None:
    """The driver was not asked, and config space may answer although the driver lost it."""
    of = scene(tree, this_boot=log(LOSS), nvml=SILENT)

    assert only(xids, of, "device-left-bus").kind is Kind.DEVICE_LEFT_BUS


def test_a_lost_gpu_that_is_not_on_the_bus_now_is_gone(tree) -> None:
    """Its directory went, and only the log still knows it."""
    tree.remove(str(GPU))

    found = only(xids, scene(tree, this_boot=log(LOSS), nvml=Known({})), "device-left-bus")

    assert found.status is Status.BAD
    assert "not on the bus now" in found.text


def test_a_firmware_hang_lasts_until_the_gpu_answers(tree) -> None:
    """As a loss does."""
    past = scene(tree, this_boot=log(FIRMWARE))
    lasting = scene(tree, this_boot=log(FIRMWARE), nvml=nvml(**dict.fromkeys(
        ("power_w", "temp_c", "sm_clock_mhz", "pstate", "util_percent"), lost()
    )))  # fmt: skip

    assert only(xids, past, "gpu-firmware-hang").status is Status.WARN
    assert only(xids, lasting, "gpu-firmware-hang").kind is Kind.GPU_FIRMWARE_HANG


def test_a_programs_own_fault_is_a_note(tree) -> None:
    """Nothing is wrong with the GPU."""
    found = run(xids, scene(tree, this_boot=log(TRAP)))

    assert statuses(found) == {Status.NOTE}
    assert only(xids, scene(tree, this_boot=log(TRAP)), "Xids").figures == {"31": 1}


def test_other_gpus_are_left_out(tree) -> None:
    """With `--device`."""
    other = PciAddress.parse("0000:b1:00.0")

    found = run(xids, scene(tree, this_boot=log(LOSS), device=other))

    assert not any(f.subject == GPU for f in found)


def test_a_shutdown_in_order(tree) -> None:
    """The boot before ended as it should."""
    found = only(previous_boot, scene(tree), "end of last boot")

    assert found.status is Status.OK


def test_an_unclean_end_is_told_with_its_sign(tree) -> None:
    """This boot found the file system dirty."""
    this = log(QUIET + "[    2.1] EXT4-fs (sda2): recovery required on readonly filesystem\n")

    found = only(
        previous_boot, scene(tree, this_boot=this, previous_boot=log(QUIET)), "end of last boot"
    )

    assert found.status is Status.WARN
    assert "recovery required" in found.text
    assert found.figures == {"signs": 1}


def test_a_log_that_just_ends_is_a_warning(tree) -> None:
    """A reset, a power cut, or lines that were not kept."""
    found = only(previous_boot, scene(tree, previous_boot=log(QUIET)), "end of last boot")

    assert found.status is Status.WARN


def test_a_loss_in_the_boot_before_is_a_line(tree) -> None:
    """It speaks of the past, whatever the GPU does now."""
    found = only(previous_boot, scene(tree, previous_boot=log(LOSS)), "device-left-bus")

    assert found.status is Status.WARN
    assert found.kind is None
    assert found.figures == {"xids": [79]}


def test_no_boot_before_says_how_to_keep_one(tree) -> None:
    """A volatile journal forgets."""
    nothing = Unavailable(Reason.NOT_THERE, "the journal keeps no boot")

    (found,) = run(previous_boot, scene(tree, previous_boot=nothing))

    assert found.status is Status.NOT_CHECKED
    assert "/var/log/journal" in found.how
