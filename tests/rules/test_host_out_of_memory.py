"""When the host, or a cgroup, was out of memory."""

from __future__ import annotations

from _judging import findings, kinds, only

from gpuprobe.diagnosis import Certainty, Kind

KIND = Kind.HOST_OUT_OF_MEMORY
KILL = "[  300.000000] Out of memory: Killed process 4242 (python3) total-vm:99999999kB, anon-rss:62914560kB, file-rss:0kB, shmem-rss:0kB, UID:1000 pgtables:1kB oom_score_adj:0\n"


def test_the_kernel_s_killer_confirms_it() -> None:
    """Process and size are in the sentence."""
    verdict = only(KILL)

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.CONFIRMED)
    assert "python3 (pid 4242)" in verdict.summary
    assert "60.0 GiB" in verdict.summary


def test_a_cgroup_s_limit_is_told_apart() -> None:
    """The limit of a container is not the host's memory."""
    verdict = only(KILL.replace("Out of memory", "Memory cgroup out of memory"))

    assert "cgroup" in verdict.summary


def test_it_explains_the_clean_up_of_the_killed_process() -> None:
    """Xid 45 and the signal follow from the kill."""
    text = (
        KILL
        + "[  301.000000] NVRM: Xid (PCI:0000:1a:00): 45, pid=4242, name=python3, Ch 00000010\n"
    )

    assert kinds(text) == [KIND]


def test_free_memory_figures_are_quiet() -> None:
    """A report of memory is no kill."""
    assert (
        findings(KIND, "[  300.000000] Mem-Info: active_anon:12 inactive_anon:99 isolated_anon:0\n")
        == []
    )


def test_memory_that_the_host_refused_is_likely() -> None:
    """Nobody was killed, and the sentence does not say so."""
    verdict = only(
        "OSError: The paging file is too small for this operation to complete. (os error 1455)\n"
    )

    assert (verdict.kind, verdict.certainty) == (KIND, Certainty.LIKELY)
    assert "killed" not in verdict.summary


def test_a_container_s_state_as_docker_prints_it() -> None:
    """`docker inspect` gives one object without a time."""
    state = (
        '{"Status":"exited","Running":false,"OOMKilled":true,"Pid":0,"ExitCode":137,"Error":""}\n'
    )

    assert kinds(state) == [KIND]
    assert KIND not in kinds(state.replace("true", "false"))
