"""Versions of the NVIDIA driver's parts, read from files: no driver call."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from pathlib import Path

from gpuprobe.checks.scene import DriverFacts
from gpuprobe.reading import Known, Reading, Reason, Unavailable
from gpuprobe.sources.pci.tree import read_text

LIBRARY = "libnvidia-ml.so.1"

LIBRARY_FOLDERS = (
    "usr/lib/x86_64-linux-gnu",
    "usr/lib/aarch64-linux-gnu",
    "usr/lib64",
    "usr/lib",
    "usr/local/nvidia/lib64",
    "usr/lib/wsl/lib",
    "run/opengl-driver/lib",
    "usr/local/lib",
)
"""Where distributions and container tools put it, in the order in which they are looked at."""

_VERSION = re.compile(r"\b(\d{3}\.\d{1,3}(?:\.\d{1,3})?)\b")


def read_versions(
    root: Path,
    *,
    library_path: Sequence[str] = (),
    installed: Callable[[], Reading[str]] | None = None,
) -> DriverFacts:
    """All versions.

    Args:
        root: Where `proc` and `usr` are looked for.
        library_path: Folders searched first (`LD_LIBRARY_PATH`), as they are.
        installed: Asks for the module on disk; modinfo by default.
    """
    text = read_text(root / "proc/driver/nvidia/version")
    return DriverFacts(
        loaded=_loaded(text),
        installed=(installed or read_installed)(),
        library=_library(root, library_path),
        open_module=Known("Open Kernel Module" in text.value) if isinstance(text, Known) else text,
    )


def _loaded(text: Reading[str]) -> Reading[str]:
    if isinstance(text, Unavailable):
        return Unavailable(
            Reason.NOT_THERE,
            "the nvidia kernel module is not loaded",
            "sudo modprobe nvidia; in a container: docker run --gpus all …",
        )
    match = _VERSION.search(text.value)
    if match is None:
        return Unavailable(Reason.FAILED, "no version in /proc/driver/nvidia/version")
    return Known(match[1])


def _library(root: Path, first: Sequence[str]) -> Reading[str]:
    folders = [Path(folder) for folder in first if folder]
    for folder in (*folders, *(root / name for name in LIBRARY_FOLDERS)):
        file = folder / LIBRARY
        if not file.exists():
            continue
        match = _VERSION.search(file.resolve().name)
        if match is None:
            return Unavailable(Reason.FAILED, f"{file} names no version")
        return Known(match[1])
    return Unavailable(
        Reason.NOT_THERE,
        f"{LIBRARY} is not installed here",
        "Install the driver's user-space part; in a container: docker run --gpus all …",
    )


def read_installed() -> Reading[str]:
    """Version of the nvidia module on disk, as modinfo tells it."""
    program = shutil.which("modinfo", path=os.pathsep.join((os.environ.get("PATH", ""), "/sbin")))
    if program is None:
        return Unavailable(Reason.NOT_THERE, "modinfo is not installed")
    try:
        done = subprocess.run(  # noqa: S603 - fixed program, no shell, fixed arguments
            [program, "-F", "version", "nvidia"],
            capture_output=True,
            stdin=subprocess.DEVNULL,
            timeout=3,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return Unavailable(Reason.FAILED, f"modinfo: {error}")
    version = done.stdout.decode("utf-8", "replace").strip()
    if not version:
        return Unavailable(Reason.NOT_THERE, "no nvidia module on disk")
    return Known(version)
