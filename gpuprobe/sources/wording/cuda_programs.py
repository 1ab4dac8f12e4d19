"""CUDA errors in shapes of their own: PyTorch's start-up, numba, Ollama, Blender, ROCm and others."""

from __future__ import annotations

import re
from dataclasses import replace

from gpuprobe.events import GpuMemoryExhausted
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import cuda_text
from gpuprobe.sources.wording.base import Pattern, Reading
from gpuprobe.sources.wording.cuda_report import report
from gpuprobe.sources.wording.cuda_text import BY_CODE, CudaError


def _read_orphan_hint(match: re.Match[str], window: Window) -> Reading:
    """The symbolic name alone, where the line with the words was not saved."""
    if any("CUDA error" in record.message for record in window.before(3)):
        return None
    if "CUDA error" in match.string[: match.start()]:
        return None
    name = cuda_text.NAME.search(match[0])
    error = cuda_text.by_name(name) if name else None
    return None if error is None else report(window, error, framework="torch")


def _read_number(match: re.Match[str], window: Window) -> Reading:
    error = cuda_text.resolve(match.groupdict().get("text") or "", int(match["number"]))
    return None if error is None else report(window, error)


def _read_numba(match: re.Match[str], window: Window) -> Reading:
    number = match["number"]
    error = BY_CODE.get(int(number)) if number else cuda_text.resolve(match["name"])
    return None if error is None else report(
        window, error, where=match["call"], framework="numba"
    )  # fmt: skip


def _read_torch_start(match: re.Match[str], window: Window) -> Reading:
    """PyTorch's own words for an error of its first CUDA call."""
    said = match["said"]
    number = re.search(r"Error (\d{1,3}): ", said)
    if re.match(r"Found no NVIDIA driver|The NVIDIA driver on your system is too old", said):
        # PyTorch writes both for cudaErrorInsufficientDriver, the first when no driver answers.
        return report(window, BY_CODE[35], framework="torch")
    if re.match(r"CUDA unknown error|CUDA driver initialization failed", said):
        return report(window, BY_CODE[999 if "unknown" in said[:20] else 3], framework="torch")
    error = cuda_text.resolve(said, int(number[1]) if number else None)
    return None if error is None else report(window, error, framework="torch")


def _read_no_gpus(match: re.Match[str], window: Window) -> Reading:
    return report(window, BY_CODE[100], framework="torch")


def _read_deferred(match: re.Match[str], window: Window) -> Reading:
    said = match["said"].strip()
    error = cuda_text.resolve(said) or CudaError(None, None, said[:200])
    return report(window, error, framework="torch")


def _read_library(match: re.Match[str], window: Window) -> Reading:
    """A failure of cuBLAS, cuDNN and the like, which hides CUDA's own code."""
    if match["status"] == "ALLOC_FAILED":
        return GpuMemoryExhausted(**window.base())
    name = f"{match['library']}_STATUS_{match['status']}"
    return report(window, CudaError(None, name, name))


_HSA = {"MEMORY_FAULT": 700, "MEMORY_APERTURE_VIOLATION": 700, "ILLEGAL_INSTRUCTION": 715}
"""What a queue of ROCm's runtime is aborted for, as the CUDA error of the same meaning."""


def _read_rocm(match: re.Match[str], window: Window) -> Reading:
    """A fault that ROCm's runtime prints before it aborts the process."""
    if status := match["status"]:
        code = _HSA.get(status.removeprefix("HSA_STATUS_ERROR_"))
        return report(window, CudaError(code, status, status), framework="hip")
    fault = CudaError(700, "hipErrorIllegalAddress", "Memory access fault by GPU")
    return report(window, fault, where=f"GPU node-{match['node']}", framework="hip")


def _read_blender(match: re.Match[str], window: Window) -> Reading:
    error = cuda_text.by_text(match["text"], loose=True)
    kernel = f" ({match['kernel']})" if match["kernel"] else ""
    if error is None:
        return None
    return report(window, error, where=match["operation"] + kernel, framework="blender")


def _read_nvenc(match: re.Match[str], window: Window) -> Reading:
    if match["number"] == "10":
        return GpuMemoryExhausted(**window.base())
    message = f"OpenEncodeSessionEx failed: {match['text'].strip()}"
    return report(window, CudaError(None, None, message), framework="ffmpeg")


_OPENCL = {
    -4: "CL_MEM_OBJECT_ALLOCATION_FAILURE",
    -5: "CL_OUT_OF_RESOURCES",
    -6: "CL_OUT_OF_HOST_MEMORY",
    -14: "CL_EXEC_STATUS_ERROR_FOR_EVENTS_IN_WAIT_LIST",
    -36: "CL_INVALID_COMMAND_QUEUE",
    -9999: "illegal read or write to a buffer",
}
"""OpenCL's results after which a queue is dead; NVIDIA's -9999 among them."""


