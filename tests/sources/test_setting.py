"""Words in a log count, words alone count less, words in a sentence or in program text do not."""

from __future__ import annotations

import pytest

from gpuprobe.events import Setting
from gpuprobe.sources.record import Record
from gpuprobe.sources.setting import (
    in_command,
    in_fence_of_code,
    in_patch,
    is_general_text,
    is_program_text,
    judge,
    looks_pasted,
)

XID = "NVRM: Xid (PCI:0000:3b:00): 79, pid='<unknown>', name=<unknown>, GPU has fallen off the bus."
LOST = "GPU has fallen off the bus"
NVML = "NVML_ERROR_GPU_IS_LOST"
CUDA = "CUDA error: unspecified launch failure"
OOM = "CUDA out of memory"
SMI = "Unable to determine the device handle for GPU 0000:3b:00.0: Unknown Error"


def setting(
    text: str,
    words: str,
    *,
    framing: str = "text",
    kernel: bool = False,
    pasted: bool = False,
    program: bool = False,
    raw: str | None = None,
) -> Setting:
    """What `judge` says of `words` in `text`."""
    start = text.index(words)
    record = Record(text, 1, raw or text, framing=framing, kernel=kernel, quoted=raw is not None)
    return judge(record, start, start + len(words), text, program_text=program, pasted_log=pasted)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (XID, XID),
        (f"ollama: {CUDA}", CUDA),
        (f"[rank0]: RuntimeError: {CUDA}", CUDA),
        (f"ERROR worker.py:118: {CUDA}", CUDA),
        (f"(EngineCore_0 pid=411) RuntimeError: {CUDA}", CUDA),
        (f"torch.AcceleratorError: {CUDA}", CUDA),
        (f" 45%|████▌     | 9/20 [00:31<00:38,  3.5s/it] {CUDA}", CUDA),
        (f'{{"level":"error","msg":"{CUDA}"}}', CUDA),
        (f'level=error msg="failed to read clocks: {NVML}"', NVML),
        (f"failed to get device remapped rows: {NVML}", NVML),
        (f"nvmlDeviceGetTemperature returned {NVML}", NVML),
        (f"ggml_cuda_compute_forward: MUL_MAT failed {CUDA}", CUDA),
        (f"Exception in thread Thread-2: RuntimeError('{CUDA}')", CUDA),
        (f"{OOM}. Tried to allocate 20.00 MiB. GPU 0 has 1.2 GiB free", OOM),
        (f"Error when calling nvml: {NVML}", NVML),
        (f"2026 gpu-agent {XID}", XID),
    ],
)
def test_a_framed_line_is_a_log(text: str, words: str) -> None:
    assert setting(text, words, framing="engine") is Setting.LOG


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"usb 1-1: reset high-speed {XID}", XID),
        (f"foo the bar I {XID}", XID),
        (f"nvidia 0000:3b:00.0: {LOST}", LOST),
    ],
)
def test_the_kernel_may_glue_anything_before_it(text: str, words: str) -> None:
    assert setting(text, words, framing="dmesg", kernel=True) is Setting.LOG


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (XID, XID),
        (f"    {XID}", XID),
        (f"`{XID}`", XID),
        (f"RuntimeError: {CUDA}", CUDA),
        (f"E   RuntimeError: {CUDA}", CUDA),
        (f"/srv/app/run.py:18: {CUDA}", CUDA),
        (f"{CUDA} (error 719) at /srv/a/b.cu:18", CUDA),
        (SMI, SMI),
        ("pynvml.NVMLError_GpuIsLost: GPU is lost", "NVMLError_GpuIsLost: GPU is lost"),
        (f"cudaMemcpy failed: {CUDA}", CUDA),
        (f'{{"message": "{XID}"}}', XID),
        (f'    "message": "{XID}",', XID),
        (f"Failed to query the device: {NVML}", NVML),
        (f"terminate called after throwing an instance of '{CUDA}'", CUDA),
        (f"{CUDA} when calling `cublasCreate(handle)`", CUDA),
        ("# nvidia-smi -r", "nvidia-smi -r"),
        (f"RuntimeError: the worker is dead, {CUDA}", CUDA),
        ("NVIDIA-SMI has failed because it couldn't communicate with the NVIDIA driver", "communicate with the NVIDIA driver"),
        (f'Error: DriverError("{CUDA}")', CUDA),
        (f"thread 'main' panicked at 'called `Result::unwrap()` on an `Err` value: {CUDA}', src/main.rs:9:4", CUDA),
        (f"ActorDiedError: The worker ended, {CUDA}", CUDA),
        (f"**{XID}**", XID),
        ("The description for Event ID 14 from source nvlddmkm cannot be found. Either the component that raises this event is not installed on your local computer", "The description for Event ID 14 from source nvlddmkm"),
    ],
)  # fmt: skip
def test_machine_words_alone_are_bare_or_a_pasted_log(text: str, words: str) -> None:
    assert setting(text, words) is Setting.BARE
    assert setting(text, words, pasted=True) is Setting.LOG


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f"I saw {XID} in dmesg", XID),
        (
            "CUDA error 719 (cudaErrorLaunchFailure) means that a kernel failed",
            "CUDA error 719 (cudaErrorLaunchFailure) means that a kernel failed",
        ),
        ("What does CUDA error 719 mean?", "CUDA error 719 mean?"),
        (f"dmesg shows: {XID}", XID),
        (f"We get {CUDA} every night", CUDA),
        (f"My card died, it says {LOST}", LOST),
        (f"Sometimes there is a {CUDA}", CUDA),
        (f"the {LOST} message comes back", LOST),
        (f"errors such as {CUDA}", CUDA),
        (f"e.g. {XID}", XID),
        (f"an Xid like `{XID}` means hardware", XID),
        (f"{CUDA} when using long prompts", CUDA),
        (f"{CUDA} after an hour of training", CUDA),
        (f"{LOST} is the driver's way to give up", LOST),
        (f"{LOST} and I have to reboot", LOST),
        (f"{NVML} usually means a dead card", NVML),
        (f"It crashed and the log said {OOM}", OOM),
        (f"Hello, since the update {CUDA}", CUDA),
        (f"Does anyone know why {LOST}?", LOST),
        (f"Ich bekomme {CUDA}", CUDA),
        (f"运行一段时间后报错 {CUDA}", CUDA),
        (f"fixed a bug that caused {OOM} on small cards", OOM),
        (f"Fix the {CUDA} in the decode path", CUDA),
        (f"If the {LOST}, power the machine off", LOST),
        (f'The kernel prints "{LOST}" and the machine freezes', LOST),
        (f'what does "{LOST}" mean?', LOST),
        (f"{XID[:40]} what does this mean?", XID[:40]),
        (f"[Bug]: {CUDA}", CUDA),
        (f"Title: {CUDA}", CUDA),
    ],
)
def test_a_sentence_is_prose_even_among_log_lines(text: str, words: str) -> None:
    assert setting(text, words) is Setting.PROSE
    assert setting(text, words, pasted=True) is Setting.PROSE


