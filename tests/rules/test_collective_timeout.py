"""When a collective waited in vain."""

from __future__ import annotations

from _judging import findings, first, kinds, lines, only

from gpuprobe.diagnosis import Certainty, Kind, Role

KIND = Kind.COLLECTIVE_TIMEOUT
WATCHDOG = "[rank3]:[E105 10:11:12.123456789 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=771, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"


def test_the_watchdog_is_a_finding_with_rank_and_limit() -> None:
    """Rank, operation and time limit are in the sentence."""
    verdict = only(WATCHDOG)

    assert verdict.kind is KIND
    assert "rank 3" in verdict.summary
    assert "ALLREDUCE" in verdict.summary
    assert "600 s" in verdict.summary


def test_a_peer_that_went_away_is_likely() -> None:
    """A broken connection to a peer is no timeout."""
    (found,) = findings(
        KIND,
        "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.\n",
    )

    assert found.certainty in (Certainty.LIKELY, Certainty.POSSIBLE)
    assert "peer" in found.summary.lower()


def test_a_peer_that_went_away_beside_a_cuda_error_without_times_is_no_cause() -> None:
    """No peer gives a rank an error of its GPU, whichever line comes first."""
    gone = "node3:70:72 [3] transport/net_ib.cc:2117 NCCL WARN NET/IB: Got completion from peer 10.0.0.7<41> with status=12 opcode=0 len=0 vendor err 129 (Recv)\n"
    error = (
        "node3:71:71 [0] enqueue.cc:1504 NCCL WARN Cuda failure 719 'unspecified launch failure'\n"
    )

    assert kinds(gone) == [KIND]
    assert kinds(gone + error)[0] is Kind.CANNOT_TELL
    assert kinds(error + gone)[0] is Kind.CANNOT_TELL


def test_a_config_flag_is_no_timeout() -> None:
    """A setting that holds the word says nothing."""
    assert (
        findings(
            KIND, "INFO 01-05 10:00:00 config.py:88] distributed_timeout=600 nccl_timeout=1800\n"
        )
        == []
    )


def test_behind_a_lost_gpu_it_is_a_consequence() -> None:
    """The ranks wait because a GPU is gone."""
    verdict = first(
        "[  100.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n" + WATCHDOG
    )

    assert verdict.kind is Kind.DEVICE_LEFT_BUS
    assert lines(verdict, Role.CONSEQUENCE) == [2]
    assert KIND not in kinds(
        "[  100.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n" + WATCHDOG
    )


def test_behind_another_rank_s_cuda_error_it_is_a_consequence() -> None:
    """The others wait for the rank whose CUDA context died."""
    text = (
        "[rank1]:[E105 10:01:09.123456789 ProcessGroupNCCL.cpp:1895] [PG ID 0 PG GUID 0 Rank 1] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure\n"
        + WATCHDOG
    )

    assert kinds(text) == [Kind.CANNOT_TELL]
    assert lines(only(text), Role.CONSEQUENCE) == [2]


def test_a_peer_that_went_away_in_the_second_of_another_rank_s_error_is_a_consequence() -> None:
    """Two ranks that stamp whole seconds: the error is why the peer was gone."""
    text = (
        "(RayWorkerWrapper pid=11, ip=10.0.0.5) ERROR 09-11 10:40:02 [worker_base.py:620] torch.AcceleratorError: CUDA error: unspecified launch failure\n"
        "(RayWorkerWrapper pid=12, ip=10.0.0.6) ERROR 09-11 10:40:03 [worker_base.py:620] torch.distributed.DistBackendError: NCCL error in: NCCLUtils.hpp:317, remote process exited or there was a network error, NCCL version 2.27.3\n"
    )

    assert kinds(text) == [Kind.CANNOT_TELL]


def test_a_cuda_error_after_it_explains_nothing() -> None:
    """Clean-up after a timeout may fail in CUDA too: the timeout stays."""
    assert first(WATCHDOG + "RuntimeError: CUDA error: unspecified launch failure\n").kind is KIND
