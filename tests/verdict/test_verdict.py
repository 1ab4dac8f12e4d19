"""What is the cause, what only follows from it, and in which order it is told."""

from __future__ import annotations

import io
from collections import Counter

import pytest

from gpuprobe.api import diagnose, diagnose_text, timelines
from gpuprobe.diagnosis import Certainty, Diagnosis, Kind, Role, Verdict
from gpuprobe.events import Event
from gpuprobe.rules import RULES
from gpuprobe.timeline import Timeline
from gpuprobe.verdict import ranking
from gpuprobe.verdict.sequence import came_before

LOSS = "2027-05-05T10:00:{:02d}+00:00 n1 kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"


def line(second: int, text: str, who: str = "kernel", minute: int = 0) -> str:
    return f"2027-05-05T10:{minute:02d}:{second:02d}+00:00 n1 {who}: {text}\n"


def kinds(diagnosis: Diagnosis) -> list[Kind]:
    return [verdict.kind for verdict in diagnosis.verdicts]


def quoted(verdict: Verdict, role: Role) -> list[int | None]:
    return [item.line for item in verdict.evidence if item.role is role]


def test_one_cause_and_its_many_consequences_are_one_verdict() -> None:
    """Clean-up Xids, the CUDA error, peers and the engine's end are folded under the loss."""
    diagnosis = diagnose_text(
        LOSS.format(0)
        + line(0, "NVRM: krcRcAndNotifyAllChannels_IMPL: RC all channels for critical error 79.")
        + line(
            1,
            "NVRM: Xid (PCI:0000:1a:00): 45, pid=9, name=vllm, Ch 00000008 caused by previous Xid 79",
        )
        + line(
            1,
            "NVRM: Xid (PCI:0000:1b:00): 154, GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)",
        )
        + line(4, "RuntimeError: CUDA error: unspecified launch failure", "vllm[9]")
        + line(
            5,
            "ncclRemoteError: A call failed possibly due to a network error or a remote process exiting prematurely.",
            "vllm[10]",
        )
        + line(8, "vllm.service: Main process exited, code=dumped, status=6/ABRT", "systemd[1]")
    )
    (verdict,) = diagnosis.verdicts

    assert quoted(verdict, Role.PROOF) == [1]
    assert quoted(verdict, Role.CONSEQUENCE) == [2, 3, 4, 5, 6, 7]
    assert verdict.xids == (79, 45, 154)
    assert [str(device) for device in verdict.other_devices] == ["0000:1b:00.0"]
    assert "the CUDA error 4 s later is a consequence" in verdict.summary


def test_a_cuda_error_long_before_a_loss_is_not_its_consequence() -> None:
    """Time tells them apart: what came before did not follow."""
    diagnosis = diagnose_text(
        line(0, "RuntimeError: CUDA error: unspecified launch failure", "vllm[9]")
        + line(0, "NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.", minute=30)
    )

    assert kinds(diagnosis) == [Kind.DEVICE_LEFT_BUS, Kind.CANNOT_TELL]
    assert quoted(diagnosis.verdicts[0], Role.CONSEQUENCE) == []


def test_a_cuda_error_seconds_before_the_driver_notices_is_a_consequence() -> None:
    """The time of an Xid 79 is when something next touched the GPU."""
    diagnosis = diagnose_text(
        line(0, "RuntimeError: CUDA error: unspecified launch failure", "vllm[9]") + LOSS.format(7)
    )

    assert kinds(diagnosis) == [Kind.DEVICE_LEFT_BUS]
    assert quoted(diagnosis.verdicts[0], Role.CONSEQUENCE) == [1]
    assert "later" not in diagnosis.verdicts[0].summary


def test_a_gpu_that_left_in_two_boots_explains_what_followed_in_each() -> None:
    """The first loss is the root; the error of the second boot belongs to its loss there."""
    boot = (
        "[    0.000000] Linux version 6.12.0 (a@b)\n"
        "[  {}.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
        "[  {}.000000] vllm: RuntimeError: CUDA error: unspecified launch failure\n"
    )
    diagnosis = diagnose_text(boot.format(900, 903) + boot.format(700, 704))
    (verdict,) = diagnosis.verdicts

    assert verdict.at_raw is not None
    assert "900" in verdict.at_raw
    assert quoted(verdict, Role.PROOF) == [2, 5]
    assert quoted(verdict, Role.CONSEQUENCE) == [3, 6]


