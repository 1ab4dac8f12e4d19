"""When something failed and nothing decides what."""

from __future__ import annotations

import pytest
from _judging import findings, first, kinds, only, pci, unchecked

from gpuprobe.diagnosis import Kind, Role

KIND = Kind.CANNOT_TELL


def test_a_cuda_error_that_fits_both_cannot_be_told() -> None:
    """The sentence quotes the error, names no device and asks for the kernel log."""
    verdict = only("RuntimeError: CUDA error: unspecified launch failure\n")

    assert (verdict.kind, verdict.certainty) == (KIND, None)
    assert pci(verdict) is None
    assert "unspecified launch failure" in verdict.summary
    assert "journalctl -k" in unchecked(verdict)


def test_with_an_empty_handed_kernel_log_the_kernel_log_is_not_asked_for() -> None:
    """A kernel log that says nothing was looked at all the same."""
    verdict = only(
        "[  100.000000] nvidia 0000:1a:00.0: enabling device (0140 -> 0142)\n"
        "RuntimeError: CUDA error: unspecified launch failure\n"
    )

    assert verdict.kind is KIND
    assert "the kernel log" not in unchecked(verdict)


def test_only_somebody_s_words_are_context_and_prove_nothing() -> None:
    """Prose about an Xid gives a finding that says it is prose, and no Xid."""
    verdict = only("My GPU crashed with Xid 79 yesterday when I was training, what can I do?\n")

    assert verdict.kind is KIND
    assert verdict.xids == ()
    assert [item.role for item in verdict.evidence] == [Role.CONTEXT]
    assert "line 1" in verdict.summary


def test_an_unknown_xid_is_not_harmless() -> None:
    """A number that no table holds is named."""
    verdict = first(
        "[  100.000000] NVRM: Xid (PCI:0000:1a:00): 996, pid=1, name=a, something new\n"
    )

    assert verdict.kind is KIND
    assert verdict.xids == (996,)


def test_an_engine_that_died_without_a_word_cannot_be_told() -> None:
    """A worker's end alone decides nothing."""
    assert kinds(
        "[2027-01-05|10:00:00|FrontendAPI] ERROR    Backend supervisor: backend worker moe-TP0-scheduler exited\n"
    ) == [KIND]


def test_what_another_finding_explains_is_not_told_twice() -> None:
    """With a cause at hand there is no second verdict that it cannot be told."""
    text = (
        "[  100.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
        "RuntimeError: CUDA error: unspecified launch failure\n"
    )

    assert kinds(text) == [Kind.DEVICE_LEFT_BUS]
    assert findings(KIND, text)


def test_quiet_text_gives_nothing() -> None:
    """A healthy log has no finding."""
    assert findings(KIND, "INFO:     Application startup complete.\nINFO: 200 OK\n") == []


def test_a_task_of_the_driver_that_hangs_is_a_failure_without_a_cause() -> None:
    """A hung nvidia-smi is told, and is no loss; another program's hang is the host's."""
    hung = "[ 8110.110101] INFO: task {}:4411 blocked for more than 122 seconds.\n"

    assert kinds(hung.format("nvidia-smi")) == [Kind.CANNOT_TELL]
    assert kinds(hung.format("btrfs-cleaner")) == [Kind.NO_FAULT]


def test_a_module_that_is_missing_is_no_error_of_the_gpus_side() -> None:
    """Its name may hold `gpu`; the import of a name such as DeviceLostError is no lost device."""
    text = (
        "Traceback (most recent call last):\n"
        '  File "/opt/engine/serve.py", line 18, in <module>\n'
        "    from gpu_tools import DeviceLostError, guard\n"
        "ModuleNotFoundError: No module named 'gpu_tools'\n"
    )

    assert kinds(text) == [Kind.NO_FAULT]


