"""What is read of programs' ends: collectives, engines, crashes, memory of the host, JIT caches."""

from __future__ import annotations

import pytest
from _windows import read, read_lines

from gpuprobe.events import (
    CollectiveFailed,
    CudaFailed,
    EngineChanged,
    JitCacheFailed,
    OomKilled,
    OtherFailed,
    ProcessCrashed,
    ProfilerSeen,
    SystemDescribed,
)
from gpuprobe.sources.wording.crash import FAMILY as CRASH
from gpuprobe.sources.wording.cuda import FAMILY as CUDA
from gpuprobe.sources.wording.engines import FAMILY as ENGINES
from gpuprobe.sources.wording.jit_cache import FAMILY as JIT_CACHE
from gpuprobe.sources.wording.nccl import FAMILY as NCCL
from gpuprobe.sources.wording.oom import FAMILY as OOM

KEY = "K7" * 26
GROUP_TRACE = """\
Traceback (most recent call last):
  File "/opt/env/lib/python3.11/site-packages/triton/runtime/jit.py", line 560, in run
    kernel = self.compile(src, target=target, options=options.__dict__)
  File "/opt/env/lib/python3.11/site-packages/triton/runtime/cache.py", line 81, in get_group
    grp_data = json.load(f)
  File "/usr/lib/python3.11/json/decoder.py", line 355, in raw_decode
    raise JSONDecodeError("Expecting value", s, err.value) from None
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)"""


# --- collectives -----------------------------------------------------------------------------


def test_a_watchdog_timeout_tells_rank_operation_and_limit() -> None:
    (event,) = read(NCCL, "[rank6]:[E511 08:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 6] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=9, OpType=REDUCE_SCATTER, NumelIn=8, Timeout(ms)=480000) ran for 480100 milliseconds before timing out.")  # fmt: skip

    assert isinstance(event, CollectiveFailed)
    assert (event.what, event.rank) == ("timeout", 6)
    assert (event.operation, event.timeout_ms) == ("REDUCE_SCATTER", 480000)


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("torch.distributed.DistStoreError: wait timeout after 300000ms, keys: /default_pg/0", "store-timeout"),
        ("n1:7:9 [2] misc/socket.cc:538 NCCL WARN Net : Connection closed by remote peer n2<51112>", "peer-gone"),
        ("ncclRemoteError: remote process exited or there was a network error", "peer-gone"),
        ("RuntimeError: Some NCCL operations have failed or timed out.", "abort"),
        ("RuntimeError: [/gloo/gloo/transport/tcp/pair.cc:534] Connection reset by peer", "peer-gone"),
    ],
)  # fmt: skip
def test_a_collective_fails_in_one_of_four_ways(line: str, what: str) -> None:
    (event,) = read(NCCL, line)

    assert isinstance(event, CollectiveFailed)
    assert event.what == what


def test_the_rank_of_an_nccl_warning_is_its_own_not_the_peers() -> None:
    (event,) = read(NCCL, "n1:7:9 [2] proxy.cc:1119 NCCL WARN [Proxy Service 9] Failed to execute operation Connect from rank 9, retcode 6")  # fmt: skip

    assert isinstance(event, CollectiveFailed)
    assert event.rank == 2


def test_an_unhandled_cuda_error_is_a_failure_of_this_ranks_gpu() -> None:
    """It is read once, by the family of collectives, with no code."""
    line = "torch.distributed.DistBackendError: NCCL error in: ../ProcessGroupNCCL.cpp:1333, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.22.3"
    (event,) = read(NCCL, line)

    assert isinstance(event, CudaFailed)
    assert (event.code, event.framework) == (None, "nccl")
    assert read(CUDA, line) == []


# --- engines ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "what", "who", "code"),
    [
        ("[2026-04-02|03:11:40|FrontendAPI] ERROR    Backend supervisor: backend worker freetoken-TP1-scheduler exited", "worker-exited", "freetoken-TP1-scheduler", None),
        ("Backend worker is gone and cannot be restarted; stopping the API server", "stopping", "", None),
        ("ERROR 05-11 12:00:41 [core.py:710] EngineCore_0 encountered a fatal error.", "engine-dead", "EngineCore_0", None),
        ("Error: llama runner process has terminated: exit status 2", "worker-exited", "", 2),
        ("ollama.service: State 'stop-sigterm' timed out. Killing.", "killed-by-supervisor", "ollama.service", None),
        ("vllm.service: Scheduled restart job, restart counter is at 3.", "restarted", "vllm.service", None),
        ("Stopping vllm.service - vLLM inference server...", "stopped", "vllm.service", None),
        ("sglang.service: Main process exited, code=exited, status=3/NOTIMPLEMENTED", "worker-exited", "sglang.service", 3),
        ("ggml_cuda_init: failed to initialize CUDA: unknown error", "cpu-fallback", "", None),
    ],
)  # fmt: skip
def test_an_engines_end_names_what_and_who(
    line: str, what: str, who: str, code: int | None
) -> None:
    (event,) = read(ENGINES, line)

    assert isinstance(event, EngineChanged)
    assert (event.what, event.who, event.code) == (what, who, code)


