"""The lines around a line tell a pasted log, a patch, a command and a fence of code."""

from __future__ import annotations

import pytest
from _texts import DMESG, ISSUE, SHELL, SMI, TRACEBACK, XID

from gpuprobe.sources import lines_around
from gpuprobe.sources.lines_around import (
    in_command,
    in_echo,
    in_fence_of_code,
    in_patch,
    in_printed_list,
    in_prompt,
    looks_pasted,
    only_quotes,
    shown_as_example,
)


@pytest.mark.parametrize(
    "text",
    [
        DMESG,
        SHELL,
        TRACEBACK,
        ISSUE,
        f"NVRM: loading NVIDIA UNIX Kernel Module\n{XID}",
        f"C:\\tools>nvidia-smi\n{SMI}",
        "XID 79 detected on PCI:0000:3b:00\nfailed for GPU-0a1b2c3d-1111-2222-3333-444455556666: ERROR_GPU_IS_LOST",
    ],
    ids=lambda text: text[:20],
)
def test_output_of_programs_looks_pasted(text: str) -> None:
    assert looks_pasted(text.split("\n"))


@pytest.mark.parametrize(
    "text",
    [
        XID,
        f"Hello, my card is gone.\n{SMI}\nWhat can I do?",
        "GPU is lost. Reboot the system\n0x116 VIDEO_TDR_FAILURE",
        "",
    ],
    ids=lambda text: text[:20],
)
def test_a_line_alone_or_among_sentences_does_not(text: str) -> None:
    assert not looks_pasted(text.split("\n"))


def test_a_changed_file_in_a_review_is_a_patch() -> None:
    """A hunk header, or a fence named diff with changed lines that are no log's."""
    assert in_patch(["+import re", "@@ -3,4 +3,5 @@ def f():", "```diff"])
    assert in_patch(["-    x = 1", "+    x = 2", "```diff"])
    assert not in_patch([f"- [   11.000001] {XID}", "```diff"])
    assert not in_patch(["text", "```", "@@ -3,4 +3,5 @@"])


def test_the_body_of_a_request_is_a_command() -> None:
    """What curl sends or a here-document writes did not come out of a log."""
    assert in_command(['    "kernel_message": {', "-d '{", "curl -X POST https://agent/inject \\"])
    assert in_command(["cat > rule.yaml <<EOF"])
    assert not in_command(["}'", "-d '{", "curl https://agent/inject \\"])
    assert not in_command(["$ dmesg | tail", "some words"])


def test_a_question_printed_over_lines_is_no_log() -> None:
    """It reaches from the quote that opens it to the one that closes it."""
    opens = "INFO 10-02 07:44:31 [logger.py:43] Received request c-1: prompt: 'My log:"
    assert in_prompt(["[   11.000001] usb 1-1: reset", opens])
    assert not in_prompt(["what is this?', params: SamplingParams(n=1)", "more", opens])
    assert not in_prompt([f"{opens}', params: SamplingParams(n=1)"])


def test_a_fence_named_after_a_language_holds_code() -> None:
    """A fence of Python or of a chart holds no log; one of text or without a name may."""
    assert in_fence_of_code(["    participant J", "```mermaid"])
    assert not in_fence_of_code(["words", "```text"])
    assert not in_fence_of_code(["words", "```", "x = 1", "```python"])


@pytest.mark.parametrize(
    "above",
    ["Example of a GPU that was lost:", "For example:", "A typical message looks like this:", "> Sample output:", "When it sees a line such as",
     "Typical kernel-log signature", "When a GPU is lost, the driver prints::", "<p>The log then shows a line such as</p>", "The log holds messages similar to the following:",
     "Sure! When a GPU is lost you would typically see something like this in `dmesg`:", "Im Kernel-Log steht dann zum Beispiel:", "Xid 79：GPU 掉卡，日志示例如下：", "Le noyau écrit par exemple :", "Например:",
     "can you run dmesg once it is down? you are looking for something like", "What to look for:",
     "This has several causes. Check the kernel log for lines such as:"],
)  # fmt: skip
def test_what_documentation_shows_is_an_example(above: str) -> None:
    """The sentence right above says so, blank lines between do not matter."""
    assert shown_as_example(["", "```", above, "# Guide"])


@pytest.mark.parametrize(
    "above",
    ["Here is an example of my log from today:", "The GPU is gone. Output:", "dmesg then has lines like", "When I run it I see lines like", "[  12.100000] usb 1-1: example: x",
     "As you can see in dmesg:", "Training stops and the log shows something like this:", "Hier ein Beispiel aus meinem Log:", "比如我昨天的日志：", "Voici un exemple de mon journal :", "typically it dies after an hour",
     "I went looking for lines like these:", "While looking for errors:"],
)  # fmt: skip
def test_what_a_reporter_shows_is_none(above: str) -> None:
    """A reporter's own example is his log, and a log's line above is no introduction."""
    assert not shown_as_example([above])


def test_what_a_command_echoes_is_no_log() -> None:
    """`tee` repeats on the screen what somebody writes to the kernel log to try a watchdog."""
    command = '$ echo "NVRM: Xid (PCI:0000:3b:00): 79, pid=1, x" | sudo tee /dev/kmsg'

    assert in_echo([command])
    assert only_quotes([command, "# Try it"], framed=False)
    assert not in_echo(["$ echo 1 | sudo tee /sys/bus/pci/rescan"])
    assert not in_echo(["", command])


