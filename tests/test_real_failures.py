"""Failures made on purpose on a real H200, and the healthy runs beside them."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprobe.api import diagnose
from gpuprobe.diagnosis import Certainty, Diagnosis, Kind, Role

DATA = Path(__file__).parent / "data" / "real"
GPU = "0000:00:06.0"


def engine_and_kernel(name: str) -> Diagnosis:
    return diagnose(DATA / f"{name}.engine.log", DATA / f"{name}.dmesg.log")


@pytest.mark.parametrize(
    ("name", "xid"),
    [
        ("cuda-assert", 43),
        ("cuda-illegal", 31),
        ("cuda-misaligned", 13),
        ("cuda-shared", 13),
        ("cuda-trap", 43),
        ("torch-illegal", 31),
        ("torch-index", 43),
    ],
)
def test_a_program_fault_with_its_kernel_lines_is_confirmed(name: str, xid: int) -> None:
    """Engine and kernel log together say: the program's fault, on this healthy GPU, by this Xid."""
    diagnosis = engine_and_kernel(name)
    verdict = diagnosis.verdicts[0]

    assert diagnosis.answer is Kind.APPLICATION_FAULT
    assert verdict.certainty is Certainty.CONFIRMED
    assert verdict.device is not None
    assert str(verdict.device.pci) == GPU
    assert xid in verdict.xids
    assert len(diagnosis.verdicts) == 1
    assert any(
        item.role in (Role.PROOF, Role.SUPPORT) and f" {xid}," in item.text
        for item in verdict.evidence
    )
    assert any(item.input.endswith(".engine.log") for item in verdict.evidence)
    assert [item.kind for item in verdict.ruled_out] == [Kind.DEVICE_LEFT_BUS]


@pytest.mark.parametrize(
    "name",
    [
        "cuda-assert",
        "cuda-illegal",
        "cuda-misaligned",
        "cuda-shared",
        "torch-illegal",
        "torch-index",
    ],
)
def test_a_program_fault_without_kernel_lines_is_likely_and_names_no_gpu(name: str) -> None:
    """The program's words alone are specific but no proof, and say nothing of a device."""
    diagnosis = diagnose(DATA / f"{name}.engine.log")
    verdict = diagnosis.verdicts[0]

    assert diagnosis.answer is Kind.APPLICATION_FAULT
    assert verdict.certainty is Certainty.LIKELY
    assert verdict.device is None
    assert verdict.ruled_out == ()


def test_a_trap_without_kernel_lines_cannot_be_told_from_a_lost_gpu() -> None:
    """`unspecified launch failure` alone decides nothing, and the kernel log is asked for."""
    diagnosis = diagnose(DATA / "cuda-trap.engine.log")
    verdict = diagnosis.verdicts[0]

    assert (diagnosis.answer, diagnosis.exit_code) == (Kind.CANNOT_TELL, 3)
    assert verdict.certainty is None
    assert verdict.device is None
    assert any("journalctl -k" in item.how for item in verdict.not_checked)


def test_the_kernel_lines_of_a_trap_alone_are_at_most_likely() -> None:
    """An Xid 43 without the program's words is likely the program's fault."""
    verdict = diagnose(DATA / "cuda-trap.dmesg.log").verdicts[0]

    assert (verdict.kind, verdict.certainty) == (Kind.APPLICATION_FAULT, Certainty.LIKELY)
    assert verdict.device is not None
    assert verdict.device.uuid == "GPU-1b2c3d4e-0000-4000-8000-00000000abcd"


@pytest.mark.parametrize(
    "name",
    [
        "triton-cubin-empty",
        "triton-cubin-missing",
        "triton-cubin-nul-filled",
        "triton-group-json-empty",
        "triton-group-json-half",
        "triton-metadata-json-empty",
    ],
)
def test_a_poisoned_triton_entry_is_a_corrupt_cache(name: str) -> None:
    """A traceback out of the cache names the cache, and a restart is not offered as a cure."""
    diagnosis = diagnose(DATA / f"{name}.engine.log")

    assert (diagnosis.answer, diagnosis.exit_code) == (Kind.JIT_CACHE_CORRUPT, 1)
    assert "triton" in diagnosis.verdicts[0].summary
    assert "restarting will not heal it" in diagnosis.verdicts[0].summary
    assert len(diagnosis.verdicts) == 1


@pytest.mark.parametrize(
    ("name", "signal"), [("triton-cubin-half", "SIGSEGV"), ("triton-launcher-so-half", "SIGBUS")]
)
def test_a_cut_binary_leaves_only_a_signal(name: str, signal: str) -> None:
    """Without a word of the cache the verdict is the crash, with the signal named."""
    diagnosis = diagnose(DATA / f"{name}.engine.log")

    assert diagnosis.answer is Kind.PROCESS_CRASH
    assert signal in diagnosis.verdicts[0].summary


@pytest.mark.parametrize(
    "name",
    [
        "inductor-clean",
        "triton-clean",
        "triton-launcher-so-empty",
        "triton-ptx-empty",
        "triton-ttir-empty",
    ],
)
def test_a_run_that_went_well_has_no_fault(name: str) -> None:
    """Healthy runs, and damage that did no harm, give no finding."""
    diagnosis = diagnose(DATA / f"{name}.engine.log")

    assert [verdict.kind for verdict in diagnosis.verdicts] == [Kind.NO_FAULT]
    assert diagnosis.exit_code == 0


def test_a_refused_allocation_is_gpu_memory() -> None:
    """PyTorch's own sizes are in the sentence."""
    diagnosis = diagnose(DATA / "torch-oom.engine.log")

    assert diagnosis.answer is Kind.GPU_OUT_OF_MEMORY
    assert "1024.00 GiB" in diagnosis.verdicts[0].summary


def test_no_visible_device_does_not_say_why() -> None:
    """`No CUDA GPUs are available` fits a lost GPU, an unloaded driver and a container alike."""
    diagnosis = diagnose(DATA / "torch-nodev.engine.log")

    assert diagnosis.answer in (Kind.CANNOT_TELL, Kind.DRIVER_UNUSABLE)
    assert all(verdict.kind is not Kind.DEVICE_LEFT_BUS for verdict in diagnosis.verdicts)


def test_a_network_card_that_left_by_surprise_is_no_gpu() -> None:
    """A real surprise-down of an e1000e is context at most."""
    diagnosis = diagnose(DATA.parent / "vm-surprise-down.console.log")

    assert diagnosis.answer is Kind.NO_FAULT
    assert diagnosis.inputs[0].boots == 1
