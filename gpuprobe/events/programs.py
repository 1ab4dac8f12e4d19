"""What programs, engines and people wrote."""

from __future__ import annotations

from gpuprobe.events.base import Event, observed


@observed
class CudaFailed(Event):
    """A program printed a CUDA error.

    Attributes:
        code: CUDA runtime number (719, 700, ...), or None where only words are known.
        name: `cudaErrorLaunchFailure` style name, or None.
        message: NVIDIA's text.
        framework: `torch`, `jax`, `tensorflow`, `ggml`, `nccl`, `triton`, ... or None.
        where: Frame, function or call that noticed it.
        rank: Rank or local device index printed with it.
        teardown: Printed while the process was already dying of an earlier one.
    """

    code: int | None
    name: str | None
    message: str
    framework: str | None = None
    where: str = ""
    rank: int | None = None
    teardown: bool = False


@observed
class DeviceAssertFailed(Event):
    """A kernel's own assert fired: file, line, condition, block, thread are in the text."""

    condition: str = ""


@observed
class GpuMemoryExhausted(Event):
    """An allocator of GPU memory said no.

    Attributes:
        wanted: As printed, such as `20.00 MiB`. total: As printed. free: As printed.
    """

    wanted: str = ""
    total: str = ""
    free: str = ""
    index: int | None = None


@observed
class CollectiveFailed(Event):
    """A collective or its store timed out, or a peer went away.

    Attributes:
        what: `timeout`, `peer-gone`, `store-timeout`, `abort`.
        rank: This rank. operation: `ALLREDUCE` and the like. timeout_ms: The limit.
    """

    what: str
    rank: int | None = None
    operation: str = ""
    timeout_ms: int | None = None


@observed
class EngineChanged(Event):
    """An engine's life: start, a worker's end, the server's stop.

    Attributes:
        what: `started`, `worker-exited`, `stopping`, `stopped`, `restarted`, `engine-dead`,
            `failed-to-start`, `cpu-fallback`, `request-aborted`, `killed-by-supervisor`.
        who: Process, worker, unit or container named.
        code: Exit code as a shell gives it (128 and the signal's number), or as it was printed.
    """

    what: str
    who: str = ""
    code: int | None = None


@observed
class ProcessCrashed(Event):
    """A process was ended by a signal or aborted.

    Attributes:
        signal: `SIGSEGV`, `SIGBUS`, `SIGKILL`, `SIGABRT`, `SIGILL`, `SIGFPE`.
        process: Its name. pid: Its id.
        in_library: Library the kernel names (`segfault at ... in libcuda.so`), or "".
    """

    signal: str
    process: str = ""
    pid: int | None = None
    in_library: str = ""


SCANNED = "jitcache-scan"
"""`source` of a damaged file that a scan of the cache found, not a program's own words."""


@observed
class JitCacheFailed(Event):
    """A file of a JIT cache could not be read or used.

    Attributes:
        cache: `triton`, `inductor`, `vllm`, `flashinfer`, `torch-extensions`, `jax`, `numba`,
            `cuda`, `deepgemm`, `tilelang`.
        why: What is wrong, in a few words.
        path: Folder or file named by the log, or "".
        key: The entry's key, or "".
        fatal: False when the program rebuilt it and went on.
        sure: False where other faults print the same words ("device kernel image is invalid").
    """

    cache: str
    why: str
    path: str = ""
    key: str = ""
    fatal: bool = True
    sure: bool = True


@observed
class ProfilerSeen(Event):
    """A profiler was attached (nsys, ncu, CUPTI): it can give 719 on a healthy GPU."""

    name: str


@observed
class ProseMentioned(Event):
    """Somebody's own words mention a fault.

    Attributes:
        topic: `xid`, `loss`, `cuda`, `oom`, `thermal`.
        xid: The Xid's number where named.
    """

    topic: str
    xid: int | None = None


@observed
class OtherFailed(Event):
    """Something failed in words no rule weighs by itself (Traceback, `ERROR`, exit status)."""

    what: str
    where: str = ""
