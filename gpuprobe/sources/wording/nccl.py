"""Collectives and their stores: NCCL, RCCL, Gloo, TCPStore, as PyTorch and NCCL print them."""

from __future__ import annotations

import re

from gpuprobe.events import CollectiveFailed, CudaFailed, OtherFailed
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import surroundings
from gpuprobe.sources.wording.base import Family, Pattern, Reading

_OPERATION = regex(r"OpType=(?P<operation>\w+)")
_LIMIT = regex(
    r"Timeout\(ms\)=(?P<limit>\d+)|(?:timeout after|Timed out after|timed out after|for) (?P<ms>\d+) ?(?:ms|milliseconds)|wait timeout after (?P<wait>\d+)ms"
)


def _failed(window: Window, what: str) -> CollectiveFailed:
    operation = _OPERATION.search(window.text)
    limit = _LIMIT.search(window.text)
    figure = limit and (limit["limit"] or limit["ms"] or limit["wait"])
    return CollectiveFailed(
        **window.base(),
        what=what,
        rank=surroundings.rank(window),
        operation=operation["operation"] if operation else "",
        timeout_ms=int(figure) if figure else None,
    )


def _read_timeout(match: re.Match[str], window: Window) -> Reading:
    return _failed(window, "timeout")


def _read_store(match: re.Match[str], window: Window) -> Reading:
    return _failed(window, "store-timeout")


def _read_peer(match: re.Match[str], window: Window) -> Reading:
    return _failed(window, "peer-gone")


def _read_abort(match: re.Match[str], window: Window) -> Reading:
    return _failed(window, "abort")


def _read_unhandled_cuda(match: re.Match[str], window: Window) -> Reading:
    return CudaFailed(
        **window.base(),
        code=None,
        name="ncclUnhandledCudaError",
        message="unhandled cuda error",
        framework="nccl",
        where=surroundings.where(window),
        rank=surroundings.rank(window),
        teardown=surroundings.cuda_error_before(window) and "what():" in window.text,
    )


