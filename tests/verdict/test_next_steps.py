"""What to do next on this one machine."""

from __future__ import annotations

import re

import pytest

from gpuprobe.api import diagnose_text
from gpuprobe.diagnosis import Kind, NextStep
from gpuprobe.events import Event, OtherFailed, PresenceTested, ProcessCrashed
from tests.live_events import base, facts, judged

BOUND = "[    8.000000] nvidia 0000:1a:00.0: enabling device (0140 -> 0142)\n"
LOSS = "[  900.000000] NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
CARDS = {
    "geforce": "1a:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n",
    "laptop": "1a:00.0 VGA compatible controller [0300]: NVIDIA Corporation AD107M [GeForce RTX 4060 Max-Q / Mobile] [10de:28a0] (rev a1)\n",
    "server": "1a:00.0 3D controller [0302]: NVIDIA Corporation GH100 [H100 SXM5 80GB] [10de:2330] (rev a1)\n",
}
TEXTS = {
    **{name: line + LOSS for name, line in CARDS.items()},
    "bare": LOSS,
    "cannot-tell": "RuntimeError: CUDA error: unspecified launch failure\n",
    "memory": LOSS.replace("79, GPU has fallen off the bus.", "48, pid=9, name=a, DBE (double bit error)"),
    "program": LOSS.replace("79, GPU has fallen off the bus.", "31, pid=9, name=a, MMU Fault"),
    "driver": "Failed to initialize NVML: Driver/library version mismatch\n",
    "gpu-memory": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.57 GiB of which 1.12 GiB is free.\n",
}  # fmt: skip


def steps(text: str) -> tuple[NextStep, ...]:
    return diagnose_text(text).verdicts[0].next_steps


@pytest.mark.parametrize("name", TEXTS)
def test_every_answer_but_no_fault_has_steps_that_are_whole(name: str) -> None:
    """Class, text, cost, condition and source are filled, and no placeholder is left."""
    found = steps(TEXTS[name])

    assert found
    for step in found:
        assert step.type in ("read", "reversible", "boot", "hands")
        assert step.text
        assert step.source
        for text in (step.text, step.command or "", step.undo or ""):
            assert not re.search(r"\{[a-z_]+\}", text)


@pytest.mark.parametrize("name", TEXTS)
def test_what_changes_the_running_system_says_its_undo_or_its_cost(name: str) -> None:
    """A setting can be taken back; what ends programs or takes time says so."""
    for step in steps(TEXTS[name]):
        if step.type == "reversible":
            assert step.undo or step.cost
        if step.type == "hands":
            assert step.command is None


def test_the_first_step_after_a_loss_only_reads() -> None:
    """Evidence that goes with the reboot is saved first."""
    first = steps(TEXTS["bare"])[0]

    assert first.type == "read"


def test_commands_hold_this_gpu_s_address() -> None:
    """What is printed can be copied."""
    commands = [step.command for step in steps(TEXTS["bare"]) if step.command]

    assert any("1a:00.0" in command for command in commands)
    assert not any("04:00.0" in command for command in commands)


def test_cards_of_different_kinds_get_different_steps() -> None:
    """A laptop has a charger, a server a BMC, a desktop card plugs."""
    texts = {name: "\n".join(step.text for step in steps(TEXTS[name])) for name in CARDS}

    assert len(set(texts.values())) == 3
    assert "charger" in texts["laptop"]
    assert "BMC" in texts["server"]
    assert "charger" not in texts["server"] + texts["geforce"]


def test_another_gpu_s_name_does_not_make_this_one_a_laptop() -> None:
    """The name of the card at the address counts."""
    other = CARDS["laptop"].replace("1a:00.0", "1b:00.0")

    assert "charger" not in "\n".join(step.text for step in steps(CARDS["geforce"] + other + LOSS))


def test_a_narrow_link_puts_the_riser_on_the_list() -> None:
    """Four lanes of sixteen: the way into the slot is looked at."""
    link = "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 16GT/s, Width x4 (downgraded)\n"
    narrow = [step.text for step in steps(CARDS["geforce"] + link + LOSS)]
    wide = [step.text for step in steps(CARDS["geforce"] + link.replace("x4", "x16") + LOSS)]

    assert any("riser" in text for text in narrow)
    assert not any("riser" in text for text in wide)


def test_no_fault_needs_no_steps() -> None:
    """Nothing failed, nothing to do."""
    assert steps("INFO: 200 OK\n") == ()


AMD = "[  900.000000] amdgpu 0000:2d:00.0: amdgpu: ring gfx_0.0.0 timeout, signaled seq=1, emitted seq=3\n"
TDR = "Log Name:      System\nSource:        Display\nEvent ID:      4101\nDescription:\nDisplay driver nvlddmkm stopped responding and has successfully recovered.\n"
ROCM = "Memory access fault by GPU node-1 (Agent handle: 0x5581) on address 0x7f2200000000. Reason: Page not present or supervisor privilege.\n"


@pytest.mark.parametrize("text", [AMD, ROCM], ids=["amdgpu", "rocm"])
def test_steps_for_another_maker_s_gpu_name_none_of_nvidia_s_tools(text: str) -> None:
    """No nvidia-smi, no CUDA setting and no Xid is spoken of for an AMD GPU."""
    verdict = diagnose_text(text).verdicts[0]

    said = " ".join(f"{s.text} {s.command} {s.undo}" for s in verdict.next_steps)
    assert verdict.next_steps
    assert not re.search(r"nvidia|CUDA|compute-sanitizer", said)
    assert not any("Xid" in entry.why for entry in verdict.ruled_out)


def test_steps_for_windows_hold_no_command_of_linux() -> None:
    """What to do stays, the command for another system goes."""
    found = steps(TDR)

    assert any("Reboot" in step.text for step in found)
    assert not any(step.command for step in found)


def test_blocking_launches_need_a_cuda_program() -> None:
    """Words of a card that does not wake up bring no advice for a traceback."""
    asleep = (
        BOUND
        + "[  900.000000] nvidia 0000:1a:00.0: Refused to change power state, currently in D3\n"
    )

    assert steps(asleep)
    assert not any("CUDA_LAUNCH" in (step.command or "") for step in steps(asleep))
    assert any("CUDA_LAUNCH" in (step.command or "") for step in steps(TEXTS["cannot-tell"]))


@pytest.mark.parametrize(("signal", "leaves_one"), [("SIGSEGV", True), ("SIGKILL", False)])
def test_a_core_file_is_read_where_the_signal_leaves_one(signal: str, leaves_one: bool) -> None:
    """SIGKILL writes no core."""
    crash = ProcessCrashed(**base(10.0, device=None), signal=signal, process="vllm", pid=9)

    found = judged(*facts(), crash).verdicts[0]

    assert found.kind is Kind.PROCESS_CRASH
    commands = [step.command or "" for step in found.next_steps]
    assert any(one.startswith("coredumpctl") for one in commands) is leaves_one


def test_a_gpu_that_answered_after_the_failure_is_not_asked_again() -> None:
    """Where a test of presence after the failure reached the GPU, no step asks whether it is there."""
    failed = OtherFailed(**base(10.0, device=None), what="CUDA driver error")
    answers = PresenceTested(**base(11.0), directory=True, config="answers")
    early = PresenceTested(**base(9.0), directory=True, config="answers")

    def asks(*events: Event) -> bool:
        found = judged(*facts(), *events).verdicts[0]
        assert found.kind is Kind.CANNOT_TELL
        return any("still answers" in step.text for step in found.next_steps)

    assert asks(failed)
    assert asks(early, failed)
    assert not asks(failed, answers)
