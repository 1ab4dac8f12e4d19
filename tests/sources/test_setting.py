"""Words in a log count, words alone count less, words in a sentence or in program text do not."""

from __future__ import annotations

import pytest

from gpuprobe.events import Setting
from gpuprobe.sources.record import Record
from gpuprobe.sources.setting import judge

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
        ("#  EXCEPTION_ACCESS_VIOLATION (0xc0000005) at pc=0x7ffb, pid=9", "EXCEPTION_ACCESS_VIOLATION (0xc0000005) at pc="),
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
    "text",
    [
        f"tests/test_xid.py::test_parse[{XID}] PASSED [ 12%]",
        f"E        +  where 79 = Xid(code=79, text='{XID}').code",
        f'E       AssertionError: assert None == "{XID}"',
        f"    xid_test.go:41: matched {XID}",
    ],
)
def test_what_a_test_was_given_is_no_log(text: str) -> None:
    """A test's id and its failed assertion repeat the sample that it was run on."""
    assert setting(text, LOST) is Setting.CODE


def test_a_name_behind_a_letter_is_no_sentence() -> None:
    """The A of `vector A` is no article."""
    text = "Failed to allocate device vector A (error code unspecified launch failure)!"

    assert setting(text, "unspecified launch failure") is Setting.BARE


def test_title_of_a_text_is_prose() -> None:
    """An issue's first line behind one hash is what its author wrote, not a comment."""
    assert setting(f"# {LOST}", LOST) is Setting.PROSE


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
        (f"   # {LOST}", LOST),
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
        (f'"NVRM: Xid (PCI:0000:3b:00): 79, pid=12, {LOST}",hardware', LOST),
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
        (f"SELECT * FROM logs WHERE message LIKE '%{LOST}%'", LOST),
        (f'curl -X POST host/inject -d \'{{"line": "{LOST}"}}\'', LOST),
        (f"generated text: '{LOST}' tokens=41", LOST),
        (f'{{"instruction":"Explain","input":"{LOST}"}}', LOST),
    ],
)
def test_a_log_that_quotes_a_search_is_code(text: str, words: str) -> None:
    assert setting(text, words, framing="journal") is Setting.CODE


def test_everything_in_a_program_is_code() -> None:
    assert setting(XID, XID, framing="dmesg", kernel=True, program=True) is Setting.CODE


def test_a_row_whose_table_marks_were_taken_off_is_code() -> None:
    row = f"| 79 | {LOST} | hardware |"

    assert setting(f"79 | {LOST} | hardware |", LOST, raw=row) is Setting.CODE


def test_the_number_that_cat_puts_before_a_line_is_no_code() -> None:
    """`cat -n` and `nl` write it in six columns; a row of a list begins at once."""
    assert setting(LOST, LOST, raw=f"    79\t{LOST}") is not Setting.CODE
    assert setting(LOST, LOST, raw=f"79\t{LOST}") is Setting.CODE


def test_a_pair_of_a_list_of_codes_is_code() -> None:
    """As settings and tables in YAML or JSON have it; a log's own pairs behind `grep -n` are none."""
    assert setting(f'  79: "{LOST}"', LOST) is Setting.CODE
    assert setting(f'    "79": "{LOST}",', LOST) is Setting.CODE
    assert setting(f'79: "message": "{LOST}"', LOST) is not Setting.CODE


def test_an_option_s_help_and_a_task_s_name_are_code() -> None:
    """Neither says that anything happened."""
    assert setting(f"  --retry-oom            retry after {OOM}", OOM) is Setting.CODE
    assert setting(f"  -r, --retry N  retry after {OOM}", OOM) is Setting.CODE
    assert setting(f"TASK [Fail if {LOST}] ******", LOST, framing="journal") is Setting.CODE
    assert setting(f"--model {OOM}", OOM) is not Setting.CODE


def test_a_kernel_line_in_the_words_of_a_test_is_code() -> None:
    """Go puts the test's file before them, and a file's name may look like a log's."""
    raw = f"    syslog_reader_test.go:158: waiting for: kernel: [  12.5] {XID}"

    assert setting(XID, XID, framing="dmesg", kernel=True, raw=raw) is Setting.CODE
    assert setting(XID, XID, framing="dmesg", kernel=True, raw=raw[31:]) is Setting.LOG


def test_a_row_of_a_query_is_no_list_of_codes() -> None:
    """`nvidia-smi --query-gpu` begins its rows with the index."""
    row = "1, NVIDIA A100-SXM4-80GB, 00000000:0A:00.0, [GPU is lost], [GPU is lost]"

    assert setting(row, "[GPU is lost]") is Setting.BARE


def test_two_files_of_a_rename_are_no_expectation() -> None:
    """Python's own error names both, with an arrow between."""
    words = "[Errno 2] No such file or directory: '/root/.triton/cache/K/tmp/k.ttir'"

    assert setting(f"FileNotFoundError: {words} -> '/root/.triton/cache/K/k.ttir'", words) is not (
        Setting.CODE
    )


def test_a_bmc_row_is_no_list_of_codes() -> None:
    row = "7 | 05/11/2026 | 07:14:20 | Temperature #0x31 | Upper Critical going high | Asserted"

    assert setting(row, row[26:]) is Setting.BARE


def test_a_list_of_fields_is_no_sentence() -> None:
    """PowerShell pads the names of fields up to their colon."""
    words = "rebooted without cleanly shutting down first"
    text = f"Message      : The system has {words}."

    assert setting(text, words) is Setting.BARE
    assert setting(f"Note : The system has {words}.", words) is Setting.PROSE
