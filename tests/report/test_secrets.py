"""No planted secret is left in any form of a report, and the report still says the same."""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from pathlib import Path

import pytest

import gpuprobe
from gpuprobe import secret_words
from gpuprobe.diagnosis import Diagnosis, Evidence, Input, Kind, Role, Verdict
from gpuprobe.report.gathering import gather
from gpuprobe.report.writing import write
from gpuprobe.reporters import broken_secrets, identifying, secret_shapes, spelled
from gpuprobe.reporters.base import Reporter
from gpuprobe.reporters.json import JsonReporter
from gpuprobe.reporters.markdown import MarkdownReporter
from gpuprobe.reporters.redact import Redactor
from gpuprobe.reporters.terminal import TerminalReporter
from tests.report.planted import FURTHER, planted

INNOCENT = (Path(__file__).parent / "innocent.txt").read_text().splitlines()
PLANTED = planted()
KERNEL = """\
Apr 02 19:03:38 kestrel7 kernel: NVRM: GPU at PCI:0000:0b:00: GPU-5f0c1a2b-1111-4222-8333-0123456789ab
Apr 02 19:03:38 kestrel7 kernel: NVRM: Xid (PCI:0000:0b:00): 79, pid=3120, name=python3, GPU has fallen off the bus.
Apr 02 19:03:38 kestrel7 kernel: NVRM: GPU 0000:0b:00.0: GPU has fallen off the bus.
Apr 02 19:03:38 kestrel7 kernel: NVRM: GPU serial number is 1325021000001.
"""

RENDERERS: dict[str, Reporter] = {
    "text": TerminalReporter(),
    "text, everything": TerminalReporter(verbose=True),
    "json": JsonReporter(),
    "markdown": MarkdownReporter(),
}


def shown(reporter: Reporter, diagnosis: Diagnosis) -> str:
    """What a reporter makes of a redacted diagnosis, with colours and escapes as they are."""
    redactor = Redactor()
    if isinstance(reporter, MarkdownReporter):
        reporter = MarkdownReporter(redactor)
    out = io.StringIO()
    reporter.render(redactor.diagnosis(diagnosis), out)
    return out.getvalue()


def left(secrets: list[str], text: str) -> list[str]:
    """The secrets that can still be read, also where Markdown or JSON escapes or wraps them."""
    plain = re.sub(r"<!-- -->|\\(?=[^\w\s])", "", text).lower()
    texts = (text.lower(), plain, re.sub(r"\s+", "", plain))
    return [secret for secret in secrets if any(secret.lower() in one for one in texts)]


def of_all(texts: list[str]) -> Diagnosis:
    """A diagnosis that shows each text as evidence, and some where else a text can stand."""
    name = "/home/zoltana/logs/kestrel7-kern.log"
    evidence = [Evidence(Role.PROOF, KERNEL.splitlines()[1], name, 2)]
    evidence += [Evidence(Role.CONSEQUENCE, text, name, n) for n, text in enumerate(texts, 3)]
    verdict = Verdict(
        Kind.DEVICE_LEFT_BUS, None, f"GPU lost: {texts[0]}", evidence=tuple(evidence), xids=(79,)
    )
    return Diagnosis((verdict,), (Input(name, "text", 9, notes=(texts[1],)),), host="kestrel7")


def test_enough_is_planted() -> None:
    """At least 200 secrets of 20 kinds, and 100 innocent lines."""
    assert len({secret for _kind, _text, secrets in PLANTED for secret in secrets}) >= 200
    assert len({kind for kind, _text, _secrets in PLANTED}) >= 20
    assert len(INNOCENT) >= 100


@pytest.mark.parametrize("form", RENDERERS)
def test_no_secret_is_left_in_any_form(form) -> None:
    """All of them in one report: none is readable, nor the names in an input's path."""
    secrets = [secret for _kind, _text, some in PLANTED for secret in some]
    diagnosis = of_all([text for _kind, text, _secrets in PLANTED])

    page = shown(RENDERERS[form], diagnosis)

    assert left([*secrets, "zoltana", "kestrel7"], page) == []
    assert "0000:0b:00" in page


def test_no_secret_is_left_alone() -> None:
    """Each by itself, with nothing else to learn it from."""
    leaks = [
        (text, found)
        for _kind, text, secrets in PLANTED
        if (found := left(list(secrets), Redactor().text(text)))
    ]

    assert leaks == []


def test_further_forms() -> None:
    """Forms found by trying to get past the first ones."""
    leaks = [text for text, secret in FURTHER if left([secret], Redactor().text(text))]

    assert leaks == []


def test_innocent_lines_stay() -> None:
    """Versions, C++ names, addresses of devices and digests look like secrets and are none."""
    changed = [(line, out) for line in INNOCENT if (out := Redactor().text(line)) != line]

    assert changed == []


