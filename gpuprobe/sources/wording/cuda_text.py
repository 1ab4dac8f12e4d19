"""NVIDIA's own names, numbers and texts of CUDA errors, and how to find one in a line."""

from __future__ import annotations

import re

from gpuprobe.catalog import cuda_errors
from gpuprobe.lazy_regex import regex
from gpuprobe.values import Value


class CudaError(Value):
    """One error of the CUDA runtime.

    Attributes:
        code: The runtime's number, None for errors that only a library on top of CUDA knows.
        name: Name in the runtime, as in `cudaErrorLaunchFailure`.
        text: What `cudaGetErrorString` gives.
        driver: Name in the driver API without `CUDA_ERROR_`, or "".
    """

    code: int | None
    name: str | None
    text: str
    driver: str = ""


# What the catalogue has no entry for, since nothing about a GPU can be learnt from it.
_MORE = (
    CudaError(9, "cudaErrorInvalidConfiguration", "invalid configuration argument"),
    CudaError(34, "cudaErrorStubLibrary", "CUDA driver is a stub library", "STUB_LIBRARY"),
    CudaError(
        36,
        "cudaErrorCallRequiresNewerDriver",
        "API call is not supported in the installed CUDA driver",
    ),
    CudaError(
        217,
        "cudaErrorPeerAccessUnsupported",
        "peer access is not supported between these two devices",
        "PEER_ACCESS_UNSUPPORTED",
    ),
    CudaError(
        401,
        "cudaErrorIllegalState",
        "the operation cannot be performed in the present state",
        "ILLEGAL_STATE",
    ),
    CudaError(500, "cudaErrorSymbolNotFound", "named symbol not found", "NOT_FOUND"),
    CudaError(
        704,
        "cudaErrorPeerAccessAlreadyEnabled",
        "peer access is already enabled",
        "PEER_ACCESS_ALREADY_ENABLED",
    ),
    CudaError(711, "cudaErrorTooManyPeers", "peer mapping resources exhausted", "TOO_MANY_PEERS"),
    CudaError(
        712,
        "cudaErrorHostMemoryAlreadyRegistered",
        "part or all of the requested memory range is already mapped",
        "HOST_MEMORY_ALREADY_REGISTERED",
    ),
    CudaError(
        901,
        "cudaErrorStreamCaptureInvalidated",
        "operation failed due to a previous error during capture",
        "STREAM_CAPTURE_INVALIDATED",
    ),
)


def _read_catalogue() -> tuple[CudaError, ...]:
    found = [
        CudaError(one.code, one.name, one.text, one.driver_name.removeprefix("CUDA_ERROR_"))
        for one in cuda_errors()
    ]
    known = {one.code for one in found}
    return (*found, *(one for one in _MORE if one.code not in known))


ERRORS = _read_catalogue()
BY_CODE = {error.code: error for error in ERRORS if error.code is not None}
_BY_NAME = {error.name: error for error in ERRORS if error.name}
_BY_DRIVER = {error.driver: error for error in ERRORS if error.driver}
# The first error with a text has it: 300 repeats the text of 200.
_BY_TEXT = {error.text.lower(): error for error in reversed(ERRORS)}
_BY_TEXT |= {  # older spellings, HIP's own texts and those of Blender's loader
    "no rocm-capable device is detected": BY_CODE[100],
    "no hip-capable device is detected": BY_CODE[100],
    "all cuda-capable devices are busy or unavailable": BY_CODE[46],
    "invalid image": BY_CODE[200],
    "peer access has not been enabled": CudaError(705, "cudaErrorPeerAccessNotEnabled", ""),
    "illegal address": BY_CODE[700],
    "launch exceeded timeout": BY_CODE[702],
    "launch failed": BY_CODE[719],
    "ecc uncorrectable": BY_CODE[214],
    "cuda unknown error": BY_CODE[999],
}
_LOOSE = {"illegal address", "launch failed", "invalid image", "ecc uncorrectable"}
HARMLESS_NAMES = frozenset(
    {"Success", "NotReady", "PeerAccessAlreadyEnabled", "SUCCESS", "NOT_READY",
     "PEER_ACCESS_ALREADY_ENABLED", "HostMemoryAlreadyRegistered"}
)  # fmt: skip
"""Results that programs print although nothing failed."""


def _alternatives(texts: list[str]) -> str:
    # Longest first, so that "operation not permitted when stream is capturing" is not cut, and
    # any white space between words, for lines that a terminal wrapped.
    words = (r"\s+".join(map(re.escape, text.split())) for text in sorted(texts, key=len)[::-1])
    return "|".join(words)


TEXT = regex(rf"(?i)(?<![\w-])(?:{_alternatives(list(_BY_TEXT))})(?!\w)")
STRICT_TEXTS = tuple(
    error.text
    for error in ERRORS
    if error.code in {35, 46, 100, 200, 209, 214, 218, 220, 222, 226, 700, 702, 710, 714, 715, 719,
                      802, 803, 804, 805, 806, 807, 810}
)  # fmt: skip
"""Texts that only CUDA prints: they need no word "CUDA" beside them."""
NAME = regex(
    r"\b(?:cudaError_?(?P<runtime>[A-Z]\w+)|CUDA_ERROR_(?P<driver>[A-Z_]+[A-Z])|hipError(?P<hip>[A-Z]\w+))\b"
)


def by_name(match: re.Match[str]) -> CudaError | None:
    """The error that a match of `NAME` names; None for results that are no failure."""
    short = match["runtime"] or match["driver"] or match["hip"]
    if short in HARMLESS_NAMES:
        return None
    if match["driver"]:
        known = _BY_DRIVER.get(short)
    else:
        known = _BY_NAME.get(f"cudaError{short}")
        if known is None and match["hip"]:
            known = {"OutOfMemory": BY_CODE[2], "NoBinaryForGpu": BY_CODE[209]}.get(short)
    return known or CudaError(None, match[0], match[0])


def by_text(text: str, *, loose: bool = False) -> CudaError | None:
    """The first error whose text stands in `text`, or that `text` is the cut-off head of.

    Args:
        text: Some of a line.
        loose: Take short texts of single programs too ("Launch failed").
    """
    for match in TEXT.finditer(text):
        found = " ".join(match[0].lower().split())
        if loose or found not in _LOOSE:
            return _BY_TEXT[found]
    head = " ".join(text.lower().split())
    if len(head) >= 12:
        return next((error for known, error in _BY_TEXT.items() if known.startswith(head)), None)
    return None


def resolve(text: str, number: int | None = None, *, loose: bool = False) -> CudaError | None:
    """What error `text` speaks of: by name, else by NVIDIA's words, else by the number.

    The words go before the number, because CUDA renumbered its errors in version 10.1: an old
    program's 4, 30, 59 and 77 are today's 719, 999, 710 and 700.
    """
    named = NAME.search(text)
    if named is not None:
        return by_name(named)
    known = by_text(text, loose=loose)
    if known is None and number:
        known = BY_CODE.get(number)
    return known