def test_a_cpu_that_the_driver_keeps_for_itself_is_a_failure_without_a_cause() -> None:
    """A soft lockup counts where its task or its trace is the GPU driver's."""
    stuck = "[  900.000000] watchdog: BUG: soft lockup - CPU#3 stuck for 26s! [{}]\n"
    trace = "[  900.000100] RIP: 0010:_nv021234rm+0x12/0x40 [nvidia]\n"

    assert kinds(stuck.format("nv_queue:811")) == [KIND]
    assert kinds(stuck.format("python3:4411") + trace) == [KIND]
    assert kinds(stuck.format("python3:4411")) == [Kind.NO_FAULT]


def test_a_fault_of_the_kernel_counts_where_it_stands_in_the_gpu_s_driver() -> None:
    """An oops elsewhere is context: host faults are no verdict."""
    oops = (
        "[  900.000000] BUG: unable to handle page fault for address: ffffb3c1c0a01000\n"
        "[  900.000100] RIP: 0010:uvm_va_block_find+0x12/0x90 [{}]\n"
    )

    assert kinds(oops.format("nvidia_uvm")) == [KIND]
    assert kinds(oops.format("zfs")) == [Kind.NO_FAULT]


@pytest.mark.parametrize(
    "line",
    [
        "   2 | 03/03/2026 | 03:14:02 | Critical Interrupt #0x79 | Bus Fatal Error | Asserted\n",
        "Description: A bus fatal error was detected on a component at bus 65 device 0 function 0.\n",
        '412,Critical,PCI Bus,03/03/2026 03:14,1,"Uncorrectable PCI Express Error Detected. Slot 3 (Segment 0x0, Bus 0x41, Device 0x0, Function 0x0). Uncorrectable Error Status: 0x00000020"\n',
    ],
)
def test_a_board_s_own_log_names_an_error_and_not_whose(line: str) -> None:
    """A BMC's PCIe error is no GPU's by itself, and the kernel log is still asked for."""
    verdict = only(line)

    assert verdict.kind is KIND
    assert "the kernel log" in unchecked(verdict)


def test_a_device_that_was_ready_after_its_reset_failed_nothing() -> None:
    """A guest's start resets the card, and it answers two seconds later."""
    waiting = "[  100.000000] vfio-pci 0000:2b:00.0: not ready 1023ms after FLR; waiting\n"
    ready = "[  101.500000] vfio-pci 0000:2b:00.0: ready 2047ms after FLR\n"

    assert kinds(waiting) == [KIND]
    assert kinds(waiting + ready) == [Kind.NO_FAULT]


def test_what_a_loss_quotes_already_is_no_open_question_beside_it() -> None:
    """nvidia-smi has no handle, and lspci below it reads all ones: one story."""
    text = (
        "$ nvidia-smi\n"
        "Unable to determine the device handle for GPU0000:2B:00.0: Unknown Error\n"
        "$ lspci | grep VGA\n"
        "2b:00.0 VGA compatible controller: NVIDIA Corporation GA102 [GeForce RTX 3090] (rev ff)\n"
    )

    assert kinds(text) == [Kind.DEVICE_LEFT_BUS]


def test_an_x_driver_that_waits_cannot_be_told() -> None:
    """A GPU that hangs and one that is gone make it wait alike."""
    verdict = only(
        "[   811.301] (WW) NVIDIA: Wait for channel idle timed out.\n"
        "[   840.011] (EE) NVIDIA(0): Failed to recover from error!\n"
    )

    assert verdict.kind is KIND
    assert "waits for the GPU" in verdict.summary


def test_an_error_of_a_device_in_a_guest_cannot_be_told_unless_it_is_a_gpu() -> None:
    """QEMU names an address alone; a line that knows the GPU there makes it link trouble."""
    said = "pve QEMU[411]: kvm: vfio_err_notifier_handler(0000:c1:00.0) Unrecoverable error detected. Please collect any data possible and then kill the guest\n"
    gpu = (
        "c1:00.0 VGA compatible controller: NVIDIA Corporation AD102 [GeForce RTX 4090] (rev a1)\n"
    )

    assert kinds(said) == [KIND]
    assert kinds(gpu + said) == [Kind.PCIE_LINK_ERRORS]


