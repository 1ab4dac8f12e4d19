"""CUDA and HIP errors, as the programs that hit them print them.

NVIDIA's words and names are the same in every program, so three general patterns (after `CUDA
error`, a symbolic name, a text that only CUDA prints) carry most of it. The patterns before them
read what has its own shape.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpuprobe.events import CudaFailed, Event, GpuMemoryExhausted
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import cuda_text, surroundings
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.cuda_memory import MEMORY_PATTERNS
from gpuprobe.sources.wording.cuda_text import BY_CODE, CudaError

_OUT_OF_MEMORY = 2
_UNLOADING = 4

# In this order: the narrower name stands before the wider one.
_FRAMEWORKS = tuple(
    (re.compile(regex), name)
    for regex, name in (
        (r"NCCL WARN", "nccl"),
        (r"Triton Error", "triton"),
        (r"TensorRT-LLM", "tensorrt-llm"),
        (r"\[TRT\]|Error Code \d+: C(?:uda|UDA) |nvinfer", "tensorrt"),
        (r"onnxruntime|CUDA(?: failure|_CALL).*GPU=\d|CUDAExecutionProvider", "onnxruntime"),
        (r"ggml|llama runner|llama_|whisper_", "ggml"),
        (r"cupy", "cupy"),
        (r"numba|CudaAPIError|Call to cu\w+ results in", "numba"),
        (r"pycuda", "pycuda"),
        (r"DriverError\(|cudarc|candle", "cudarc"),
        (r"[Oo]pen[Mm][Mm]|Error (?:up|down)loading array|Error invoking kernel", "openmm"),
        (r"in (?:CUDA|OptiX|HIP) queue|[Cc]ycles", "blender"),
        (r"cu->cu\w+|dl_fn->|nvenc|nvdec|cuvid|AVHWDevice", "ffmpeg"),
        (r"jax|XlaRuntimeError|external/xla/", "jax"),
        (r"tensorflow|stream_executor|failed call to cuInit", "tensorflow"),
        (r"torch|c10::|THCudaCheck|ProcessGroupNCCL|cuda runtime error \(|RuntimeError: (?:CUDA|HIP) error|CUDA initialization: |CUDAException", "torch"),
        (r"thrust::", "thrust"),
        (r"hipError|HIP [Ee]rror|ROCm", "hip"),
    )
)  # fmt: skip
# Words of clean-up: what fails in it after a first error is that error again.
_CLEANING = re.compile(
    r"what\(\):|[Dd]estroy|[Uu]nload|~\w+|[Dd]estructor|cudaFree|cuMemFree|[Dd]eallocat"
    r"|[Ff]ailed to free|shutting down|atexit|__del__|leaking|CUDA warning:"
)
_NUMBER = re.compile(
    r"[\s:=(\[#]*(?:code|number|status|returned|num)?[\s:=(\[#]*(?P<first>\d{1,3})\b(?![.:]\d)"
)
_BRACKETED = re.compile(r"\((?P<number>\d{2,3})\)|[Cc]ode:? (?P<code>\d{2,3})\b")
_RAISED_AS = re.compile(r"(?:Error|Exception|what\(\)):\s*(?:\[[^\]]*\]\s*)?$")


def _framework(window: Window) -> str | None:
    text = window.text
    if "what():" in text:
        # The line before names the exception's class.
        text += "".join(record.message for record in window.before(1))
    for regex, name in _FRAMEWORKS:
        if regex.search(text):
            return name
    following = window.after(1)
    if following and "current device:" in following[0].message:
        return "ggml"
    return None


def _report(
    window: Window,
    error: CudaError,
    *,
    message: str = "",
    where: str = "",
    framework: str | None = None,
) -> Event:
    """The event for `error`; out of memory is one of its own."""
    if error.code == _OUT_OF_MEMORY:
        return GpuMemoryExhausted(**window.base(), index=surroundings.rank(window))
    teardown = error.code == _UNLOADING or (
        _CLEANING.search(window.text) is not None and surroundings.cuda_error_before(window)
    )
    return CudaFailed(
        **window.base(),
        code=error.code,
        name=error.name,
        message=error.text or message,
        framework=framework or _framework(window),
        where=where or surroundings.where(window),
        rank=surroundings.rank(window),
        teardown=teardown,
    )


def _read_after_keyword(match: re.Match[str], window: Window) -> Reading:
    """What follows the words `CUDA error` and their kin."""
    rest = match["rest"]
    number = _NUMBER.match(rest)
    bracketed = _BRACKETED.search(rest)
    code = number["first"] if number else bracketed and (bracketed["number"] or bracketed["code"])
    spoken = rest.strip(" :-\t")
    if not spoken and window.after(1):
        # Some programs put the text on the next line, indented.
        spoken = window.after(1)[0].message.strip()[:120]
    error = cuda_text.resolve(spoken, int(code) if code else None, loose=True)
    if error is not None:
        return _report(window, error)
    before = match.string[max(0, match.start() - 80) : match.start()]
    if not rest.startswith(":") or not _RAISED_AS.search(before) or not spoken:
        return None
    if spoken.startswith("no error") or cuda_text.NAME.search(spoken):
        return None
    status = re.match(r"CU[A-Z]+_STATUS_\w+", spoken)
    named = CudaError(None, status[0] if status else None, spoken[:200])
    if status and status[0].endswith("ALLOC_FAILED"):
        named = BY_CODE[_OUT_OF_MEMORY]
    for record in window.after(2):
        hint = cuda_text.NAME.search(record.message)
        if hint and "Search for" in record.message:
            named = replace(cuda_text.by_name(hint) or named, text=spoken[:200])
            break
    return _report(window, named)


def _read_name(match: re.Match[str], window: Window) -> Reading:
    first = cuda_text.NAME.search(match.string, match.string.rfind("\n", 0, match.start()) + 1)
    if first is None or first.start() != match.start("symbol"):
        return None
    error = cuda_text.by_name(first)
    return None if error is None else _report(window, error)


def _read_orphan_hint(match: re.Match[str], window: Window) -> Reading:
    """The symbolic name alone, where the line with the words was not saved."""
    if any("CUDA error" in record.message for record in window.before(3)):
        return None
    if "CUDA error" in match.string[: match.start()]:
        return None
    name = cuda_text.NAME.search(match[0])
    error = cuda_text.by_name(name) if name else None
    return None if error is None else _report(window, error, framework="torch")


def _read_text(match: re.Match[str], window: Window) -> Reading:
    error = cuda_text.by_text(match["text"])
    return None if error is None else _report(window, error)


def _read_number(match: re.Match[str], window: Window) -> Reading:
    error = cuda_text.resolve(match.groupdict().get("text") or "", int(match["number"]))
    return None if error is None else _report(window, error)


def _read_call(match: re.Match[str], window: Window) -> Reading:
    error = cuda_text.by_text(match["text"])
    return None if error is None else _report(window, error, where=match["call"])


def _read_numba(match: re.Match[str], window: Window) -> Reading:
    number = match["number"]
    error = BY_CODE.get(int(number)) if number else cuda_text.resolve(match["name"])
    return None if error is None else _report(
        window, error, where=match["call"], framework="numba"
    )  # fmt: skip


def _read_torch_start(match: re.Match[str], window: Window) -> Reading:
    """PyTorch's own words for an error of its first CUDA call."""
    said = match["said"]
    number = re.search(r"Error (\d{1,3}): ", said)
    if re.match(r"Found no NVIDIA driver|The NVIDIA driver on your system is too old", said):
        # PyTorch writes both for cudaErrorInsufficientDriver, the first when no driver answers.
        return _report(window, BY_CODE[35], framework="torch")
    if re.match(r"CUDA unknown error|CUDA driver initialization failed", said):
        return _report(window, BY_CODE[999 if "unknown" in said[:20] else 3], framework="torch")
    error = cuda_text.resolve(said, int(number[1]) if number else None)
    return None if error is None else _report(window, error, framework="torch")