def _read_opencl(match: re.Match[str], window: Window) -> Reading:
    number = int(match["number"])
    name = _OPENCL.get(number)
    if name is None:
        return None
    if number == -4:
        return GpuMemoryExhausted(**window.base())
    error = CudaError(None, name, f"{name} ({number})")
    return report(window, error, where=match["call"], framework="opencl")


def _read_said(match: re.Match[str], window: Window) -> Reading:
    """A program's own words for a GPU that failed it, without any code of CUDA's."""
    return report(window, CudaError(None, None, match["said"].strip()))


def _read_debugger(match: re.Match[str], window: Window) -> Reading:
    """What cuda-gdb and compute-sanitizer find is the program's own."""
    return report(window, replace(BY_CODE[700], text=match["said"].strip()))


PROGRAM_PATTERNS = (
    Pattern(
        id="cuda-torch-name-hint",
        needles=("Search for `cudaError",),
        regex=regex(r"Search for `cudaError\w+'"),
        read=_read_orphan_hint,
        examples=(
            "Search for `cudaErrorLaunchFailure' in https://docs.nvidia.com/cuda/cuda-runtime-api/group__CUDART__TYPES.html for more information.",
        ),
        near=("Search for the cause of the launch failure in the manual",),
        source="pytorch c10/cuda/CUDAMiscFunctions.cpp",
    ),
    Pattern(
        id="cuda-torch-initialization",
        needles=(
            "CUDA initialization: ",
            "cudaGetDeviceCount()",
            "Found no NVIDIA driver on",
            "The NVIDIA driver on your system is too old",
            "CUDA unknown error - ",
            "CUDA driver initialization failed",
        ),
        regex=regex(
            r"(?:CUDA initialization: |(?=CUDA unknown error - )|(?=CUDA driver initialization failed)|(?=Found no NVIDIA driver on)|(?=The NVIDIA driver on your system is too old)|cudaGetDeviceCount\(\)(?=[^\n]*[Ee]rror \d))(?P<said>[^\n]+)"
        ),
        read=_read_torch_start,
        examples=(
            "/srv/env/lib/python3.10/site-packages/torch/cuda/__init__.py:107: UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment",
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
            "cudaGetDeviceCount() Error 304: OS call failed or operation not supported on this OS",
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
            "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).",
            "RuntimeError: CUDA unknown error - this may be due to an incorrectly set up environment, e.g. changing env variable CUDA_VISIBLE_DEVICES after program start.",
            "RuntimeError: CUDA driver initialization failed, you might not have a CUDA gpu.",
        ),
        near=("CUDA initialization: done in 0.3 s", "n = cudaGetDeviceCount()"),
        source="pytorch c10/cuda/CUDAFunctions.cpp",
    ),
    Pattern(
        id="cuda-torch-no-gpus",
        needles=("No CUDA GPUs are available", "No HIP GPUs are available"),
        regex=regex(r"No (?:CUDA|HIP) GPUs are available"),
        read=_read_no_gpus,
        examples=(
            "RuntimeError: No CUDA GPUs are available",
            "RuntimeError: No HIP GPUs are available",
        ),
        near=("2 CUDA GPUs are available",),
        source="pytorch c10/cuda/CUDAFunctions.cpp",
    ),
    Pattern(
        id="cuda-torch-deferred",
        needles=("CUDA call failed lazily at initialization with error",),
        regex=regex(r"CUDA call failed lazily at initialization with error: (?P<said>[^\n]+)"),
        read=_read_deferred,
        examples=(
            'torch.cuda.DeferredCudaCallError: CUDA call failed lazily at initialization with error: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "../aten/src/ATen/cuda/CUDAContext.cpp":50',
        ),
        source="pytorch torch/cuda/__init__.py",
    ),
    Pattern(
        id="cuda-numba",
        needles=(" results in ",),
        regex=regex(
            r"(?:\[(?P<number>\d+)\] )?Call to (?P<call>cu\w+) results in (?P<name>[A-Z]\w+)"
        ),
        read=_read_numba,
        examples=(
            "numba.cuda.cudadrv.driver.CudaAPIError: [719] Call to cuMemcpyDtoH results in UNKNOWN_CUDA_ERROR",
            "numba.cuda.cudadrv.driver.CudaAPIError: Call to cuMemAlloc results in CUDA_ERROR_ILLEGAL_ADDRESS",
        ),
        near=("Call to customs results in a delay",),
        source="numba cuda/cudadrv/driver.py",
    ),
    Pattern(
        id="cuda-ollama-context",
        needles=(
            "failed to get device context ",
            "cuda driver library failed to",
            "driver library init failure: ",
            "cuInit err: ",
            "cudaSetDevice err: ",
            "cudart init failure: ",
        ),
        regex=regex(
            r"(?:cuda driver library (?:failed to [a-z ]+?|init failure: )|cuInit err: |cudaSetDevice err: |cudart init failure: )(?P<number>\d{1,3})(?=\D|20\d\d-|$)"
        ),
        read=_read_number,
        examples=(
            'cuda driver library failed to get device context 46time=2025-03-02T04:11:09.010+01:00 level=WARN source=gpu.go:449 msg="error looking up nvidia GPU memory"',
            "cuda driver library failed to get device context 999",
            "cuInit err: 999",
            'error="cuda driver library init failure: 999"',
            "cudaSetDevice err: 999",
            'level=DEBUG source=gpu.go:533 msg="Unable to load cudart" error="cudart init failure: 999"',
        ),
        near=("cuda driver library failed to load",),
        source="ollama discover/gpu_info_nvcuda.c",
    ),
    Pattern(
        id="cuda-library-status",
        needles=("CUBLAS_STATUS_", "CUDNN_STATUS_", "CUSOLVER_STATUS_", "CUSPARSE_STATUS_"),
        regex=regex(
            r"(?P<library>CUBLAS|CUDNN|CUSOLVER|CUSPARSE)_STATUS_(?P<status>EXECUTION_FAILED\w*|INTERNAL_ERROR\w*|MAPPING_ERROR|NOT_INITIALIZED|ALLOC_FAILED)\b(?!\s*:\s*$)"
        ),
        read=_read_library,
        examples=(
            "RuntimeError: cuDNN error: CUDNN_STATUS_EXECUTION_FAILED",
            "cuBLAS error: CUBLAS_STATUS_INTERNAL_ERROR when calling `cublasSgemm(handle)`",
        ),
        near=(
            "cuDNN status CUDNN_STATUS_NOT_SUPPORTED, trying the next plan",
            "case CUBLAS_STATUS_SUCCESS",
        ),
        source="cuBLAS and cuDNN API references",
    ),
    Pattern(
        id="cuda-cycles",
        needles=("in CUDA queue", "in OptiX queue", "in HIP queue"),
        regex=regex(
            r"(?P<text>[A-Z][A-Za-z-]+(?: [A-Za-z-]+){0,3}?) in (?:CUDA|OptiX|HIP) queue (?P<operation>\w+)(?: \((?P<kernel>[^)\n]*)\))?"
        ),
        read=_read_blender,
        examples=(
            "Error: Launch failed in CUDA queue synchronize (integrator_shade_volume)",
            "Illegal address in CUDA queue copy_from_device (integrator_intersect_closest)",
        ),
        near=("Items waiting in CUDA queue 7",),
        source="Blender intern/cycles/device/cuda/queue.cpp",
    ),
    Pattern(
        id="hip-runtime-abort",
        needles=("Memory access fault by GPU node-", "HSA_STATUS_ERROR_"),
        regex=regex(
            r"Memory access fault by GPU node-(?P<node>\d+)|aborting with error : (?P<status>HSA_STATUS_ERROR_\w+)"
        ),
        read=_read_rocm,
        examples=(
            "Memory access fault by GPU node-1 (Agent handle: 0x5581) on address 0x7f2200000000. Reason: Page not present or supervisor privilege.",
            ":0:rocdevice.cpp:2881: 991 us: Callback: Queue 0x7f11 aborting with error : HSA_STATUS_ERROR_EXCEPTION: An HSAIL operation resulted in a hardware exception.",
        ),
        near=("HSA_STATUS_ERROR_INVALID_AGENT is returned when",),
        source="ROCm runtime, clr rocdevice.cpp",
    ),
    Pattern(
        id="cuda-call-number",
        needles=(
            "Synchronize(): ",
            "cuMemcpyDtoH(): ",
            "cuMemcpyHtoD(): ",
            "cuEventElapsedTime(): ",
            "cuLaunchKernel(): ",
            "cuCtxCreate(): ",
            "cuMemAlloc(): ",
        ),
        regex=regex(
            r"\b(?P<call>cu(?:(?:Ctx|Stream|Event)Synchronize|MemcpyDtoH|MemcpyHtoD|EventElapsedTime|LaunchKernel|CtxCreate|MemAlloc))\(\): (?P<number>\d{1,3})\b"
        ),
        read=_read_number,
        examples=("cuStreamSynchronize(): 719", "cuEventElapsedTime(): 700"),
        near=("cuStreamSynchronize(): 12345 ns",),
        source="hashcat backend.c",
    ),
    Pattern(
        id="opencl-call",
        needles=("clEnqueue", "clFinish", "clFlush", "clWaitForEvents", "clCreateBuffer"),
        regex=regex(
            r"\b(?P<call>cl(?:Enqueue\w+|Finish|Flush|WaitForEvents|CreateBuffer))(?:\(\))?:? ?\(?(?P<number>-\d{1,4})\)?"
        ),
        read=_read_opencl,
        examples=(
            "ERROR:Exception: Error downloading array posq: clEnqueueReadBuffer (-5)",
            "clFinish(): -36",
        ),
        near=("clEnqueueReadBuffer (0)",),
        source="OpenCL specification, OpenMM OpenCLArray.cpp",
    ),
    Pattern(
        id="program-number",
        needles=("Unknown error (", "image processing because of error: "),
        regex=regex(
            r"(?:\bError [^\n]{1,120}?: Unknown error \(|GPU failed to perform image processing because of error: )(?P<number>\d{3})\b"
        ),
        read=_read_number,
        examples=(
            "openmm.OpenMMException: Error downloading array posq: Unknown error (719)",
            "GPUManager | ERROR | GPU failed to perform image processing because of error: 999.",
        ),
        near=("Unknown error (12)",),
        source="OpenMM CudaContext.cpp, DaVinci Resolve",
    ),
    Pattern(
        id="miner-device-dead",
        needles=(
            ": detected DEAD",
            "not responding",
            "stopped responding",
            "in OpenCL call",
            "ung Detected",
            "(DIED!)",
            ": FAULTY",
        ),
        regex=regex(
            r"(?P<said>GPU ?#?\d{1,2}:? (?:detected DEAD|not responding|stopped responding|hangs in OpenCL call|[Hh]ung [Dd]etected|FAULTY)[^\n]{0,80}|errors: -?\d+ +\(DIED!\))"
        ),
        read=_read_said,
        examples=(
            "GPU 1: detected DEAD (0a:00.0), will execute restart script watchdog.sh",
            "Watchdog: GPU3 not responding",
            "ERROR - GPU 1 Hung Detected!",
            "\tGPU 2: FAULTY",
            "40.0%  proc'd: 900 (14012 Gflop/s)   errors: -1  (DIED!)  temps: 71 C",
        ),
        near=("GPU usage not responding to the fan curve",),
        source="TeamRedMiner, GMiner, NBMiner, gpu_burn",
    ),
    Pattern(
        id="folding-at-home",
        needles=(
            "BAD_WORK_UNIT",
            "Force RMSE error",
            "No compatible CUDA device",
            "clCreateContext (",
        ),
        regex=regex(
            r"(?P<said>FahCore returned: BAD_WORK_UNIT|ERROR:Force RMSE error of [\d.]+|Error initializing context: (?:No compatible CUDA device is available|clCreateContext \(-\d+\)))"
        ),
        read=_read_said,
        examples=(
            "14:01:14:WARNING:WU00:FS01:FahCore returned: BAD_WORK_UNIT (114 = 0x72)",
            "14:01:14:WU00:FS01:0x23:ERROR:Error initializing context: No compatible CUDA device is available",
        ),
        near=("14:01:14:WU00:FS01:FahCore returned: FINISHED_UNIT (100 = 0x64)",),
        source="Folding@home client, OpenMM",
    ),
    Pattern(
        id="cuda-debugger",
        needles=(
            "CUDA_EXCEPTION_",
            "Invalid __global__",
            "Invalid __shared__",
            "Invalid __local__",
        ),
        regex=regex(
            r"(?P<said>received signal CUDA_EXCEPTION_\d+, [^\n]{1,60}|Invalid __(?:global|shared|local)__ (?:read|write|atomic) of size \d+)"
        ),
        read=_read_debugger,
        examples=(
            'Thread 1 "app" received signal CUDA_EXCEPTION_6, Warp Misaligned Address.',
            "========= Invalid __global__ write of size 8 bytes",
        ),
        near=("CUDA_EXCEPTION_1 is documented in the manual",),
        source="cuda-gdb and compute-sanitizer manuals",
    ),
    Pattern(
        id="cuda-nvenc-session",
        needles=("OpenEncodeSessionEx failed", "nvEncOpenEncodeSessionEx("),
        regex=regex(
            r"OpenEncodeSessionEx(?:\([^()\n]{0,80}\))? failed: (?P<text>[^\n(]+)(?:\((?P<number>\d+)\))?"
        ),
        read=_read_nvenc,
        examples=(
            "[h264_nvenc @ 0x7a10] OpenEncodeSessionEx failed: unsupported device (2): (no details)",
            "init_session: nv.nvEncOpenEncodeSessionEx(&params, &enc->session) failed: 2 (NV_ENC_ERR_UNSUPPORTED_DEVICE): ",
        ),
        source="FFmpeg libavcodec/nvenc.c",
    ),
)
"""Patterns of single programs, tried before the general ones."""