def test_an_engines_command_line_is_kept() -> None:
    (event,) = read(ENGINES, "ServerArgs(model_path='/m', tp_size=2, max_prefill=8192)")

    assert isinstance(event, SystemDescribed)
    assert (event.key, event.value) == ("engine-argv", "ServerArgs(model_path='/m', tp_size=2, max_prefill=8192)")  # fmt: skip


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("$ nsys profile -t cuda,nvtx python serve.py", "nsys"),
        ("$ ncu --set full ./a.out", "ncu"),
        ('==PROF== Profiling "gemm" - 0: 0%....50%....100%', "ncu"),
        ("failed with error CUPTI_ERROR_INSUFFICIENT_PRIVILEGES", "cupti"),
    ],
)
def test_a_profiler_is_seen(line: str, name: str) -> None:
    (event,) = read(ENGINES, line)

    assert isinstance(event, ProfilerSeen)
    assert event.name == name


# --- crashes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "signal"),
    [
        ("Segmentation fault (core dumped)", "SIGSEGV"),
        ("Bus error", "SIGBUS"),
        ("Speicherzugriffsfehler (Speicherabzug geschrieben)", "SIGSEGV"),
        ("run.sh: line 4:   812 Aborted                 (core dumped) ./server", "SIGABRT"),
        ("Fatal Python error: Bus error", "SIGBUS"),
        ("vllm-1 exited with code 139", "SIGSEGV"),
        ("container died, exitCode=137", "SIGKILL"),
        ("  exitcode  : -11 (pid: 712)", "SIGSEGV"),
        ("traceback : Signal 6 (SIGABRT) received by PID 4120", "SIGABRT"),
        ("vllm.service: Main process exited, code=dumped, status=11/SEGV", "SIGSEGV"),
        ("traps: python3[88] general protection fault ip:7f01 sp:7ffd error:0 in libcuda.so.570.124.06[7f00+900]", "SIGSEGV"),
    ],
)  # fmt: skip
def test_the_signal_of_a_crash_is_read(line: str, signal: str) -> None:
    (event,) = read(CRASH, line)

    assert isinstance(event, ProcessCrashed)
    assert event.signal == signal


def test_the_kernel_names_process_and_library_of_a_segfault() -> None:
    (event,) = read(CRASH, "python3[4021]: segfault at 10 ip 00007f2a8b3d11aa sp 00007ffd0a3c1000 error 4 in libcuda.so.570.124.06[7f2a8b000000+1a00000]")  # fmt: skip

    assert isinstance(event, ProcessCrashed)
    assert (event.process, event.pid) == ("python3", 4021)
    assert event.in_library == "libcuda.so.570.124.06"


def test_a_traceback_gives_its_last_line_and_innermost_frame() -> None:
    quoted = (
        "> Traceback (most recent call last):\n"
        '>   File "/srv/app/serve.py", line 8, in <module>\n'
        ">     main()\n"
        '>   File "/srv/app/model.py", line 31, in load\n'
        ">     raise ValueError(text)\n"
        "> ValueError: head size 96 is not supported"
    )
    (event,) = read_lines(CRASH, quoted)

    assert isinstance(event, OtherFailed)
    assert event.what == "ValueError: head size 96 is not supported"
    assert event.where == "/srv/app/model.py:31 in load"


@pytest.mark.parametrize(
    "last",
    [
        "torch.AcceleratorError: CUDA error: unspecified launch failure",
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB.",
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)",
        "KeyboardInterrupt",
    ],
)
def test_a_traceback_that_another_family_reads_gives_nothing_here(last: str) -> None:
    trace = f'Traceback (most recent call last):\n  File "/srv/a.py", line 1, in <module>\n    go()\n{last}'

    assert read_lines(CRASH, trace) == []


@pytest.mark.parametrize(
    "line",
    [
        "pcieport 0000:00:01.0: PCIe Bus Error: severity=Corrected, type=Physical Layer",
        "worker exited with code 0",
        "user@1000.service: Main process exited, code=killed, status=9/KILL",
        "Installing handlers for SIGSEGV and SIGBUS",
    ],
)
def test_no_crash_is_read_from_what_only_sounds_like_one(line: str) -> None:
    assert read_lines(CRASH, line) == []


# --- memory of the host ----------------------------------------------------------------------