def _read_no_gpus(match: re.Match[str], window: Window) -> Reading:
    return _report(window, BY_CODE[100], framework="torch")


def _read_deferred(match: re.Match[str], window: Window) -> Reading:
    said = match["said"].strip()
    error = cuda_text.resolve(said) or CudaError(None, None, said[:200])
    return _report(window, error, framework="torch")


def _read_library(match: re.Match[str], window: Window) -> Reading:
    """A failure of cuBLAS, cuDNN and the like, which hides CUDA's own code."""
    if match["status"] == "ALLOC_FAILED":
        return GpuMemoryExhausted(**window.base())
    name = f"{match['library']}_STATUS_{match['status']}"
    return _report(window, CudaError(None, name, name))


def _read_blender(match: re.Match[str], window: Window) -> Reading:
    error = cuda_text.by_text(match["text"], loose=True)
    kernel = f" ({match['kernel']})" if match["kernel"] else ""
    if error is None:
        return None
    return _report(window, error, where=match["operation"] + kernel, framework="blender")


def _read_nvenc(match: re.Match[str], window: Window) -> Reading:
    if match["number"] == "10":
        return GpuMemoryExhausted(**window.base())
    message = f"OpenEncodeSessionEx failed: {match['text'].strip()}"
    return _report(window, CudaError(None, None, message), framework="ffmpeg")


