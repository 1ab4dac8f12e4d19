"""The event for a CUDA error, with what the line and its surroundings say beside the code."""

from __future__ import annotations

from gpuprobe.events import CudaFailed, Event, GpuMemoryExhausted
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import surroundings
from gpuprobe.sources.wording.cuda_text import CudaError

OUT_OF_MEMORY = 2
_UNLOADING = 4

# In this order: the narrower name stands before the wider one.
_FRAMEWORKS = tuple(
    (regex(text), name)
    for text, name in (
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
        (r"hipError|HIP [Ee]rror|ROCm", "hip"),
        (r"torch|c10::|THCudaCheck|ProcessGroupNCCL|cuda runtime error \(|RuntimeError: (?:CUDA|HIP) error|CUDA initialization: |CUDAException", "torch"),
        (r"thrust::", "thrust"),
    )
)  # fmt: skip
# Words of clean-up: what fails in it after a first error is that error again.
_CLEANING = regex(
    r"what\(\):|[Dd]estroy|[Uu]nload|~\w+|[Dd]estructor|cudaFree|cuMemFree|[Dd]eallocat"
    r"|[Ff]ailed to free|shutting down|atexit|__del__|leaking|CUDA warning:"
)


def _framework(window: Window) -> str | None:
    text = window.text
    if "what():" in text:
        # The line before names the exception's class.
        text += "".join(record.message for record in window.before(1))
    for shape, name in _FRAMEWORKS:
        if shape.search(text):
            return name
    following = window.after(1)
    if following and "current device:" in following[0].message:
        return "ggml"
    return None


def report(
    window: Window,
    error: CudaError,
    *,
    message: str = "",
    where: str = "",
    framework: str | None = None,
) -> Event:
    """The event for `error`; out of memory is one of its own."""
    if error.code == OUT_OF_MEMORY:
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
