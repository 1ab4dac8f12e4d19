"""When GPU memory was full."""

from __future__ import annotations

from _judging import findings, kinds, only

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.GPU_OUT_OF_MEMORY
TORCH = "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.50 GiB. GPU 0 has a total capacity of 23.57 GiB of which 1.12 GiB is free.\n"


def test_a_refused_allocation_is_confirmed_with_its_sizes() -> None:
    """What was wanted and what was free are in the sentence."""
    verdict = only(TORCH)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert "2.50 GiB" in verdict.summary
    assert "1.12 GiB" in verdict.summary


def test_a_setting_about_memory_is_quiet() -> None:
    """A flag that holds the word is no refusal."""
    assert (
        findings(KIND, "INFO: --memory-ratio 0.9 --oom-score 0 out_of_memory_policy=retry\n") == []
    )


def test_it_explains_the_worker_that_ends_after_it() -> None:
    """The end of the engine is no second finding."""
    text = (
        TORCH
        + "[2027-01-05|10:00:00|FrontendAPI] ERROR    Backend supervisor: backend worker moe-TP0-scheduler exited\n"
    )

    assert kinds(text) == [KIND]


def test_the_host_s_killer_is_another_kind() -> None:
    """A process killed for host memory says nothing of GPU memory."""
    assert (
        findings(
            KIND,
            "[  300.000000] Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n",
        )
        == []
    )
