"""What is read from CUDA and HIP errors: code, name, frame, rank, whether it is an echo."""

from __future__ import annotations

import pytest
from _windows import read, read_lines

from gpuprobe.events import CudaFailed, DeviceAssertFailed, GpuHung, GpuMemoryExhausted
from gpuprobe.sources.wording.cuda import FAMILY as CUDA
from gpuprobe.sources.wording.graphics import FAMILY as GRAPHICS


def failed(block: str) -> CudaFailed:
    (event,) = read(CUDA, block)
    assert isinstance(event, CudaFailed)
    return event


@pytest.mark.parametrize(
    ("line", "code", "framework"),
    [
        ("torch.AcceleratorError: CUDA error: unspecified launch failure", 719, "torch"),
        ("RuntimeError: CUDA error: device-side assert triggered", 710, "torch"),
        ("RuntimeError: CUDA error: an illegal memory access was encountered", 700, "torch"),
        ("RuntimeError: CUDA error: misaligned address", 716, "torch"),
        ("RuntimeError: No CUDA GPUs are available", 100, "torch"),
        ("[rank1]: torch.AcceleratorError: CUDA error: API call is not supported in the installed CUDA driver", 36, "torch"),
        ("n7:77:88 [1] transport/shm.cc:590 NCCL WARN Cuda failure 217 'peer access is not supported between these two devices'", 217, "nccl"),
        ("RuntimeError: Found no NVIDIA driver on your system.", 35, "torch"),
        ("RuntimeError: HIP error: an illegal memory access was encountered", 700, "hip"),
        ("hipErrorIllegalAddress: an illegal memory access was encountered", 700, "hip"),
        ("jax.errors.JaxRuntimeError: INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure", 719, "jax"),
        ("jaxlib.xla_extension.XlaRuntimeError: INTERNAL: Failed to complete all kernels launched on stream 0x7: CUDA error: Could not synchronize CUDA stream: CUDA_ERROR_ILLEGAL_ADDRESS: an illegal memory access was encountered", 700, "jax"),
        ("E tensorflow/compiler/xla/stream_executor/cuda/cuda_driver.cc:268] failed call to cuInit: CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected", 100, "tensorflow"),
        ("cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorIllegalAddress: an illegal memory access was encountered", 700, "cupy"),
        ("numba.cuda.cudadrv.driver.CudaAPIError: [719] Call to cuMemcpyDtoH results in UNKNOWN_CUDA_ERROR", 719, "numba"),
        ('Error: DriverError(CUDA_ERROR_UNKNOWN, "unknown error")', 999, "cudarc"),
        ("Error invoking kernel: CUDA_ERROR_LAUNCH_FAILED (719)", 719, "openmm"),
        ("CUDA failure 719: unspecified launch failure ; GPU=0 ; hostname=n1 ; expr=cudaDeviceSynchronize();", 719, "onnxruntime"),
        ("Error: Launch exceeded timeout in CUDA queue synchronize (integrator_shade_surface)", 702, "blender"),
        ("[h264_nvenc @ 0x55] dl_fn->cuda_dl->cuCtxCreate(&ctx, 0, dev) failed -> CUDA_ERROR_UNKNOWN: unknown error", 999, "ffmpeg"),
        ("[TensorRT-LLM][ERROR] CUDA runtime error in cudaMemcpyAsync(a, b): an illegal memory access was encountered (/src/x.h:9)", 700, "tensorrt-llm"),
        ("1: [runner.cpp::execute::51] Error Code 1: Cuda Runtime (unspecified launch failure)", 719, "tensorrt"),
        ("RuntimeError: Triton Error [CUDA]: an illegal memory access was encountered", 700, "triton"),
        ("pycuda._driver.LogicError: cuMemcpyDtoH failed: an illegal memory access was encountered", 700, "pycuda"),
        ("cuda driver library failed to get device context 46time=2025-04-01T00:00:00Z level=WARN", 46, None),
        ("CUDA error 700", 700, None),
        ("CUDA error at /build/search.cu:412 code=719", 719, None),
        ("CUDA error: (719)", 719, None),
        ("719 cudaErrorLaunchFailure", 719, None),
    ],
)  # fmt: skip
def test_the_code_comes_from_name_text_or_number(
    line: str, code: int, framework: str | None
) -> None:
    event = failed(line)

    assert (event.code, event.framework) == (code, framework)
    assert event.name is not None


@pytest.mark.parametrize(
    ("line", "code"),
    [
        ("cuda runtime error (59) : device-side assert triggered at /pytorch/THC.cu:10", 710),
        ("cuda runtime error (77) : an illegal memory access was encountered", 700),
        ("CUDA error 4: unspecified launch failure", 719),
        ("CUDA Error 30: unknown error", 999),
    ],
)
def test_the_words_outweigh_the_numbers_of_old_runtimes(line: str, code: int) -> None:
    assert failed(line).code == code


def test_a_text_that_was_cut_off_is_still_known() -> None:
    assert failed('{"message":"CUDA error: an illegal memory acc').code == 700


def test_a_cublas_failure_has_a_name_and_no_code() -> None:
    event = failed(
        "RuntimeError: CUDA error: CUBLAS_STATUS_EXECUTION_FAILED when calling `cublasSgemm(h)`"
    )

    assert (event.code, event.name) == (None, "CUBLAS_STATUS_EXECUTION_FAILED")


def test_the_innermost_python_frame_is_named() -> None:
    event = failed(
        "Traceback (most recent call last):\n"
        '  File "/srv/engine/loop.py", line 90, in run\n'
        "    self.step()\n"
        '  File "/srv/engine/cache.py", line 412, in evict\n'
        "    self.slots[old] = -1\n"
        "    ~~~~~~~~~~^^^^^\n"
        "torch.AcceleratorError: CUDA error: unspecified launch failure"
    )

    assert event.where == "/srv/engine/cache.py:412 in evict"


