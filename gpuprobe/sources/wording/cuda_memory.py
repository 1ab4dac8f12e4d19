"""GPU memory that ran out, and asserts of kernels, as programs print them."""

from __future__ import annotations

import re

from gpuprobe.events import DeviceAssertFailed, GpuMemoryExhausted
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording.base import Pattern, Reading

_SIZE = r"\d[\d.,]{0,30}\s?(?:[KMGT]i?B|bytes|B)\b"
_WANTED = regex(
    rf"(?:[Tt]ried to allocate|trying to allocate|allocating|Allocating|to allocate|failed to alloc\w*)\s+(?P<size>{_SIZE})"
)
_TOTAL = regex(rf"total capacity of (?P<new>{_SIZE})|(?P<old>{_SIZE}) total capacity")
_FREE = regex(rf"of which (?P<new>{_SIZE}) is free|(?P<old>{_SIZE}) free\b")
_INDEX = regex(r"\b(?:GPU|device|CUDA_?(?:device )?|ROCm)\s?(?P<index>\d{1,2})\b(?!\.\d)")


def _read_exhausted(match: re.Match[str], window: Window) -> Reading:
    text = window.text
    wanted = _WANTED.search(text)
    total = _TOTAL.search(text)
    free = _FREE.search(text)
    index = _INDEX.search(text)
    return GpuMemoryExhausted(
        **window.base(),
        wanted=wanted["size"] if wanted else "",
        total=(total["new"] or total["old"]) if total else "",
        free=(free["new"] or free["old"]) if free else "",
        index=int(index["index"]) if index else None,
    )


def _read_assert(match: re.Match[str], window: Window) -> Reading:
    return DeviceAssertFailed(**window.base(), condition=match["condition"].strip())


