"""CUDA errors of every framework, by look-alikes of their types, and what only looks like one."""

from __future__ import annotations

import enum
import json

import pytest

from gpuprobe.catalog import cuda_errors
from gpuprobe.inside.cuda import find, recognise


def made(name: str, text: object = "", base: type[Exception] = RuntimeError, **fields) -> Exception:
    """An exception of a type with this full name."""
    module, _, short = name.rpartition(".")
    return type(short, (base,), {"__module__": module or "builtins", **fields})(text)


cudaError_t = enum.IntEnum("cudaError_t", {"cudaErrorIllegalAddress": 700})  # noqa: N816
CUresult = enum.IntEnum("CUresult", {"CUDA_ERROR_LAUNCH_FAILED": 719})

ERRORS = [
    ("torch.AcceleratorError", "CUDA error: unspecified launch failure\nSearch for `cudaErrorLaunchFailure' in https://docs.nvidia.com/cuda", 719),
    ("torch.AcceleratorError", "CUDA error: an illegal memory access was encountered", 700),
    ("torch.AcceleratorError", "HIP error: an illegal memory access was encountered", 700),
    ("RuntimeError", "CUDA error: device-side assert triggered\nCUDA kernel errors might be", 710),
    ("RuntimeError", "cuda runtime error (719) : unspecified launch failure at /pytorch/THC.cu:327", 719),
    ("torch.OutOfMemoryError", "CUDA out of memory. Tried to allocate 20.00 MiB. GPU 0 has", 2),
    ("torch.cuda.OutOfMemoryError", "HIP out of memory. Tried to allocate 20.00 MiB", 2),
    ("torch.cuda.DeferredCudaCallError", "CUDA call failed lazily at initialization with error: device >= 0", None),
    ("torch.distributed.DistBackendError", "NCCL error in: /src/ProcessGroupNCCL.cpp:1333, unhandled cuda error (run with NCCL_DEBUG=INFO for details), NCCL version 2.26.2", None),
    ("torch.distributed.DistBackendError", "NCCL error in: x.cpp:1, unhandled cuda error, NCCL version 2\nLast error:\nCuda failure 'unspecified launch failure'", 719),
    ("RuntimeError", "NCCL error: unhandled cuda error (run with NCCL_DEBUG=INFO for details)", None),
    ("jax.errors.JaxRuntimeError", "INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", 719),
    ("jaxlib.xla_extension.XlaRuntimeError", "INTERNAL: Failed to complete all kernels launched on stream 0x5: CUDA error: Could not synchronize CUDA stream: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered", 700),
    ("jaxlib.xla_extension.XlaRuntimeError", "RESOURCE_EXHAUSTED: Out of memory while trying to allocate 8589934592 bytes.", 2),
    ("cupy_backends.cuda.api.runtime.CUDARuntimeError", "cudaErrorLaunchFailure: unspecified launch failure", 719),
    ("cupy_backends.cuda.api.driver.CUDADriverError", "CUDA_ERROR_UNKNOWN: unknown error", 999),
    ("cupy.cuda.memory.OutOfMemoryError", "Out of memory allocating 8,000 bytes (allocated so far: 0 bytes).", 2),
    ("cupy_backends.cuda.libs.nccl.NcclError", "NCCL_ERROR_UNHANDLED_CUDA_ERROR: unhandled cuda error", None),
    ("numba.cuda.cudadrv.driver.CudaAPIError", "[719] Call to cuMemcpyDtoH results in UNKNOWN_CUDA_ERROR", 719),
    ("numba.cuda.cudadrv.driver.CudaAPIError", "[700] Call to cuCtxSynchronize results in CUDA_ERROR_ILLEGAL_ADDRESS", 700),
    ("numba.cuda.cudadrv.error.CudaSupportError", "Error at driver init: \nCall to cuInit results in CUDA_ERROR_NO_DEVICE (100):", 100),
    ("cuda.core._utils.cuda_utils.CUDAError", "CUDA_ERROR_LAUNCH_FAILED: An exception occurred on the device", 719),
    ("RuntimeError", "CUDA Error: cudaErrorIllegalAddress", 700),
    ("tensorflow.python.framework.errors_impl.InternalError", "Could not synchronize CUDA stream: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", 719),
    ("tensorflow.python.framework.errors_impl.ResourceExhaustedError", "OOM when allocating tensor with shape[8192,8192] on /job:localhost/replica:0/task:0/device:GPU:0", 2),
    ("pycuda._driver.LaunchError", "cuCtxSynchronize failed: unspecified launch failure", 719),
    ("pycuda._driver.LogicError", "cuInit failed: unknown error", 999),
    ("RuntimeError", "Triton Error [CUDA]: device kernel image is invalid", 200),
    ("RuntimeError", "CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`", 2),
    ("RuntimeError", "CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm`", None),
    ("xgboost.core.XGBoostError", "[10:11:12] /src/common.h:45: cudaErrorIllegalAddress: an illegal memory access", 700),
    ("onnxruntime.capi.Fail", "CUDA failure 719: unspecified launch failure ; GPU=0 ; expr=cudaStreamSynchronize(s);", 719),
    ("MemoryError", "std::bad_alloc: out_of_memory: CUDA error at: /include/rmm/mr.hpp:70", 2),
    ("vllm.v1.engine.exceptions.EngineDeadError", "worker said: CUDA error: unspecified launch failure", 719),
]  # fmt: skip