def test_a_frame_of_another_traceback_is_not_taken() -> None:
    event = failed(
        '  File "/srv/a.py", line 3, in load\n'
        "ValueError: no such model\n"
        "CUDA error: unspecified launch failure"
    )

    assert event.where == ""


def test_ggml_names_function_and_device_on_the_next_line() -> None:
    (event,) = read_lines(
        CUDA,
        "CUDA error: unspecified launch failure\n"
        "  current device: 1, in function ggml_backend_cuda_synchronize at /b/ggml-cuda.cu:2989\n"
        "  cudaStreamSynchronize(cuda_ctx->stream())\n"
        "/b/ggml-cuda.cu:88: CUDA error",
    )

    assert isinstance(event, CudaFailed)
    assert event.where == "ggml_backend_cuda_synchronize at /b/ggml-cuda.cu:2989"
    assert (event.rank, event.framework) == (1, "ggml")


@pytest.mark.parametrize(
    ("line", "rank"),
    [
        ("[rank3]:[E511 10:00:00.1 ProcessGroupNCCL.cpp:1895] [PG ID 0 Rank 3] Process group watchdog thread terminated with exception: CUDA error: unspecified launch failure", 3),
        ("[2026-05-02 11:20:10 TP2] torch.AcceleratorError: CUDA error: unspecified launch failure", 2),
        ("node1:77:99 [5] NCCL WARN Cuda failure 'unspecified launch failure'", 5),
        ("RuntimeError: CUDA error: unspecified launch failure", None),
    ],
)  # fmt: skip
def test_the_rank_comes_from_the_line(line: str, rank: int | None) -> None:
    assert failed(line).rank == rank


def test_what_terminate_prints_after_an_error_is_an_echo() -> None:
    events = read_lines(
        CUDA,
        "torch.AcceleratorError: CUDA error: unspecified launch failure\n"
        "terminate called after throwing an instance of 'c10::AcceleratorError'\n"
        "  what():  CUDA error: unspecified launch failure",
    )

    assert [event.teardown for event in events if isinstance(event, CudaFailed)] == [False, True]
    assert [event.framework for event in events if isinstance(event, CudaFailed)] == ["torch"] * 2


def test_what_terminate_prints_first_is_the_error_itself() -> None:
    (event,) = read_lines(
        CUDA,
        "terminate called after throwing an instance of 'std::runtime_error'\n"
        "  what():  CUDA error: an illegal memory access was encountered",
    )

    assert isinstance(event, CudaFailed)
    assert not event.teardown


def test_failed_clean_up_after_an_error_is_an_echo() -> None:
    events = read_lines(
        CUDA,
        "XlaRuntimeError: INTERNAL: CUDA error: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure\n"
        "failed to unload module 0x55; leaking: CUDA_ERROR_LAUNCH_FAILED: unspecified launch failure",
    )

    assert [event.teardown for event in events if isinstance(event, CudaFailed)] == [False, True]


def test_the_search_hint_is_read_only_where_the_message_is_missing() -> None:
    hint = "Search for `cudaErrorIllegalAddress' in https://docs.nvidia.com/cuda/ for more information."

    assert failed(hint).code == 700
    assert (
        len(
            read_lines(
                CUDA, f"RuntimeError: CUDA error: an illegal memory access was encountered\n{hint}"
            )
        )
        == 1
    )


def test_sizes_of_an_exhausted_memory_are_kept() -> None:
    (event,) = read(CUDA, "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 96.00 MiB. GPU 2 has a total capacity of 23.64 GiB of which 12.81 MiB is free.")  # fmt: skip

    assert isinstance(event, GpuMemoryExhausted)
    assert (event.wanted, event.total, event.free, event.index) == ("96.00 MiB", "23.64 GiB", "12.81 MiB", 2)  # fmt: skip


@pytest.mark.parametrize(
    "line",
    [
        "RuntimeError: CUDA error: out of memory",
        "RuntimeError: CUDA error: CUBLAS_STATUS_ALLOC_FAILED when calling `cublasCreate(handle)`",
        "cudaErrorMemoryAllocation: out of memory",
        "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
        "RuntimeError: Triton Error [CUDA]: out of memory",
    ],
)
def test_code_2_is_exhausted_memory_and_no_failure_of_cuda(line: str) -> None:
    assert [type(event) for event in read(CUDA, line)] == [GpuMemoryExhausted]


def test_the_condition_of_a_device_assert_is_kept() -> None:
    (event,) = read(
        CUDA, "/src/k.cu:9: gather: block: [4,0,0], thread: [31,0,0] Assertion `i < n` failed."
    )

    assert isinstance(event, DeviceAssertFailed)
    assert event.condition == "i < n"


@pytest.mark.parametrize(
    ("line", "driver", "what"),
    [
        ("vkWaitForFences failed: VK_ERROR_DEVICE_LOST", "vulkan", "device-removed"),
        ("Present failed: DXGI_ERROR_DEVICE_HUNG (0x887A0006)", "d3d", "tdr"),
        ("CreateBuffer failed, HRESULT 0x887A0020", "d3d", "device-removed"),
    ],
)
def test_a_lost_graphics_device_is_a_hang_until_proven_otherwise(
    line: str, driver: str, what: str
) -> None:
    (event,) = read(GRAPHICS, line)

    assert isinstance(event, GpuHung)
    assert (event.driver, event.what) == (driver, what)