@pytest.mark.parametrize(
    "line",
    [
        "A PCIe replay event has violated policy manager values.",
        "Detected fatal errors on NvSwitch 2 link 30",
        "   Reason=gres/gpu count reported lower than configured (7 < 8) [slurm@2026-02-02T10:11:12]",
        "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
    ],
)
def test_what_an_observer_of_gpus_reports_is_a_failure(line: str) -> None:
    """DCGM, Slurm and NCCL speak of GPUs whatever their words are."""
    assert kinds(line + "\n") == [KIND]


def test_a_task_that_waits_deep_in_the_driver_hangs_there() -> None:
    """Whatever its name: its trace ends in the driver's code."""
    head = "[ 900.000001] INFO: task trainer:8123 blocked for more than 120 seconds.\n[ 900.000002] Call Trace:\n[ 900.000003]  <TASK>\n[ 900.000004]  __schedule+0x2cd/0x890\n"
    frame = "[ 900.000005]  os_acquire_mutex+0x41/0x60 [nvidia]\n[ 900.000006]  </TASK>\n"

    assert first(head + frame).kind is KIND
    assert first(head + frame.replace("nvidia", "nfsd")).kind is Kind.NO_FAULT


def test_a_job_that_its_node_failed_is_an_open_question() -> None:
    """Slurm knows that the node went away, not why."""
    assert first("   JobState=NODE_FAIL Reason=NodeDown Dependency=(null)\n").kind is KIND


def test_an_xid_that_is_denied_denies_its_meaning_too() -> None:
    """A check that passed explains in brackets what it looked for."""
    said = '{"name":"xid_79","status":"PASS","details":"no XID 79 (GPU has fallen off the bus) found"}\n'

    assert first(said).kind is Kind.NO_FAULT
    assert first(said.replace("no XID", "XID")).kind is not Kind.NO_FAULT
    assert first("OK: no 'fallen off the bus' messages in dmesg\n").kind is Kind.NO_FAULT


def test_an_error_that_a_title_names_is_an_open_question() -> None:
    """Somebody met it, and shows no log; who wishes for its words met nothing."""
    verdict = only("[Bug]: RuntimeError: CUDA error: unspecified launch failure\n\nAny idea?\n")

    assert verdict.kind is KIND
    assert "CUDA 719" in verdict.summary
    wish = "It would be great if CUDA error: unknown error had a hint.\n"
    assert kinds(wish) == [Kind.NO_FAULT]
    assert kinds("[Bug]: CUDA error: out of memory on start, any idea?\n") != [KIND]


def test_a_log_with_a_no_break_space_in_it_is_read() -> None:
    """Browsers and chats put it in what is copied out of them."""
    text = "NVRM: Xid (PCI:0000:3b:00): 31, pid=811, name=llmserve, MMU Fault".replace(" ", "\xa0")

    assert kinds(f"$ dmesg\n{text}\n") == [Kind.APPLICATION_FAULT]


def test_a_gpu_that_waits_for_a_reset_failed_before_the_log_begins() -> None:
    """The driver's calls say so; where the fault itself stands in the log, that is the answer."""
    owed = "[  990.1] NVRM: nvAssertOkFailedNoLog: Assertion failed: Reset required [NV_ERR_RESET_REQUIRED] (0x00000062) returned from aCall()\n"
    fault = "[  980.1] NVRM: Xid (PCI:0000:1a:00): 109, pid=7, name=train, Ch 00000010, errorString CTX SWITCH TIMEOUT, Info 0x1\n"

    assert kinds(owed) == [KIND]
    assert kinds(fault + owed) == [Kind.GPU_HANG]