def test_a_prompt_in_a_servers_log_is_quoted_text() -> None:
    text = f"Received request cmpl-1: prompt: 'why do I see {LOST}', params: n=1"

    assert setting(text, LOST, framing="engine") is Setting.CODE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'    printk(KERN_ERR "NVRM: {LOST}\\n");', LOST),
        (f'PATTERN = re.compile("{LOST}")', LOST),
        (f'assert "{LOST}" in text', LOST),
        (f'    "{LOST}",', LOST),
        (f"    '{LOST}',", LOST),
        (f'const char *reason = "{LOST}";', LOST),
        (f'MESSAGE = "{LOST}"', LOST),
        (f'    raise RuntimeError("{CUDA}") if bad else x("{OOM}")', OOM),
        (f'logger.error("{LOST}")', LOST),
        (f'return "{LOST}"', LOST),
        (f"// {LOST}", LOST),
        (f"# {LOST}", LOST),
        (f"{NVML} -> stop", NVML),
        ("NVRM: Xid \\(PCI:(.*)\\): 79, GPU has fallen off the bus", "79, GPU has fallen off the bus"),
        ("NVRM: Xid (PCI:%04x:%02x:%02x): %d, GPU has fallen off the bus", "NVRM: Xid (PCI:%04x:%02x:%02x): %d, GPU has fallen off the bus"),
        ("NVRM: GPU {pci}: GPU has fallen off the bus", LOST),
        ("NVRM: GPU <bdf>: GPU has fallen off the bus", LOST),
        (f"dmesg | grep '{LOST}'", LOST),
        (f"journalctl -k | grep -i \"{LOST}\"", LOST),
        (f"<td>79</td><td>{LOST}</td>", LOST),
        (f"| 79 | {LOST} | hardware, driver, thermal |", LOST),
        (f"79 | {LOST} | hardware |", LOST),
        (f"| `79` | {LOST} |", LOST),
        (f"79,{LOST},critical", LOST),
        (f'79;"{LOST}";x', LOST),
        (f"  expr: count_over_time({{job=\"kern\"}} |= \"{LOST}\" [5m])", LOST),
        (f"  pattern: {LOST}", LOST),
        (f'  matcher="{LOST}"', LOST),
        (f'echo "{LOST}" > /dev/kmsg', LOST),
        (f'{{name: "lost", log: "{LOST}", want: 79}},', LOST),
    ],
)  # fmt: skip
def test_program_text_is_code(text: str, words: str) -> None:
    assert setting(text, words) is Setting.CODE


