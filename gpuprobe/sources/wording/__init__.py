"""The families of messages gpuprobe understands: what a line says, whatever framing it came in.

A family reads a message and knows nothing of prefixes; live sources and saved logs share them.
To add one: a module with a `FAMILY`, its line here, and its test.
"""

from __future__ import annotations

from gpuprobe.sources.wording import (
    aer,
    bmc,
    boot,
    crash,
    cuda,
    device_acts,
    driver_setup,
    engines,
    graphics,
    host,
    jit_cache,
    nccl,
    nvidia_other,
    nvidia_smi,
    nvrm,
    oom,
    other_gpus,
    own,
    pci,
    pci_tools,
    pciehp,
    prose,
    schedulers,
    smi_report,
    smi_table,
    smi_xml,
    windows,
    xorg,
)
from gpuprobe.sources.wording.base import Family, Pattern

FAMILIES: tuple[Family, ...] = (
    nvrm.FAMILY,
    nvidia_other.FAMILY,
    own.FAMILY,
    aer.FAMILY,
    pciehp.FAMILY,
    pci.FAMILY,
    pci_tools.FAMILY,
    device_acts.FAMILY,
    boot.FAMILY,
    smi_table.FAMILY,
    nvidia_smi.FAMILY,
    smi_report.FAMILY,
    smi_xml.FAMILY,
    other_gpus.FAMILY,
    windows.FAMILY,
    host.FAMILY,
    bmc.FAMILY,
    driver_setup.FAMILY,
    xorg.FAMILY,
    cuda.FAMILY,
    nccl.FAMILY,
    graphics.FAMILY,
    jit_cache.FAMILY,
    engines.FAMILY,
    schedulers.FAMILY,
    oom.FAMILY,
    crash.FAMILY,
    prose.FAMILY,
)

__all__ = ["FAMILIES", "Family", "Pattern"]
