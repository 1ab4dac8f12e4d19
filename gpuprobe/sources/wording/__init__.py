"""The families of messages gpuprobe understands: what a line says, whatever framing it came in.

A family reads a message and knows nothing of prefixes; live sources and saved logs share them.
To add one: a module with a `FAMILY`, its line here, and its test.
"""

from __future__ import annotations

from gpuprobe.sources.wording import (
    aer,
    boot,
    nvidia_other,
    nvrm,
    pci,
    pci_tools,
    pciehp,
)
from gpuprobe.sources.wording.base import Family, Pattern
from gpuprobe.sources.wording.crash import CRASH
from gpuprobe.sources.wording.cuda import CUDA
from gpuprobe.sources.wording.driver_setup import DRIVER_SETUP
from gpuprobe.sources.wording.engines import ENGINES
from gpuprobe.sources.wording.graphics import GRAPHICS
from gpuprobe.sources.wording.host import HOST
from gpuprobe.sources.wording.jit_cache import JIT_CACHE
from gpuprobe.sources.wording.nccl import NCCL
from gpuprobe.sources.wording.nvidia_smi import NVIDIA_SMI
from gpuprobe.sources.wording.oom import OOM
from gpuprobe.sources.wording.other_gpus import OTHER_GPUS
from gpuprobe.sources.wording.prose import PROSE
from gpuprobe.sources.wording.smi_report import SMI_REPORT
from gpuprobe.sources.wording.smi_table import SMI_TABLE
from gpuprobe.sources.wording.windows import WINDOWS

FAMILIES: tuple[Family, ...] = (
    nvrm.FAMILY,
    nvidia_other.FAMILY,
    aer.FAMILY,
    pciehp.FAMILY,
    pci.FAMILY,
    pci_tools.FAMILY,
    boot.FAMILY,
    SMI_TABLE,
    NVIDIA_SMI,
    SMI_REPORT,
    OTHER_GPUS,
    WINDOWS,
    HOST,
    DRIVER_SETUP,
    CUDA,
    NCCL,
    GRAPHICS,
    JIT_CACHE,
    ENGINES,
    OOM,
    CRASH,
    PROSE,
)

__all__ = ["FAMILIES", "Family", "Pattern"]
