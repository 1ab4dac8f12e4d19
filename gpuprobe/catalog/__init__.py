"""Facts as data: what codes mean, what speaks for which cause, and what to do next.

Importing this reads no file; each is read when first asked for. `gpuprobe.catalog.advice` and
`gpuprobe.catalog.causes` hold the next steps and the texts of the cause rules.
"""

from gpuprobe.catalog.codes import (
    CONTEXT,
    AerBit,
    CudaError,
    NvmlCode,
    RecoveryAction,
    RmStatus,
    SxidText,
    Xid,
    aer_bits,
    aer_by_name,
    cuda_by_code,
    cuda_by_name,
    cuda_by_text,
    cuda_errors,
    kind_meanings,
    nvml_codes,
    recovery_actions,
    rm_statuses,
    sxid_text,
    xid,
    xids,
)

__all__ = [
    "CONTEXT",
    "AerBit",
    "CudaError",
    "NvmlCode",
    "RecoveryAction",
    "RmStatus",
    "SxidText",
    "Xid",
    "aer_bits",
    "aer_by_name",
    "cuda_by_code",
    "cuda_by_name",
    "cuda_by_text",
    "cuda_errors",
    "kind_meanings",
    "nvml_codes",
    "recovery_actions",
    "rm_statuses",
    "sxid_text",
    "xid",
    "xids",
]
