"""Values of options that more than one command takes, looked at before anything starts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import click

from gpuprobe.identity import PciAddress

_GPU_CLASSES = ("0x0300", "0x0302", "0x0380")


class FiniteRange(click.FloatRange):
    """A number in a range; `nan`, which is neither below nor above any limit, is none."""

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> float:
        """The number, as a float."""
        number = float(super().convert(value, param, ctx))
        if math.isnan(number):
            self.fail(f"{value!r} is no number.", param, ctx)
        return number


def gpu_not_there(devices: Iterable[PciAddress], root: str = "/") -> str | None:
    """What to say where a device that was named is not on the bus now; None where all are.

    A typing error in an address would else show when the loss of the right GPU is taken for
    somebody else's. Where there is no sysfs, nothing is said.
    """
    folder = Path(root, "sys/bus/pci/devices")
    try:
        here = {path.name: path for path in folder.iterdir()}
    except OSError:
        return None
    absent = [str(device) for device in devices if str(device) not in here]
    if not absent:
        return None
    gpus = [name for name in sorted(here) if _is_gpu(here[name])]
    there = f"the GPUs are {', '.join(gpus)}" if gpus else "it lists no NVIDIA GPU"
    return f"--device {absent[0]}: no such device is on the bus now; {there}"


def _is_gpu(folder: Path) -> bool:
    try:
        kind, vendor = (folder / "class").read_text(), (folder / "vendor").read_text()
    except OSError:
        return False
    return kind.startswith(_GPU_CLASSES) and vendor.strip() == "0x10de"
