"""NVML's errors, as nvidia-smi, the bindings and every other user of NVML print them.

Source: NVML's return codes and their texts (nvml.h); the exception names of the bindings for Python,
Go, Rust and C#.
"""

from __future__ import annotations

import re

from gpuprobe.events import (
    DriverUnusable,
    Event,
    GpuLostReported,
    LossHinted,
    NvmlReturned,
)
from gpuprobe.lazy_regex import regex
from gpuprobe.sources.record import Window
from gpuprobe.sources.wording import smi_listing
from gpuprobe.sources.wording.base import Pattern, Reading

_ADDRESS = r"[0-9A-Fa-f]{3,8}:[0-9A-Fa-f]{2}:[0-9A-Fa-f]{2}\.[0-9]"

_UUID = regex(r"GPU-[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}", re.IGNORECASE)

NVML_CODES = {
    "Uninitialized": (1, "UNINITIALIZED"),
    "NoPermission": (4, "NO_PERMISSION"),
    "NotFound": (6, "NOT_FOUND"),
    "InsufficientPower": (8, "INSUFFICIENT_POWER"),
    "DriverNotLoaded": (9, "DRIVER_NOT_LOADED"),
    "Timeout": (10, "TIMEOUT"),
    "IrqIssue": (11, "IRQ_ISSUE"),
    "LibraryNotFound": (12, "LIBRARY_NOT_FOUND"),
    "CorruptedInforom": (14, "CORRUPTED_INFOROM"),
    "ResetRequired": (16, "RESET_REQUIRED"),
    "OperatingSystem": (17, "OPERATING_SYSTEM"),
    "LibRmVersionMismatch": (18, "LIB_RM_VERSION_MISMATCH"),
    "GpuNotFound": (28, "GPU_NOT_FOUND"),
    "Unknown": (999, "UNKNOWN"),
}
"""NVML's codes worth an event, by the name the Python binding gives them."""

_BY_NAME = {name: (code, name) for code, name in NVML_CODES.values()}
_BY_TEXT = {
    "unknown error": "UNKNOWN",
    "insufficient permissions": "NO_PERMISSION",
    "not found": "NOT_FOUND",
    "insufficient external power": "INSUFFICIENT_POWER",
    "driver not loaded": "DRIVER_NOT_LOADED",
    "timeout": "TIMEOUT",
    "interrupt request issue": "IRQ_ISSUE",
    "nvml shared library not found": "LIBRARY_NOT_FOUND",
    "corrupted inforom": "CORRUPTED_INFOROM",
    "gpu requires reset": "RESET_REQUIRED",
    "gpu requires restart": "RESET_REQUIRED",
    "driver/library version mismatch": "LIB_RM_VERSION_MISMATCH",
    "gpu access blocked by the operating system": "OPERATING_SYSTEM",
}

_UNUSABLE = {
    "LIB_RM_VERSION_MISMATCH": "version-mismatch",
    "DRIVER_NOT_LOADED": "not-loaded",
    "LIBRARY_NOT_FOUND": "not-loaded",
    "NO_PERMISSION": "no-permission",
}

_MENTIONED = regex(
    r"\b(?:except|case|import|catch|raises?\(|isinstance|assert\w*|return)\b[^:]*$"
    r"|\b(?:treats?|handles?|handling|detects?|ignores?|class(?:ify|ifies)|support|maps?|on|for|like|as)\s+$"
    r"|(?:[!=]=|->|\||`)\s*[\w.:]*$"
    r"|\bhas no attribute ['\"\u2018\u2019]$"
)
"""What stands before an error's name where a program handles it instead of reporting it."""

_NAMED = regex(
    r"\s*=\s*|`|\s+as\s+\w+:|['\"\u2019]? (?:is not defined|undeclared|was not declared)\b"
)
"""What stands behind it where a program names, defines or lacks it."""


def returned(name: str, window: Window, device: str | None, index: int | None = None) -> Event:
    """The event for NVML's error `name`: `DriverUnusable` where it speaks of the driver alone."""
    if name in _UNUSABLE:
        return DriverUnusable(what=_UNUSABLE[name], **window.base(device))
    code, known = _BY_NAME.get(name, (999, name))
    return NvmlReturned(code=code, name=known, index=index, **window.base(device))


def _number(text: str | None) -> int | None:
    return int(text) if text else None


def _spaced(text: str | None) -> str:
    return " ".join((text or "").split()).lower()


def _read_no_handle(match: re.Match[str], window: Window) -> Reading:
    why = _spaced(match["why"])
    # A terminal broke the line in the middle of the address or of the reason.
    if why in ("", "g", "gp", "gpu", "gpu i", "gpu is") and (after := window.after(1)):
        for glue in ("", " "):
            longer = match.re.search(window.text[match.start() :] + glue + after[0].message)
            if not after[0].framed and longer and _spaced(longer["why"]).startswith("gpu is lost"):
                match, why = longer, "gpu is lost"
    index = _number(match["index"])
    device = match["address"]
    if why.startswith("gpu is lost"):
        return GpuLostReported(by="nvml", index=index, **window.base(device))
    for text, name in _BY_TEXT.items():
        if name != "UNKNOWN" and why.startswith(text):
            return returned(name, window, device, index)
    return LossHinted(what="no-handle", index=index, **window.base(device))


