"""Tell from logs whether a GPU left the PCIe bus or something else failed.

The names below are loaded when first used, so `import gpuprobe` costs almost nothing and needs
the standard library alone.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from gpuprobe.api import check, diagnose, diagnose_text, history, timelines
    from gpuprobe.diagnosis import Certainty, Diagnosis, Evidence, Kind, Role, Verdict
    from gpuprobe.errors import GpuprobeError
    from gpuprobe.identity import PciAddress
    from gpuprobe.options import Options, Progress

__version__ = "0.1.0"

__all__ = [
    "Certainty",
    "Diagnosis",
    "Evidence",
    "GpuprobeError",
    "Kind",
    "Options",
    "PciAddress",
    "Progress",
    "Role",
    "Verdict",
    "__version__",
    "check",
    "diagnose",
    "diagnose_text",
    "history",
    "timelines",
]

_HOMES = {
    "Certainty": "diagnosis",
    "Diagnosis": "diagnosis",
    "Evidence": "diagnosis",
    "GpuprobeError": "errors",
    "Kind": "diagnosis",
    "Options": "options",
    "PciAddress": "identity",
    "Progress": "options",
    "Role": "diagnosis",
    "Verdict": "diagnosis",
    "check": "api",
    "diagnose": "api",
    "diagnose_text": "api",
    "history": "api",
    "timelines": "api",
}


def __getattr__(name: str) -> Any:
    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