MEMORY_PATTERNS = (
    Pattern(
        id="cuda-out-of-memory",
        needles=(
            "CUDA out of memory",
            "HIP out of memory",
            "XPU out of memory",
            "Allocation on device",
        ),
        regex=regex(
            r"(?:CUDA|HIP|XPU) out of memory(?=\.|\s|$|[\"'])(?! errors)|OutOfMemoryError: Allocation on device|Allocation on device +\d{1,2} +would exceed allowed memory"
        ),
        read=_read_exhausted,
        examples=(
            "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 3.50 GiB. GPU 1 has a total capacity of 79.10 GiB of which 1.25 GiB is free.",
            "RuntimeError: CUDA out of memory. Tried to allocate 734.00 MiB (GPU 0; 11.17 GiB total capacity; 9.98 GiB already allocated; 211.31 MiB free; 10.2 GiB reserved)",
            "torch.OutOfMemoryError: HIP out of memory. Tried to allocate 64.00 MiB.",
            "!!! Exception during processing !!! Allocation on device 0 would exceed allowed memory. (out of memory)",
        ),
        near=("How to avoid CUDA out of memory errors",),
        source="pytorch c10/cuda/CUDACachingAllocator.cpp",
    ),
    Pattern(
        id="cuda-ggml-out-of-memory",
        needles=(
            "cudaMalloc failed",
            "hipMalloc failed",
            "failed to allocate CUDA",
            "failed to allocate ROCm",
        ),
        regex=regex(
            r"allocating (?P<size>[\d.]+ MiB) on device (?P<index>\d+): (?:cuda|hip)Malloc failed|(?:cuda|hip)Malloc failed: out of memory|failed to allocate (?:CUDA|ROCm)\d+ buffer"
        ),
        read=_read_exhausted,
        examples=(
            "ggml_backend_cuda_buffer_type_alloc_buffer: allocating 5120.00 MiB on device 1: cudaMalloc failed: out of memory",
            "alloc_tensor_range: failed to allocate CUDA0 buffer of size 4712341504",
        ),
        near=("cudaMalloc failed over to the pool",),
        source="llama.cpp ggml-cuda.cu",
    ),
    Pattern(
        id="xla-resource-exhausted",
        needles=("RESOURCE_EXHAUSTED", "OOM when allocating", "ResourceExhaustedError"),
        regex=regex(
            r"RESOURCE_EXHAUSTED: (?:Out of memory|OOM|Failed to allocate request)|OOM when allocating tensor|ResourceExhaustedError[^\n]*(?:OOM|out of memory|memory)"
        ),
        read=_read_exhausted,
        examples=(
            "jax.errors.JaxRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 17179869184 bytes.",
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: OOM when allocating tensor with shape[64,4096,4096] and type float on /job:localhost/replica:0/task:0/device:GPU:0",
        ),
        near=("grpc status RESOURCE_EXHAUSTED: quota of the day",),
        source="xla tsl/framework/bfc_allocator.cc",
    ),
    Pattern(
        id="engine-no-cache-memory",
        needles=(
            "No available memory for the cache blocks",
            "Not enough memory. Please try to increase --mem-fraction-static",
            "is less than desired GPU memory utilization",
            "larger than the available KV cache memory",
        ),
        regex=regex(
            r"No available memory for the cache blocks|Not enough memory\. Please try to increase --mem-fraction-static|is less than desired GPU memory utilization|larger than the available KV cache memory"
        ),
        read=_read_exhausted,
        examples=(
            "ValueError: No available memory for the cache blocks. Try increasing `gpu_memory_utilization` when initializing the engine.",
            "RuntimeError: Not enough memory. Please try to increase --mem-fraction-static.",
            "ValueError: Free memory on device (9.1/23.6 GiB) on startup is less than desired GPU memory utilization (0.9, 21.2 GiB).",
        ),
        source="vLLM v1/core/kv_cache_utils.py, SGLang model_runner.py",
    ),
    Pattern(
        id="cuda-other-out-of-memory",
        needles=(
            "OutOfMemoryError: Out of memory allocating",
            "std::bad_alloc: ",
            "CUDA_ERROR_OUT_OF_MEMORY",
            "OUT_OF_DEVICE_MEMORY",
        ),
        regex=regex(
            r"OutOfMemoryError: Out of memory allocating|std::bad_alloc: (?:out_of_memory: )?CUDA error|(?<!= )(?<!case )CUDA_ERROR_OUT_OF_MEMORY\b(?! =)|(?<!= )(?<!case )VK_ERROR_OUT_OF_DEVICE_MEMORY\b(?! =)"
        ),
        read=_read_exhausted,
        examples=(
            "cupy.cuda.memory.OutOfMemoryError: Out of memory allocating 8,000,000,512 bytes (allocated so far: 16,000,000,000 bytes).",
            "numba.cuda.cudadrv.driver.CudaAPIError: [2] Call to cuMemAlloc results in CUDA_ERROR_OUT_OF_MEMORY",
            "MemoryError: std::bad_alloc: out_of_memory: CUDA error at: /rmm/mr/device/cuda_memory_resource.hpp:70",
        ),
        near=("java.lang.OutOfMemoryError: Java heap space",),
        source="cupy cuda/memory.pyx; CUDA driver API reference",
    ),
    Pattern(
        id="program-out-of-gpu-memory",
        needles=(
            "MPS backend out of memory",
            "with error out of memory",
            "Out of memory error on GPU",
            "Out of GPU memory",
            "out of GPU and shared",
            "out of GPU memory",
            "Insufficient VRAM",
            "CallbackErrorOutOfMemory",
            "OutOfDeviceMemory",
            "[CUDA] out of memory",
            "Memory allocation failed",
            "for requested buffer of size",
            "smaller than requested bytes",
            "allocatable device memory for this attack",
            "CL_MEM_OBJECT_ALLOCATION_FAILURE",
            "Not enough memory to handle",
            "Out of video memory",
        ),
        regex=regex(
            r"MPS backend out of memory|CUDA failed with error out of memory|Out of memory error on GPU \d"
            r"|Out of GPU memory trying to allocate|[Oo]ut of GPU (?:and shared host )?memory(?=\W*$)"
            r"|Insufficient VRAM\b|kIOGPUCommandBufferCallbackErrorOutOfMemory|\bErrorOutOfDeviceMemory"
            r"|\[CUDA\] out of memory|DxvkMemoryAllocator: Memory allocation failed"
            r"|BFCArena[^\n]{0,300}?(?:Failed to allocate memory for requested buffer of size|is smaller than requested bytes)"
            r"|Not enough allocatable device memory for this attack|(?<!case )(?<!= )\bCL_MEM_OBJECT_ALLOCATION_FAILURE(?! =)"
            r"|Not enough memory to handle \d+ (?:prefill|total) tokens|Out of video memory trying to allocate"
        ),
        read=_read_exhausted,
        examples=(
            "RuntimeError: MPS backend out of memory (MPS allocated: 8.91 GB, other allocations: 3.20 MB, max allowed: 9.07 GB). Tried to allocate 256.00 MB on private pool.",
            "RuntimeError: CUDA failed with error out of memory",
            "Out of memory error on GPU 1. Cannot allocate 1.125000GB memory on GPU 1",
            "ERROR: Out of GPU memory trying to allocate 1.250 GiB",
            "System is out of GPU and shared host memory",
            "error: Insufficient Memory (00000008:kIOGPUCommandBufferCallbackErrorOutOfMemory)",
            "ggml_vulkan: vk::Device::allocateMemory: ErrorOutOfDeviceMemory",
            "onnxruntime::BFCArena::AllocateRawInternal(size_t, bool) Failed to allocate memory for requested buffer of size 67108864",
            "Server error: Not enough memory to handle 8192 prefill tokens. You need to decrease `--max-batch-prefill-tokens`",
            "Out of video memory trying to allocate a rendering resource",
        ),
        near=(
            "case CL_MEM_OBJECT_ALLOCATION_FAILURE: return",
            "Allocator (GPU_0_bfc) ran out of memory trying to allocate 1.2GiB. The caller indicates that this is not a failure",
            "how to avoid running out of GPU memory in production",
        ),
        source="PyTorch MPSAllocator.mm, CTranslate2, Paddle, CUDA.jl, Cycles, ggml, DXVK, ONNX Runtime, hashcat, TGI",
    ),
    Pattern(
        id="cuda-device-assert",
        needles=("thread: [",),
        regex=regex(
            r"block: \[\d+,\s?\d+,\s?\d+\],\s*thread: \[\d+,\s?\d+,\s?\d+\],?\s*Assertion [`'\"]?(?P<condition>.+?)[`'\"]?\s*failed"
        ),
        read=_read_assert,
        examples=(
            "/pytorch/aten/src/ATen/native/cuda/Loss.cu:240: nll_loss_forward_reduce_cuda_kernel_2d: block: [0,0,0], thread: [5,0,0] Assertion `t >= 0 && t < n_classes` failed.",
        ),
        near=("python: lib/foo.c:33: bar: Assertion `x == 1' failed.",),
        source="CUDA programming guide, assertion",
    ),
)
"""Memory and assert patterns, tried before the other patterns of the family `cuda`."""
