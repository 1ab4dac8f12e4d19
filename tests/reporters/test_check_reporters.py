"""How a check is shown: one line a finding for people, a document of a schema for programs."""

from __future__ import annotations

import io
import json
from dataclasses import replace
from importlib import resources

import jsonschema
import pytest

from gpuprobe.checks.base import REQUIREMENT_NOT_MET, CheckFinding, Status
from gpuprobe.checks.report import CheckedGpu, CheckReport, exit_code, translate, worst
from gpuprobe.diagnosis import Kind
from gpuprobe.identity import PciAddress
from gpuprobe.reporters.check_json import CheckJsonReporter
from gpuprobe.reporters.check_text import CheckTextReporter, headline

GPU = PciAddress.parse("0000:65:00.0")
OTHER = PciAddress.parse("0000:b1:00.0")
SCHEMA = json.loads(resources.files("gpuprobe.reporters").joinpath("check.schema.json").read_text())


def finding(status: Status = Status.OK, **changed: object) -> CheckFinding:
    whole: dict[str, object] = {
        "check": "link",
        "what": "link",
        "status": status,
        "text": "Gen4 x16 now",
        "subject": GPU,
        **changed,
    }
    return CheckFinding(**whole)  # type: ignore[arg-type]


def report(*findings: CheckFinding, looked_at: bool = True) -> CheckReport:
    return CheckReport(
        findings, (CheckedGpu(GPU, "NVIDIA H200", "GPU-1", "nvidia", looked_at),), took_s=0.41
    )


LOST = finding(
    Status.BAD, check="presence", what="presence", text="off the bus", kind=Kind.DEVICE_LEFT_BUS
)
BRAKE = finding(Status.BAD, check="power", what="power", text="the brake", kind=Kind.POWER)
NARROW = finding(Status.BAD, what="need-width", text="x8", kind=REQUIREMENT_NOT_MET)
WARNED = finding(Status.WARN, text="x8 of x16", how="Reseat the card")
UNSEEN = finding(Status.NOT_CHECKED, what="ECC", text="no permission", how="sudo")


def text_of(of: CheckReport, **options: bool) -> str:
    out = io.StringIO()
    CheckTextReporter(**options).render(of, out)
    return out.getvalue()


def document(of: CheckReport) -> dict[str, object]:
    out = io.StringIO()
    CheckJsonReporter().render(of, out)
    return json.loads(out.getvalue())


@pytest.mark.parametrize(
    ("findings", "answer", "code"),
    [
        ((finding(),), "no-fault", 0),
        ((WARNED, UNSEEN), "no-fault", 0),
        ((NARROW, BRAKE, LOST), "device-left-bus", 79),
        ((NARROW, BRAKE), "power", 1),
        ((NARROW,), "requirement-not-met", 1),
    ],
)
def test_the_answer_is_the_gravest_that_is_wrong_now(findings, answer: str, code: int) -> None:
    """A warning changes nothing; a device that is gone goes before everything."""
    of = report(*findings)

    assert of.answer == answer
    assert of.exit_code == code


def test_nothing_looked_at_is_no_health() -> None:
    """Unless something is known to be wrong."""
    assert report(finding(), looked_at=False).exit_code == 3
    assert report(LOST, looked_at=False).exit_code == 79
    assert CheckReport((), ()).answer == "cannot-tell"


@pytest.mark.parametrize(
    ("answer", "scheme", "code"),
    [
        ("no-fault", "npd", 0),
        ("power", "npd", 1),
        ("device-left-bus", "npd", 1),
        ("cannot-tell", "npd", 2),
        ("no-fault", "nagios", 0),
        ("power", "nagios", 1),
        ("pcie-link-errors", "nagios", 1),
        ("thermal", "nagios", 1),
        ("gpu-hang", "nagios", 2),
        ("requirement-not-met", "nagios", 2),
        ("device-left-bus", "nagios", 2),
        ("cannot-tell", "nagios", 3),
        ("device-left-bus", None, 79),
    ],
)
def test_exit_codes_of_other_tools(answer: str, scheme: str | None, code: int) -> None:
    """As each of them reads codes."""
    assert translate(exit_code(answer), answer, scheme) == code


def test_usage_is_unknown_to_other_tools() -> None:
    """Code 2 means something else there."""
    assert translate(2, "", "npd") == 2
    assert translate(2, "", "nagios") == 3


def test_the_gravest_status() -> None:
    """What could not be checked is graver than a note."""
    assert worst([finding(Status.NOTE), UNSEEN, finding()]) is Status.NOT_CHECKED
    assert worst([]) is Status.OK


def test_of_many_gpus_what_is_well_takes_one_line_each() -> None:
    """Eight of them fit a screen; what is not well keeps its line, and -v gives all."""
    seats = [PciAddress(0, bus, 0) for bus in range(1, 9)]
    found = [
        one
        for seat in seats
        for one in (
            finding(subject=seat),
            finding(what="power", text="250 W now", subject=seat),
            finding(what="ECC", text="0 uncorrectable", subject=seat),
        )
    ]
    found.append(replace(WARNED, subject=seats[3]))
    of = CheckReport(tuple(found), tuple(CheckedGpu(seat, looked_at=True) for seat in seats))

    text = text_of(of)

    assert text.count("3 checks           Gen4 x16 now; 250 W now\n") == 8
    assert text.count("x8 of x16") == 1
    assert "0 uncorrectable" not in text
    assert text_of(of, verbose=True).count("0 uncorrectable") == 8