@pytest.mark.parametrize(("name", "text", "code"), ERRORS)
def test_an_error_of_a_framework_is_recognised(name: str, text: str, code: int | None) -> None:
    """With its code where the text names one that the catalogue knows."""
    found = find(made(name, text))

    assert found is not None
    assert found.code == code
    assert found.text
    assert "\n" not in found.text
    assert found.type == name


@pytest.mark.parametrize(
    "error",
    [
        RuntimeError("the engine is dead"),
        RuntimeError("no CUDA error handler is registered"),
        RuntimeError("CUDA errors so far: 0"),
        RuntimeError("CUDA error: no error"),
        RuntimeError("cudaErrorNotReady"),
        RuntimeError("Expected all tensors to be on the same device, but found cuda:0 and cpu!"),
        RuntimeError("The launch failed: device is not configured"),
        RuntimeError("out of memory"),
        MemoryError(),
        made("torch.cuda.SomethingElse", "not for you"),
        AttributeError("module 'cuda' has no attribute 'cudaErrorLaunchFailure'"),
        KeyError("CUDA_ERROR_UNKNOWN"),
        AssertionError("Torch not compiled with CUDA enabled"),
        ImportError("CUDA error: libcuda.so.1: cannot open shared object file"),
        json.JSONDecodeError("CUDA error: unspecified launch failure", "", 0),
        made("httpx.HTTPStatusError", "500: CUDA error: unspecified launch failure", Exception),
        made("ollama._types.ResponseError", "llama runner: CUDA error: unknown error", Exception),
        made("mine.CUDAError", "a class of that name of somebody's own"),
        made("jax.errors.JaxRuntimeError", "INVALID_ARGUMENT: shapes do not match"),
        made("cupy.cuda.compiler.CompileException", "expected a ';'", Exception),
    ],
    ids=repr,
)
def test_what_only_speaks_of_cuda_is_no_cuda_error(error: BaseException) -> None:
    """Mistakes of the program, other machines' words, and everyday words."""
    assert find(error) is None


def test_the_number_is_used_where_the_text_says_nothing() -> None:
    """As torch, CuPy and numba carry it, and in the enumerations of cuda-python."""
    torch = made("torch.AcceleratorError", "something", error_code=700)
    cupy = made("cupy_backends.cuda.api.runtime.CUDARuntimeError", "", status=46)
    numba = made("numba.cuda.cudadrv.driver.CudaAPIError", "x", Exception, code=999)
    bindings = RuntimeError((cudaError_t.cudaErrorIllegalAddress, 0))
    driver = made("cuda.core._utils.CUDAError", CUresult.CUDA_ERROR_LAUNCH_FAILED)
    found = [find(one) for one in (torch, cupy, numba, bindings, driver)]

    assert [seen.code for seen in found if seen] == [700, 46, 999, 700, 719]
    assert find(RuntimeError(700)) is None


def test_a_subclass_of_an_engine_counts_as_its_base() -> None:
    """An engine's own type below torch's."""
    base = type(made("torch.AcceleratorError"))
    own = type("StepFailed", (base,), {"__module__": "engine.steps"})

    assert find(own("step 7")) is not None


def test_every_text_and_name_of_the_catalogue_is_recognised() -> None:
    """As PyTorch prints the text, and as JAX prints the driver's name."""
    for error in cuda_errors():
        seen = find(RuntimeError(f"CUDA error: {error.text}"))
        assert seen is not None
        assert seen.error is not None
        assert seen.error.text == error.text
        if error.driver_name:
            named = find(made("jax.errors.JaxRuntimeError", f"INTERNAL: {error.driver_name}: x"))
            assert named is not None
            assert named.code == error.code


def test_the_first_error_of_a_chain_is_the_one() -> None:
    """Cause, context and groups are followed; clean-up repeats a code or names none."""
    try:
        try:
            try:
                raise RuntimeError("CUDA error: an illegal memory access was encountered")
            except RuntimeError as first:
                raise RuntimeError("CUDA error: unspecified launch failure") from first
        except RuntimeError:
            raise LookupError("while cleaning up")  # noqa: B904 - the context is what is tested
    except LookupError as last:
        error = last
        group = ExceptionGroup("workers", [ValueError("no"), ExceptionGroup("inner", [error])])

    for chained in (error, group):
        seen = find(chained)
        assert seen is not None
        assert seen.code == 700


def test_odd_exceptions_harm_nothing() -> None:
    """A loop of causes, a text that raises, a text without end, control characters."""
    one, two = RuntimeError("one"), RuntimeError("CUDA error: unknown error")
    one.__cause__, two.__cause__ = two, one
    seen = find(one)
    assert seen is not None
    assert seen.code == 999

    def fail(_: object) -> str:
        raise OSError

    assert find(made("engine.Odd", __str__=fail)) is None
    assert recognise(made("torch.AcceleratorError", __str__=fail)) is not None
    long = find(RuntimeError("CUDA error: unknown error \x1b[2J" + "x" * 10_000_000))
    assert long is not None
    assert long.text.isprintable()
    assert len(long.text) == 500
