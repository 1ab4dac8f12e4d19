"""When a recorder writes: a kill costs a second of readings, and the disk is left in peace."""

from __future__ import annotations

import pytest

from gpuprobe.recording.due import BATCH_S, Due


def simulated(batch_s: float, hz: float = 10.0, seconds: int = 60) -> tuple[float, float]:
    """The longest span that a kill at any moment would lose, and transactions a second."""
    due = Due(1.0, 0.0)
    waiting, in_batch = [], []
    safe, lost, written = 0.0, 0.0, 0
    sent_at = 0.0
    for step in range(seconds * 1000):
        now = step / 1000
        if step % round(1000 / hz) == 0:
            in_batch.append(now)
        if now >= sent_at + batch_s:
            waiting, in_batch, sent_at = [*waiting, *in_batch], [], now
            due.heard(now)
        if now >= due.at:
            safe, waiting, written = max([safe, *waiting]), [], written + 1
            due.written(now)
        lost = max(lost, now - safe)
    return lost, written / seconds


@pytest.mark.parametrize("batch_s", [0.1, 0.25, 0.5, BATCH_S, 1.0])
def test_a_second_of_readings_is_lost_at_most(batch_s: float) -> None:
    """However readings are batched, the oldest that is not on the disk is a second old at most."""
    lost, a_second = simulated(batch_s)

    # A reading is a tenth of a second apart from the next, and batches are not written at once.
    assert lost <= 1.0 + 0.1 + max(0.0, batch_s - 0.9)
    assert a_second <= 2.05


def test_readings_that_come_after_a_pause_are_written_at_once() -> None:
    """Nobody knows how long ago the first of them was taken, but not before the batch before."""
    due = Due(1.0, 0.0)
    due.heard(0.0)
    due.written(4.9)

    assert due.heard(5.0)
    assert due.at == 5.0
