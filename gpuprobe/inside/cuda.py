"""Find the CUDA error in an exception, whichever framework raised it, without importing any.

By the type's name and module where a type is raised for nothing else, else by NVIDIA's own words,
which are the same everywhere: the codes, names and texts are those of the catalogue. What merely
speaks of CUDA is not one: a misspelt name, a failed look-up, an answer of another machine.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

from gpuprobe.catalog import CudaError, cuda_by_code, cuda_by_name, cuda_errors
from gpuprobe.lazy_regex import regex

OUT_OF_MEMORY = 2
MOST_EXCEPTIONS = 100
"""Exceptions of one chain that are looked at."""
MOST_CHARACTERS = 20_000
"""Of an exception's text, what is looked at: some carry a whole remote traceback."""
SHOWN_CHARACTERS = 500

_OWN_TYPES = {
    "torch": {"AcceleratorError", "OutOfMemoryError", "CudaError", "DeferredCudaCallError"},
    "cupy": {"CUDARuntimeError", "CUDADriverError", "OutOfMemoryError", "CUBLASError", "NcclError"},
    "cupy_backends": {"CUDARuntimeError", "CUDADriverError", "CUBLASError", "NcclError"},
    "numba": {"CudaAPIError", "CudaDriverError", "CudaRuntimeAPIError", "CudaSupportError"},
    "numba_cuda": {"CudaAPIError", "CudaDriverError", "CudaRuntimeAPIError", "CudaSupportError"},
    "cuda": {"CUDAError"},
    "pycuda": {"Error", "LaunchError", "LogicError", "MemoryError", "RuntimeError"},
}
"""First part of a module to the types in it that are raised for errors of CUDA and nothing else.

Source: PyTorch c10/cuda/CUDAException.cpp and torch/cuda; cupy_backends; numba cudadrv; cuda.core;
PyCUDA src/cpp/cuda.hpp. JAX, TensorFlow and NCCL's users raise general types: the text decides.
"""

_REMOTE = frozenset(
    {"aiohttp", "botocore", "grpc", "httpcore", "httpx", "ollama", "openai", "requests", "urllib3"}
)
"""Packages whose exceptions quote what another machine said."""

_MISTAKES = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    ImportError,
    LookupError,
    NameError,
    NotImplementedError,
    StopIteration,
    SyntaxError,
    TypeError,
    ValueError,
    Warning,
)
"""Types of a program's own mistakes: CUDA is at most what the mistake was about."""

_NUMBERS = ("error_code", "status", "code")
"""Attributes that hold the number: torch, CuPy, numba."""

_HARMLESS = frozenset({"success", "notready", "peeraccessalreadyenabled"})
_STRICT = frozenset(
    {35, 46, 100, 200, 209, 214, 218, 220, 222, 226, 700, 702, 710, 714, 715, 719, 802, 803, 804}
)
"""Codes whose texts only CUDA prints, so that they need no word "CUDA" beside them."""

_HINT = regex(r"(?i)cuda|nccl|\bhip|device|launch|image|memory|ptx|nvlink|out of memory|OOM")
_NAME = regex(r"\b(?:cudaError_?|CUDA_ERROR_|hipError_?)(?P<short>[A-Z][A-Za-z_]+)")
_KEYWORD = regex(
    r"(?<!\w)(?:CUDA|HIP)(?: (?:runtime|driver|API|launch))? (?:error|failure|exception)(?!\w)"
    r"|Triton Error \[(?:CUDA|HIP)\]|'CUDA call failed|CUDA call failed",
    re.IGNORECASE,
)
_OPENING = regex(r"(?:\[[^\]\n]*\]\s*)?(?:CUDA|HIP)(?: \w+)? error: *\S", re.IGNORECASE)
_NUMBER = regex(r"^\W*(?:code|number|status)?\W*(?P<plain>\d{1,3})\b|\((?P<bracket>\d{1,3})\)")
_LEADING = regex(r"^\[(?P<code>\d{1,3})\] Call to cu\w+")
_NO_MEMORY = regex(
    r"(?:CUDA|HIP) out of memory|RESOURCE_EXHAUSTED: .*[Oo]ut of memory"
    r"|OOM when allocating tensor|CUBLAS_STATUS_ALLOC_FAILED|std::bad_alloc: out_of_memory: CUDA"
)
_NCCL = regex(
    r"NCCL[\w ]*[Ee]rror[^\n]*|unhandled cuda error|ncclUnhandledCudaError|NCCL_ERROR_\w+"
)


@dataclass(frozen=True, slots=True)
class CudaSeen:
    """A CUDA error that an exception carries.

    Attributes:
        type: The exception's type with its module.
        text: The first line of its text, without control characters.
        error: The catalogue's entry, or None where the text names no known one.
    """

    type: str
    text: str
    error: CudaError | None

    @property
    def code(self) -> int | None:
        """Number in the runtime API, or None."""
        return None if self.error is None else self.error.code

    def __str__(self) -> str:
        if self.error is not None:
            return f"CUDA error {self.error.code} “{self.error.text}”"
        return f"CUDA error “{self.text[:120]}”"