def test_a_kill_is_read_once_and_from_the_line_that_says_most() -> None:
    (event,) = read_lines(
        OOM,
        "python3 invoked oom-killer: gfp_mask=0x140cca(GFP_HIGHUSER_MOVABLE), order=0\n"
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=a,oom_memcg=/pod,task_memcg=/pod/c,task=python3,pid=771,uid=0\n"
        "Memory cgroup out of memory: Killed process 771 (python3) total-vm:99kB, anon-rss:88kB, file-rss:0kB\n"
        "oom_reaper: reaped process 771 (python3), now anon-rss:0kB",
    )

    assert isinstance(event, OomKilled)
    assert (event.pid, event.process, event.cgroup, event.rss_kib) == (771, "python3", True, 88)


def test_padding_of_a_terminal_does_not_hide_the_figures() -> None:
    padded = "Out of memory: Killed process 771 (python3) total-vm:5331" + " " * 90 + "2244kB, anon-rss:3145" + " " * 90 + "1456kB"  # fmt: skip
    (event,) = read(OOM, padded)

    assert isinstance(event, OomKilled)
    assert (event.cgroup, event.rss_kib) == (False, 31451456)


def test_kubernetes_kills_by_a_cgroup() -> None:
    (event,) = read(OOM, "      Reason:       OOMKilled")

    assert isinstance(event, OomKilled)
    assert event.cgroup


# --- JIT caches ------------------------------------------------------------------------------


@pytest.mark.parametrize("mark", ["", "> "])
def test_an_empty_group_file_of_triton(mark: str) -> None:
    """Quote marks make no difference."""
    (event,) = read_lines(JIT_CACHE, "\n".join(mark + line for line in GROUP_TRACE.split("\n")))

    assert isinstance(event, JitCacheFailed)
    assert (event.cache, event.fatal, event.sure) == ("triton", True, True)
    assert event.why == "the group file (__grp__*.json) is empty or filled with zeros"


def test_the_place_may_be_told_after_the_exception() -> None:
    (event,) = read_lines(
        JIT_CACHE,
        "json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)\n"
        "... in triton/runtime/cache.py, get_group (during a kernel load)",
    )

    assert isinstance(event, JitCacheFailed)
    assert event.cache == "triton"


def test_json_of_something_else_after_a_triton_trace_is_not_the_caches() -> None:
    other = (
        "Traceback (most recent call last):\n"
        '  File "/srv/client.py", line 3, in get\n'
        "    return json.loads(body)\n"
        "json.decoder.JSONDecodeError: Extra data: line 1 column 5 (char 4)"
    )

    assert len(read_lines(JIT_CACHE, f"{GROUP_TRACE}\n{other}")) == 1


def test_path_and_key_are_taken_from_the_lines_around() -> None:
    (event,) = read_lines(
        JIT_CACHE,
        f"{GROUP_TRACE}\nwhile reading /home/svc/.triton/cache/{KEY}/__grp__fused.json",
    )

    assert isinstance(event, JitCacheFailed)
    assert event.key == KEY
    assert event.path == f"/home/svc/.triton/cache/{KEY}/__grp__fused.json"


def test_an_invalid_image_alone_is_not_sure() -> None:
    """A kernel built for another architecture prints the same words."""
    (event,) = read(JIT_CACHE, "RuntimeError: Triton Error [CUDA]: device kernel image is invalid")

    assert isinstance(event, JitCacheFailed)
    assert not event.sure
    assert "another architecture" in event.why


def test_an_invalid_image_under_tritons_loader_is_sure() -> None:
    (event,) = read_lines(
        JIT_CACHE,
        '  File "/opt/env/lib/python3.12/site-packages/triton/compiler/compiler.py", line 465, in _init_handles\n'
        "    self.module = driver.active.utils.load_binary(\n"
        "RuntimeError: Triton Error [CUDA]: device kernel image is invalid",
    )

    assert isinstance(event, JitCacheFailed)
    assert event.sure


@pytest.mark.parametrize(
    ("line", "cache", "fatal"),
    [
        ("Triton cache error: compiled module cuda_utils.so could not be loaded", "triton", False),
        ("[codecache.py:1059] fx graph cache unable to load compiled graph", "inductor", False),
        ("AssertionError: failed to get the hash of the compiled graph", "vllm", True),
        ("Cannot load aot compilation from path /home/s/.cache/vllm/x/model", "vllm", False),
        ("KeyError: \"Unknown key: 'cubin'\"", "triton", True),
        ("ImportError: /home/s/.cache/torch_extensions/py311_cu124/a/a.so: file too short", "torch-extensions", True),
        ("UserWarning: Error reading persistent compilation cache entry for 'jit_f': bad", "jax", False),
    ],
)  # fmt: skip
def test_each_cache_tells_whether_the_program_went_on(line: str, cache: str, fatal: bool) -> None:
    (event,) = read(JIT_CACHE, line)

    assert isinstance(event, JitCacheFailed)
    assert (event.cache, event.fatal) == (cache, fatal)
