"""Memory of each GPU: ECC counts and remapped rows."""

from __future__ import annotations

from collections.abc import Iterator

from gpuprobe.checks.base import CheckFinding, Status, known, not_checked
from gpuprobe.checks.scene import Scene
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reading import Reason, Unavailable

name = "memory"


def run(scene: Scene) -> Iterator[CheckFinding]:
    """Two findings for each of NVIDIA's GPUs: ECC and remapped rows."""
    for address in scene.addresses():
        if scene.is_nvidia(address):
            yield _ecc(scene, address)
            yield _rows(scene, address)


def _ecc(scene: Scene, address: PciAddress) -> CheckFinding:
    wrong = scene.nvml_value(address, "ecc_uncorrected_volatile")
    if isinstance(wrong, Unavailable):
        if wrong.reason is Reason.NOT_SUPPORTED:
            wrong = Unavailable(wrong.reason, "no ECC: errors of its memory go unseen")
        return not_checked(name, "ECC", wrong, address)
    figures = {
        key: value
        for key in (
            "ecc_corrected_volatile",
            "ecc_uncorrected_volatile",
            "ecc_corrected_aggregate",
            "ecc_uncorrected_aggregate",
        )
        if (value := known(scene.nvml_value(address, key), int)) is not None
    }
    bad = figures.get("ecc_uncorrected_volatile", 0)
    mended = figures.get("ecc_corrected_volatile", 0)
    status = Status.WARN if bad else Status.NOTE if mended else Status.OK
    lifetime = figures.get("ecc_uncorrected_aggregate", 0)
    return CheckFinding(
        check=name,
        what="ECC",
        status=status,
        text=f"{bad:,} uncorrectable, {mended:,} corrected since the driver was loaded"
        + (f"; {lifetime:,} uncorrectable over its life" if lifetime else ""),
        subject=address,
        figures=figures,
        how=f"nvidia-smi -i {address} -q -d ECC,ROW_REMAPPER" if bad else "",
    )


def _rows(scene: Scene, address: PciAddress) -> CheckFinding:
    failed = scene.nvml_value(address, "remap_failed")
    if isinstance(failed, Unavailable):
        return not_checked(name, "remapped rows", failed, address)
    pending = bool(known(scene.nvml_value(address, "remap_pending"), int))
    rows = {
        key: known(scene.nvml_value(address, key), int) or 0
        for key in ("remapped_corrected", "remapped_uncorrected")
    }
    status, text, how = Status.OK, "no row remapped", ""
    if sum(rows.values()):
        status = Status.NOTE
        text = (
            f"{rows['remapped_uncorrected']} rows remapped for uncorrectable errors, "
            f"{rows['remapped_corrected']} for corrected ones"
        )
    if pending:
        status, how = Status.WARN, f"End its programs, then: sudo nvidia-smi -i {address} -r"
        text = "the remap of a row is pending: it takes effect at the next reset of the GPU"
    if failed.value:
        status, how = Status.BAD, "Have the card replaced"
        text = "a row could not be remapped: no spare row is left"
    return CheckFinding(
        check=name,
        what="remapped rows",
        status=status,
        text=text,
        subject=address,
        figures={**rows, "remap_pending": pending, "remap_failed": bool(failed.value)},
        how=how,
        kind=Kind.GPU_MEMORY_ERROR if status is Status.BAD else None,
    )
