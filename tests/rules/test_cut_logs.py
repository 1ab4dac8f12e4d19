"""Logs that were cut before the decisive line, and texts that only talk about faults."""

from __future__ import annotations

import pytest

from gpuprobe.api import diagnose_text
from gpuprobe.diagnosis import Kind

PORT = "0000:16:01.0"
GPU = "0000:17:00.0"


def answer(*lines: str) -> Kind:
    return diagnose_text("\n".join(lines) + "\n").answer


def test_a_recovery_ties_the_gpu_to_its_port() -> None:
    """The kernel tells every device below a port, so the port's surprise down is the GPU's."""
    said = diagnose_text(
        f"[  901.220001] pcieport {PORT}: AER: Uncorrectable (Fatal) error message received from {PORT}\n"
        f"[  901.220009] pcieport {PORT}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)\n"
        f"[  901.220013] pcieport {PORT}:   device [1022:1484] error status/mask=00000020/04400000\n"
        f"[  901.220017] pcieport {PORT}:    [ 5] SDES                   (First)\n"
        f"[  901.220101] nvidia {GPU}: AER: can't recover (no error_detected callback)\n"
        f"[  901.220105] snd_hda_intel 0000:17:00.1: AER: can't recover (no error_detected callback)\n"
        f"[  902.330101] pcieport {PORT}: AER: device recovery failed\n"
    )

    assert Kind.DEVICE_LEFT_BUS is said.answer
    assert str(said.verdicts[0].device and said.verdicts[0].device.pci) == GPU


def test_a_recovery_of_another_device_is_no_loss() -> None:
    """The same account about a disk says nothing of a GPU."""
    assert Kind.DEVICE_LEFT_BUS is not answer(
        f"[  901.220009] pcieport {PORT}: PCIe Bus Error: severity=Uncorrectable (Fatal), type=Transaction Layer, (Receiver ID)",
        f"[  901.220017] pcieport {PORT}:    [ 5] SDES                   (First)",
        "[  901.220101] ahci 0000:18:00.0: AER: can't recover (no error_detected callback)",
        f"[  902.330101] pcieport {PORT}: AER: device recovery failed",
        "[  910.000001] nvidia 0000:41:00.0: enabling device (0000 -> 0003)",
    )


def test_human_readable_dmesg_is_read() -> None:
    """`dmesg -H` gives a date or the seconds since the line before in place of a clock."""
    assert Kind.DEVICE_LEFT_BUS is answer(
        "[Mar 3 11:20] NVRM: GPU at PCI:0000:17:00: GPU-0d1e2f30-4152-6374-8596-a7b8c9daebfc",
        "[  +0.000011] NVRM: Xid (PCI:0000:17:00): 79, pid=771, name=python3, GPU has fallen off the bus.",
    )


@pytest.mark.parametrize(("blamed", "kind"), [(79, Kind.DEVICE_LEFT_BUS), (145, Kind.NVLINK_ERROR)])
def test_clean_up_names_the_cause_that_was_cut_off(blamed: int, kind: Kind) -> None:
    """An Xid 45 that names its cause stands for it where the cause's own line is missing."""
    assert kind is answer(
        f"Mar  3 11:20:09 n4 kernel: NVRM: Xid (PCI:0000:17:00): 45, pid=771, name=python3, Ch 00000009 caused by previous Xid {blamed}"
    )


def test_clean_up_beside_its_cause_adds_nothing() -> None:
    """Where the blamed Xid is among the inputs, the clean-up is only its consequence."""
    said = diagnose_text(
        "Mar  3 11:20:08 n4 kernel: NVRM: Xid (PCI:0000:17:00): 31, pid=771, name=python3, Ch 00000009\n"
        "Mar  3 11:20:08 n4 kernel: NVRM: Xid (PCI:0000:17:00): 45, pid=771, name=python3, Ch 00000009 caused by previous Xid 31\n"
    )

    assert [verdict.kind for verdict in said.verdicts] == [Kind.APPLICATION_FAULT]


def test_a_reset_owed_without_its_fault_cannot_be_told() -> None:
    """Xid 154 alone says that something failed, not what."""
    line = "Mar  3 11:20:08 n4 kernel: NVRM: Xid (PCI:0000:17:00): 154, GPU recovery action changed from 0x0 (None) to 0x{} (X)"

    assert Kind.CANNOT_TELL is answer(line.format(1))
    assert Kind.NO_FAULT is answer(line.format(0))


def test_a_fatal_error_above_an_unknown_device_cannot_be_told() -> None:
    """A port's fatal error may be a GPU's; a corrected one is context."""
    line = f"[   88.110009] pcieport {PORT}: PCIe Bus Error: severity={{}}, type=Transaction Layer, (Receiver ID)"

    assert Kind.CANNOT_TELL is answer(line.format("Uncorrectable (Fatal)"))
    assert Kind.NO_FAULT is answer(line.format("Correctable"))


def test_an_error_beside_the_message_is_read() -> None:
    """Structured loggers keep what went wrong in a field of its own."""
    assert Kind.DEVICE_LEFT_BUS is answer(
        '{"level":"error","ts":1772536808.2,"msg":"cannot read power","gpu":3,"error":"nvml: GPU is lost"}'
    )


def test_a_quoted_hunk_is_no_log() -> None:
    """What a patch adds to a document did not happen."""
    assert Kind.NO_FAULT is answer(
        "docs/xid.md",
        "```diff",
        "@@ -10,6 +10,9 @@ func main() {",
        "+A lost GPU looks so:",
        "+[   12.300001] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.",
        "+and needs a power cycle",
        "```",
    )


def test_logs_coloured_as_a_patch_are_logs() -> None:
    """Some reporters colour their log lines by a fence named diff."""
    assert Kind.DEVICE_LEFT_BUS is answer(
        "the last lines before it froze:",
        "```diff",
        "- [   12.300001] NVRM: Xid (PCI:0000:17:00): 79, pid=1, GPU has fallen off the bus.",
        "- [   12.300009] NVRM: GPU 0000:17:00.0: GPU has fallen off the bus.",
        "```",
    )


def test_a_reporters_quotation_asks_for_proof() -> None:
    """A driver's words in somebody's sentence are worth a question, not a verdict."""
    assert Kind.CANNOT_TELL is answer(
        '¿Alguien sabe por qué sale el error "NVRM: GPU 0000:17:00.0: GPU has fallen off the bus." al jugar?'
    )
