"""The report as Markdown: its order, its size, and nothing in it that is alive."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from gpuprobe import diagnose
from gpuprobe.errors import InputUnreadableError
from gpuprobe.report.contents import IncidentLine
from gpuprobe.reporters.markdown import MOST_CHARACTERS, escape
from tests.report.report_bench import LEFT_THE_BUS, as_markdown, recorded, report_of

PROGRAM_FAULT = Path(__file__).parents[1] / "incidents" / "program-fault"

HOSTILE = (
    "</script><img src=x onerror=alert(1)> @admin #1 ``` | [a](http://e.vil) \u2028 ]]> \x1b[31m"
)


def headings(text: str) -> list[str]:
    return re.findall(r"^### (.*)$", text, re.MULTILINE)


def test_parts_stand_in_the_order_a_maintainer_reads(tmp_path: Path) -> None:
    """Verdict, facts, minutes, proof, ruled out, not checked, steps, telemetry, questions."""
    text = as_markdown(report_of(recorded(tmp_path / "r.gpuprobe")))

    assert headings(text) == [
        "Facts",
        "The last two minutes",
        "Proof",
        "Ruled out",
        "Not checked",
        "Why did it leave?",
        "Next steps",
        "Telemetry",
        "To fill in before posting",
    ]
    assert text.index("## Confirmed: GPU 0000:41:00.0 left the bus") < text.index("### Facts")


def test_a_sentence_ends_once() -> None:
    """The certainty stands before the verdict, so nothing comes behind its full stop."""
    for path in (LEFT_THE_BUS, PROGRAM_FAULT):
        text = as_markdown(report_of(path))

        assert not re.search(r"[.)] \((?:confirmed|likely|possible)\)", text)
        assert re.search(r"^## Confirmed: .*[^.]\.$", text, re.MULTILINE)


def test_the_minutes_show_engine_and_kernel_on_one_clock() -> None:
    """The engine's error stands three seconds behind the kernel's proof."""
    text = as_markdown(report_of(LEFT_THE_BUS)).replace("\u00a0", " ")

    rows = [
        line for line in text.splitlines() if " | kernel, proof" in line or " | torch.Acc" in line
    ]
    assert "(0 s) | kernel, proof | NVRM: Xid" in rows[0]
    assert "(\\+3.0 s) | engine, consequence | torch.AcceleratorError" in rows[-1]


def test_a_gpu_that_owes_a_reset_is_nowhere_called_well(tmp_path: Path) -> None:
    """Neither the title nor the words for the maintainer say so."""
    log = tmp_path / "kernel.log"
    xid = "[  511.000000] NVRM: Xid (PCI:0000:1a:00): {}, pid=7, name=python3, {}\n"
    asks = "GPU recovery action changed from 0x0 (None) to 0x2 (Node Reboot Required)"
    log.write_text(xid.format(31, "MMU Fault") + xid.format(154, asks))
    text = as_markdown(report_of(log))
    head = text[: text.index("### Facts")]

    assert "the driver asks for a reboot" in head
    assert not re.search("healthy|GPU that works", head)


def test_questions_are_blank_unless_a_log_tells(tmp_path: Path) -> None:
    """CUDA_LAUNCH_BLOCKING in the engine's environment answers its question; the others ask."""
    env = {"CUDA_LAUNCH_BLOCKING": "1"}
    argv = ("vllm", "serve", "m/m", "--enforce-eager")
    path = recorded(tmp_path / "r.gpuprobe", *argv, env=env, seconds=20)
    text = as_markdown(report_of(path))

    assert "CUDA\\_LAUNCH\\_BLOCKING=1 was set in this run" in text
    assert "this run had --enforce-eager" in text
    assert text.count("*please answer*") == 6


def test_whatever_the_input_it_fits_an_issue(tmp_path: Path) -> None:
    """With thousands of long lines it stays below the limit, keeps its foot and says so."""
    report = report_of(recorded(tmp_path / "r.gpuprobe", seconds=20))
    line = IncidentLine(None, "x", 1.0, "engine", "", "engine.log", 1)
    many = tuple(replace(line, text=f"{n} " + "|" * 400, line=n) for n in range(2000))
    verdict = report.diagnosis.verdicts[0]
    evidence = verdict.evidence * 100
    checks = tuple(replace(row, how="y" * 5000) for row in verdict.not_checked * 60)
    huge = replace(verdict, evidence=evidence, not_checked=checks, summary="s" * 9000)
    found = replace(report.diagnosis, verdicts=(huge,) * 10)

    text = as_markdown(replace(report, incident=many, diagnosis=found))

    assert len(text) < MOST_CHARACTERS
    assert "Shortened to fit an issue: " in text
    assert "for the engine's maintainers" in text


def test_a_short_report_is_not_shortened() -> None:
    """What fits is shown whole, without a word about shortening."""
    text = as_markdown(report_of(LEFT_THE_BUS))

    assert "Shortened" not in text
    assert "… and" not in text


@pytest.mark.parametrize("text", ["a.py:100:7: no", "std::thread::join", ":tada:", ":+1:"])
def test_no_text_becomes_a_picture(text: str) -> None:
    """GitHub draws `:100:` and `:thread:` as small pictures; here they stay what they were."""
    shown = escape(text)

    assert not re.search(r":(100|thread|tada|\\?\+1):", shown)
    assert shown.replace("<!-- -->", "").replace("\\", "") == text


def test_a_time_is_no_picture() -> None:
    """Clocks and addresses are not padded with comments that only cost room."""
    assert escape("21:16:43 0000:04:00.0 kernel.log:19") == "21:16:43 0000:04:00.0 kernel.log:19"


def test_hostile_lines_are_inert(tmp_path: Path) -> None:
    """Markup, mentions, links and escapes of the engine's output are text and nothing else."""
    argv = ("vllm", "serve", HOSTILE)
    path = recorded(tmp_path / "r.gpuprobe", *argv, output=HOSTILE, seconds=40)
    text = as_markdown(report_of(path))

    outside = re.sub(r"^(`{3,})text\n.*?^\1$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert "onerror" in outside
    for alive in ("<img", "</script>", "@admin", " #1", "[a](", "http://", "\x1b", "\u2028"):
        assert alive not in outside


def test_it_is_no_log_for_gpuprobe(tmp_path: Path) -> None:
    """Its own first line says that it is made for people, so nothing is judged from it."""
    page = tmp_path / "report.md"
    page.write_text(as_markdown(report_of(LEFT_THE_BUS)))
    with pytest.raises(InputUnreadableError, match="made for people"):
        diagnose(page)
    assert diagnose(page, LEFT_THE_BUS / "kernel.log").answer.value == "device-left-bus"