_KEYWORDS = (
    "CUDA error", "CUDA Error", "CUDA ERROR", "Cuda error", "Cuda Error", "cuda error", "cuda Error",
    "CUDA failure", "Cuda failure", "cuda failure", "CUDA runtime error", "CUDA Runtime Error",
    "Cuda runtime error", "cuda runtime error", "CUDA driver error", "CUDA Driver Error",
    "CUDA API error", "CUDA launch error", "CUDA exception", "CUDA warning",
    "HIP error", "HIP Error", "HIP failure", "ROCm error", "MUSA error",
)  # fmt: skip
_STRICT_NEEDLES = tuple(dict.fromkeys(text[:30].rstrip() for text in cuda_text.STRICT_TEXTS))
_CALL_TEXTS = ("unknown error", "initialization error", "invalid device ordinal",
               "invalid device context", "context is destroyed", "driver shutting down",
               "system not yet initialized", "OS call failed")  # fmt: skip

_SPECIAL_PATTERNS = (
    Pattern(
        id="cuda-torch-name-hint",
        needles=("Search for `cudaError",),
        regex=re.compile(r"Search for `cudaError\w+'"),
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
        ),
        regex=re.compile(
            r"(?:CUDA initialization: |(?=Found no NVIDIA driver on)|(?=The NVIDIA driver on your system is too old)|cudaGetDeviceCount\(\)(?=[^\n]*[Ee]rror \d))(?P<said>[^\n]+)"
        ),
        read=_read_torch_start,
        examples=(
            "/srv/env/lib/python3.10/site-packages/torch/cuda/__init__.py:107: UserWarning: CUDA initialization: CUDA unknown error - this may be due to an incorrectly set up environment",
            "RuntimeError: Unexpected error from cudaGetDeviceCount(). Did you run some cuda functions before calling NumCudaDevices() that might have already set an error? Error 802: system not yet initialized",
            "cudaGetDeviceCount() Error 304: OS call failed or operation not supported on this OS",
            "RuntimeError: Found no NVIDIA driver on your system. Please check that you have an NVIDIA GPU",
            "UserWarning: CUDA initialization: The NVIDIA driver on your system is too old (found version 11040).",
        ),
        near=("CUDA initialization: done in 0.3 s", "n = cudaGetDeviceCount()"),
        source="pytorch c10/cuda/CUDAFunctions.cpp",
    ),
    Pattern(
        id="cuda-torch-no-gpus",
        needles=("No CUDA GPUs are available", "No HIP GPUs are available"),
        regex=re.compile(r"No (?:CUDA|HIP) GPUs are available"),
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
        regex=re.compile(r"CUDA call failed lazily at initialization with error: (?P<said>[^\n]+)"),
        read=_read_deferred,
        examples=(
            'torch.cuda.DeferredCudaCallError: CUDA call failed lazily at initialization with error: device >= 0 && device < num_gpus INTERNAL ASSERT FAILED at "../aten/src/ATen/cuda/CUDAContext.cpp":50',
        ),
        source="pytorch torch/cuda/__init__.py",
    ),
    Pattern(
        id="cuda-numba",
        needles=(" results in ",),
        regex=re.compile(
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
        needles=("failed to get device context ", "cuda driver library failed to"),
        regex=re.compile(
            r"cuda driver library failed to [a-z ]+?(?P<number>\d{1,3})(?=\D|20\d\d-|$)"
        ),
        read=_read_number,
        examples=(
            'cuda driver library failed to get device context 46time=2025-03-02T04:11:09.010+01:00 level=WARN source=gpu.go:449 msg="error looking up nvidia GPU memory"',
            "cuda driver library failed to get device context 999",
        ),
        near=("cuda driver library failed to load",),
        source="ollama discover/gpu_info_nvcuda.c",
    ),
    Pattern(
        id="cuda-library-status",
        needles=("CUBLAS_STATUS_", "CUDNN_STATUS_", "CUSOLVER_STATUS_", "CUSPARSE_STATUS_"),
        regex=re.compile(
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
        regex=re.compile(
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
        id="cuda-nvenc-session",
        needles=("OpenEncodeSessionEx failed",),
        regex=re.compile(r"OpenEncodeSessionEx failed: (?P<text>[^\n(]+)(?:\((?P<number>\d+)\))?"),
        read=_read_nvenc,
        examples=(
            "[h264_nvenc @ 0x7a10] OpenEncodeSessionEx failed: unsupported device (2): (no details)",
        ),
        source="FFmpeg libavcodec/nvenc.c",
    ),
)

_GENERAL_PATTERNS = (
    Pattern(
        id="cuda-error",
        needles=_KEYWORDS,
        regex=re.compile(rf"(?<!\w)(?:{'|'.join(_KEYWORDS)})(?!\w)(?P<rest>[^\n]{{0,400}})"),
        read=_read_after_keyword,
        examples=(
            "torch.AcceleratorError: CUDA error: unspecified launch failure",
            "RuntimeError: CUDA error: the graph was captured by another thread",
            "RuntimeError: cuda runtime error (719) : unspecified launch failure at /pytorch/aten/src/THC/THCReduceAll.cuh:327",
            "CUDA Error: no CUDA-capable device is detected",
            "CUDA error 700 at /build/kernels.cu:88",
            "RuntimeError: HIP error: an illegal memory access was encountered",
            "gpu7:311:402 [3] misc/strongstream.cc:54 NCCL WARN Cuda failure 'unspecified launch failure'",
            "gpu7:311:402 [3] NCCL WARN Cuda failure 999 'unknown error'",
            '{"error":{"code":500,"message":"llama runner process has terminated: CUDA error: an illegal memory acc',
            "[E:onnxruntime:Default, cuda_call.cc:116 CudaCall] CUDA failure 719: unspecified launch failure ; GPU=1 ; hostname=node ; expr=cudaStreamSynchronize(s);",
            "[TensorRT-LLM][ERROR] CUDA runtime error in ::cudaEventSynchronize(get()): unspecified launch failure (/src/cpp/cudaEvent.h:66)",
        ),
        near=(
            "CUDA error checking is enabled",
            "CUDA errors so far: 0",
            "CUDA error: no error",
            "CUDA kernel errors might be asynchronously reported at some other API call, so the stacktrace below might be incorrect.",
        ),
        source="cudaGetErrorString in cuda-bindings 13.5",
    ),
    Pattern(
        id="cuda-error-name",
        needles=("cudaError", "CUDA_ERROR_", "hipError"),
        regex=re.compile(
            rf"(?<!Search for `)(?<![=!]= )(?<!case )(?<!return )(?P<symbol>{cuda_text.NAME.pattern})(?! =)(?!\()"
        ),
        read=_read_name,
        examples=(
            "700 cudaErrorIllegalAddress: an illegal memory access was encountered",
            "cupy_backends.cuda.api.runtime.CUDARuntimeError: cudaErrorLaunchFailure: unspecified launch failure",
            "[AVHWDeviceContext @ 0x5583] cu->cuInit(0) failed -> CUDA_ERROR_NO_DEVICE: no CUDA-capable device is detected",
            'Error: DriverError(CUDA_ERROR_LAUNCH_FAILED, "unspecified launch failure")',
            "Error invoking kernel: CUDA_ERROR_LAUNCH_FAILED (719)",
        ),
        near=(
            "case cudaErrorLaunchFailure:",
            "if (status == cudaErrorNotReady) {",
            "cudaErrorPeerAccessAlreadyEnabled",
        ),
        source="CUDA runtime and driver API references",
    ),
    Pattern(
        id="cuda-error-in-context",
        needles=("Triton Error [", "Cuda Runtime (", "Cuda Driver (", "CUDA: "),
        regex=re.compile(
            rf"(?:Triton Error \[(?:CUDA|HIP)\]: |Cuda (?:Runtime|Driver) \(|\bCUDA: )(?P<text>{cuda_text.TEXT.pattern.removeprefix('(?i)')})"
        ),
        read=_read_text,
        examples=(
            "RuntimeError: Triton Error [CUDA]: invalid argument",
            "1: [defaultAllocator.cpp::deallocate::61] Error Code 1: Cuda Runtime (unknown error)",
            "[10:11:12] src/engine.cc:147: Check failed: e == cudaSuccess: CUDA: unknown error",
        ),
        near=("Triton Error [CUDA]: see the manual", "CUDA: 12.4"),
        source="triton backends/nvidia/driver.c; TensorRT shape from memory",
    ),
    Pattern(
        id="cuda-call-failed",
        needles=_CALL_TEXTS,
        regex=re.compile(
            rf"\b(?P<call>cu(?:da)?[A-Z]\w+)[^\n]{{0,80}}?\b(?P<text>{'|'.join(_CALL_TEXTS)})"
        ),
        read=_read_call,
        examples=("pycuda._driver.LogicError: cuInit failed: unknown error",),
        near=("customer service: unknown error",),
        source="pycuda src/cpp/cuda.hpp",
    ),
    Pattern(
        id="cuda-error-text",
        needles=_STRICT_NEEDLES,
        regex=re.compile(
            rf"(?<![\w-])(?P<text>{'|'.join(re.escape(text) for text in cuda_text.STRICT_TEXTS)})"
        ),
        read=_read_text,
        examples=(
            "THCudaCheck FAIL file=/opt/conda/conda-bld/THC/generic/THCStorage.cu line=39 error=59 : device-side assert triggered",
            "cuCtxSynchronize(): an illegal memory access was encountered",
        ),
        near=("the launch was unspecified, a failure of planning",),
        source="cudaGetErrorString in cuda-bindings 13.5",
    ),
)

CUDA = Family("cuda", (*MEMORY_PATTERNS, *_SPECIAL_PATTERNS, *_GENERAL_PATTERNS))
"""CUDA errors, memory exhaustion and device asserts of programs."""
