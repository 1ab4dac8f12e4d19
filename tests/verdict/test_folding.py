"""What a fault explains that ended with its program, and what it does not any more."""

from __future__ import annotations

from pathlib import Path

import pytest

from gpuprobe.api import diagnose, diagnose_text
from gpuprobe.diagnosis import Diagnosis, Kind, Role

CRASH = "Mar 01 10:00:00 n1 kernel: python3[123]: segfault at 7f00 ip 00007f12 sp 00007f34 error 4 in libtriton.so[7f00+100]\n"
XID31 = (
    "Mar 01 10:00:00 n1 kernel: NVRM: Xid (PCI:0000:1a:00): 31, pid=7, name=python3, MMU Fault\n"
)
WATCHDOG = "Mar 01 10:00:00 n1 python3[7]: [rank3]:[E105 10:00:00.1 ProcessGroupNCCL.cpp:632] [Rank 3] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=771, OpType=ALLREDUCE, NumelIn=1048576, NumelOut=1048576, Timeout(ms)=600000) ran for 600021 milliseconds before timing out.\n"


def exited(clock: str) -> str:
    return f"Mar 01 {clock} n1 systemd[1]: vllm.service: Main process exited, code=exited, status=1/FAILURE\n"


def started(clock: str) -> str:
    return f"Mar 01 {clock} n1 vllm[9]: INFO 03-01 {clock} [api_server.py:1847] Starting vLLM API server 0 on http://0.0.0.0:8080\n"


def told(found: Diagnosis, kind: Kind) -> list[int | None]:
    """Lines that the verdict of this kind cites."""
    (verdict,) = (verdict for verdict in found.verdicts if verdict.kind is kind)
    return [item.line for item in verdict.evidence if item.role is not Role.CONTEXT]


@pytest.mark.parametrize(
    ("fault", "kind", "clock"),
    [
        (CRASH, Kind.PROCESS_CRASH, "10:08:00"),
        (XID31, Kind.APPLICATION_FAULT, "10:08:00"),
        (WATCHDOG, Kind.COLLECTIVE_TIMEOUT, "10:25:00"),
    ],
)
def test_an_end_soon_after_a_fault_is_its_consequence(fault: str, kind: Kind, clock: str) -> None:
    """Workers are waited for, and other ranks run into their watchdogs."""
    found = diagnose_text(fault + exited(clock))

    assert [verdict.kind for verdict in found.verdicts] == [kind]
    assert told(found, kind) == [1, 2]


@pytest.mark.parametrize(
    ("fault", "kind"),
    [
        (CRASH, Kind.PROCESS_CRASH),
        (XID31, Kind.APPLICATION_FAULT),
        (WATCHDOG, Kind.COLLECTIVE_TIMEOUT),
    ],
)
@pytest.mark.parametrize("clock", ["10:45:00", "18:00:00"])
def test_an_end_long_after_a_fault_is_another_question(fault: str, kind: Kind, clock: str) -> None:
    """What ended with its program in the morning ends no program in the evening."""
    found = diagnose_text(fault + exited(clock))

    assert {verdict.kind for verdict in found.verdicts} == {kind, Kind.CANNOT_TELL}
    assert told(found, kind) == [1]
    assert told(found, Kind.CANNOT_TELL) == [2]


def test_an_engine_that_was_started_since_ends_for_its_own_reason() -> None:
    """Minutes later, but of another run: with a wrong option, for example."""
    found = diagnose_text(CRASH + started("10:02:00") + exited("10:02:09"))

    assert [verdict.kind for verdict in found.verdicts] == [Kind.PROCESS_CRASH, Kind.CANNOT_TELL]
    assert told(found, Kind.PROCESS_CRASH) == [1]
    assert told(found, Kind.CANNOT_TELL) == [3]


def test_a_start_before_the_fault_parts_nothing() -> None:
    """It is the run that crashed."""
    found = diagnose_text(started("09:00:00") + CRASH + exited("10:00:05"))

    assert [verdict.kind for verdict in found.verdicts] == [Kind.PROCESS_CRASH]
    assert told(found, Kind.PROCESS_CRASH) == [2, 3]


