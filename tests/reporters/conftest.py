"""Diagnoses built by hand, and the comparison with stored whole outputs."""

from __future__ import annotations

import io
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

import pytest

from gpuprobe.diagnosis import (
    Cause,
    CauseEntry,
    Certainty,
    Device,
    Diagnosis,
    Evidence,
    Input,
    Kind,
    NextStep,
    NotChecked,
    Role,
    RuledOut,
    Verdict,
)
from gpuprobe.identity import PciAddress
from gpuprobe.reporters.base import Reporter

EXPECTED = Path(__file__).parent / "expected"

HOSTILE = (
    "\x1b[2J\x1b]0;owned\x07 \x00\u202egnp.exe\u2066 `code` ``` <script>alert(1)</script> "
    "[click](http://evil.example/) ![x](https://evil.example/a.png) @everyone #1 GH-2 "
    "| cell | </details> **bold** $x$ www.evil.example \u2028 end\x85\ud800"
)


@pytest.fixture
def rendered() -> Callable[[Reporter, Diagnosis], str]:
    """What a reporter writes."""

    def render(reporter: Reporter, diagnosis: Diagnosis) -> str:
        out = io.StringIO()
        reporter.render(diagnosis, out)
        return out.getvalue()

    return render


@pytest.fixture
def compare() -> Callable[[str, str], None]:
    """Compare with a stored output; GPUPROBE_STORE=1 stores it instead, to look at the diff."""

    def check(name: str, text: str) -> None:
        path = EXPECTED / name
        if os.environ.get("GPUPROBE_STORE"):
            path.write_text(text, encoding="utf-8")
        assert path.read_text(encoding="utf-8") == text

    return check


@pytest.fixture
def loss() -> Diagnosis:
    """A GPU that left the bus, with everything a verdict can hold, and a second verdict."""
    kernel = "/home/ines/incident/kernel.log"
    gpu = PciAddress.parse("0000:0b:00.0")
    consequences = tuple(
        Evidence(
            Role.CONSEQUENCE,
            f"Apr 02 19:03:4{second} kestrel inferd[3120]: CUDA error: unspecified launch failure"
            f" (worker {second})",
            "engine.log",
            40 + second,
            at_raw=f"Apr 02 19:03:4{second}",
            count=second + 1,
        )
        for second in range(4)
    )
    verdict = Verdict(
        kind=Kind.DEVICE_LEFT_BUS,
        certainty=Certainty.CONFIRMED,
        summary="GPU 0000:0b:00.0 left the bus: noticed at 19:03:38; the CUDA error 2 s later is a"
        " consequence.",
        device=Device(
            pci=gpu,
            uuid="GPU-5f0c1a2b-1111-4222-8333-0123456789ab",
            name="NVIDIA GeForce RTX 3090",
            index=1,
        ),
        other_devices=(PciAddress.parse("0000:0a:00.0"),),
        at=datetime(2026, 4, 2, 17, 3, 38, tzinfo=UTC),
        at_raw="Apr 02 19:03:38",
        xids=(79, 154),
        evidence=(
            Evidence(
                Role.PROOF,
                "Apr 02 19:03:38 kestrel kernel: NVRM: Xid (PCI:0000:0b:00): 79, pid='<unknown>',"
                " name=<unknown>, GPU has fallen off the bus.",
                kernel,
                1204,
                at=datetime(2026, 4, 2, 17, 3, 38, tzinfo=UTC),
                at_raw="Apr 02 19:03:38",
                says="The driver found that the GPU no longer answers.",
            ),
            Evidence(
                Role.PRECURSOR,
                "Apr 02 19:02:11 kestrel kernel: pcieport 0000:00:03.0: AER: Corrected error"
                " received: 0000:0b:00.0",
                kernel,
                1180,
                at_raw="Apr 02 19:02:11",
                count=17,
            ),
            *consequences,
            Evidence(
                Role.CONTEXT,
                "DMI: Example Workstation 7, BIOS 1.4",
                "boot.gpuprobe",
                None,
                ref="event 12",
            ),
        ),
        ruled_out=(
            RuledOut(
                "gpu-out-of-memory",
                "no allocation failed and the last sample left memory free",
                {"memory_free_mib": 3120, "source": "nvidia-smi, 19:03:37"},
            ),
        ),
        not_checked=(
            NotChecked(
                "memory temperature",
                "GeForce cards do not report it",
                "watch it with the card maker's tool on another system",
            ),
        ),
        causes=(
            Cause(
                "power",
                "not-seen",
                not_seen=(CauseEntry("P7", "no 12 V reading of the supply or board"),),
            ),
            Cause(
                "link",
                "for",
                pro=(
                    CauseEntry(
                        "L1",
                        "17 corrected errors on the hop in the 87 s before the loss, none in the"
                        " hour before",
                        "++",
                    ),
                ),
            ),
            Cause(
                "heat",
                "against",
                against=(CauseEntry("T3", "core at most 61 °C, limit 93 °C", "-"),),
                not_seen=(CauseEntry("T3", "memory and regulators"),),
            ),
        ),
        next_steps=(
            NextStep(
                "read",
                "Save the kernel log of this boot before anything is switched off.",
                command="journalctl -k -b -o short-precise > kernel-0000-0b-00.0.log",
                cost="seconds",
                when="always, first",
                source="kernel documentation",
            ),
            NextStep(
                "reversible",
                "Keep the clocks below the load step that came before the loss.",
                command="nvidia-smi -i 0000:0b:00.0 -lgc 210,1400",
                undo="nvidia-smi -i 0000:0b:00.0 -rgc",
                cost="some speed",
                when="after a cold start",
                source="NVIDIA/open-gpu-kernel-modules#1151",
            ),
            NextStep("boot", "Set the slot one PCIe generation lower.", cost="half the bandwidth"),
            NextStep("hands", "Take out the riser.", when="the card sits on one"),
        ),
    )
    second = Verdict(
        kind=Kind.PCIE_LINK_ERRORS,
        certainty=Certainty.POSSIBLE,
        summary="The link of GPU 0000:0a:00.0 runs at x4 of x16.",
        device=Device(pci=PciAddress.parse("0000:0a:00.0")),
        evidence=(
            Evidence(Role.SUPPORT, "0000:0a:00.0: LnkSta: Speed 8GT/s, Width x4", "lspci.txt", 7),
        ),
    )
    return Diagnosis(
        verdicts=(verdict, second),
        inputs=(
            Input(kernel, "journal-short", 2210, 2, ("stamps without year",)),
            Input("engine.log", "journal-short", 51, 1),
            Input("lspci.txt", "lspci", None, 0),
            Input("boot.gpuprobe", "text", None, 1),
        ),
        host="kestrel",
    )