def test_a_program_s_error_belongs_to_the_xid_beside_it() -> None:
    """Days after a loss another GPU's page fault and its CUDA error are told together, once."""
    fault = (
        LOSS.format(0)
        .replace("1a:00", "1b:00")
        .replace("79, GPU has fallen off the bus.", "31, pid=9, name=b, MMU Fault")
    )
    error = line(1, "RuntimeError: CUDA error: an illegal memory access was encountered", "b[9]")
    diagnosis = diagnose_text(LOSS.format(0) + (fault + error).replace("05-05T", "05-09T"))

    assert kinds(diagnosis) == [Kind.DEVICE_LEFT_BUS, Kind.APPLICATION_FAULT]
    assert quoted(diagnosis.verdicts[0], Role.CONSEQUENCE) == []
    assert "CUDA" not in diagnosis.verdicts[0].summary
    assert quoted(diagnosis.verdicts[1], Role.SUPPORT) == [3]


def test_a_confirmed_loss_is_first_even_when_it_came_last() -> None:
    """A page fault an hour before does not push the loss down."""
    diagnosis = diagnose_text(
        line(0, "NVRM: Xid (PCI:0000:1a:00): 31, pid=9, name=a, MMU Fault")
        + line(0, "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.", minute=59)
    )

    assert kinds(diagnosis) == [Kind.DEVICE_LEFT_BUS, Kind.APPLICATION_FAULT]


def test_without_a_loss_the_earliest_root_is_first() -> None:
    """Order in time decides between two causes of different devices."""
    memory = "NVRM: Xid (PCI:0000:1a:00): 48, pid=9, name=a, DBE (double bit error) detected"
    hang = "NVRM: Xid (PCI:0000:1b:00): 109, pid=9, name=b, Ch 00000044, errorString CTX SWITCH TIMEOUT"

    assert kinds(diagnose_text(line(0, hang) + line(0, memory, minute=20)))[0] is Kind.GPU_HANG
    assert (
        kinds(diagnose_text(line(0, memory) + line(0, hang, minute=20)))[0] is Kind.GPU_MEMORY_ERROR
    )


def test_order_is_by_time_and_not_by_place() -> None:
    """A file whose lines stand in the wrong order is judged by its stamps."""
    memory = line(
        0, "NVRM: Xid (PCI:0000:1a:00): 48, pid=9, name=a, DBE (double bit error) detected"
    )
    clean_up = line(
        30, "NVRM: Xid (PCI:0000:1a:00): 45, pid=9, name=a, Ch 00000008 caused by previous Xid 48"
    )
    fault = line(40, "NVRM: Xid (PCI:0000:1a:00): 31, pid=9, name=a, MMU Fault")

    assert kinds(diagnose_text(fault + clean_up + memory)) == [Kind.GPU_MEMORY_ERROR]


def test_an_earlier_boot_s_fault_explains_nothing_of_a_later_boot() -> None:
    """A loss before the reboot and a CUDA error after it are two findings."""
    text = (
        "[    0.000000] Linux version 6.12.0 (a@b)\n"
        "[  500.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
        "[    0.000000] Linux version 6.12.0 (a@b)\n"
        "[  300.000000] NVRM: Xid (PCI:0000:1a:00): 31, pid=7, name=a, MMU Fault\n"
    )

    assert kinds(diagnose_text(text)) == [Kind.DEVICE_LEFT_BUS, Kind.APPLICATION_FAULT]


def test_what_led_to_a_loss_is_its_precursor() -> None:
    """Corrected link errors before the loss are told with it."""
    burst = "".join(
        line(second, text)
        for second in (10, 11, 12, 13)
        for text in (
            "pcieport 0000:19:00.0: AER: Correctable error message received from 0000:1a:00.0",
            "nvidia 0000:1a:00.0: PCIe Bus Error: severity=Correctable, type=Physical Layer, (Receiver ID)",
            "nvidia 0000:1a:00.0:   device [10de:2204] error status/mask=00000001/0000a000",
            "nvidia 0000:1a:00.0:    [ 0] RxErr                  (First)",
        )
    )
    (verdict,) = diagnose_text(burst + LOSS.format(40)).verdicts

    assert verdict.kind is Kind.DEVICE_LEFT_BUS
    assert len(quoted(verdict, Role.PRECURSOR)) >= 4
    assert {row.cause: row.score for row in verdict.causes}["link"] == "for"