def test_innocent_lines_stay_beside_all_the_secrets() -> None:
    """What was learned from a hundred other lines changes none of them either."""
    redactor = Redactor()
    redactor.learn(text for _kind, text, _secrets in PLANTED)

    # A pod of one and an address of another may truly stand in a line of these.
    assert [line for line in INNOCENT if redactor.text(line) != line] == []


def test_a_redacted_log_gets_the_same_verdict() -> None:
    """Kind, certainty, device, Xids and how many lines prove it are those of the original."""
    lines = [
        f"Apr 02 19:03:{40 + number % 20} kestrel7 inferd[3120]: RuntimeError: CUDA error:"
        f" unspecified launch failure {' '.join(text.split())}"
        for number, (_kind, text, _secrets) in enumerate(PLANTED)
        if "\x1b" not in text
    ]
    log = KERNEL + "\n".join(lines) + "\n"
    redactor = Redactor()
    redactor.learn(log.splitlines())
    redacted = "\n".join(redactor.text(line) for line in log.splitlines()) + "\n"

    before, after = gpuprobe.diagnose_text(log), gpuprobe.diagnose_text(redacted)

    def judged(diagnosis: Diagnosis) -> list[object]:
        return [
            (v.kind, v.certainty, v.device and v.device.pci, v.xids, v.at_raw, len(v.evidence))
            for v in diagnosis.verdicts
        ]

    assert before.answer == after.answer == "device-left-bus"
    assert judged(before) == judged(after)
    assert before.host == "kestrel7"
    assert after.host == redactor.text("kestrel7")


def test_the_verdict_of_a_redacted_diagnosis_is_the_same() -> None:
    """Redacting changes texts alone: the JSON without them is equal."""
    log = KERNEL + "Apr 02 19:03:40 kestrel7 inferd[1]: CUDA error: unspecified launch failure\n"
    diagnosis = gpuprobe.diagnose_text(log)
    before, after = io.StringIO(), io.StringIO()
    JsonReporter().render(diagnosis, before)
    JsonReporter().render(Redactor().diagnosis(diagnosis), after)

    one, other = (json.loads(out.getvalue())["verdicts"] for out in (before, after))
    for key in ("kind", "certainty", "at", "at_raw", "xids", "other_devices"):
        assert [v[key] for v in one] == [v[key] for v in other]
    assert [v["device"]["pci"] for v in one] == [v["device"]["pci"] for v in other]


def test_a_report_is_redacted_in_a_moment() -> None:
    """60 kB of log lines, looked through and replaced."""
    lines = (KERNEL.splitlines() + INNOCENT) * 8
    redactor = Redactor()
    redactor.text("--api-key abc123def456")
    size = sum(len(line) for line in lines)
    started = time.process_time()
    redactor.learn(lines)
    for line in lines:
        redactor.text(line)

    assert (
        time.process_time() - started
    ) * 60_000 / size < 1.5  # 0.3 s on a machine with nothing else to do