FAMILY = Family(
    "nccl",
    (
        Pattern(
            id="nccl-watchdog-timeout",
            needles=("collective operation timeout", "caught collective timeout"),
            regex=regex(
                r"caught collective (?:operation )?timeout|collective operation timeout: Work"
            ),
            read=_read_timeout,
            examples=(
                "[rank2]:[E411 09:12:55.120448311 ProcessGroupNCCL.cpp:632] [Rank 2] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=77, OpType=ALLGATHER, NumelIn=4096, NumelOut=16384, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.",
                "[E ProcessGroupNCCL.cpp:474] [Rank 5] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=901, OpType=BROADCAST, Timeout(ms)=1800000) ran for 1800655 milliseconds before timing out.",
            ),
            near=("collective operation timeout is set to 600 s",),
            source="pytorch ProcessGroupNCCL.cpp",
        ),
        Pattern(
            id="nccl-heartbeat-monitor",
            needles=(
                "eartbeat monitor timed out",
                "Process group watchdog thread may",
                "terminate the process after attempting to dump",
            ),
            regex=regex(
                r"[Hh]eartbeat monitor timed out|Process group watchdog thread may (?:be )?(?:hang|hung)|terminate the process after attempting to dump debug info, due to "
            ),
            read=_read_timeout,
            examples=(
                "[rank0]:[F1102 10:00:01.1 ProcessGroupNCCL.cpp:1557] [PG ID 0 PG GUID 0 Rank 0] ProcessGroupNCCL's watchdog got stuck: heartbeat monitor timed out",
            ),
            near=("[PG ID 0 Rank 0] Heartbeat monitor thread started",),
            source="pytorch ProcessGroupNCCL.cpp",
        ),
        Pattern(
            id="nccl-watchdog-stuck",
            needles=(
                "watchdog got stuck",
                "detected by watchdog",
                "last enqueued NCCL work",
                "Some NCCL operations have failed or timed out",
                "To avoid data inconsistency, we are taking",
            ),
            regex=regex(
                r"watchdog got stuck for \d+|\(either an error or timeout\) detected by watchdog[^\n]*|last enqueued NCCL work: -?\d+|Some NCCL operations have failed or timed out|To avoid data inconsistency, we are taking the entire process down"
            ),
            read=_read_abort,
            examples=(
                "[rank1]:[E411 09:12:55.3 ProcessGroupNCCL.cpp:1785] [PG ID 1 PG GUID 1 Rank 1] Exception (either an error or timeout) detected by watchdog at work: 77, last enqueued NCCL work: 80, last completed NCCL work: 76.",
                "RuntimeError: Some NCCL operations have failed or timed out. Due to the asynchronous nature of CUDA kernels, subsequent GPU operations might run on corrupted/incomplete data.",
                "[E ProcessGroupNCCL.cpp:488] To avoid data inconsistency, we are taking the entire process down.",
                "ProcessGroupNCCL's watchdog got stuck for 480 seconds without making progress in monitoring enqueued collectives.",
            ),
            source="pytorch ProcessGroupNCCL.cpp",
        ),
        Pattern(
            id="nccl-store-timeout",
            needles=(
                "DistStoreError: ",
                "StoreTimeoutError",
                "ait timeout after ",
                "Timed out after ",
                "Socket Timeout",
                "client socket has timed out",
            ),
            regex=regex(
                r"DistStoreError: (?:[Ww]ait timeout|Timed out)[^\n]*|[Ww]ait timeout after \d+ms, keys: |Timed out after \d+ seconds waiting for clients|StoreTimeoutError|client socket has timed out after \d+|RuntimeError: Socket Timeout|got error: (?:[Ww]ait timeout after |Socket Timeout)[^\n]*"
            ),
            read=_read_store,
            examples=(
                "torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0//cuda//0",
                "torch.distributed.DistStoreError: Timed out after 601 seconds waiting for clients. 3/4 clients joined.",
                "RuntimeError: Socket Timeout",
                "The client socket has timed out after 1800s while trying to connect to (10.1.1.7, 29500).",
            ),
            near=("redis wait timeout after retry",),
            source="pytorch distributed/c10d/TCPStore.cpp",
        ),
        Pattern(
            id="collective-other-timeout",
            needles=(
                "RendezvousTimeoutError",
                "Monitored Barrier: ",
                "atchdog timeout (self.",
                "RPC call to ",
                "monitoredBarrier",
                "DeepEP ",
            ),
            regex=regex(
                r"RendezvousTimeoutError\b|Monitored Barrier: Timed out[^\n]*|(?:[Ss]cheduler )?[Ww]atchdog timeout \(self\.watchdog_|RPC call to \w+ timed out|Rank \d+ (?:failed to pass|successfully reached) monitoredBarrier(?!,? and)|DeepEP (?:error: (?:CPU recv )?timeout|timeout check failed)"
            ),
            read=_read_timeout,
            examples=(
                "torch.distributed.elastic.rendezvous.api.RendezvousTimeoutError",
                "RuntimeError: Rank 0 Monitored Barrier: Timed out after 300000ms while waiting for ranks 2.",
                "[2026-02-02 08:00:01 TP1] Watchdog timeout (self.watchdog_last_forward_ct=77, self.cur_batch=None)",
                "[2026-02-02 08:00:01 TP1] Scheduler watchdog timeout (self.watchdog_timeout=300, self.soft=False)",
                "TimeoutError: RPC call to execute_model timed out.",
                "RuntimeError: Rank 3 successfully reached monitoredBarrier, but received errors while waiting for send/recv from rank 5.",
                "RuntimeError: DeepEP error: CPU recv timeout",
            ),
            near=("No available shared memory broadcast block found in 60 seconds.",),
            source="torch distributed, SGLang scheduler.py, vLLM multiproc_executor.py, DeepEP",
        ),
        Pattern(
            id="gloo-timeout",
            needles=("gloo/transport",),
            regex=regex(
                r"gloo/transport/[^\n]*(?P<what>Timed out waiting|Connection (?:closed|reset) by peer|Connection refused|Broken pipe|timed out)"
            ),
            read=lambda match, window: _failed(
                window, "timeout" if "imed out" in match["what"] else "peer-gone"
            ),
            examples=(
                "RuntimeError: [../third_party/gloo/gloo/transport/tcp/pair.cc:534] Connection closed by peer [10.1.1.8]:43211",
                "RuntimeError: [../third_party/gloo/gloo/transport/tcp/unbound_buffer.cc:81] Timed out waiting 1800000ms for recv operation to complete",
            ),
            near=("gloo/transport/tcp/device.cc compiled",),
            source="gloo transport/tcp",
        ),
        Pattern(
            id="nccl-peer-gone",
            needles=(
                "NCCL WARN",
                "ncclRemoteError",
                "remote process exited or there was a network error",
            ),
            regex=regex(
                r"(?:NCCL WARN [^\n]*(?:[Cc]onnection closed by remote peer|Connection reset by peer|Broken pipe|Got completion (?:from peer|with error)|(?:fatal|Got) async event|Call to (?:recv|send|connect|recvmsg|ibv_\w+)[^\n]* failed|socketStartConnect: Connect to [^\n]* failed|socketProgress|Failed to execute operation \w+ from rank)|ncclRemoteError|remote process exited or there was a network error)[^\n]*"
            ),
            read=_read_peer,
            examples=(
                "node4:991:1044 [2] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer node5.lan<51112>",
                "node4:991:1044 [2] misc/socket.cc:518 NCCL WARN Net : Call to recv from 10.3.0.9<40112> failed : Broken pipe",
                "node4:1:2 [0] NCCL WARN Call to ibv_modify_qp failed with error Connection timed out",
                "node4:1:2 [0] NCCL WARN NET/IB: Got completion from peer 10.3.0.2<4791> with status=IBV_WC_RETRY_EXC_ERR(12)",
                "node4:991:1044 [2] misc/socket.cc:480 NCCL WARN socketStartConnect: Connect to 10.3.0.9<38007> failed : Software caused connection abort",
                "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            ),
            near=("node4:991:1044 [2] NCCL WARN Environment variable NCCL_FOO is unknown",),
            source="NCCL misc/socket.cc, transport/net_ib",
        ),
        Pattern(
            id="store-peer-gone",
            needles=("DistNetworkError: ", "TCPStore.cpp"),
            regex=regex(
                r"DistNetworkError: [^\n]*(?:got 0 bytes|[Cc]onnection (?:was likely closed|reset)|Broken pipe)|TCPStore\.cpp[^\n]*(?:Broken pipe|recvValue failed|[Ff]ailed to check the \"should dump\" flag)"
            ),
            read=_read_peer,
            examples=(
                "torch.distributed.DistNetworkError: Failed to recv, got 0 bytes. Connection was likely closed. Did the remote server shutdown or crash?",
                "[W511 08:00:00.1 TCPStore.cpp:125] [c10d] recvValue failed on SocketImpl(fd=80, addr=[localhost]:41022, remote=[localhost]:29500): failed to recv, got 0 bytes",
            ),
            near=(
                "DistNetworkError: The server socket has failed to listen on any local network address.",
            ),
            source="pytorch distributed/c10d/TCPStore.cpp",
        ),
        Pattern(
            # A peer of a JAX program died or hangs; its own log says of what.
            id="jax-peer-gone",
            needles=(
                "JAX distributed service detected fatal errors",
                "stopped sending heartbeats",
                "in coordination service: UNAVAILABLE",
                "coordinator detected missing heartbeats",
                "Barrier timed out. Id: ",
                "Termination timeout for `",
            ),
            regex=regex(
                r"JAX distributed service detected fatal errors|tasks are unhealthy \(stopped sending heartbeats\)"
                r"|has been set to ERROR in coordination service: UNAVAILABLE[^\n]*|coordinator detected missing heartbeats"
                r"|(?P<barrier>Barrier timed out\. Id: |Termination timeout for `[^`\n]{1,300}` of \d+ seconds exceeded)"
            ),
            read=lambda match, window: _failed(
                window, "timeout" if match["barrier"] else "peer-gone"
            ),
            examples=(
                "F0602 10:11:12.100 client.h:77] Terminating process because the JAX distributed service detected fatal errors. This most likely indicates that another task died.",
                "UNAVAILABLE: The following tasks are unhealthy (stopped sending heartbeats):",
                "/job:jax_worker/replica:0/task:3 has been set to ERROR in coordination service: UNAVAILABLE: Task /job:jax_worker/replica:0/task:3 heartbeat timeout.",
                "DEADLINE_EXCEEDED: Barrier timed out. Id: PjRT_Client_Connect::1.",
                "F0218 03:50:19.1 881 rendezvous.cc:127] Termination timeout for `acquire clique for rank 3; clique=devices=[4,5]` of 40 seconds exceeded. Exiting to ensure a consistent program state.",
            ),
            near=(
                "Polled an error from coordination service (this can be an error from this or another task).",
            ),
            source="openxla/xla, coordination_service.cc, pjrt/distributed/client.h",
        ),
        Pattern(
            id="nccl-misused",
            needles=("ncclInvalidUsage", "ncclInvalidArgument", "Duplicate GPU detected"),
            regex=regex(
                r"(?P<said>Duplicate GPU detected : rank \d+ and rank \d+ both on CUDA device|ncclInvalid(?:Usage|Argument)(?=:))"
            ),
            read=lambda match, window: OtherFailed(
                **window.base(), what=match["said"], where="nccl"
            ),
            examples=(
                "ncclInvalidUsage: This usually reflects invalid usage of NCCL library.",
                "Duplicate GPU detected : rank 1 and rank 0 both on CUDA device 1b000",
            ),
            near=("except ncclInvalidUsage as error",),
            source="pytorch NCCLUtils.cpp; NCCL init.cc",
        ),
        Pattern(
            id="nccl-aborted",
            needles=(
                "NCCL communicator was aborted",
                "unhandled system error",
                "NCCL error in: ",
                "ncclInternalError",
                "ncclSystemError",
            ),
            regex=regex(
                r"NCCL communicator was aborted|unhandled system error|NCCL error in: [^\n]*internal error|nccl(?:Internal|System)Error(?=:)"
            ),
            read=_read_abort,
            examples=(
                "RuntimeError: NCCL communicator was aborted on rank 3.",
                "ncclInternalError: Internal check failed.",
                "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1970, unhandled system error (run with NCCL_DEBUG=INFO for details), NCCL version 2.21.5",
            ),
            source="NCCL init.cc",
        ),
        Pattern(
            id="nccl-unhandled-cuda",
            needles=("unhandled cuda error", "ncclUnhandledCudaError"),
            regex=regex(r"(?:unhandled cuda error|ncclUnhandledCudaError)[^\n]*"),
            read=_read_unhandled_cuda,
            examples=(
                "torch.distributed.DistBackendError: NCCL error in: ../torch/csrc/distributed/c10d/ProcessGroupNCCL.cpp:1333, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.22.3",
                "ncclUnhandledCudaError: Call to CUDA function failed.",
            ),
            near=("an unhandled exception in cuda code",),
            source="NCCL init.cc",
        ),
    ),
)
"""Collective communication."""