@pytest.mark.parametrize(
    ("text", "words"),
    [
        (f'starting watcher matcher="{LOST}" interval=5s', LOST),
        (f"monitoring kernel log for {LOST}", LOST),
        (f"checking for pattern {LOST}", LOST),
        (f"loaded rule: {LOST}", LOST),
        (f"root : TTY=pts/1 ; COMMAND=/usr/bin/grep '{LOST}' /var/log/kern.log", LOST),
        (f'{{"msg":"compiled","pattern":"{LOST}"}}', LOST),
    ],
)
def test_a_log_that_quotes_a_search_is_code(text: str, words: str) -> None:
    assert setting(text, words, framing="journal") is Setting.CODE


def test_everything_in_a_program_is_code() -> None:
    assert setting(XID, XID, framing="dmesg", kernel=True, program=True) is Setting.CODE


def test_a_row_whose_table_marks_were_taken_off_is_code() -> None:
    row = f"| 79 | {LOST} | hardware |"

    assert setting(f"79 | {LOST} | hardware |", LOST, raw=row) is Setting.CODE


def test_a_bmc_row_is_no_list_of_codes() -> None:
    row = "7 | 05/11/2026 | 07:14:20 | Temperature #0x31 | Upper Critical going high | Asserted"

    assert setting(row, row[26:]) is Setting.BARE


