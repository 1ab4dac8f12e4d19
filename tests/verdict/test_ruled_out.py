"""What the inputs rule out, with figures, and what they could not show."""

from __future__ import annotations

import pytest

from gpuprobe.api import diagnose, diagnose_text
from gpuprobe.diagnosis import Kind, Verdict

LOSS = "2027-05-05T10:00:00+00:00 n1 kernel: NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"
ENGINE = (
    "2027-05-05T10:00:03+00:00 n1 vllm[9]: RuntimeError: CUDA error: unspecified launch failure\n"
)
SMI = (
    "GPU 00000000:1A:00.0\n    Temperature\n        GPU Current Temp                  : 55 C\n"
    "        GPU Shutdown Temp                 : 98 C\n        GPU Slowdown Temp                 : 95 C\n"
)
HEAD = "timestamp, pci.bus_id, power.draw [W], power.limit [W], temperature.gpu\n"
ROWS = "".join(
    f"2027/05/05 09:59:{n:02d}.000, 00000000:1A:00.0, 21{n % 10}.00 W, 350.00 W, 6{n % 10}\n"
    for n in range(50, 55)
)


def verdict_of(text: str) -> Verdict:
    return diagnose_text(text).verdicts[0]


def ruled_out(verdict: Verdict) -> dict[str, dict[str, object]]:
    return {str(item.kind): dict(item.figures) for item in verdict.ruled_out}


def unchecked(verdict: Verdict) -> list[str]:
    return [item.what for item in verdict.not_checked]


def test_nothing_is_ruled_out_from_nothing() -> None:
    """Without samples neither power nor heat is ruled out, without an engine no allocation."""
    assert set(ruled_out(verdict_of(LOSS))) == {Kind.HOST_OUT_OF_MEMORY, Kind.APPLICATION_FAULT}


@pytest.mark.parametrize(
    "text", [LOSS, LOSS + ENGINE, HEAD + ROWS + LOSS, SMI + HEAD + ROWS + LOSS]
)
def test_every_rule_out_has_a_figure_and_its_source(text: str) -> None:
    """A number, and where it was read."""
    for item in verdict_of(text).ruled_out:
        assert any(isinstance(value, int | float) for value in item.figures.values())
        assert item.figures["source"]
        assert item.why


def test_samples_rule_out_sustained_power_and_core_heat_with_their_limits() -> None:
    """The highest reading stands beside the limit that the same inputs hold."""
    figures = ruled_out(verdict_of(SMI + HEAD + ROWS + LOSS))

    assert figures[Kind.POWER]["power_w_max"] == 214.0
    assert figures[Kind.POWER]["samples"] == 5
    assert figures[Kind.THERMAL]["core_temp_c_max"] == 64.0
    assert figures[Kind.THERMAL]["slowdown_c"] == 95.0


def test_heat_near_its_limit_is_not_ruled_out() -> None:
    """Within 15 degrees of the slowdown nothing is claimed."""
    hot = ROWS.replace(", 6", ", 8")

    assert Kind.THERMAL not in ruled_out(verdict_of(SMI + HEAD + hot + LOSS))


def test_samples_of_another_gpu_rule_out_nothing() -> None:
    """A cool neighbour says nothing of the lost card."""
    assert Kind.POWER not in ruled_out(verdict_of(HEAD + ROWS.replace("1A:00", "1B:00") + LOSS))


def test_a_page_fault_of_the_lost_gpu_keeps_the_program_in_play() -> None:
    """With an Xid 31 before the loss the program is not ruled out."""
    text = (
        LOSS.replace("10:00:00", "09:00:00").replace(
            "79, GPU has fallen off the bus.", "31, pid=9, name=a, MMU Fault"
        )
        + LOSS
    )

    assert Kind.APPLICATION_FAULT not in ruled_out(verdict_of(text))


def test_an_engine_log_without_a_refusal_rules_gpu_memory_out() -> None:
    """Zero refused allocations, in the engine's log by name."""
    figures = ruled_out(verdict_of(LOSS + ENGINE))

    assert figures[Kind.GPU_OUT_OF_MEMORY]["refused_allocations"] == 0


def test_an_oom_kill_is_not_ruled_out() -> None:
    """With a kill in the log nobody says there was none."""
    kill = "2027-05-05T09:00:00+00:00 n1 kernel: Out of memory: Killed process 4242 (python3) total-vm:1kB, anon-rss:1kB, file-rss:0kB\n"

    assert Kind.HOST_OUT_OF_MEMORY not in ruled_out(verdict_of(kill + LOSS))


def test_the_kernel_log_is_asked_for_where_it_is_missing() -> None:
    """An engine's log alone: the one command that would settle it comes first."""
    verdict = verdict_of("RuntimeError: CUDA error: unspecified launch failure\n")

    assert unchecked(verdict)[0] == "the kernel log"
    assert verdict.not_checked[0].how.startswith("journalctl -k")


def test_what_was_given_is_not_asked_for() -> None:
    """Samples and a link reading take their rows away."""
    link = (
        "1a:00.0 VGA compatible controller [0300]: NVIDIA Corporation GA102 [GeForce RTX 3090] [10de:2204] (rev a1)\n"
        "\t\tLnkCap:\tPort #0, Speed 16GT/s, Width x16\n\t\tLnkSta:\tSpeed 8GT/s (downgraded), Width x16\n"
    )
    rows = unchecked(verdict_of(link + HEAD + ROWS + LOSS))

    assert not any("power" in row or "link" in row for row in rows)


def test_clocks_that_cannot_be_joined_are_said(tmp_path) -> None:
    """A zoneless engine log beside a kernel log on another clock: the order is not known."""
    (tmp_path / "k.log").write_text(LOSS)
    (tmp_path / "e.log").write_text(
        "[2027-05-05|12:00:09|FrontendAPI] ERROR    Backend supervisor: backend worker moe-TP0-scheduler exited\n"
    )
    verdict = diagnose(tmp_path / "k.log", tmp_path / "e.log").verdicts[0]
    row = next(item for item in verdict.not_checked if "order" in item.what)

    assert "--timezone" in row.how


def test_no_fault_is_limited_too() -> None:
    """Nothing failed in an engine's log, and the kernel log was not among the inputs."""
    assert unchecked(verdict_of("INFO: 200 OK\n")) == ["the kernel log"]


def test_a_few_lines_of_the_kernel_log_are_not_the_kernel_log() -> None:
    """The driver's own lines out of their surroundings are told apart from no kernel line at all."""
    lines = "NVRM: Xid (PCI:0000:1a:00): 79, GPU has fallen off the bus.\n"

    (row,) = [r for r in diagnose_text(lines).verdicts[0].not_checked if "kernel log" in r.what]
    (none,) = [
        r for r in diagnose_text("quiet\n").verdicts[0].not_checked if "kernel log" in r.what
    ]

    assert (row.what, none.what) == ("the rest of the kernel log", "the kernel log")
    assert "only some of the driver's lines" in row.why