def _heading(window: Window) -> re.Match[str] | None:
    """The address in the heading of the GPU's part of `nvidia-smi -q`, or of its XML."""
    for record in window.before(window.REACH):
        if re.match(r"\s*(?:GPU [0-9A-Fa-f]{4,8}:|<gpu id=)", record.message):
            return re.search(_ADDRESS, record.message)
    return None


def _read_lost(match: re.Match[str], window: Window) -> Reading:
    uuid = _UUID.search(window.text)
    device = re.search(_ADDRESS, window.text[: match.start()])
    if device is None and re.match(r"\s*(?:[A-Z<])[^:>]*(?:\s:\s|>)GPU is lost", window.text):
        device = _heading(window)
    elif device is None and match[0].startswith("ERR!") and (row := smi_listing.row_above(window)):
        device = re.search(_ADDRESS, row[0])
    return GpuLostReported(
        by="nvml",
        uuid=uuid.group() if uuid else None,
        **window.base(device.group() if device else None),
    )


def _read_lost_text(match: re.Match[str], window: Window) -> Reading:
    # A cell of a CSV row: the whole row is read elsewhere.
    return None if "[GPU is lost]" in window.text else _read_lost(match, window)


def _read_lost_name(match: re.Match[str], window: Window) -> Reading:
    head, tail = window.text[: match.start()], window.text[match.end() :]
    if _MENTIONED.search(head) or _NAMED.match(tail) or re.match(r"\s*,\s*\.\.\.", tail):
        return None
    return _read_lost(match, window)


def _read_name(match: re.Match[str], window: Window) -> Reading:
    head, tail = window.text[: match.start()], window.text[match.end() :]
    if _MENTIONED.search(head) or _NAMED.match(tail):
        return None
    if match["python"]:
        known = NVML_CODES.get(match["python"])
        name = known[1] if known else ""
    else:
        name = match["c"] or ""
    return returned(name, window, None) if name in _BY_NAME else None


def _read_init(match: re.Match[str], window: Window) -> Reading:
    why = re.sub(r"\s+", " ", match["why"]).strip(" .\"'").lower()
    if why.startswith("gpu is lost"):
        return GpuLostReported(by="nvml", **window.base())
    symbol = re.sub(r"^(?:nvml_)?error_", "", why).upper()
    if symbol == "GPU_IS_LOST":
        return GpuLostReported(by="nvml", **window.base())
    if symbol in _BY_NAME:
        return returned(symbol, window, None)
    return next(
        (returned(name, window, None) for text, name in _BY_TEXT.items() if why.startswith(text)),
        None,
    )