PYTHON = """import re
import sys

XID = re.compile(r"NVRM: Xid")

def main(path: str) -> int:
    for line in open(path):
        if XID.search(line):
            print("GPU has fallen off the bus")
            return 79
    return 0
"""
C = """/* Lost devices. */
#include <linux/pci.h>

static void report_lost(struct pci_dev *dev)
{
    printk(KERN_ERR "NVRM: GPU has fallen off the bus\\n");
    dev->state = 3;
    return;
}
"""
PATCH = """diff --git a/xid.go b/xid.go
--- a/xid.go
+++ b/xid.go
@@ -10,2 +10,3 @@ var codes
     78: "vGPU start error",
+    79: "GPU has fallen off the bus",
"""
RULES = """groups:
- name: gpu
  rules:
  - alert: GpuLost
    expr: xid_errors{code="79"} > 0
    annotations:
      summary: GPU has fallen off the bus
"""
DOCS = """# Troubleshooting GPUs

This page explains how the driver reports errors to the kernel log of a node.

## Xid 79

The driver prints this error when the GPU has fallen off the bus and cannot be reached.

    NVRM: Xid (PCI:0000:3b:00): 79, GPU has fallen off the bus.

## Xid 31

A program used an address that is not mapped, which is a fault of the program itself.
"""
CHANGELOG = """# Changelog

## [1.4.0] - 2026-02-01
- Detect "GPU has fallen off the bus" in kernel logs
- Fixed handling of NVML_ERROR_GPU_IS_LOST
"""
CODES = """xid,description,action
13,Graphics engine exception,check application
79,GPU has fallen off the bus,drain node
"""
MAN = """.TH GPUWATCH 8
.SH NAME
gpuwatch \\- watch for GPU has fallen off the bus
"""
ISSUE = f"""# GPU lost after update

**Describe the bug**
Since the update my GPU disappears after some minutes of work with the model.

## Logs
```
[  812.110001] {XID}
```

## Steps to reproduce
Run the server and send a long prompt to it until the card is gone.
"""
DMESG = f"""[    0.000000] Linux version 6.8.0
[  812.110001] {XID}
[  812.110009] NVRM: GPU 0000:3b:00.0: GPU has fallen off the bus.
"""
TRACEBACK = f"""Traceback (most recent call last):
  File "/srv/app/main.py", line 20, in <module>
    run(model)
  File "/srv/app/model.py", line 81, in run
    return self.layer(x)
RuntimeError: {CUDA}
"""
SHELL = f"""root@node7:~# nvidia-smi
{SMI}
root@node7:~# dmesg | grep Xid
"""
ONELINE = "3fa91c2 Fix a segmentation fault in the tokenizer\n77b0d1e docs: explain exit code 139"
ASSERTS = "\n".join(
    f"x.cu:3: k: block: [0,0,0], thread: [{n},0,0] Assertion `p==nullptr` failed." for n in range(9)
)
SYSCTL = "\n".join(f"vm.knob_{n} = {n}" for n in range(9))
JSON = f"""{{
  "kind": "Event",
  "message": "{XID}",
  "count": 1
}}
"""


@pytest.mark.parametrize(
    "text",
    [PYTHON, C, PATCH, RULES, DOCS, CHANGELOG, CODES, MAN, ONELINE],
    ids=lambda text: text[:20],
)
def test_programs_rules_lists_and_documentation_are_program_text(text: str) -> None:
    assert is_program_text(text.split("\n"))


@pytest.mark.parametrize(
    "text",
    [ISSUE, DMESG, TRACEBACK, SHELL, JSON, ASSERTS, SYSCTL, XID, SMI, ""],
    ids=lambda text: text[:20],
)
def test_issues_logs_and_transcripts_are_not(text: str) -> None:
    assert not is_program_text(text.split("\n"))


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


def test_a_fence_named_after_a_language_holds_code() -> None:
    """A fence of Python or of a chart holds no log; one of text or without a name may."""
    assert in_fence_of_code(["    participant J", "```mermaid"])
    assert not in_fence_of_code(["words", "```text"])
    assert not in_fence_of_code(["words", "```", "x = 1", "```python"])


def test_an_article_is_general_and_a_report_is_not() -> None:
    """Two marks of the genre and nobody who tells what happened make a general text."""
    article = [
        "Xid 79 is a hardware failure: the GPU no longer answers on PCIe.",
        "Root causes include power delivery and risers. How to monitor: watch the kernel log.",
    ]
    assert is_general_text(article)
    assert not is_general_text([*article, "My server shows it every night."])
    assert not is_general_text([*article, f"[   11.000001] {XID}"])
    assert not is_general_text(["Xid 79 under load", "driver 570, Ubuntu 24.04"])


def test_pretty_json_is_data() -> None:
    """A status that a tool printed over several lines is not program text."""
    assert not is_program_text(
        [
            "```json",
            "{",
            '  "component": "xid",',
            '  "health": "Unhealthy",',
            '  "reason": "XID 79"',
            "}",
        ]
    )
