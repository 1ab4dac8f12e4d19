"""`explain` gives each reading of what is asked, with its source, and says what it does not know."""

from __future__ import annotations

import json

import pytest

from gpuprobe import explanations
from gpuprobe.cli.explain import command
from gpuprobe.diagnosis import Kind
from gpuprobe.explain import explain, explain_all
from tests.cli_runner import runner


def _run(*args):
    return runner().invoke(command, list(args))


def _topics(query):
    return [reading.topic for reading in explain(query).readings]


@pytest.mark.parametrize(
    ("query", "topics"),
    [
        ("79", ["Xid 79"]),
        ("xid79", ["Xid 79"]),
        ("Xid 79", ["Xid 79"]),
        ("XID:  79", ["Xid 79"]),
        ("NVRM: Xid (PCI:0000:65:00): 79, pid=812, name=python3", ["Xid 79"]),
        ("fallen off the bus", ["Xid 79"]),
        ("46", ["Xid 46", "CUDA 46"]),
        ("Xid 46", ["Xid 46"]),
        ("CUDA 46", ["CUDA 46"]),
        ("719", ["CUDA 719"]),
        ("cudaErrorLaunchFailure", ["CUDA 719"]),
        ("cudaerrorlaunchfailure", ["CUDA 719"]),
        ("CUDA_ERROR_LAUNCH_FAILED", ["CUDA 719"]),
        ("unspecified launch failure", ["CUDA 719"]),
        ("RuntimeError: CUDA error: unspecified launch failure", ["CUDA 719"]),
        ("CUDA error (719)", ["CUDA 719"]),
        ("AER 5", ["AER uncorrectable bit 5"]),
        ("AER 12", ["AER correctable bit 12", "AER uncorrectable bit 12"]),
        ("aer [12]", ["AER correctable bit 12", "AER uncorrectable bit 12"]),
        ("AER SDES", ["AER uncorrectable bit 5"]),
        ("SDES", ["AER uncorrectable bit 5"]),
        ("Bad TLP", ["AER correctable bit 6"]),
        ("NVML 15", ["NVML 15"]),
        ("NVML_ERROR_GPU_IS_LOST", ["NVML 15"]),
        ("GPU_IS_LOST", ["NVML 15", "driver status 0x0f"]),
        ("NV_ERR_GPU_IS_LOST", ["driver status 0x0f"]),
        ("0x0f", ["driver status 0x0f"]),
        ("status 0x0000000f", ["driver status 0x0f"]),
        ("154 0x2", ["recovery action 0x2 (Xid 154)"]),
        ("0x2", ["recovery action 0x2 (Xid 154)"]),
        (
            "154, GPU recovery action changed from 0x0 (None) to 0x1 (PF FLR)",
            ["recovery action 0x1 (Xid 154)"],
        ),
        ("154", ["Xid 154"]),
        ("sxid 20034", ["SXid 20034"]),
        ("L1", ["cause rule L1"]),
        ("pci=noaer", ["pci=noaer"]),
        ("device-left-bus", ["device-left-bus"]),
        ("Cannot-Tell", ["cannot-tell"]),
    ],
)
def test_readings(query, topics):
    """A question has these readings, and each has a source."""
    assert _topics(query) == topics
    assert all(reading.source for reading in explain(query).readings)


@pytest.mark.parametrize(
    "query", ["", "   ", "no such thing", "0xdeadbeef", "AER 99", "NVML 500", "99999"]
)
def test_nothing_is_made_up(query):
    """What fits nothing has no reading."""
    assert explain(query).readings == ()


def test_words_together_and_apart():
    """Words that make one question are one, others are each their own."""
    asked = [
        answer.query
        for answer in explain_all(["Xid", "79", "SDES", "unspecified", "launch", "failure", "46"])
    ]
    assert asked == ["Xid 79", "SDES", "unspecified launch failure", "46"]