def test_the_ends_of_both_runs_are_told_apart() -> None:
    """One is the crash's, the other a question of its own, though both are open by themselves."""
    found = diagnose_text(CRASH + exited("10:00:05") + started("17:00:00") + exited("18:00:00"))

    assert told(found, Kind.PROCESS_CRASH) == [1, 2]
    assert told(found, Kind.CANNOT_TELL) == [4]


JIT = """Traceback (most recent call last):
  File "/opt/venv/lib/python3.12/site-packages/triton/runtime/cache.py", line 145, in get_group
    grp_data = json.loads(f.read())
json.decoder.JSONDecodeError: Expecting value: line 1 column 1 (char 0)
"""
DIED = "torch.AcceleratorError: CUDA error: unspecified launch failure\nRuntimeError: Engine core proc EngineCore_0 died unexpectedly\n"


def test_a_kernel_that_ran_did_not_fail_of_a_file_that_could_not_be_loaded() -> None:
    """What came before it in that log is still the file's."""
    engine = "RuntimeError: Engine core proc EngineCore_0 died unexpectedly\n"
    found = diagnose_text(JIT + engine + DIED)

    assert [verdict.kind for verdict in found.verdicts] == [
        Kind.JIT_CACHE_CORRUPT,
        Kind.CANNOT_TELL,
    ]
    assert told(found, Kind.JIT_CACHE_CORRUPT) == [4, 5]
    assert told(found, Kind.CANNOT_TELL) == [6, 7]


def test_another_log_without_a_word_of_the_file_is_another_question(tmp_path: Path) -> None:
    """Whole, with what its writer says of it."""
    (tmp_path / "jit.log").write_text(JIT)
    words = "My card fell off the bus with Xid 79, I think. This is what the engine said:\n\n"
    (tmp_path / "issue.txt").write_text(f"{words}Process engine-TP0-scheduler:\n{DIED}")
    found = diagnose(tmp_path / "jit.log", tmp_path / "issue.txt")

    first, question = found.verdicts
    assert (first.kind, question.kind) == (Kind.JIT_CACHE_CORRUPT, Kind.CANNOT_TELL)
    assert {item.input for item in first.evidence} == {str(tmp_path / "jit.log")}
    assert "line 1 speaks of Xid 79 in prose" in question.summary


def test_a_lost_gpu_explains_every_later_end_of_its_boot() -> None:
    """It does not come back with the next program."""
    lost = (
        "Mar 01 10:00:00 n1 kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
    )
    found = diagnose_text(lost + started("17:00:00") + exited("18:00:00"))

    assert [verdict.kind for verdict in found.verdicts] == [Kind.DEVICE_LEFT_BUS]


def test_what_cannot_be_placed_may_be_of_that_run() -> None:
    """Without a stamp nothing says that it came later."""
    found = diagnose_text(CRASH + "RuntimeError: Engine core proc EngineCore_0 died unexpectedly\n")

    assert [verdict.kind for verdict in found.verdicts] == [Kind.PROCESS_CRASH]


@pytest.mark.parametrize("program_first", [True, False])
def test_where_a_program_s_line_stands_does_not_make_it_the_cause(program_first: bool) -> None:
    """An error without a stamp and the kernel's lines are two logs in one text, in any order."""
    program = "torch.AcceleratorError: CUDA error: an illegal memory access was encountered\n"
    kernel = "[Sun Mar  1 10:00:00 2026] NVRM: Xid (PCI:0000:1a:00): 95, pid='<unknown>', name=<unknown>, Uncontained: FBHUB. RST: Yes, D-RST: No\n"
    parts = (program, kernel) if program_first else (kernel, program)
    found = diagnose_text("$ dmesg -T; cat train.log\n" + "".join(parts))

    assert [verdict.kind for verdict in found.verdicts] == [Kind.GPU_MEMORY_ERROR]
