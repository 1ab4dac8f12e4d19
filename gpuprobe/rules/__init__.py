"""One file a verdict kind. A rule sees a timeline and says what it finds; it weighs no others."""

from __future__ import annotations

from gpuprobe.rules import (
    application_fault,
    cannot_tell,
    collective_timeout,
    device_left_bus,
    driver_unusable,
    gpu_firmware_hang,
    gpu_hang,
    gpu_memory_error,
    gpu_out_of_memory,
    host_out_of_memory,
    host_reset,
    jit_cache_corrupt,
    nvlink_error,
    pcie_link_errors,
    power,
    process_crash,
    thermal,
)
from gpuprobe.rules.base import Finding, Rule

RULES: tuple[Rule, ...] = (
    device_left_bus.RULE,
    gpu_memory_error.RULE,
    nvlink_error.RULE,
    gpu_firmware_hang.RULE,
    gpu_hang.RULE,
    power.RULE,
    thermal.RULE,
    pcie_link_errors.RULE,
    application_fault.RULE,
    jit_cache_corrupt.RULE,
    gpu_out_of_memory.RULE,
    host_out_of_memory.RULE,
    driver_unusable.RULE,
    host_reset.RULE,
    collective_timeout.RULE,
    process_crash.RULE,
    cannot_tell.RULE,
)
"""Gravest first: of two findings of one moment, the earlier in this tuple is the cause."""

__all__ = ["RULES", "Finding", "Rule"]
