"""Processes that the kernel holds."""

from __future__ import annotations

from pathlib import Path

from gpuprobe.live.held import LOOK_S, UNBROKEN_S, Held, held_in_kernel


def test_a_process_with_a_thread_in_state_d_is_named(tmp_path: Path) -> None:
    """After SIGKILL its first thread is a zombie and another one hangs in the driver."""
    for pid, tid, state, where in ((7, 7, "S", "0"), (8, 8, "Z", "0"), (8, 9, "D", "os_acquire")):
        task = tmp_path / f"{pid}/task/{tid}"
        task.mkdir(parents=True)
        (task / "stat").write_text(f"{tid} (python) D) {state} 1 2 3")
        (task / "wchan").write_text(where)

    assert held_in_kernel({7, 8, 99}, tmp_path) == (8, "os_acquire")
    assert held_in_kernel({7, 99}, tmp_path) is None


def _thread(proc: Path, state: str, switches: int) -> None:
    task = proc / "8/task/9"
    task.mkdir(parents=True, exist_ok=True)
    (task / "stat").write_text(f"9 (python) {state} 1 2 3")
    (task / "status").write_text(f"Name:\tpython\nvoluntary_ctxt_switches:\t{switches}\n")
    (task / "wchan").write_text("os_acquire_rwlock")


def test_a_thread_that_stays_in_state_d_hangs(tmp_path: Path) -> None:
    """It is named when it did not run for five seconds; one that did waits for a disk again."""
    held = Held(tmp_path)
    _thread(tmp_path, "D", 1)
    assert held.look({8}, 0.0) is None
    _thread(tmp_path, "D", 2)
    assert held.look({8}, UNBROKEN_S) is None
    _thread(tmp_path, "S", 2)
    assert held.look({8}, UNBROKEN_S + LOOK_S) is None
    _thread(tmp_path, "D", 2)
    assert held.look({8}, 2 * UNBROKEN_S) is None
    assert held.look({8}, 3 * UNBROKEN_S - LOOK_S) is None
    assert held.look({8}, 3 * UNBROKEN_S) == (8, "os_acquire_rwlock")


def test_it_does_not_look_all_the_time(tmp_path: Path) -> None:
    """An engine may have thousands of threads."""
    held = Held(tmp_path)
    _thread(tmp_path, "D", 1)
    held.look({8}, 0.0)
    held.look({8}, UNBROKEN_S - LOOK_S / 2)

    assert held.look({8}, UNBROKEN_S) is None
    assert held.look({8}, UNBROKEN_S + LOOK_S) == (8, "os_acquire_rwlock")