PATTERNS = (
    Pattern(
        id="smi-no-handle",
        needles=("to determine the device handle",),
        regex=regex(
            r"(?:[Uu]nable )?to determine the device handle for\s+(?:(?:GPU|gpu|Gpu)\s*)?"
            r"(?:(?P<index>\d{1,2})(?::\s+|(?=:\s*[A-Za-z])))?"
            rf"(?P<address>(?:PCI:)?{_ADDRESS})?:?\s*(?P<why>[A-Za-z][^\n]*)?"
        ),
        read=_read_no_handle,
        examples=(
            "Unable to determine the device handle for GPU 0000:44:00.0: GPU is lost.  Reboot the system to recover this GPU",
            "Unable to determine the device handle for GPU0000:44:00.0: Unknown Error",
            "Unable to determine the device handle for GPU2: 0000:C4:00.0: Unknown Error",
            "Unable to determine the device handle for gpu 0000:c4:00.0: Not Found",
            "Unable to determine the device handle for GPU 000:4F:80.0: Unknown Error",
            "Unable to determine the device handle for GPU 0000:44:00.0: GPU requires reset",
        ),
        near=("Unable to determine the display handle for window 3",),
        source="nvidia-smi's own message; spellings from public reports",
    ),
    Pattern(
        id="nvml-init-failed",
        needles=("initialize NVML", "initializing NVML", "initialise NVML"),
        regex=regex(
            r"(?:[Ff]ailed to )?(?:initialize NVML|initializing NVML|initialise NVML)[^:]{0,40}?:\s*"
            r"(?P<why>(?:ERROR_|NVML_ERROR_)?[A-Za-z][^\n]*)"
        ),
        read=_read_init,
        examples=(
            "Failed to initialize NVML: Driver/library version mismatch",
            "Failed to initialize NVML: Unknown Error",
            "Failed to initialize NVML: GPU is lost",
            "Failed to initialize NVML: Insufficient Permissions",
            "Failed to initialize NVML: Driver Not Loaded",
            'level=warning msg="failed to initialize NVML: ERROR_LIBRARY_NOT_FOUND"',
        ),
        near=("Successfully initialize NVML: took 12 ms",),
        source="nvidia-smi; k8s device plugin",
    ),
    Pattern(
        id="container-cli-nvml",
        needles=("nvml error: ",),
        regex=regex(
            r"nvidia-container-cli(?:\.real)?: \w+ error: nvml error: (?P<why>unknown error)"
        ),
        read=_read_init,
        examples=("nvidia-container-cli: detection error: nvml error: unknown error: unknown",),
        near=("nvidia-container-cli: initialization error: nvml error: driver not loaded",),
        source="NVIDIA/libnvidia-container, src/nvc.c",
    ),
    Pattern(
        id="nvml-lost-name",
        needles=("GpuIsLost", "GPUIsLost", "ERROR_GPU_IS_LOST", "GpuLost", "NVML_GPU_IS_LOST"),
        regex=regex(
            r"(?<![A-Za-z])(?:(?:pynvml\.)?(?:nvml\.)?NVMLError_GpuIsLost(?::? GPU is lost)?|(?:NVML_)?ERROR_GPU_IS_LOST"
            r"|NVML_GPU_IS_LOST|NvmlError(?:::|\()GpuLost|G(?:pu|PU)IsLost|GpuLost(?=\W*$))"
        ),
        read=_read_lost_name,
        examples=(
            "pynvml.NVMLError_GpuIsLost: GPU is lost",
            "pynvml.nvml.NVMLError_GpuIsLost: GPU is lost",
            "failed to get device count for GPU-0a1b2c3d-1111-2222-3333-444455556666: ERROR_GPU_IS_LOST",
            "nvmlDeviceGetTemperature returned NVML_ERROR_GPU_IS_LOST",
            "Error: NvmlError::GpuLost",
            "[ERROR] [NVML] System.Exception: NVML get load failed with code: GPUIsLost",
            "called `Result::unwrap()` on an `Err` value: GpuLost",
        ),
        near=(
            "    except pynvml.NVMLError_GpuIsLost:",
            "NVML_ERROR_GPU_IS_LOST = 15,",
            "        GPUIsLost = 15,",
            "        case nvml.ERROR_GPU_IS_LOST:",
            "AttributeError: module 'pynvml' has no attribute 'NVMLError_GpuIsLost'",
            "NameError: name 'NVMLError_GpuIsLost' is not defined",
            "probe.c:40:9: error: \u2018NVML_ERROR_GPU_IS_LOST\u2019 undeclared (first use in this function)",
            "NVRM: Check failed: GPU lost from the bus [NV_ERR_GPU_IS_LOST] (0x0000000F) returned from x()",
        ),
        source="nvml.h; names in nvidia-ml-py, go-nvml, nvml-wrapper",
    ),
    Pattern(
        id="nvml-lost-text",
        needles=("GPU is lost", "target GPU has fallen off the bus", ", error code 15"),
        regex=regex(
            r"GPU is lost\.?\s+Reboot\s+the|(?::\s*|=\s?[\"']?|\(|\"|')GPU is lost\b(?!\s+(?:and|or|when|if|because|on|in|so)\b)"
            r"|\A\s*GPU is lost\W*\Z|GPU is lost \(15\)|>GPU is lost<|ERR![^|\n]{0,60}\| {1,24}GPU is lost {1,24}\||\bNVML: can't get (?:[a-z ]{1,40} (?:for|of) )?GPU #\d+, error code 15\b|the target GPU has fallen off the bus or has otherwise become inaccessible"
        ),
        read=_read_lost_text,
        examples=(
            "GPU is lost. Reboot the system to recover this GPU",
            "nvml: GPU is lost",
            "hwmc GPU2: unable to get fan speed - GPU is lost (15)",
            "WARN: NVML: can't get GPU #1, error code 15",
            "WARN: NVML: can't get fan speed for GPU #1, error code 15",
            "<product_name>GPU is lost</product_name>",
            "|ERR!  ERR! ERR!    ERR! / ERR! |      GPU is lost     |    ERR!      ERR! |",
            "    Product Name                          : GPU is lost",
            'time="2026-03-04T05:06:07Z" level=error msg="error getting utilisation: GPU is lost"',
            "the target GPU has fallen off the bus or has otherwise become inaccessible",
        ),
        near=(
            "After ten minutes the GPU is lost and nothing helps.",
            "| what nvidia-smi prints | GPU is lost | reboot |",
            "WARN: NVML: can't get GPU #1, error code 3",
        ),
        source="nvmlErrorString(15); nvml-wrapper",
    ),
    Pattern(
        id="nvml-error-name",
        needles=("NVMLError_", "NVML_ERROR_"),
        regex=regex(r"(?<!\w)(?:NVMLError_(?P<python>[A-Z][A-Za-z]+)|NVML_ERROR_(?P<c>[A-Z_]+))\b"),
        read=_read_name,
        examples=(
            "pynvml.NVMLError_Unknown: Unknown Error",
            "pynvml.NVMLError_LibRmVersionMismatch: RM has detected an NVML/RM version mismatch.",
            "nvmlInit_v2() failed: NVML_ERROR_DRIVER_NOT_LOADED",
        ),
        near=(
            "pynvml.NVMLError_NotSupported: Not Supported",
            "except pynvml.NVMLError_Unknown as error:",
            "NVML_ERROR_UNKNOWN = 999",
        ),
        source="nvml.h; nvidia-ml-py",
    ),
)
