"""When a signal ended a process and nothing ties it to the GPU."""

from __future__ import annotations

from _judging import findings, kinds, only

from gpuprobe.diagnosis import Kind

KIND = Kind.PROCESS_CRASH
SEGV = "[  500.000000] python3[7100]: segfault at 0 ip 00007f2a10000000 sp 00007ffd00000000 error 4 in libfoo.so.1[7f2a10000000+2000]\n"


def test_the_kernel_s_segfault_line_is_a_crash() -> None:
    """Process, signal and library are in the sentence."""
    verdict = only(SEGV)

    assert verdict.kind is KIND
    assert "python3" in verdict.summary
    assert "SIGSEGV" in verdict.summary
    assert "libfoo.so" in verdict.summary


def test_an_exit_status_of_zero_is_none() -> None:
    """A process that ended well is quiet."""
    assert (
        findings(
            KIND,
            "Jan 05 10:00:00 h systemd[1]: vllm.service: Main process exited, code=exited, status=0/SUCCESS\n",
        )
        == []
    )


def test_memory_explains_the_killed_process() -> None:
    """SIGKILL after the OOM killer is no finding of its own."""
    text = (
        "Jan 05 10:00:00 h kernel: Out of memory: Killed process 7100 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n"
        "Jan 05 10:00:01 h systemd[1]: vllm.service: Main process exited, code=killed, status=9/KILL\n"
    )

    assert kinds(text) == [Kind.HOST_OUT_OF_MEMORY]


def test_a_lost_gpu_explains_the_abort() -> None:
    """An engine that aborts on a CUDA error after a loss is a consequence."""
    text = (
        "Jan 05 10:00:00 h kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
        "Jan 05 10:00:05 h systemd[1]: vllm.service: Main process exited, code=dumped, status=6/ABRT\n"
    )

    assert kinds(text) == [Kind.DEVICE_LEFT_BUS]


def test_a_process_that_ends_of_its_cuda_error_is_no_crash_of_its_own() -> None:
    """The abort after a CUDA error leaves the question that the error asks."""
    text = "RuntimeError: CUDA error: unspecified launch failure\nAborted (core dumped)\n"

    assert kinds(text) == [Kind.CANNOT_TELL]


def test_a_crash_before_a_cuda_error_stays() -> None:
    """What came first is not explained by what came later."""
    assert findings(KIND, SEGV + "RuntimeError: CUDA error: unspecified launch failure\n") != []


def test_a_program_that_the_host_s_broken_memory_ended_is_a_crash() -> None:
    """Host memory, no GPU's: the kernel ends whoever touches it."""
    text = "[ 8812.000101] Memory failure: 0x3a2f1: Sending SIGBUS to trainer:7712 due to hardware memory corruption\n"

    assert only(text).kind is KIND
    assert "SIGBUS" in only(text).summary
