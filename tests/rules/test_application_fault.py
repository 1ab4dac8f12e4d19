"""When the program is at fault and the GPU is healthy."""

from __future__ import annotations

import pytest
from _judging import findings, first, kinds, lines, only, pci, unchecked

from gpuprobe.diagnosis import Certainty, Kind, Role

KIND = Kind.APPLICATION_FAULT
XID43 = (
    "[  511.200000] NVRM: Xid (PCI:0000:1a:00): 43, pid=8800, name=python3, channel 0x00000012\n"
)
XID31 = "[  511.200000] NVRM: Xid (PCI:0000:1a:00): 31, pid=8800, name=python3, channel 0x00000012, intr 00000000. MMU Fault: ENGINE GRAPHICS GPC0 GPCCLIENT_T1_0 faulted @ 0x7f00_10000000. Fault is of type FAULT_PDE ACCESS_TYPE_VIRT_READ\n"
XID13 = "[  511.200000] NVRM: Xid (PCI:0000:1a:00): 13, pid=8800, name=python3, Graphics Exception: channel 0x00000012, Class 0000cbc0, Offset 00000510, Data 0017e2ac\n"


@pytest.mark.parametrize("line", [XID13, XID31], ids=["13", "31"])
def test_an_xid_of_the_program_confirms_it(line: str) -> None:
    """Xid 13 and 31 name the GPU, which is healthy."""
    verdict = only(line)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert pci(verdict) == "0000:1a:00.0"
    assert "healthy" in verdict.summary


ASKS = "[  512.000000] NVRM: Xid (PCI:0000:{}:00): 154, pid=8800, name=python3, GPU recovery action changed from 0x0 (None) to 0x{} ({})\n"


@pytest.mark.parametrize(
    ("value", "words", "asks", "command"),
    [
        (1, "GPU Reset Required", "a reset of this GPU", "sudo nvidia-smi -i 0000:1a:00.0 -r"),
        (4, "Drain and Reset", "a reset of this GPU", "sudo nvidia-smi -i 0000:1a:00.0 -r"),
        (1, "PF FLR", "a reset of this GPU", "sudo nvidia-smi -i 0000:1a:00.0 -r"),
        (2, "Node Reboot Required", "a reboot", "sudo reboot"),
        (7, "System Reboot", "a reboot", "sudo reboot"),
    ],
)
def test_a_gpu_that_owes_a_reset_is_not_called_healthy(
    value: int, words: str, asks: str, command: str
) -> None:
    """The program is at fault, and the driver asks for more than its end: that step is first."""
    verdict = only(XID31 + ASKS.format("1a", value, words))

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert "healthy" not in verdict.summary
    assert verdict.summary.endswith(f"; the driver asks for {asks} (Xid 154).")
    assert verdict.next_steps[0].command == command


@pytest.mark.parametrize(
    "asks",
    [
        ASKS.format("1a", 0, "None"),
        ASKS.format("1a", 3, "Drain P2P"),
        ASKS.format("1b", 1, "GPU Reset Required"),
        ASKS.format("1a", 1, "GPU Reset Required") + ASKS.format("1a", 0, "None"),
        "[    0.000000] Linux version 6.12.0 (a@b)\n" + ASKS.format("1a", 1, "GPU Reset Required"),
    ],
    ids=["nothing", "traffic only", "another GPU", "taken back", "another boot"],
)
def test_a_gpu_that_owes_nothing_is_healthy(asks: str) -> None:
    """Xid 154 with nothing to do for this GPU in this boot."""
    assert "is healthy" in findings(KIND, XID31 + asks)[0].summary


def test_xid_43_alone_is_likely_and_with_the_program_s_error_confirmed() -> None:
    """The driver ended a channel; the program's own words make it a proof."""
    alone = only(XID43)
    both = only(XID43 + "RuntimeError: CUDA error: unspecified launch failure\n")

    assert alone.certainty is Certainty.LIKELY
    assert both.certainty is Certainty.CONFIRMED