def test_a_likely_loss_is_first_and_a_possible_one_is_not() -> None:
    """Rank by certainty: likely words of a loss go before a CUDA error's cannot-tell."""
    diagnosis = diagnose_text(
        line(0, "NVRM: _issueRpcAndWait: rpcSendMessage failed with status 0x0000000f for fn 76!")
        + line(1, "RuntimeError: CUDA error: unspecified launch failure", "vllm[9]")
    )

    assert kinds(diagnosis) == [Kind.DEVICE_LEFT_BUS]
    assert diagnosis.verdicts[0].certainty is Certainty.LIKELY
    assert diagnosis.exit_code == 79


def test_two_losses_of_one_moment_are_told_in_order_of_address() -> None:
    """The same inputs give the same first verdict, however their lines are ordered."""
    first = line(0, "NVRM: Xid (PCI:0000:1b:00): 79, GPU has fallen off the bus.")
    second = line(0, "NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.")

    for text in (first + second, second + first):
        devices = [str(v.device.pci) for v in diagnose_text(text).verdicts if v.device]
        assert devices == ["0000:1a:00.0", "0000:1b:00.0"]


def test_logs_pasted_into_one_text_are_read_as_two_logs(tmp_path) -> None:
    """An engine's lines above the kernel's are consequences as they are in a file of their own."""
    engine = "RuntimeError: CUDA error: unspecified launch failure\n[2027-05-05|10:00:09|FrontendAPI] ERROR    Backend supervisor: backend worker moe-TP0-scheduler exited\n"
    (tmp_path / "engine.log").write_text(engine)
    (tmp_path / "kernel.log").write_text(LOSS.format(0))
    apart = diagnose(tmp_path / "engine.log", tmp_path / "kernel.log")
    pasted = diagnose_text(engine + LOSS.format(0))

    assert kinds(pasted) == kinds(apart) == [Kind.DEVICE_LEFT_BUS]
    assert len(quoted(pasted.verdicts[0], Role.CONSEQUENCE)) == 2


def test_evidence_is_told_by_role_and_then_by_place() -> None:
    """Proof first, consequences after it, each in the order of the input."""
    (verdict,) = diagnose_text(
        LOSS.format(0)
        + line(1, "NVRM: GPU 0000:1a:00.0: GPU has fallen off the bus.")
        + line(3, "RuntimeError: CUDA error: unspecified launch failure", "vllm[9]")
    ).verdicts
    order = list(Role)

    assert [order.index(item.role) for item in verdict.evidence] == sorted(
        order.index(item.role) for item in verdict.evidence
    )
    assert quoted(verdict, Role.PROOF) == [1, 2]


def test_every_summary_is_one_sentence_that_ends() -> None:
    """A full stop at the end and none doubled."""
    for text in (
        LOSS.format(0),
        "RuntimeError: CUDA error: unspecified launch failure\n",
        "fine\n",
    ):
        for verdict in diagnose_text(text).verdicts:
            assert verdict.summary.endswith(".")
            assert not verdict.summary.endswith("..")


def test_only_the_answer_has_next_steps() -> None:
    """A reader is told what to do about the first finding."""
    diagnosis = diagnose_text(
        LOSS.format(0)
        + line(0, "NVRM: Xid (PCI:0000:1b:00): 48, pid=9, name=a, DBE (double bit error)")
    )

    assert diagnosis.verdicts[0].next_steps
    assert all(not verdict.next_steps for verdict in diagnosis.verdicts[1:])


def test_what_came_first_is_asked_once_for_each_pair(monkeypatch: pytest.MonkeyPatch) -> None:
    """Many faults are put in order without comparing the same two again and again."""
    asked: Counter[tuple[str, str]] = Counter()

    def counted(timeline: Timeline, event: Event, root: Event) -> bool:
        asked[event.origin.text, root.origin.text] += 1
        return came_before(timeline, event, root)

    monkeypatch.setattr(ranking, "came_before", counted)
    lost = "".join(LOSS.replace("1a:", f"{at:02x}:").format(3 * at) for at in range(1, 20))
    (timeline,) = timelines("-", stdin=io.BytesIO(lost.encode()))
    findings = [finding for rule in RULES for finding in rule.find(timeline)]

    ranked = ranking.rank(timeline, findings[::-1])

    assert [str(finding.device) for finding in ranked] == [
        f"0000:{at:02x}:00.0" for at in range(1, 20)
    ]
    assert max(asked.values()) == 1