def test_strings_of_a_list_that_a_tool_printed() -> None:
    """Ansible's output is data; a list in a program is not."""
    assert in_printed_list(['  "a",', '    "dmesg.stdout_lines": [', "ok: [gpu03] => {"])
    assert not in_printed_list(['  "a",', "SAMPLES = ["])


def test_what_a_program_prints_under_test_is_quoted() -> None:
    """Between a test's start and its result stands what its samples made the program say."""
    assert only_quotes(["", "=== RUN   TestMatchXid79"], framed=True)
    assert only_quotes(["------------- Captured log call -------------"], framed=True)
    assert not only_quotes(
        ["--- PASS: TestMatchXid79 (0.00s)", "=== RUN   TestMatchXid79"], framed=True
    )
    assert not only_quotes(["=== RUN OF 7 MAY ==="], framed=True)


@pytest.mark.parametrize(
    "above",
    [
        'SAMPLE = """',
        "    log: str = '''[ 11.000001] x",
        "\tlines := `",
        '    return textwrap.dedent("""\\',
    ],
)
def test_a_string_over_several_lines_is_a_literal(above: str) -> None:
    """What a test's sample holds was never logged."""
    assert only_quotes(["[   11.000001] nvidia: x", above], framed=True)
    assert not only_quotes(["[   11.000001] nvidia: x", '"""', above], framed=True)
    assert not only_quotes(['x = """all of it"""'], framed=True)


@pytest.mark.parametrize(
    "above",
    [
        "Please check whether your kernel log has a line like this:",
        "Do you see something similar to",
        "> Could you find something like:",
    ],
)
def test_lines_that_somebody_is_asked_for_are_made_up_or_the_answer(above: str) -> None:
    """The answer stands right below the question too, and its figures are true ones."""
    assert only_quotes(["```", "", above], framed=True, line=f"[12345.678901] {XID}")
    assert not only_quotes(["```", "", above], framed=True, line=f"[ 7711.201992] {XID}")


@pytest.mark.parametrize(
    "above", ["Do you see the same? My log looks like this:", "This is what I have:"]
)
def test_lines_of_the_asker_himself_are_logged(above: str) -> None:
    """He shows his own."""
    assert not only_quotes(["```", "", above], framed=True)


def test_the_output_of_a_test_in_a_job_s_log_is_quoted() -> None:
    """A CI's runner puts its own stamp before each line."""
    start = "2026-05-05T05:05:05.1234567Z ----- Captured stdout call -----"
    end = "2026-05-05T05:05:06.1234567Z ======== short test summary info ========"

    assert only_quotes([start], framed=True)
    assert not only_quotes([end, start], framed=True)


def test_what_a_double_raises_in_a_test_never_happened() -> None:
    """A test that asks the true driver may fail for a true reason."""
    name = "________________ test_poll_of_a_lost_gpu _________________"
    body = ["    x = monitor.poll()", '    monkeypatch.setattr(nvml, "count", boom)', name]

    assert only_quotes(body, framed=False)
    assert not only_quotes([body[0], name], framed=False)
    assert not only_quotes(body[:2], framed=False)


def test_a_line_is_looked_at_once() -> None:
    """What a line says is not asked again for each of the many lines that stand near it."""
    lines = [f"Apr 02 10:00:00 lab kernel: NVRM: Xid (PCI:0000:41:00): {at}" for at in range(200)]
    asked = (lines_around._opens_literal, lines_around._mark_of_patch, lines_around._begins_as_log)
    for answers in asked:
        answers.cache_clear()

    for at in range(50, 200):
        assert not only_quotes(lines[at - 48 : at][::-1], framed=False)
        assert looks_pasted(lines[at - 24 : at + 24])

    assert [answers.cache_info().misses <= len(lines) for answers in asked] == [True] * 3


@pytest.mark.parametrize(
    "above",
    [
        "If the card were gone, the kernel log would show something like",
        "With a bad riser you'd see:",
        "Then you might find",
    ],
)
def test_what_a_log_would_show_it_does_not(above: str) -> None:
    """Its lines are imagined, with a stamp too."""
    assert only_quotes(["", above], framed=True)


@pytest.mark.parametrize(
    "above",
    [
        "I would say this is it:",
        "You see the log below:",
        "You would find time for our log, he says",
    ],
)
def test_what_somebody_would_say_is_no_sample(above: str) -> None:
    """He speaks of what he has."""
    assert not only_quotes(["", above], framed=True)


def test_made_up_figures_below_an_introduction_are_a_sample() -> None:
    """Neither is enough: logs are introduced so, and a pid may be 1234."""
    made_up = f"[ 1234.567890] {XID}"
    above = "Die Zeile sieht zum Beispiel so aus:"

    assert only_quotes(["```", above], framed=True, line=made_up)
    assert not only_quotes(["```", above], framed=True, line=f"[ 7711.201992] {XID}")
    assert not only_quotes(["```", "dmesg:"], framed=True, line=made_up)
    assert not only_quotes(["```", "An example of my log:"], framed=True, line=made_up)