def test_the_headline_says_which_part_was_not_seen() -> None:
    """One GPU of two whose driver does not answer is not passed over."""
    of = CheckReport((finding(),), (CheckedGpu(GPU, looked_at=True), CheckedGpu(OTHER)))

    assert headline(of) == "Nothing is wrong at 1 GPU; 1 GPU could not be looked at."


def test_the_page_line_by_line() -> None:
    """Grouped by GPU, the host last; remedies below what needs one."""
    of = report(
        finding(),
        WARNED,
        UNSEEN,
        finding(Status.NOT_CHECKED, what="power", text="no permission", how="sudo"),
        finding(check="access", what="kernel log", text="by /dev/kmsg", subject=None),
        finding(
            Status.WARN, check="ready", what="journal", text="volatile", how="mkdir", subject=None
        ),
    )

    assert text_of(of) == (
        "[no-fault] Nothing is wrong now (2 warnings, 2 not checked).\n"
        "\n"
        "GPU 0000:65:00.0  NVIDIA H200\n"
        "  ok   link               Gen4 x16 now\n"
        "  warn link               x8 of x16\n"
        "       -> Reseat the card\n"
        "  -    not checked        ECC, power: no permission\n"
        "       -> sudo\n"
        "\n"
        "Host\n"
        "  ok   kernel log         by /dev/kmsg\n"
        "\n"
        "Would the next loss be provable?\n"
        "  warn journal            volatile\n"
        "       -> mkdir\n"
    )


def test_quiet_shows_what_is_wrong_alone() -> None:
    """And the answer."""
    assert text_of(report(finding(), WARNED, LOST), quiet=True) == (
        "[device-left-bus] GPU 0000:65:00.0: off the bus.\n"
        "\n"
        "GPU 0000:65:00.0  NVIDIA H200\n"
        "  warn link               x8 of x16\n"
        "       -> Reseat the card\n"
        "  BAD  presence           off the bus\n"
    )


def test_long_lines_are_wrapped_and_commands_are_not() -> None:
    """A command has to be copied in one piece."""
    how = "sudo " + "very " * 30 + "long"
    shown = text_of(report(finding(Status.WARN, text="word " * 40, how=how)))

    assert f"       -> {how}\n" in shown
    assert all(len(line) <= 80 for line in shown.splitlines() if "->" not in line)


def test_escapes_of_a_drivers_text_do_no_harm() -> None:
    """They are written out."""
    shown = text_of(report(finding(text="x\x1b[31mred", what="\x1b]0;title\x07")))

    assert "\x1b" not in shown
    assert "\\x1b[31mred" in shown


def test_colour_only_when_asked() -> None:
    """The same words."""
    assert "\x1b[" not in text_of(report(WARNED))
    assert "\x1b[" in text_of(report(WARNED), colour=True)


@pytest.mark.parametrize(
    ("of", "words"),
    [
        (report(finding()), "Nothing is wrong now."),
        (report(finding(), looked_at=False), "No GPU could be looked at (1 GPU known)."),
        (CheckReport((), ()), "No GPU could be looked at (there is none in sight)."),
        (report(LOST, replace(LOST, subject=OTHER)), "GPU 0000:65:00.0: off the bus (and 1 more)."),
        (report(NARROW), "GPU 0000:65:00.0: its link is less than what is needed: x8."),
    ],
)
def test_the_headline_says_the_answer(of: CheckReport, words: str) -> None:
    """In one sentence."""
    assert headline(of) == words


def test_the_document_is_of_its_schema() -> None:
    """With every kind of finding in it."""
    of = report(
        finding(figures={"gen": 4, "limited_by": None}),
        WARNED,
        UNSEEN,
        LOST,
        NARROW,
        finding(Status.NOTE, subject=None, at="2026-09-22T14:44:58+00:00"),
    )
    found = document(of)

    jsonschema.Draft202012Validator(
        SCHEMA, format_checker=jsonschema.Draft202012Validator.FORMAT_CHECKER
    ).validate(found)
    assert found["answer"] == "device-left-bus"
    assert found["exit_code"] == 79
    assert found["took_s"] == 0.41
    assert found["gpus"][0]["pci"] == str(GPU)
    assert [f["status"] for f in found["findings"]] == [
        "ok", "warn", "not-checked", "bad", "bad", "note",
    ]  # fmt: skip
    assert found["findings"][5]["subject"] is None


def test_the_schema_refuses_a_bad_finding_without_a_kind() -> None:
    """It would not tell what it answers."""
    found = document(report(finding(Status.BAD)))

    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, SCHEMA)


def test_the_schema_knows_every_answer() -> None:
    """Each verdict kind, and the unmet requirement."""
    answers = SCHEMA["properties"]["answer"]["enum"]

    assert set(answers) == {kind.value for kind in Kind} | {REQUIREMENT_NOT_MET}
