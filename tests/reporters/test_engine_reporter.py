"""The short form on an engine's terminal."""

from __future__ import annotations

from gpuprobe.diagnosis import (
    Certainty,
    Device,
    Diagnosis,
    Evidence,
    Kind,
    NextStep,
    Role,
    Verdict,
)
from gpuprobe.identity import PciAddress
from gpuprobe.reporters.engine import EngineReporter

ONE = PciAddress.parse("0000:04:00.0")
TWO = PciAddress.parse("0000:05:00.0")
OPEN = Verdict(Kind.CANNOT_TELL, None, "It cannot be told what failed.")


def lost(device: PciAddress) -> Verdict:
    return Verdict(
        kind=Kind.DEVICE_LEFT_BUS,
        certainty=Certainty.CONFIRMED,
        summary=f"GPU {device} left the bus.",
        device=Device(device),
        evidence=tuple(
            Evidence(Role.PROOF, f"line {n}\x1b[31m", "kernel-log", n, says=f"sign {n}")
            for n in range(5)
        ),
        next_steps=(NextStep("read", "Look.", "lspci -D"), NextStep("hands", "Reseat.")),
    )


def lines(*verdicts: Verdict, own: PciAddress = ONE, quiet: bool = False) -> list[str]:
    found = Diagnosis(verdicts, ())
    reporter = EngineReporter(quiet=quiet)
    return list(reporter.verdict(found, own=(str(own),), whose=f"GPU {own} (x)", ended="exit 1"))


def test_sentence_proof_engine_and_what_to_do() -> None:
    """One sentence, three lines of proof, how the engine ended, two steps; nothing raw."""
    found = lines(lost(ONE))

    assert found[0] == f"gpuprobe: [confirmed] GPU {ONE} left the bus."
    assert [line[:9] for line in found[1:4]] == ["  proof: "] * 3
    assert "\x1b" not in "".join(found)
    assert f"  engine: exit 1; GPU {ONE} (x)" in found
    assert "        lspci -D" in found


def test_quiet_is_the_sentence_alone() -> None:
    """--quiet: one line a verdict."""
    assert lines(lost(ONE), quiet=True) == [f"gpuprobe: [confirmed] GPU {ONE} left the bus."]


def test_a_loss_elsewhere_is_marked() -> None:
    """Another GPU's loss beside the engine's own trouble, and with nothing else to tell."""
    beside = lines(OPEN, lost(TWO))
    alone = lines(lost(TWO))

    assert beside[0] == "gpuprobe: [cannot tell] It cannot be told what failed."
    assert any(line.startswith("  elsewhere: [confirmed] GPU 0000:05") for line in beside)
    assert alone == [
        f"gpuprobe: [confirmed] GPU {TWO} left the bus. This engine uses GPU {ONE} (x)."
    ]
