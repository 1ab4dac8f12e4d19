"""CUDA and HIP errors, as the programs that hit them print them.

NVIDIA's words and names are the same in every program, so a few general patterns (after `CUDA
error`, a symbolic name, a text that only CUDA prints) carry most of it. What has a shape of its
own is tried before them: `cuda_memory` and `cuda_programs`.
"""

from __future__ import annotations

import re
from dataclasses import replace

from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import cuda_text
from gpuprobe.sources.wording.base import Family, Pattern, Reading
from gpuprobe.sources.wording.cuda_memory import MEMORY_PATTERNS
from gpuprobe.sources.wording.cuda_programs import PROGRAM_PATTERNS
from gpuprobe.sources.wording.cuda_report import OUT_OF_MEMORY, report
from gpuprobe.sources.wording.cuda_text import BY_CODE, CudaError

_NUMBER = regex(
    r"[\s:=(\[#]*(?:code|number|status|returned|num)?[\s:=(\[#]*(?P<first>\d{1,3})\b(?![.:]\d)"
)
_BRACKETED = regex(r"\((?P<number>\d{2,3})\)|[Cc]ode[:=]? ?(?P<code>\d{2,3})\b")
_RAISED_AS = regex(r"(?:Error|Exception|what\(\)):\s*(?:\[[^\]]*\]\s*)?$")


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
        return report(window, error)
    before = match.string[max(0, match.start() - 80) : match.start()]
    if not rest.startswith(":") or not _RAISED_AS.search(before) or not spoken:
        return None
    if spoken.startswith("no error") or cuda_text.NAME.search(spoken):
        return None
    status = re.match(r"CU[A-Z]+_STATUS_\w+", spoken)
    named = CudaError(None, status[0] if status else None, spoken[:200])
    if status and status[0].endswith("ALLOC_FAILED"):
        named = BY_CODE[OUT_OF_MEMORY]
    for record in window.after(2):
        hint = cuda_text.NAME.search(record.message)
        if hint and "Search for" in record.message:
            named = replace(cuda_text.by_name(hint) or named, text=spoken[:200])
            break
    return report(window, named)


def _read_name(match: re.Match[str], window: Window) -> Reading:
    first = cuda_text.NAME.search(match.string, match.string.rfind("\n", 0, match.start()) + 1)
    if first is None or first.start() != match.start("symbol"):
        return None
    error = cuda_text.by_name(first)
    return None if error is None else report(window, error)


def _read_text(match: re.Match[str], window: Window) -> Reading:
    error = cuda_text.by_text(match["text"])
    if error is None:
        return None
    return report(window, error)


def _read_call(match: re.Match[str], window: Window) -> Reading:
    error = cuda_text.by_text(match["text"])
    return None if error is None else report(window, error, where=match["call"])


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

_GENERAL_PATTERNS = (
    Pattern(
        id="cuda-error",
        needles=_KEYWORDS,
        regex=regex(rf"(?<!\w)(?:{'|'.join(_KEYWORDS)})(?!\w)(?P<rest>[^\n]{{0,400}})"),
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
        regex=regex(
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
        needles=(
            "Triton Error [",
            "Cuda Runtime (",
            "Cuda Driver (",
            "CUDA: ",
            "to initialize ROCm: ",
        ),
        regex=regex(
            rf"(?:Triton Error \[(?:CUDA|HIP)\]: |Cuda (?:Runtime|Driver) \(|\bCUDA: |to initialize ROCm: )(?P<text>{cuda_text.TEXT.pattern.removeprefix('(?i)')})"
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
        regex=regex(
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
        regex=regex(
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

FAMILY = Family("cuda", (*MEMORY_PATTERNS, *PROGRAM_PATTERNS, *_GENERAL_PATTERNS))
"""CUDA errors, memory exhaustion and device asserts of programs."""