SEEDS = [
    "a", "a-", "a.", "a:", "A_", "0.", "f:", "@", "a@a.", "://", "a://a:", "%41", '\\"', "a='", '[',
    "--a ", "--api-key ", "api_key=", "eyJ", "eyJ-", "-----BEGIN A-----", "mysql ", "curl -u ", "a,'",
    "/home/a/", "/by-id/nvme-", "token ", "authorization: ", "cookie=", "\n ", "hf_a\n", "aA1+",
    "name: a value", "?a=", "ssid=", "serial ", "Linux ", "ip-1-", "a1.", "Apr 02 19:03:38 ",
    "\x1b[0;", "&quot;", "1.2.3.", "fe80:", "[a@a", "\\\\a\\", "pass:", "SHA256:", "~a", "0a-",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_no_pattern_is_slow_on_what_is_made_for_it(seed) -> None:
    """200 kB of any of these take each pattern some 0.05 s; what grows faster takes far longer."""
    text = (seed * (200_000 // len(seed) + 1))[:200_000]
    slow = []
    for module in (broken_secrets, identifying, secret_shapes, secret_words, spelled):
        for name, value in vars(module).items():
            if name == "_NO_RANDOM":
                continue  # never asked about more than 200 letters
            for pattern in value if isinstance(value, tuple) else (value,):
                if not isinstance(getattr(pattern, "pattern", None), str):
                    continue
                started = time.process_time()
                for _match in pattern.finditer(text):
                    pass
                if time.process_time() - started > 1:
                    slow.append((name, pattern.pattern))

    assert slow == []


@pytest.mark.parametrize(
    ("above", "below", "secret"),
    [
        ("token hf_MdRzDTn7qLWaYyDIfIZwXe9u", "nB569abdqK", "nB569abdqK"),
        ("AKIAD7WVkc", "rOg258Lewm", "AKIAD7WVkc"),
        ("vllm serve m --api-key \\", "  8iS2G8NPRVdD53X83R", "8iS2G8NPRVdD53X83R"),
    ],
)
def test_a_secret_broken_over_two_lines_is_found_in_each(
    above: str, below: str, secret: str
) -> None:
    """A narrow terminal or a shell's backslash breaks it; the lines are redacted one by one."""
    redactor = Redactor()
    lines = ["INFO step 3", above, below, "INFO step 4 hash nB569zzzqK"]

    redactor.learn_broken(lines)

    shown = [redactor.text(line) for line in lines]
    assert left([secret], "\n".join(shown)) == []
    assert shown[0] == lines[0]
    assert shown[3] == lines[3]


SHELL_LINES = [
    (["vllm serve m --api-key \\", "  correcthorse \\", "  --port 8000"], "correcthorse"),
    (["vllm serve m --api-key \\", "  'correcthorse'"], "correcthorse"),
    (["$ vllm serve m --hf-token=\\", "> batterystaple"], "batterystaple"),
    (["export HF_TOKEN=\\", "abcxyz"], "abcxyz"),
    (["Sep 14 21:16:40 sh[3]: serve --api-key \\", "Sep 14 21:16:41 sh[3]:   hunter"], "hunter"),
    (["PS> serve --api-key `", ">> correcthorse `"], "correcthorse"),
]
PGP = "-----BEGIN PGP PRIVATE KEY BLOCK-----"
BLOCKS = [
    (
        [PGP, "", "lQOYBG", "qwertyui", "=aB3d", PGP.replace("BEGIN", "END")],
        "lQOYBG qwertyui =aB3d",
    ),
    ([PGP, "Version: GnuPG v2", "", "lQOYBG", "Zm9v"], "lQOYBG Zm9v"),
    ([f"12:01:02 INFO {PGP}", "12:01:02 INFO ", "12:01:03 INFO lQOYBG"], "lQOYBG"),
    (["-----BEGIN OPENSSH PRIVATE KEY-----", "b3Blbn", "QQ=="], "b3Blbn QQ=="),
]


@pytest.mark.parametrize(("lines", "secrets"), [*SHELL_LINES, *BLOCKS])
def test_a_secret_on_its_own_line_needs_no_look_of_one(lines: list[str], secrets: str) -> None:
    """Short, or a word: the line above says what it is; in other lines the word stays."""
    redactor = Redactor()
    around = ["correcthorse and hunter", *lines, "INFO serving abcxyz"]

    redactor.learn_broken(around)

    shown = [redactor.text(line) for line in around]
    assert left(secrets.split(), "\n".join(shown[1:-1])) == []
    assert (shown[0], shown[-1]) == (around[0], around[-1])


@pytest.mark.parametrize(
    "lines",
    [
        ["vllm serve m --max-tokens \\", "  100 \\"],
        ["vllm serve m --api-key \\", "  --port 8000"],
        ["vllm serve m --model \\", "  meta/llama"],
        ["the token \\", "goes on"],
        [PGP.replace("BEGIN", "END"), "serving"],
        ["saw BEGIN PGP in the log", "serving"],
        [PGP, "2 lines were left out", "serving"],
    ],
)
def test_what_follows_a_line_that_asks_for_no_secret_stays(lines: list[str]) -> None:
    """Another option, prose, a block that has ended."""
    redactor = Redactor()

    redactor.learn_broken(lines)

    assert [redactor.text(line) for line in lines] == lines


@pytest.mark.parametrize("form", [".md", ".html", ".json", ".zip"])
def test_a_secret_on_its_own_line_is_in_no_report(tmp_path: Path, form: str) -> None:
    """Beside the line that a verdict cites, as an engine's log has it that starts with its script."""
    log = tmp_path / "engine.log"
    lines = [
        "+ vllm serve m --api-key \\", "  correcthorse \\", "  --port 8000", PGP, "", "lQOYBG", "Zm9vbar",
        PGP.replace("BEGIN", "END"), "torch.AcceleratorError: CUDA error: unspecified launch failure",
    ]  # fmt: skip
    log.write_text("".join(f"2026-12-01 10:00:00 {line}\n" for line in lines))
    out = tmp_path / f"report{form}"

    write(gather([log]), out, plots=False)

    if form == ".zip":
        with zipfile.ZipFile(out) as archive:
            found = "\n".join(archive.read(name).decode() for name in archive.namelist())
        assert "--port 8000" in found
    else:
        found = out.read_text()
    assert left(["correcthorse", "lQOYBG", "Zm9vbar"], found) == []


def test_a_line_behind_a_name_is_no_secret() -> None:
    """What follows a line that ends with `password:` is most often the next line of the log."""
    redactor = Redactor()
    lines = ["please enter the password:", "2026-12-01T04:15:14 INFO step 3", "INFO loaded"]

    redactor.learn_broken(lines)

    assert [redactor.text(line) for line in lines[1:]] == lines[1:]
