"""Tell from logs whether a GPU left the PCIe bus or something else failed.

The names below are loaded when first used, so `import gpuprobe` costs almost nothing and needs
the standard library alone.
"""

from __future__ import annotations

# Loading `typing` for it takes longer than Python itself takes to start: a Ctrl-C in that time is
# a traceback, as nothing of the command line could guard it.
TYPE_CHECKING = False

if TYPE_CHECKING:
    from typing import Any

    from gpuprobe.api import check, diagnose, diagnose_text, history, load, timelines
    from gpuprobe.diagnosis import Certainty, Diagnosis, Evidence, Kind, Role, Verdict
    from gpuprobe.errors import DeviceLostError, GpuprobeError
    from gpuprobe.hook import device_present, explain_exception, guard, install_excepthook
    from gpuprobe.identity import PciAddress
    from gpuprobe.options import Options, Progress
    from gpuprobe.recording.reader import Recording

__version__ = "0.1.0"

__all__ = [
    "Certainty",
    "DeviceLostError",
    "Diagnosis",
    "Evidence",
    "GpuprobeError",
    "Kind",
    "Options",
    "PciAddress",
    "Progress",
    "Recording",
    "Role",
    "Verdict",
    "__version__",
    "check",
    "device_present",
    "diagnose",
    "diagnose_text",
    "explain_exception",
    "guard",
    "history",
    "install_excepthook",
    "load",
    "timelines",
]

_HOMES = {
    "Certainty": "diagnosis",
    "DeviceLostError": "errors",
    "Diagnosis": "diagnosis",
    "Evidence": "diagnosis",
    "GpuprobeError": "errors",
    "Kind": "diagnosis",
    "Options": "options",
    "PciAddress": "identity",
    "Progress": "options",
    "Recording": "recording.reader",
    "Role": "diagnosis",
    "Verdict": "diagnosis",
    "check": "api",
    "device_present": "hook",
    "diagnose": "api",
    "diagnose_text": "api",
    "explain_exception": "hook",
    "guard": "hook",
    "history": "api",
    "install_excepthook": "hook",
    "load": "api",
    "timelines": "api",
}


def __getattr__(name: str) -> Any:
    from importlib import import_module

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{home}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