def find(exception: BaseException) -> CudaSeen | None:
    """The CUDA error behind an exception, its causes and its group's members; None without one.

    The earliest that names a known code: CUDA errors are sticky, and what is raised after the
    first repeats it or speaks of the clean-up.
    """
    found = [seen for one in _chain(exception) if (seen := recognise(one)) is not None]
    known = [seen for seen in found if seen.error is not None]
    return next(reversed(known or found), None)


def _chain(exception: BaseException) -> Iterator[BaseException]:
    """The exception, then what it came from, latest first."""
    waiting, seen = [exception], set[int]()
    while waiting and len(seen) < MOST_EXCEPTIONS:
        one = waiting.pop()
        if id(one) in seen:
            continue
        seen.add(id(one))
        yield one
        members = one.exceptions if isinstance(one, BaseExceptionGroup) else ()
        before = (one.__context__, one.__cause__, *members)
        waiting.extend(other for other in before if other is not None)


def recognise(exception: BaseException) -> CudaSeen | None:
    """The CUDA error that one exception itself is, or None."""
    kind = type(exception)
    module = kind.__module__ or ""
    package = module.partition(".")[0]
    own = any(base.__name__ in _OWN_TYPES.get(_package(base), ()) for base in kind.__mro__)
    if not own and (package in _REMOTE or isinstance(exception, _MISTAKES)):
        return None
    text = _text(exception)
    if not own and not _HINT.search(text):
        return None
    error, spoken = _resolve(text)
    if error is None:
        error = (_by_words(text) or _by_number(exception)) if own else _by_enum(exception)
    if not (own or spoken or error):
        return None
    return CudaSeen(f"{module}.{kind.__qualname__}".removeprefix("builtins."), shown(text), error)


def _package(kind: type) -> str:
    return (kind.__module__ or "").partition(".")[0]


def _text(exception: BaseException) -> str:
    try:
        return str(exception)[:MOST_CHARACTERS]
    except Exception:  # an engine's own __str__ may do anything
        return ""


def shown(text: str) -> str:
    """The first line that says something, without control characters."""
    for line in text.splitlines():
        kept = "".join(letter for letter in line if letter.isprintable()).strip()
        if kept:
            return kept[:SHOWN_CHARACTERS]
    return ""


def _resolve(text: str) -> tuple[CudaError | None, bool]:
    """The error that a text speaks of, and whether it speaks of one at all."""
    if _NO_MEMORY.search(text):
        return cuda_by_code(OUT_OF_MEMORY), True
    for match in _NAME.finditer(text):
        short = match["short"]
        if short.replace("_", "").lower() in _HARMLESS:
            continue
        name = match[0].replace("hipError", "cudaError")
        return cuda_by_name(name) or _by_words(text, strict=True), True
    for match in _KEYWORD.finditer(text):
        rest = text[match.end() : match.end() + 300]
        error = _by_words(rest) or _number_in(rest)
        if error is not None:
            return error, True
    leading = _LEADING.match(text)
    if leading is not None:
        return cuda_by_code(int(leading["code"])), True
    error = _by_words(text, strict=True)
    spoken = error is not None or _OPENING.match(text) is not None or _NCCL.search(text) is not None
    return error, spoken and "CUDA error: no error" not in text


def _number_in(rest: str) -> CudaError | None:
    match = _NUMBER.search(rest.partition("\n")[0])
    return None if match is None else cuda_by_code(int(match["plain"] or match["bracket"]))


@cache
def _words(strict: bool) -> re.Pattern[str]:
    """One pattern of all texts, longest first; white space may be anything."""
    texts = [one.text for one in cuda_errors() if not strict or one.code in _STRICT]
    ordered = sorted(texts, key=len, reverse=True)
    alternatives = "|".join(r"\s+".join(map(re.escape, one.split())) for one in ordered)
    return re.compile(rf"(?<![\w-])(?:{alternatives})(?!\w)", re.IGNORECASE)


@cache
def _by_text() -> dict[str, CudaError]:
    return {one.text.lower(): one for one in reversed(cuda_errors())}


def _by_words(text: str, *, strict: bool = False) -> CudaError | None:
    match = _words(strict).search(text)
    return None if match is None else _by_text()[" ".join(match[0].lower().split())]


def _by_number(exception: BaseException) -> CudaError | None:
    """By the number that a type of CUDA's own carries."""
    for name in _NUMBERS:
        value = getattr(exception, name, None)
        if isinstance(value, int) and value:
            return cuda_by_code(int(value))
    return _by_enum(exception)


def _by_enum(exception: BaseException) -> CudaError | None:
    """By a `cudaError_t` or `CUresult` of cuda-python that was raised in any exception."""
    for argument in exception.args[:10]:
        values = argument if isinstance(argument, tuple) else (argument,)
        for value in values[:10]:
            if type(value).__name__ in ("cudaError_t", "CUresult"):
                return cuda_by_name(str(getattr(value, "name", "")))
    return None