def test_an_error_hours_after_the_xid_is_another_fault() -> None:
    """The Xid of the morning says nothing of what a program prints at noon."""
    xid = "Mar 14 06:00:00 n1 kernel: " + XID31.partition("] ")[2]
    error = "python3[8800]: RuntimeError: CUDA error: an illegal memory access was encountered\n"
    (beside,) = findings(KIND, f"{xid}Mar 14 06:01:00 n1 {error}")
    morning, noon = findings(KIND, f"{xid}Mar 14 12:00:00 n1 {error}")

    assert [cited.event.origin.line for cited in beside.cited] == [1, 2]
    assert [cited.event.origin.line for cited in morning.cited] == [1]
    assert [cited.event.origin.line for cited in noon.cited] == [2]


@pytest.mark.parametrize(
    "words",
    [
        "RuntimeError: CUDA error: an illegal memory access was encountered",
        "RuntimeError: CUDA error: device-side assert triggered",
        "RuntimeError: CUDA error: misaligned address",
    ],
)
def test_the_program_s_words_alone_are_likely(words: str) -> None:
    """Codes that only a program can cause need no kernel log to be likely."""
    verdict = only(words + "\n")

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert pci(verdict) is None


@pytest.mark.parametrize(
    "words", ["unspecified launch failure", "unknown error", "no CUDA-capable device is detected"]
)
def test_words_that_a_lost_gpu_prints_too_are_nobody_s(words: str) -> None:
    """719, 999 and 100 alone are not the program's."""
    text = f"RuntimeError: CUDA error: {words}\n"

    assert findings(KIND, text) == []
    assert kinds(text) == [Kind.CANNOT_TELL]
    assert "the kernel log" in unchecked(only(text))


def test_after_a_loss_the_same_error_is_a_consequence() -> None:
    """Xid 43 and the CUDA error behind an Xid 79 are folded."""
    lost = "[  510.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
    verdict = only(lost + XID43)

    assert verdict.kind is Kind.DEVICE_LEFT_BUS
    assert lines(verdict, Role.CONSEQUENCE) == [2]


def test_a_fault_on_another_gpu_is_not_explained_by_a_loss() -> None:
    """A page fault of another GPU's program stands for itself."""
    lost = "[  510.000000] NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.\n"

    assert kinds(lost + XID31) == [Kind.DEVICE_LEFT_BUS, KIND]


def test_a_profiler_is_named() -> None:
    """nsys can give 719 by itself: the log's line about it is shown as context."""
    verdict = first(
        "[  511.200000] NVRM: Xid (PCI:0000:1a:00): 13, Graphics SM Warp Exception on (GPC 1, TPC 4, SM 0): Misaligned Address\n"
        "+ nsys profile -o out python3 train.py\n"
        "RuntimeError: CUDA error: unspecified launch failure\n"
    )

    assert any("profiler" in item.says for item in verdict.evidence if item.role is Role.CONTEXT)


def test_the_bus_is_ruled_out_by_figures_only_with_a_kernel_log() -> None:
    """With a kernel log the absence of Xid 79 is a figure; without one it is not said."""
    (ruled,) = only(XID31).ruled_out

    assert ruled.kind is Kind.DEVICE_LEFT_BUS
    assert ruled.figures["xid_79"] == 0
    assert only("RuntimeError: CUDA error: misaligned address\n").ruled_out == ()


def test_a_page_fault_that_amdgpu_reports_is_the_programs_unless_the_gpu_hangs() -> None:
    """A refused access alone is no hang; with a ring timeout behind it, it is."""
    fault = (
        "[ 812.4] amdgpu 0000:0a:00.0: amdgpu: [gfxhub] page fault (src_id:0 ring:24 vmid:3 "
        "pasid:32771)\n"
    )
    timeout = (
        "[ 823.1] amdgpu 0000:0a:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=10, "
        "emitted seq=12\n"
    )

    assert first(fault).kind is Kind.APPLICATION_FAULT
    assert first(fault).certainty is Certainty.LIKELY
    assert first(fault + timeout).kind is Kind.GPU_HANG


def test_a_queue_that_rocm_aborts_for_an_access_is_the_programs_and_told_once() -> None:
    """The runtime names the same fault twice."""
    queue = ":0:rocdevice.cpp:3020: 99 us: Callback: Queue 0x7f aborting with error : HSA_STATUS_ERROR_{}: words\n"
    access = "Memory access fault by GPU node-1 (Agent handle: 0x55) on address 0x7f00. Reason: Page not present.\n"

    assert kinds(queue.format("MEMORY_FAULT") + access) == [Kind.APPLICATION_FAULT]
    assert kinds(queue.format("EXCEPTION")) == [Kind.CANNOT_TELL]