@pytest.fixture
def nothing() -> Diagnosis:
    """Inputs in which nothing failed."""
    return Diagnosis(
        verdicts=(
            Verdict(
                kind=Kind.NO_FAULT,
                certainty=None,
                summary="Nothing in the input failed.",
                not_checked=(
                    NotChecked("kernel log", "not among the inputs", "add journalctl -k"),
                ),
            ),
        ),
        inputs=(Input("-", "text", 12),),
    )


@pytest.fixture
def two_hosts(loss: Diagnosis, nothing: Diagnosis) -> Diagnosis:
    """The loss, and another machine on which nothing failed."""
    other = Diagnosis(nothing.verdicts, nothing.inputs, host="plover")
    return Diagnosis(loss.verdicts, loss.inputs, loss.host, (other,))


@pytest.fixture
def hostile() -> Diagnosis:
    """Every free text holds what could steer a terminal, a browser or GitHub."""
    text = HOSTILE
    verdict = Verdict(
        kind=Kind.DEVICE_LEFT_BUS,
        certainty=Certainty.LIKELY,
        summary=text,
        device=Device(name=text, uuid=text),
        at_raw=text,
        evidence=tuple(Evidence(role, text, text, 1, ref=text, says=text) for role in Role),
        ruled_out=(RuledOut("thermal", text, {"figure": text}),),
        not_checked=(NotChecked(text, text, text),),
        causes=(Cause("power", "for", pro=(CauseEntry("P1", text),)),),
        next_steps=(
            NextStep(
                "reversible", text, command=text, undo=text, cost=text, when=text, source=text
            ),
        ),
    )
    return Diagnosis((verdict,), (Input(text, "text", 1, 1, (text,)),), host=text)


@pytest.fixture
def huge() -> Diagnosis:
    """More and longer than any form for people could show."""
    evidence = tuple(
        Evidence(role, f"{number} " + "@`<|" * 124, f"log-{number}", number)
        for role in Role
        for number in range(1, 60)
    )
    verdict = Verdict(
        kind=Kind.GPU_HANG,
        certainty=Certainty.LIKELY,
        summary="x" * 10_000,
        evidence=evidence,
        next_steps=tuple(NextStep("read", "y" * 10_000, command="z" * 300) for _ in range(50)),
    )
    inputs = tuple(Input(f"log-{number}", "text", 1) for number in range(1, 60))
    return Diagnosis((verdict,) * 4, inputs)