def test_quoted_text_stands_alone():
    """A quoted line does not swallow the word before it."""
    asked = [
        answer.query for answer in explain_all(["foo", "NVRM: Xid (PCI:0000:65:00): 62, pid=1"])
    ]
    assert asked == ["foo", "NVRM: Xid (PCI:0000:65:00): 62, pid=1"]


def test_text_output():
    """An Xid in plain words: verdict, role, source, in 80 columns."""
    result = _run("79")
    assert result.exit_code == 0
    assert result.output.startswith("Xid 79: GPU has fallen off the bus\n")
    assert "Verdict         device-left-bus" in result.output
    assert "NVIDIA's action RESTART_BM" in result.output
    assert "Source          NVIDIA, Analyzing Xid Errors" in result.output


@pytest.mark.parametrize("query", ["79", "46", "719", "SDES", "L3", *[kind.value for kind in Kind]])
def test_text_fits_80_columns(query):
    """No line is wider than a small terminal."""
    result = _run(query)
    assert result.exit_code == 0
    assert max(len(line) for line in result.output.splitlines()) <= 80


def test_ambiguous_number_explains_both():
    """46 is an Xid and a CUDA error, and both are explained."""
    output = _run("46").output
    assert "Xid 46:" in output
    assert "CUDA 46: cudaErrorDevicesUnavailable" in output


def test_unknown_xid_is_not_harmless():
    """An Xid that is not in the catalogue is explained as unknown; exit code 2."""
    result = _run("Xid 181")
    assert result.exit_code == 2
    assert "unknown, not harmless" in result.output
    assert "Keep the whole line" in result.output


def test_misspelt_name_gets_a_suggestion():
    """What is nearly a name is answered with that name, on stderr; exit code 2."""
    result = _run("cudaErrorLaunchFailuer")
    assert result.exit_code == 2
    assert result.stdout == ""
    assert "Did you mean cudaErrorLaunchFailure" in result.stderr


def test_one_unknown_among_known():
    """The known one is explained all the same, and the exit code says that one was not."""
    result = _run("79", "flubber")
    assert result.exit_code == 2
    assert "Xid 79:" in result.stdout
    assert "'flubber' is not in the catalogue." in result.stderr


def test_question_with_escapes_is_not_passed_to_the_terminal():
    """Control characters in the question are written out."""
    result = _run("\x1b]0;x\x07")
    assert "\x1b" not in result.stdout + result.stderr
    assert "\\x1b" in result.stderr


def test_json():
    """The same as a document."""
    result = _run("--format", "json", "46", "flubber")
    document = json.loads(result.stdout)
    assert document["schema"] == "gpuprobe.explain/1"
    assert [answer["known"] for answer in document["answers"]] == [True, False]
    readings = document["answers"][0]["readings"]
    assert [reading["topic"] for reading in readings] == ["Xid 46", "CUDA 46"]
    assert all(reading["source"] for reading in readings)
    assert result.exit_code == 2


def test_markdown():
    """The same as Markdown."""
    output = _run("--format", "markdown", "79").output
    assert output.startswith("## Xid 79: GPU has fallen off the bus\n")
    assert "- **Verdict**: device-left-bus" in output


def test_kind_prints_its_rules_page(monkeypatch):
    """A verdict kind shows what its rule says about itself."""
    rule = type("Module", (), {"__doc__": "First line.\n\nWhat proves it:\n    One thing.\n"})
    monkeypatch.setattr(explanations, "import_module", lambda name: rule)
    output = _run("device-left-bus").output
    assert "What proves it:" in output
    assert "One thing." in output


def test_kind_without_a_rule(monkeypatch):
    """A kind whose rule is not there is explained by its sentence."""

    def absent(name):
        raise ModuleNotFoundError(name=name)

    monkeypatch.setattr(explanations, "import_module", absent)
    result = _run("thermal")
    assert result.exit_code == 0
    assert "because of its temperature" in result.output


def test_no_question():
    """Without a code it is a usage error."""
    assert _run().exit_code == 2
